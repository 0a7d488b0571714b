"""One line that says everything about a run: the table's digest, the setting, the choices, and whose store and runtime.

    run 0123456789abcdef backing=soft,attempts=2,... 0.1.0.3
    run 0123456789abcdef backing=soft,attempts=2,... 0.1.0.3 store=my_store:MyStore

It is refused on another table, store or runtime, where the same choices would tell another story.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from attrs import fields, fields_dict, frozen

from perago_core.errors import PeragoError
from perago_core.machine.description import digest
from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.runs.embedding import runtime_name, store_name
from perago_simulation.world.capabilities import Capabilities
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting


class LineError(PeragoError, ValueError):
    """A line cannot be read, or it was written for another table, store or runtime."""


@frozen(repr=False)
class ReplayLine(Value):
    """A run as one line. ``store`` and ``runtime`` are names, and empty where they are ours."""

    table: str
    setting: Setting
    choices: tuple[int, ...]
    store: str = ""
    runtime: str = ""


def line_of(model: Model, choices: Sequence[int]) -> str:
    """Write a run as one line."""
    own = "".join(f" {what}={name}" for what, name in _own(model))
    return f"run {digest(model.table)} {_setting(model.setting)} {'.'.join(map(str, choices)) or '-'}{own}"


def command_of(model: Model, choices: Sequence[int]) -> str:
    """Write the command that replays a run."""
    own = "".join(f" --{what} {shlex.quote(name)}" for what, name in _own(model))
    return f"perago replay {shlex.quote(line_of(model, choices))}{own}"


def read_line(text: str) -> ReplayLine:
    """Read a line back, strictly."""
    try:
        word, table, of, choices, *rest = text.split()
        if word != "run":
            raise LineError(f"not a run: it begins with {word!r}, not with 'run'")
        own = dict(each.split("=", 1) for each in rest)
        if unknown := sorted(own.keys() - {"store", "runtime"}):
            raise LineError(f"not a run: nobody knows {', '.join(unknown)}; after the choices come store= and runtime=")
        made = () if choices == "-" else tuple(int(each) for each in choices.split("."))
        return ReplayLine(table, _read(of), made, **own)
    except (ValueError, TypeError) as problem:
        if isinstance(problem, LineError):
            raise
        raise LineError(f"not a run: {problem}; it is written 'run TABLE SETTING CHOICES'") from problem


def model_of(line: ReplayLine, model: Model | None = None) -> Model:
    """Give the model a line was written for: this one, or the production table's; else raise ``LineError``."""
    here = model or Model(line.setting)
    if digest(here.table) != line.table:
        raise LineError(
            f"the run was made on table {line.table}, and this is {digest(here.table)}: the same choices would tell "
            "another story. Go back to the version that wrote the line, or look for the violation anew."
        )
    for what, told, found in (
        ("store", line.store, store_name(here)),
        ("runtime", line.runtime, runtime_name(here)),
    ):
        if told != found:
            hint = f"add --{what} {told}" if told else f"leave out --{what}"
            raise LineError(f"the run was made on {what} {told or '(ours)'}, and this is {found or '(ours)'}: {hint}")
    if here.setting != line.setting:
        raise LineError(f"the run was made in {line.setting.bounds()}, and this is {here.setting.bounds()}")
    return here


def _own(model: Model) -> list[tuple[str, str]]:
    """Name what is not ours."""
    names = (("store", store_name(model)), ("runtime", runtime_name(model)))
    return [(what, name) for what, name in names if name]


def _setting(setting: Setting) -> str:
    words: list[str] = []
    for each in fields(Setting):
        value = getattr(setting, each.name)
        if isinstance(value, Backing):
            words.append(f"backing={value.value}")
        elif isinstance(value, Capabilities):
            able = [flag.name for flag in fields(Capabilities) if getattr(value, flag.name)]
            words.append(f"store={'+'.join(able) or '-'}")
        elif value != each.default:
            words.append(f"{each.name}={int(value)}")
    return ",".join(words)


def _read(text: str) -> Setting:
    given: dict[str, object] = {}
    known = fields_dict(Setting)
    for word in text.split(","):
        name, value = word.split("=")
        if name not in known:
            raise LineError(f"not a run: a setting has no {name!r}; it has {', '.join(known)}")
        if name == "backing":
            given[name] = Backing(value)
        elif name == "store":
            given[name] = _capabilities([] if value == "-" else value.split("+"))
        else:
            given[name] = bool(int(value)) if isinstance(known[name].default, bool) else int(value)
    return Setting(**given)  # type: ignore[arg-type]


def _capabilities(able: Sequence[str]) -> Capabilities:
    known = [each.name for each in fields(Capabilities)]
    if unknown := [each for each in able if each not in known]:
        raise LineError(f"not a run: a store has no {', '.join(unknown)}; it may have {', '.join(known)}")
    return Capabilities(**{name: name in able for name in known})
