"""Commands that mend: recover what nobody finished, remove what nobody needs."""

from __future__ import annotations

from typing import Annotated

import typer
from attrs import asdict
from rich.markup import escape

from perago_core.answers import Done
from perago_core.recovery import Mode
from perago_core.values import Target
from perago_worker.cli.console import AsJson, CommandError, add_commands, messages, out, print_json, project_of
from perago_worker.cli.targets import target_of
from perago_worker.collecting import CollectError, collect
from perago_worker.files.rooms import Rooms
from perago_worker.ops.recover import audits, found_lost, recover_target
from perago_worker.pipelines import pipelines_of
from perago_worker.stack import Stack
from perago_worker.starting import worker_id
from perago_worker.telemetry import instruments

_DAY = 24 * 3600.0


def add_to(app: typer.Typer, panel: str) -> None:
    """Add these commands."""
    add_commands(app, panel, recover=recover, gc=gc)


def recover(
    context: typer.Context,
    branch: Annotated[str, typer.Argument(help="REPOSITORY/BRANCH; that of the only pipeline if not given.")] = "",
    *,
    settle: Annotated[bool, typer.Option("--settle", help="Settle what is over; moves no branch.")] = False,
    exclusive: Annotated[
        bool,
        typer.Option("--exclusive", help="Also take back abandoned publications. Nobody else may be writing."),
    ] = False,
    grounds: Annotated[str, typer.Option(help="Why; goes into the record. Needed with --exclusive.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say what became of intents nobody finished; with --settle or --exclusive also do something about it."""
    project = project_of(context)
    if project.stack.coordination is None:
        raise CommandError("there is no ledger without a coordination store; set coordination.kind")
    if exclusive and not grounds:
        raise CommandError("--exclusive moves branches: say why with --grounds 'workflow 12 was given up'")
    mode = Mode.EXCLUSIVE if exclusive else Mode.SETTLE_ONLY if settle else Mode.PROBE
    target = target_of(project, branch)
    with messages.status(f"looking at the open intents of {target}"):
        swept = recover_target(project.stack, target, mode, worker_id(), instruments=instruments(), grounds=grounds)
    if not isinstance(swept, Done):
        raise CommandError(f"the open intents of {target} cannot be settled: {swept.reason}")
    outcomes = swept.value.outcomes
    if as_json:
        print_json(
            [
                {
                    "operation": each.operation_id,
                    "ending": each.ending.value,
                    "kind": None if each.audit is None else each.audit.value,
                    "reason": each.reason,
                    "next": each.next_action,
                    "alarm": each.alarm,
                }
                for each in outcomes
            ]
        )
    elif not outcomes:
        out.print(f"{target}: no open intent; nothing to recover")
    else:
        for each in outcomes:
            mark = " [bold red]ACCEPTED RESULT LOST[/bold red]" if each.alarm else ""
            out.print(f"[bold]{escape(each.operation_id)}[/bold]: {each.ending.value}{mark}")
            out.print(f"  {escape(each.reason or 'nothing more is known')}")
            out.print(f"  next: {escape(each.next_action)}")
    _show_earlier_losses(project.stack, target, {each.operation_id for each in outcomes})
    needs_person = swept.value.alarms or (swept.value.unresolved and mode is not Mode.PROBE)
    raise typer.Exit(1 if needs_person else 0)


def _show_earlier_losses(stack: Stack, target: Target, shown: set[str]) -> None:
    """Name what earlier sweeps found lost. They have closed the intents, so that only the audit records still know."""
    records = audits(stack)
    for each in found_lost(records.value, target) if isinstance(records, Done) else ():
        if each.operation_id not in shown:
            messages.print(
                f"[yellow]earlier:[/yellow] the accepted result of task {escape(each.task_id)} was found lost by "
                f"{escape(each.actor)}; see `perago audit`"
            )


def gc(
    context: typer.Context,
    branch: Annotated[str, typer.Argument(help="REPOSITORY/BRANCH; that of the only pipeline if not given.")] = "",
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    older_than: Annotated[float, typer.Option(help="Seconds a workflow must be over before its claims go.")] = _DAY,
    unknown: Annotated[
        bool,
        typer.Option(
            "--unknown",
            help="Also what this orchestrator has never heard of. Only if no other one uses the repository, and nobody "
            "probes it now.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove staging names and folders of attempts that ended, and what is left of workflows that are long over."""
    project = project_of(context)
    target = target_of(project, branch)
    words = pipelines_of(project.stack)
    try:
        with messages.status(f"collecting {target}"):
            collected = collect(project.stack, words, target, older_than=older_than, unknown=unknown, dry_run=dry_run)
            folders = () if dry_run else Rooms(project.settings.worker.root).sweep()
    except CollectError as error:
        raise CommandError(str(error)) from None
    if as_json:
        print_json({"dry_run": dry_run, "folders": list(folders), **asdict(collected)})
        raise typer.Exit(1 if collected.trouble else 0)
    verb = "would remove" if dry_run else "removed"
    out.print(
        f"{target}: {verb} {len(collected.names)} staging name(s) and the claims of {len(collected.claims)} task(s)"
    )
    for name in collected.names:
        out.print(f"  {name}", markup=False)
    if collected.intents:
        out.print(f"{verb} {len(collected.intents)} intent(s) whose worker died before anybody could find them")
    if collected.kept:
        out.print(f"kept {len(collected.kept)} name(s) of attempts that may still act")
    if collected.unknown:
        out.print(
            f"kept {len(collected.unknown)} name(s) this orchestrator has never heard of: another one's, a probe's, or "
            "of a workflow that was removed. If no other one uses the repository, `perago gc --unknown` removes them"
        )
    if folders:
        out.print(f"removed the local folders of {len(folders)} dead execution(s)")
    for each in collected.trouble:
        messages.print(f"[yellow]not removed:[/yellow] {escape(each)}")
    raise typer.Exit(1 if collected.trouble else 0)
