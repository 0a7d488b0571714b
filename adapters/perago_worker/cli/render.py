"""How a pipeline stands, on the screen and as data; several commands show it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from perago_core.pipelines import PROMOTION
from perago_worker.cli.console import out, print_json
from perago_worker.cli.words import took

if TYPE_CHECKING:
    from perago_core.pipelines import AttemptView, PipelineView

_COLOURS = {"COMPLETED": "green", "IN_PROGRESS": "cyan", "SCHEDULED": "cyan"}
#: Characters of a step's result beneath the table.
_RESULT = 200


def show(view: PipelineView, *, as_json: bool, changed: Mapping[str, str] | None = None) -> None:
    """Show how a pipeline stands. ``changed``: what each attempt changed, by task id, where that was seen."""
    if as_json:
        print_json(describe(view))
        return
    table = Table("step", "attempt", "status", "took", "task", "commit", box=None, pad_edge=False)
    for each in view.attempts:
        status = f"[{_COLOURS.get(each.status.value, 'red')}]{each.status.value.replace('_', ' ').lower()}[/]"
        table.add_row(
            escape(each.step),
            str(each.number),
            status,
            took(each.started_at, each.ended_at),
            each.task_id[:8],
            (each.ref or "")[:8],
        )
    out.print(table)
    # Beneath the table, where a sentence has room.
    for line in _told(view, changed or {}):
        out.print(line)
    colour = "green" if view.succeeded else "cyan" if view.running else "red"
    reason = "" if any(each.reason == view.reason for each in view.attempts) else f" {escape(view.reason)}"
    ended = f" after {took(view.started_at, view.ended_at)}" if view.started_at else ""
    out.print(f"{view.workflow_id}: [{colour}]{view.status.lower()}[/]{ended}{reason}".rstrip())
    if where := where_it_is(view):
        out.print(escape(where))
    out.print(f"[dim]next:[/dim] {escape(what_next(view))}")


def _told(view: PipelineView, changed: Mapping[str, str]) -> list[str]:
    """Say what each attempt gave or why it failed; a reason that repeats is told once."""
    lines: list[str] = []
    before = ""
    for each in view.attempts:
        if each.reason:
            again = "as before" if each.reason == before else escape(each.reason)
            lines.append(f"{escape(each.step)}, attempt {each.number}: {again}")
            before = each.reason
        elif said := _given(view, each, changed):
            lines.append(f"{escape(each.step)}: {escape(said)}")
    return lines


def _given(view: PipelineView, attempt: AttemptView, changed: Mapping[str, str]) -> str:
    result = view.output[attempt.step].get("result") if attempt.ref and attempt.step in view.output else None
    text = "" if result is None else json.dumps(result, ensure_ascii=False)
    shown = text if len(text) <= _RESULT else f"{text[:_RESULT]}…"
    return "; ".join(each for each in (changed.get(attempt.task_id, ""), f"gave {shown}" if shown else "") if each)


def where_it_is(view: PipelineView) -> str:
    """Say what of an isolated run is where; blank for any other run."""
    own = view.branch_of_its_own
    if own is None:
        return ""
    if view.succeeded:
        return f"promoted from {own} to {view.target}, in one commit"
    if any(each.step == PROMOTION for each in view.attempts):
        return f"its steps are on {own}; that they are on {view.target} was not accepted"
    return f"its steps are on {own}; nothing of them is on {view.target}"


def what_next(view: PipelineView) -> str:
    """Say what a person can do now."""
    run = view.workflow_id
    last = view.attempts[-1] if view.attempts else None
    if view.succeeded:
        return "`perago history` shows the branch, `perago verify` proves it" if view.target else f"`perago logs {run}`"
    if not view.running:
        where = "" if last is None else f" from step {last.step}"
        own = view.branch_of_its_own
        look = "" if own is None else f"`perago history {own}` shows what it left; "
        return f"{look}`perago logs {run}` says more; `perago retry {run}` goes on{where}, what was accepted stays"
    if last is None or last.status.value != "IN_PROGRESS":
        return (
            f"it waits for a worker: `perago worker` or, here and now, `perago retry {run}` goes on with it; "
            f"`perago cancel {run}` ends it"
        )
    return (
        f"step {last.step} runs at {last.worker_id}: `perago logs {run} --follow` shows it, `perago cancel {run}` ends "
        "it; if its worker is dead, the attempt is given up once its response time-out has passed"
    )


def describe(view: PipelineView) -> dict[str, Any]:
    """Describe how a pipeline stands."""
    return {
        "workflow_id": view.workflow_id,
        "name": view.name,
        "status": view.status,
        "reason": view.reason,
        "started_at": view.started_at,
        "ended_at": view.ended_at,
        "branch": str(view.branch_of_its_own) if view.branch_of_its_own else None,
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
                "started_at": each.started_at,
                "ended_at": each.ended_at,
            }
            for each in view.attempts
        ],
    }
