"""``perago runs``: the runs there are, newest first."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from perago_worker.cli.console import AsJson, CommandError, out, print_json
from perago_worker.cli.project import project_of
from perago_worker.cli.words import clock, took

if TYPE_CHECKING:
    from perago_core.pipelines import RunLine

STATES = ("running", "paused", "completed", "failed", "timed_out", "terminated")
_COLOURS = {"COMPLETED": "green", "RUNNING": "cyan", "PAUSED": "yellow"}


def runs(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Only those of this pipeline or task.")] = "",
    *,
    state: Annotated[list[str], typer.Option(help=f"Only those in this state: {', '.join(STATES)}.")] = [],  # noqa: B006  typer reads it
    limit: Annotated[int, typer.Option(help="How many.", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """List the runs, newest first: state, start, duration and how far each is."""
    wanted = states_named(state)
    found = project_of(context).pipelines().newest(limit, name=pipeline, states=wanted)
    if as_json:
        print_json([describe_line(each) for each in found])
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


def states_named(given: Collection[str]) -> frozenset[str]:
    """Read the names of states as people write them."""
    unknown = sorted(each for each in given if each.lower().replace("-", "_") not in STATES)
    if unknown:
        raise CommandError(f"there is no state {unknown[0]!r}; there are {', '.join(STATES)}")
    return frozenset(each.upper().replace("-", "_") for each in given)


def describe_line(run: RunLine) -> dict[str, Any]:
    """Describe a run in a list."""
    return {
        "workflow_id": run.workflow_id,
        "name": run.name,
        "status": run.status,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "done": run.done,
        "steps": run.steps or None,
    }
