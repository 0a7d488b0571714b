"""How a pipeline stands, on the screen and as data; several commands show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from perago_worker.cli.console import out, print_json

if TYPE_CHECKING:
    from perago_worker.pipelines.protocol import PipelineView

_COLOURS = {"COMPLETED": "green", "IN_PROGRESS": "cyan", "SCHEDULED": "cyan"}


def show(view: PipelineView, *, as_json: bool) -> None:
    """Show how a pipeline stands."""
    if as_json:
        print_json(describe(view))
        return
    table = Table("step", "attempt", "status", "commit", box=None, pad_edge=False)
    for each in view.attempts:
        status = f"[{_COLOURS.get(each.status.value, 'red')}]{each.status.value.replace('_', ' ').lower()}[/]"
        table.add_row(escape(each.step), str(each.number), status, (each.ref or "")[:8])
    out.print(table)
    # Beneath the table, where a sentence has room.
    for each in view.attempts:
        if each.reason:
            out.print(f"{escape(each.step)}, attempt {each.number}: {escape(each.reason)}")
    colour = "green" if view.succeeded else "cyan" if view.running else "red"
    told = any(each.reason == view.reason for each in view.attempts)
    out.print(f"{view.workflow_id}: [{colour}]{view.status.lower()}[/] {'' if told else escape(view.reason)}".rstrip())


def describe(view: PipelineView) -> dict[str, Any]:
    """Describe how a pipeline stands."""
    return {
        "workflow_id": view.workflow_id,
        "name": view.name,
        "status": view.status,
        "reason": view.reason,
        "output": dict(view.output),
        "attempts": [
            {
                "task_id": each.task_id,
                "step": each.step,
                "number": each.number,
                "status": each.status.value,
                "worker": each.worker_id,
                "ref": each.ref,
                "reason": each.reason,
            }
            for each in view.attempts
        ],
    }
