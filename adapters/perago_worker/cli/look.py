"""Commands that look and change nothing: status, history, explain, doctor."""

from __future__ import annotations

import os
from itertools import chain
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from perago_core.answers import Done
from perago_core.values import Commit, Target
from perago_worker.cli.console import AsJson, CommandError, Project, add_commands, messages, out, print_json, project_of
from perago_worker.cli.showing import describe, show
from perago_worker.cli.targets import target_of
from perago_worker.doctoring import Finding, examine, examine_spark
from perago_worker.explaining import explain as explanation
from perago_worker.pipelines import pipelines_of


def add_to(app: typer.Typer, panel: str) -> None:
    """Add these commands."""
    add_commands(app, panel, status=status, history=history, explain=explain, doctor=doctor)


def status(
    context: typer.Context,
    workflow: Annotated[str, typer.Argument(help="A workflow; all that run if not given.")] = "",
    *,
    ended: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what runs, and with --all what ran."""
    words = pipelines_of(project_of(context).stack)
    if workflow:
        view = words.view(workflow)
        if view is None:
            raise CommandError(f"there is no workflow {workflow!r}; `perago status --all` lists them")
        show(view, as_json=as_json)
        return
    found = words.everything() if ended else words.running()
    if as_json:
        print_json([describe(each) for each in found])
        return
    for number, view in enumerate(found):
        if number:
            out.print()
        show(view, as_json=False)
    if not found:
        out.print("there is no workflow yet" if ended else "nothing runs; `perago status --all` lists what ran")


def history(
    context: typer.Context,
    branch: Annotated[str, typer.Argument(help="REPOSITORY/BRANCH; that of the only pipeline if not given.")] = "",
    *,
    limit: Annotated[int, typer.Option(help="How many commits.", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """Draw the branch: every publication, newest first."""
    project = project_of(context)
    target = target_of(project, branch)
    commits = _history(project, target, limit)
    if as_json:
        print_json([{"ref": each.ref, "parents": list(each.parents), "message": each.message} for each in commits])
        return
    out.print(f"[bold]{target}[/bold]")
    for number, each in enumerate(commits):
        first = each.message.splitlines()[0] if each.message else ""
        line = f"[yellow]●[/yellow] [cyan]{each.ref[:12]}[/cyan]  {escape(first)}"
        out.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=False)
        if number + 1 < len(commits):
            out.print("[yellow]│[/yellow]")
        elif each.parents:
            out.print(f"[dim]┆ and more; --limit {2 * limit}[/dim]")


def explain(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="A task id, as `perago status` and the logs show it.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Say what branch, ledger and orchestrator say of an attempt, and what follows."""
    project = project_of(context)
    found = pipelines_of(project.stack).find(task)
    if found is None:
        raise CommandError(f"there is no task {task!r}; `perago status WORKFLOW --json` lists the tasks of a workflow")
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
    for line in pipelines_of(project.stack).log(task):
        out.print(f"[dim]log[/dim] {escape(line)}")


def doctor(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Look at every dependency and permission a worker needs; exit code 1 if one is missing."""
    project = project_of(context)
    findings: list[Finding] = []
    table = Table(box=None, show_header=False)
    with messages.status("looking"):
        spark = examine_spark(project.settings.spark, project.tasks, os.environ)
        for each in chain(examine(project.settings, lambda: ", ".join(project.tasks())), spark):
            findings.append(each)
            mark = "[green]fine[/green]" if each.fine else "[red]trouble[/red]"
            table.add_row(mark, each.what, escape(each.found if each.fine else f"{each.found}. {each.fix}"))
    if as_json:
        print_json([{"what": each.what, "fine": each.fine, "found": each.found, "fix": each.fix} for each in findings])
    else:
        out.print(table)
    raise typer.Exit(0 if all(each.fine for each in findings) else 1)


def _history(project: Project, target: Target, limit: int) -> tuple[Commit, ...]:
    """Walk first parents through the port, so that it works on every store."""
    store = project.stack.store
    head = store.head(target)
    if not isinstance(head, Done) or head.value is None:
        raise CommandError(f"{target} cannot be read: {'no such branch' if isinstance(head, Done) else head.reason}")
    commits = [head.value.commit]
    while commits[-1].parents and len(commits) < limit:
        found = store.look(target.repository, commits[-1].parents[0])
        if not isinstance(found, Done) or found.value is None:
            break
        commits.append(found.value)
    return tuple(commits)
