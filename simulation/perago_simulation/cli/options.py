"""The options of the commands. Those of a setting and of limits are read from the fields of the values themselves.

A budget that is added to ``Setting`` is an option at once; here it only gets a better sentence.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer
from attrs import NOTHING, evolve, fields, fields_dict, frozen

from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.explore.exploration import Limits
from perago_simulation.properties.safety import PROPERTIES, Property
from perago_simulation.runs.embedding import Embedded, EmbeddingError, import_runtime, import_store
from perago_simulation.runs.replay import EVERYTHING
from perago_simulation.world.capabilities import NEEDS, Capabilities
from perago_simulation.world.presets import PRESETS
from perago_simulation.world.settings import Setting

V = TypeVar("V", bound=Value)


class Judged(StrEnum):
    """What a world is judged by."""

    outcome = "outcome"
    everything = "everything"

    def properties(self) -> tuple[Property, ...]:
        """Give the properties: what becomes of the branch, or also how everybody behaves and what is left behind."""
        return PROPERTIES if self is Judged.outcome else EVERYTHING


_OWN = "Your own store and runtime"

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Write the result as JSON.")]
Html: TypeAlias = Annotated[
    Path | None, typer.Option(dir_okay=False, help="Write the violation as a page to step through.")
]
OwnStore: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="MODULE:CLASS", help="Your own store in place of the simulated one.", rich_help_panel=_OWN
    ),
]
OwnRuntime: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--runtime", metavar="MODULE:FUNCTION", help="Your own step in place of the table's.", rich_help_panel=_OWN
    ),
]
Judge: TypeAlias = Annotated[
    Judged, typer.Option(help="Judge what becomes of the branch, or also how everybody behaves and what is left.")
]
StoreCan: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="CAPABILITIES",
        rich_help_panel=_OWN,
        help=f"What the store can do, with commas between: {', '.join(fields_dict(Capabilities))}. The first three are "
        "there unless you say no-blind, no-claim, no-lease. Or a store that people have, which may be followed by "
        f"more: {', '.join(PRESETS)}. Without this option: exactly what the backing needs.",
    ),
]

#: What an option is for. A field that is missing here is described by its name.
SAYS: Mapping[str, str] = {
    "backing": "What keeps the fence decision true.",
    "adopts": "Retries take over what their task has published, as they do by default; `soft` never does.",
    "scopes": "What workflows side by side declare to read and write: disjoint, overlapping or crossed.",
    "stacking": "So many of these workflows publish above what nobody has accepted.",
    "mixed": "Of what is scheduled twice only the second adopts, as while a changed task is being rolled out.",
    "ledger": "Arm, confirm and settle intents.",
    "attempts": "Attempts of each step, retries included.",
    "workflows": "Workflows, one after the other.",
    "pinned": "Start a workflow once nothing of an ended one can move the branch, as `perago run` does.",
    "abreast": "Start the next workflow at any moment, beside those that run.",
    "maintenance": "All workflows but the first change the layout, no content; with a ledger the first goes over it.",
    "steps": "Steps of the workflow.",
    "crashes": "How many executions may crash.",
    "losses": "How many answers may get lost.",
    "duplicates": "How often an attempt may be delivered again.",
    "strangers": "How many commits a stranger may make.",
    "pauses": "Give attempts up while their worker still lives.",
    "changes": "Bodies may change something.",
    "no_ops": "Bodies may also change nothing.",
    "same_tree": "Every attempt stages the same content.",
    "requeues": "How often an open task may be handed out again under its id.",
    "reruns": "How often a task of a workflow that has ended may be handed out again under its id.",
    "resends": "How many copies of a publication the transport may make.",
    "terminations": "How often an operator may end the workflow.",
    "foreign_merges": "How many merges a stranger may make.",
    "foreign_resets": "How often a stranger may reset the branch.",
    "recreations": "How often the branch may be deleted and made anew.",
    "foreign_writes": "How often a stranger may write without committing.",
    "interrupts": "How often an execution may be told that its attempt, its time or its lease is lost.",
    "refusals": "How many requests may be refused, or bodies fail.",
    "lateness": "How often a clock may show that a deadline is over.",
    "late_landings": "How many unanswered requests may land at any later time.",
    "epochs": "How often the policy may be decided anew.",
    "twins": "How often an open task may be scheduled once more, under another id.",
    "bodies": "Workspace and body take moves of their own, and may ask for a place to write.",
    "read_only": "Bodies may only read.",
    "collector": "Somebody removes names and claims that are no longer needed.",
    "early_collector": "Somebody removes claims too early, to show why that is wrong.",
    "data_collector": "Somebody removes the data of staged commits that nobody holds any more, too.",
    "reverts": "So many recoveries may revert what nobody accepted on a shared branch.",
    "states": "Stop after so many distinct worlds.",
    "depth": "Stop after so many moves.",
    "seconds": "Stop after so many seconds.",
    "memory": "Stop at so many megabytes.",
}
#: ``--no-no-ops`` would be a riddle, and ``--no-adopts`` does not say what then.
_SPELLED = {"no_ops": "--no-ops/--only-changes", "adopts": "--adopt/--replace"}
#: Without one of these there is nothing to explore.
_AT_LEAST_ONE = frozenset({"attempts", "steps", "states", "depth"})
_PANELS: Mapping[type[Value], str] = {Setting: "What may happen", Limits: "When to stop early"}
#: Without a word about it, the backing is the one that can be broken, and retries do what they do in production.
_DEFAULTS: Mapping[str, object] = {"backing": Backing.SOFT, "adopts": True}


@frozen(repr=False)
class Asked(Value):
    """What a command is asked about: a setting, and whose store and runtime."""

    setting: Setting
    store: str | None = None
    runtime: str | None = None

    def model(self) -> Embedded:
        """Make the model."""
        return embedded(self.setting, self.store, self.runtime)


def embedded(setting: Setting, store: str | None, runtime: str | None) -> Embedded:
    """Make a model with these, by name; a name that leads nowhere is an error of the question."""
    try:
        return Embedded(
            setting,
            store=None if store is None else import_store(store),
            runtime=None if runtime is None else import_runtime(runtime),
        )
    except EmbeddingError as problem:
        raise typer.BadParameter(str(problem)) from problem


def capabilities(text: str | None, store: str | None, backing: Backing) -> Capabilities:
    """Read what a store can do: what was said, or what it says of itself, or what the backing needs."""
    if text is None:
        needed = NEEDS[backing]
        says = None if store is None else embedded(Setting(backing=backing, store=needed), store, None).store.can
        return needed if says is None else says
    names = [each.strip() for each in text.split(",") if each.strip()]
    presets = [each for each in names if each in PRESETS]
    words = [each.replace("-", "_") for each in names if each not in PRESETS]
    told = {word.removeprefix("no_"): not word.startswith("no_") for word in words}
    known = fields_dict(Capabilities)
    if unknown := [each for each in told if each not in known]:
        message = (
            f"nobody knows {', '.join(unknown)}; known, each also with no- before it: {', '.join(known)}; "
            f"or one of {', '.join(PRESETS)}"
        )
        raise typer.BadParameter(message, param_hint="--store-can")
    if len(presets) > 1:
        raise typer.BadParameter(f"a store is one of {', '.join(presets)}; name one", param_hint="--store-can")
    return evolve(PRESETS[presets[0]].can, **told) if presets else Capabilities(**told)


def asks_about_a_setting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes ``asked`` the options it is made from."""
    own = [Setting, *_named(command, Limits)]
    derived = [each for kind in own for each in _parameters(kind)]
    names = {each.name for each in derived}
    rest = [
        each
        for each in inspect.signature(command, eval_str=True).parameters.values()
        if each.name not in {"asked", "limits"}
    ]
    added = [_option("store_can", StoreCan), _option("store", OwnStore), _option("runtime", OwnRuntime)]

    @wraps(command)
    def with_options(**given: Any) -> None:  # noqa: ANN401  what the options hold
        chosen = {name: given.pop(name) for name in names}
        store, runtime = given.pop("store"), given.pop("runtime")
        able = capabilities(given.pop("store_can"), store, chosen["backing"])
        if Limits in own:
            given["limits"] = _made(Limits, chosen)
        command(asked=Asked(_made(Setting, {**chosen, "store": able}), store, runtime), **given)

    with_options.__signature__ = inspect.Signature([*derived, *added, *rest])  # type: ignore[attr-defined]
    return with_options


def _named(command: Callable[..., None], kind: type) -> list[type]:
    return [kind] if kind in get_type_hints(command).values() else []


def _made(kind: type[V], given: Mapping[str, Any]) -> V:
    wanted = {each.name for each in fields(kind)}
    try:
        return kind(**{name: value for name, value in given.items() if name in wanted})
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from problem


def _parameters(kind: type[Value]) -> Iterable[inspect.Parameter]:
    hints = get_type_hints(kind)
    for each in fields(kind):
        if hints[each.name] is Capabilities:
            continue
        default = _DEFAULTS.get(each.name, each.default)
        assert default is not NOTHING, f"say in _DEFAULTS what {each.name} is if nobody says"
        says = SAYS.get(each.name, f"{each.name.replace('_', ' ').capitalize()}.")
        spelled = [_SPELLED[each.name]] if each.name in _SPELLED else []
        least = None if isinstance(default, bool | Backing) else int(each.name in _AT_LEAST_ONE)
        info = typer.Option(*spelled, min=least, help=says, rich_help_panel=_PANELS[kind])
        yield _option(each.name, Annotated[hints[each.name], info], default)


def _option(name: str, annotation: object, default: object = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
