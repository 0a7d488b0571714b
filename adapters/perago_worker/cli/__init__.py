"""``perago``: write tasks, run them, look at what happened, mend what is broken, and explore why it cannot go wrong."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from perago_worker.cli import define, look, mend, show, work
from perago_worker.cli.console import Project, complain
from perago_worker.loading import find_project

#: The simulator's commands, loaded when one is used: running a pipeline needs no Hypothesis.
_SIMULATOR = {
    "explore": "Explore every interleaving within bounds, and show what breaks.",
    "simulate": "Run the protocol at random, and shrink what breaks.",
    "replay": "Replay one line.",
    "mutants": "Break the table in every small way, and see who notices.",
    "windows": "Die at every point of every path, and say what comes of it.",
    "ladder": "Say what each backing promises in each environment.",
    "check-trace": "Replay a worker's trace through the table.",
    "diagram": "Draw a machine.",
}

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


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
    context.obj = Project(find_project(project), overrides)


def _simulator(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        try:
            simulator: Any = import_module("perago_simulation.cli")
        except ImportError as missing:
            complain(f"{missing.name} is not installed: pip install 'perago-core[simulation]'")
        simulator.app([name, *context.args], prog_name="perago")

    return command


work.add_to(app)
define.add_to(app)
look.add_to(app)
mend.add_to(app)
show.add_to(app)
_AS_GIVEN = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": list[str]()}
for _name, _help in _SIMULATOR.items():
    panel = "The protocol itself"
    app.command(_name, help=_help, context_settings=_AS_GIVEN, rich_help_panel=panel)(_simulator(_name))

__all__ = ["app"]
