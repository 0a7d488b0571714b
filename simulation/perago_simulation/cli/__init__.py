"""``perago``: explore the protocol, run it at random, climb the ladder, replay a line, check a trace, draw a machine.

Exit code 0: what was asked for holds. 1: a property is broken, a mutant survives, a trace diverges. 2: the question
makes no sense.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from perago_simulation.cli.campaign import campaign_command
from perago_simulation.cli.catalogues import ladder_command, mutants_command, windows_command
from perago_simulation.cli.machines import check_trace_command, diagram_command
from perago_simulation.cli.runs import explore_command, replay_command, simulate_command

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
_COMMANDS: Mapping[str, Callable[..., None]] = {
    "explore": explore_command,
    "simulate": simulate_command,
    "campaign": campaign_command,
    "replay": replay_command,
    "mutants": mutants_command,
    "windows": windows_command,
    "ladder": ladder_command,
    "check-trace": check_trace_command,
    "diagram": diagram_command,
}
for name, command in _COMMANDS.items():
    app.command(name)(command)

__all__ = ["app"]
