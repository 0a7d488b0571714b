"""``perago runs``: the runs there are, newest first."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from perago_worker.cli.console import AsJson, CommandError, out, print_json
from perago_worker.cli.finding import LOOKED_AT
from perago_worker.cli.project import project_of
from perago_worker.cli.words import clock, took

_STATES = ("running", "paused", "completed", "failed", "timed_out", "terminated")
_COLOURS = {"COMPLETED": "green", "RUNNING": "cyan", "PAUSED": "yellow"}


def runs(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Only those of this pipeline or task.")] = "",
    *,
    state: Annotated[list[str], typer.Option(help=f"Only those in this state: {', '.join(_STATES)}.")] = [],  # noqa: B006  typer reads it
    limit: Annotated[int, typer.Option(help="How many.", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """List the runs, newest first: state, start, duration and how far each is."""
    wanted = {each.upper().replace("-", "_") for each in state}
    unknown = sorted(each for each in state if each.lower().replace("-", "_") not in _STATES)
    if unknown:
        raise CommandError(f"there is no state {unknown[0]!r}; there are {', '.join(_STATES)}")
    looked_at = LOOKED_AT if pipeline or wanted else limit
    found = [
        each
        for each in project_of(context).pipelines().newest(looked_at)
        if (not pipeline or each.name == pipeline) and (not wanted or each.status in wanted)
    ][:limit]
    if as_json:
        print_json(
            [
                {
                    "workflow_id": each.workflow_id,
                    "name": each.name,
                    "status": each.status,
                    "started_at": each.started_at,
                    "ended_at": each.ended_at,
                    "done": each.done,
                    "steps": each.steps or None,
                }
                for each in found
            ]
        )
        return
    if not found:
        out.print("there is no such run" if pipeline or wanted else "there is no run yet: `perago run NAME` starts one")
        return
    table = Table("run", "state", "started", "took", "steps", box=None, pad_edge=False)
    for each in found:
        state_shown = f"[{_COLOURS.get(each.status, 'red')}]{each.status.replace('_', ' ').lower()}[/]"
        steps = f"{each.done}/{each.steps}" if each.steps else str(each.done)
        table.add_row(
            escape(each.workflow_id), state_shown, clock(each.started_at), took(each.started_at, each.ended_at), steps
        )
    out.print(table)
