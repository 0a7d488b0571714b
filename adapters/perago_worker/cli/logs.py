"""``perago logs``: what bodies printed and logged, and what became of each attempt."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer
from rich.markup import escape

from perago_core.pipelines import AttemptView, Pipelines
from perago_worker.cli.console import AsJson, out, print_json
from perago_worker.cli.finding import Attempts, find_attempts
from perago_worker.cli.project import project_of

#: Seconds between two looks for new lines.
_PAUSE = 0.3


def logs(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="RUN|STEP|TASK", help="A run, RUN/STEP, a step, or a task id.")],
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the bodies of a run, of a step or of one attempt printed and logged; --follow shows it live.

    With --json and --follow each line is a JSON object of its own.
    """
    pipelines = project_of(context).pipelines()
    found = find_attempts(pipelines, what)
    if not follow:
        log_lines = [(each, line) for each in found.attempts for line in pipelines.log(each.task_id)]
        if as_json:
            print_json([describe_log_line(*each) for each in log_lines])
        for each in () if as_json else log_lines:
            _print(*each)
        return
    _follow(pipelines, found, as_json=as_json)


def _follow(pipelines: Pipelines, found: Attempts, *, as_json: bool) -> None:
    seen: dict[str, int] = {}
    steps = {each.step for each in found.attempts}
    whole = len(found.attempts) == len(found.run.attempts)
    try:
        while True:
            # The state first: what is written between the two looks is shown by the second.
            view = pipelines.view(found.run.workflow_id)
            for each in () if view is None else view.attempts:
                if not whole and each.step not in steps:
                    continue
                lines = pipelines.log(each.task_id)
                for line in lines[seen.get(each.task_id, 0) :]:
                    if as_json:
                        out.print(json.dumps(describe_log_line(each, line)), markup=False)
                    else:
                        _print(each, line)
                seen[each.task_id] = len(lines)
            if view is None or not view.running:
                return
            time.sleep(_PAUSE)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def describe_log_line(attempt: AttemptView, line: str) -> dict[str, object]:
    """Describe a line of a log."""
    return {"step": attempt.step, "attempt": attempt.number, "task_id": attempt.task_id, "line": line}


def _print(attempt: AttemptView, text: str) -> None:
    for line in text.splitlines() or [""]:
        out.print(f"[cyan]{escape(attempt.step)}.{attempt.number}[/cyan] {escape(line)}")
