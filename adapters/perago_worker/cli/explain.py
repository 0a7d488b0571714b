"""``perago explain``: what is known about one attempt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from perago_core.answers import Done
from perago_core.pipelines import Pipelines
from perago_worker.cli.console import AsJson, CommandError, UnansweredError, out, print_json
from perago_worker.cli.finding import find_attempts
from perago_worker.cli.project import Project, project_of
from perago_worker.ops.explain import Finding
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
    findings = findings_on(project, pipelines, task)
    if as_json:
        print_json(describe_findings(findings))
        return
    table = Table(box=None, show_header=False)
    for each in findings:
        table.add_row(f"[bold]{each.source}[/bold]", escape(each.says))
    out.print(table)
    for line in pipelines.log(task):
        out.print(f"[dim]log[/dim] {escape(line)}")


def findings_on(project: Project, pipelines: Pipelines, task_id: str) -> tuple[Finding, ...]:
    """Say what is known of one attempt."""
    found = pipelines.find(task_id)
    if found is None:
        raise CommandError(f"task {task_id} is gone; `perago show RUN` lists the tasks of a run")
    snapshot = project.stack.orchestrator.reload(found.workflow_id, task_id)
    if not isinstance(snapshot, Done):
        raise UnansweredError(f"task {task_id} cannot be read: {snapshot.reason}")
    if snapshot.value is None:
        raise CommandError(f"task {task_id} cannot be read: it is gone")
    return explanation(project.stack, snapshot.value, found)


def describe_findings(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Describe what is known of an attempt."""
    return [{"source": each.source, "says": each.says} for each in findings]
