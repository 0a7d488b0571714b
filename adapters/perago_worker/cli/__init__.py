"""``perago``: write tasks, run them, look at what happened, mend what is broken, and explore why it cannot go wrong."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from perago_worker.cli import define, initrepo, look, mend, records, running, show, telling, work
from perago_worker.cli.console import Project, complain
from perago_worker.cli.engines import engines
from perago_worker.loading import find_project

#: The simulator's commands, loaded when one is used: running a pipeline needs no Hypothesis.
_SIMULATOR = {
    "explore": "Explore every interleaving within bounds, and show what breaks.",
    "simulate": "Run the protocol at random, and shrink what breaks.",
    "campaign": "Make random runs by the million, in processes or on Spark, and keep what they came to as a table.",
    "replay": "Replay one line.",
    "mutants": "Break the table in every small way, and see who notices.",
    "windows": "Die at every point of every path, and say what comes of it.",
    "ladder": "Say what each backing promises in each environment.",
    "check-trace": "Replay a worker's trace through the table.",
    "diagram": "Draw a machine.",
}

_EXIT_CODES = (
    "Exit codes: 0 it was done, and it held; 1 it was not: a task failed, a promise was broken, something needs a "
    "person; 2 the question makes no sense: configuration, arguments, a part that is not there. "
    "Results go to standard output, everything else to standard error; every command takes --json."
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    help=__doc__,
    epilog=_EXIT_CODES,
)


@app.callback()
def perago(
    context: typer.Context,
    *,
    project: Annotated[Path, typer.Option(help="The folder of perago.toml; found upward if not given.")] = Path(),
    given: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, e.g. --set fence.policy=soft."),
    ] = [],  # noqa: B006  typer reads it, nobody changes it
) -> None:
    """Publish the result of exactly one attempt."""
    overrides: dict[str, Any] = {}
    for each in given:
        key, sign, value = each.partition("=")
        if not sign:
            raise typer.BadParameter(f"expected KEY=VALUE, e.g. fence.policy=soft; found {each!r}", param_hint="--set")
        *sections, name = key.split(".")
        place = overrides
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    context.obj = found = Project(find_project(project), overrides)
    context.call_on_close(found.close)


def _simulator(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        try:
            simulator: Any = import_module("perago_simulation.cli")
        except ImportError as missing:
            complain(f"{missing.name} is not installed: pip install 'perago-core[simulation]'")
        simulator.app([name, *context.args], prog_name="perago", obj=engines())

    return command


_WORK, _LOOK, _MEND, _DEFINE, _PROTOCOL = "Work", "Look", "Mend", "Define", "The protocol itself"
work.add_to(app, _WORK)
running.add_to(app, _WORK)
show.add_to(app, _WORK)
look.add_to(app, _LOOK)
telling.add_to(app, _LOOK)
records.add_to(app, _LOOK)
mend.add_to(app, _MEND)
define.add_to(app, _DEFINE)
initrepo.add_to(app, _DEFINE)
_AS_GIVEN = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": list[str]()}
for _name, _help in _SIMULATOR.items():
    app.command(_name, help=_help, context_settings=_AS_GIVEN, rich_help_panel=_PROTOCOL)(_simulator(_name))

__all__ = ["app"]
