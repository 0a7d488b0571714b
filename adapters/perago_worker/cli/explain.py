"""``perago explain``: what is known about one attempt."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from perago_core.answers import Done
from perago_worker.cli.console import AsJson, CommandError, out, print_json
from perago_worker.cli.finding import find_attempts
from perago_worker.cli.project import project_of
from perago_worker.ops.explain import explain as explanation


def explain(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="A task, the beginning of its id, or a step: its newest attempt.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Say what branch, ledger and orchestrator say of an attempt, and what follows."""
    project = project_of(context)
    pipelines = project.pipelines()
    named = find_attempts(pipelines, task)
    if not named.attempts:
        raise CommandError(
            f"no step of {named.run.workflow_id} has begun: {named.run.reason or named.run.status.lower()}"
        )
    task = named.attempts[-1].task_id
    found = pipelines.find(task)
    if found is None:
        raise CommandError(f"task {task} is gone; `perago show RUN` lists the tasks of a run")
    snapshot = project.stack.orchestrator.reload(found.workflow_id, task)
    if not isinstance(snapshot, Done) or snapshot.value is None:
        raise CommandError(
            f"task {task} cannot be read: {'it is gone' if isinstance(snapshot, Done) else snapshot.reason}"
        )
    findings = explanation(project.stack, snapshot.value, found)
    if as_json:
        print_json([{"source": each.source, "says": each.says} for each in findings])
        return
    table = Table(box=None, show_header=False)
    for each in findings:
        table.add_row(f"[bold]{each.source}[/bold]", escape(each.says))
    out.print(table)
    for line in pipelines.log(task):
        out.print(f"[dim]log[/dim] {escape(line)}")
