"""Commands that look and change nothing: status, history, explain, audit, policy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from perago_core.answers import Done
from perago_core.ledger.records import Audit
from perago_core.policy.events import Decision
from perago_core.policy.records import PREFIX, latest_decision
from perago_core.values import Commit, Target
from perago_worker.cli.console import AsJson, CommandError, Project, messages, out, print_json, project_of, teaching
from perago_worker.cli.work import show
from perago_worker.doctoring import Finding, examine
from perago_worker.explaining import audits
from perago_worker.explaining import explain as explanation
from perago_worker.pipelines import pipelines_of
from perago_worker.starting import targets_of

policy_app = typer.Typer(no_args_is_help=True, help="The cluster's decision on how publications are fenced.")


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    for name, command in (
        ("status", status),
        ("history", history),
        ("explain", explain),
        ("audit", audit),
        ("doctor", doctor),
    ):
        app.command(name)(teaching(command))
    policy_app.command("show")(teaching(policy_show))
    app.add_typer(policy_app, name="policy")


def status(
    context: typer.Context,
    workflow: Annotated[str, typer.Argument(help="A workflow; all that run if not given.")] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Show what runs."""
    words = pipelines_of(project_of(context).stack)
    if workflow:
        view = words.view(workflow)
        if view is None:
            raise CommandError(f"there is no workflow {workflow!r}; `perago status` lists those that run")
        show(view, as_json=as_json)
        return
    running = words.running()
    if as_json:
        print_json([{"workflow_id": each.workflow_id, "name": each.name, "status": each.status} for each in running])
        return
    for view in running:
        show(view, as_json=False)
    if not running:
        out.print("nothing runs")


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
        out.print(f"[yellow]●[/yellow] [cyan]{each.ref[:12]}[/cyan]  {first}")
        if number + 1 < len(commits):
            out.print("[yellow]│[/yellow]")


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
        table.add_row(f"[bold]{each.source}[/bold]", each.says)
    out.print(table)
    for line in pipelines_of(project.stack).log(task):
        out.print(f"[dim]log[/dim] {line}", markup=True)


def doctor(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Look at every dependency and permission a worker needs; exit code 1 if one is missing."""
    project = project_of(context)
    findings: list[Finding] = []
    table = Table(box=None, show_header=False)
    with messages.status("looking"):
        for each in examine(project.settings, lambda: ", ".join(project.tasks())):
            findings.append(each)
            mark = "[green]fine[/green]" if each.fine else "[red]trouble[/red]"
            table.add_row(mark, each.what, each.found if each.fine else f"{each.found}. {each.fix}")
    if as_json:
        print_json([{"what": each.what, "fine": each.fine, "found": each.found, "fix": each.fix} for each in findings])
    else:
        out.print(table)
    raise typer.Exit(0 if all(each.fine for each in findings) else 1)


def audit(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List how every publication was settled: one record for each, for good."""
    found = audits(project_of(context).stack)
    if not isinstance(found, Done):
        raise CommandError(f"the ledger cannot be read: {found.reason}")
    records = [each for each in found.value if isinstance(each, Audit)]
    if as_json:
        print_json(
            [
                {
                    "operation": each.operation_id,
                    "kind": each.kind.value,
                    "task": each.task_id,
                    "attempt": each.number,
                    "actor": each.actor,
                    "at": each.at,
                    "movements": [
                        {"target": str(move.target), "before": move.before, "after": move.after}
                        for move in each.movements
                    ],
                }
                for each in records
            ]
        )
        return
    table = Table("when", "what", "attempt", "task", "settled by", "target", "from", "to", box=None)
    for each in sorted(records, key=lambda record: record.at):
        at = datetime.fromtimestamp(each.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        for move in each.movements:
            row = (at, each.kind.value, str(each.number), each.task_id[:12], each.actor, str(move.target))
            table.add_row(*row, move.before[:12], (move.after or "unknown")[:12])
    out.print(table)
    unreadable = len(found.value) - len(records)
    if unreadable:
        raise CommandError(f"{unreadable} record(s) cannot be read by this version: upgrade it")


def policy_show(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show the stored decision: which backing, since which epoch, on what evidence, by whom."""
    project = project_of(context)
    if project.stack.coordination is None:
        raise CommandError("no coordination store is configured, so nothing is stored; set coordination.kind")
    found = project.stack.coordination.list(PREFIX)
    if not isinstance(found, Done):
        raise CommandError(f"the decision cannot be read: {found.reason}")
    decision = latest_decision(found.value)
    wanted = project.settings.fence.policy
    if as_json:
        stored = None if decision is None else _decision(decision)
        print_json({"policy": wanted, "decision": stored})
    elif decision is None:
        out.print(f"policy {wanted}; nothing is decided yet: the first worker that starts decides")
    else:
        out.print(f"policy {wanted}; backing [bold]{decision.backing.value}[/bold] since epoch {decision.epoch}")
        out.print(f"{decision.evidence.value} by {decision.detector}")


def _decision(decision: Decision) -> dict[str, object]:
    return {
        "backing": decision.backing.value,
        "epoch": decision.epoch,
        "evidence": decision.evidence.value,
        "detector": decision.detector,
    }


def target_of(project: Project, branch: str) -> Target:
    """Read REPOSITORY/BRANCH, or take the only target the project has."""
    if branch:
        repository, sign, name = branch.partition("/")
        if not sign or not repository or not name:
            raise CommandError(f"expected REPOSITORY/BRANCH, e.g. lake/main; found {branch!r}")
        return Target(repository, name)
    targets = targets_of(project.settings)
    if len(targets) != 1:
        known = ", ".join(map(str, targets)) or "none"
        raise CommandError(f"name the branch as REPOSITORY/BRANCH; this project's pipelines publish to: {known}")
    return targets[0]


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
