"""``perago recover``: publications whose worker died before anybody could accept or settle them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer
from rich.markup import escape

from perago_core.answers import Done
from perago_core.driver import run
from perago_core.ledger import list_open
from perago_core.recovery import Mode, Recovery, RecoveryOutcome, Word
from perago_core.values import Target
from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json
from perago_worker.cli.project import project_of, target_of
from perago_worker.ops.recover import (
    ON_GROUNDS,
    audits,
    found_lost,
    recover_one,
    recover_target,
    unknown_acceptance,
)
from perago_worker.ops.revert import Looked, look, revert_unaccepted
from perago_worker.runtime.bootstrap import worker_id
from perago_worker.runtime.exporters import exporting
from perago_worker.stack import Stack


class Says(Enum):
    """What a person says of a result about which the orchestrator says nothing any more."""

    ACCEPTED = "accepted"
    NOT_ACCEPTED = "not-accepted"


_WORDS = {Says.ACCEPTED: Word.ACCEPTED, Says.NOT_ACCEPTED: Word.NOT_ACCEPTED}


def recover(
    context: typer.Context,
    branch: Annotated[str, typer.Argument(help="REPOSITORY/BRANCH; that of the only pipeline if not given.")] = "",
    *,
    settle: Annotated[bool, typer.Option("--settle", help="Settle what is over; moves no branch.")] = False,
    roll_back: Annotated[
        bool, typer.Option("--roll-back", "--exclusive", help="Also take back publications that nobody accepted.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep publications that nobody accepted, for good. Needs --grounds.")
    ] = False,
    operation: Annotated[str, typer.Option(metavar="OPERATION", help="Only this one; else all that are open.")] = "",
    settle_gone: Annotated[
        str,
        typer.Option(
            metavar="OPERATION", help="One whose task the orchestrator has forgotten. Needs --as and --grounds."
        ),
    ] = "",
    says: Annotated[Says | None, typer.Option("--as", help="Whether its result was accepted.")] = None,
    grounds: Annotated[str, typer.Option(help="Why; goes into the record.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say what became of publications nobody finished; with --settle, --roll-back or --keep do something about it."""
    project = project_of(context)
    wanted = [name for name, given in (("--settle", settle), ("--roll-back", roll_back), ("--keep", keep)) if given]
    if len(wanted) > 1:
        raise CommandError(f"{' and '.join(wanted)} contradict each other: give one of them")
    if bool(settle_gone) is not (says is not None):
        raise CommandError("--settle-gone OPERATION and --as accepted|not-accepted are given together")
    if (keep or says is not None) and not grounds.strip():
        raise CommandError("this is a person's decision: say why with --grounds 'agreed with the team, ticket 12'")
    if roll_back and not grounds.strip() and project.settings.fence.policy == "soft":
        raise CommandError(
            "--roll-back under the policy soft cannot see who else is writing: make sure that nobody is, and say so "
            "with --grounds 'every worker is stopped'"
        )
    only = settle_gone or operation
    if project.stack.coordination is None and (only or settle or keep):
        raise CommandError("there is no ledger without a coordination store; set coordination.kind")
    mode = Mode.EXCLUSIVE if roll_back else Mode.KEEP if keep else Mode.SETTLE_ONLY if settle or says else Mode.PROBE
    target = target_of(project, branch)
    actor = worker_id()
    given = grounds or ("asked for on the command line" if roll_back else "")
    outcomes: tuple[RecoveryOutcome, ...] = ()
    shared: tuple[Looked, ...] = ()
    with (
        messages.status(f"looking at the open intents of {target}"),
        exporting(project.settings.telemetry, scraped=False) as instruments,
    ):
        if only:
            word = None if says is None else _WORDS[says]
            who = f"{actor}{ON_GROUNDS}{grounds}" if grounds else actor
            subject = Recovery(only, target, mode, who, grounds=given, word=word)
            _find(project.stack, target, only)
            outcomes = (recover_one(project.stack, subject, instruments=instruments),)
        elif project.stack.coordination is not None:
            who = f"{actor}{ON_GROUNDS}{grounds}" if keep else actor
            swept = recover_target(project.stack, target, mode, who, instruments=instruments, grounds=given)
            if not isinstance(swept, Done):
                raise CommandError(f"the open intents of {target} cannot be settled: {swept.reason}")
            outcomes = swept.value.outcomes
        if not only:
            shared = (revert_unaccepted if roll_back else look)(project.stack, target)
    _show(target, outcomes, shared, as_json=as_json)
    _show_earlier_losses(project.stack, target, {each.operation_id for each in outcomes})
    blocked = any(
        each.ending.blocks or (each.unaccepted is not None and mode is not Mode.SETTLE_ONLY) for each in outcomes
    )
    blocked = blocked or (roll_back and any(each.blocks for each in shared))
    needs_person = any(each.alarm for each in outcomes) or (blocked and mode is not Mode.PROBE)
    raise typer.Exit(1 if needs_person else 0)


def _find(stack: Stack, target: Target, operation: str) -> None:
    """Refuse an operation that is not open on the target, by the names of those that are."""
    listed = run(list_open(target), stack.ports())
    if isinstance(listed, Done) and operation not in listed.value:
        there = f"open: {', '.join(listed.value)}" if listed.value else "nothing is open"
        raise CommandError(f"expected an operation that is open on {target}; found {operation!r}; {there}")


def _show(target: Target, outcomes: tuple[RecoveryOutcome, ...], shared: tuple[Looked, ...], *, as_json: bool) -> None:
    found = [each for each in shared if each.found is not None]
    if as_json:
        print_json([*map(describe_outcome, outcomes), *map(describe_shared, found)])
        return
    for one in shared:
        if one.found is None and one.trouble:
            messages.print(f"[yellow]unknown:[/yellow] {escape(one.trouble)}")
    if not outcomes and not found:
        out.print(f"{target}: no open intent; nothing to recover")
    else:
        for one in found:
            _show_shared(target, one)
        for each in outcomes:
            mark = " [bold red]ACCEPTED RESULT LOST[/bold red]" if each.alarm else ""
            mark = mark or (" [yellow]never accepted[/yellow]" if each.unaccepted else "")
            out.print(f"[bold]{escape(each.operation_id)}[/bold]: {each.ending.value}{mark}")
            out.print(f"  {escape(each.reason or 'nothing more is known')}")
            out.print(f"  next: {escape(each.next_action)}")


def _show_shared(target: Target, shared: Looked) -> None:
    assert shared.found is not None
    ref, task = shared.found.commit.ref, shared.found.task
    out.print(f"[bold]{escape(ref)}[/bold]: {describe_shared(shared)['ending']} [yellow]never accepted[/yellow]")
    out.print(f"  published to a branch that others share, by {escape(task)}")
    if shared.by is not None:
        out.print(f"  {escape(shared.by)} takes exactly its paths back; whoever waited for it goes on")
        return
    out.print(f"  {escape(shared.trouble or 'its workflow has ended, and others wait for it')}")
    out.print(f"  next: `perago recover {target} --roll-back` reverts it, `perago retry` lets its task adopt it")


def _show_earlier_losses(stack: Stack, target: Target, shown: set[str]) -> None:
    """Name what earlier sweeps found lost. They have closed the intents, so that only the audit records still know."""
    records = audits(stack)
    if not isinstance(records, Done):
        messages.print(f"[yellow]unknown:[/yellow] {escape(unknown_acceptance(target, records.reason))}")
        return
    for each in found_lost(records.value, target):
        if each.operation_id not in shown:
            messages.print(
                f"[yellow]earlier:[/yellow] the accepted result of task {escape(each.task_id)} was found lost by "
                f"{escape(each.actor)}; see `perago audit`"
            )


def describe_outcome(outcome: RecoveryOutcome) -> dict[str, Any]:
    """Describe what became of one open intent."""
    return {
        "operation": outcome.operation_id,
        "ending": outcome.ending.value,
        "kind": None if outcome.audit is None else outcome.audit.value,
        "reason": outcome.reason,
        "next": outcome.next_action,
        "alarm": outcome.alarm,
        "unaccepted": outcome.unaccepted,
    }


def describe_shared(shared: Looked) -> dict[str, Any]:
    """Describe a publication to a shared branch that nobody accepted, and what became of it."""
    assert shared.found is not None
    ending = "reverted" if shared.by is not None else "stays for now" if shared.trouble else "left behind"
    return {
        "publication": shared.found.commit.ref,
        "task": shared.found.task,
        "ending": ending,
        "reverted_by": shared.by,
        "reason": shared.trouble,
    }
