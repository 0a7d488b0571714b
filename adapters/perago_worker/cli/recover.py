"""``perago recover``: intents whose worker died before it could settle them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from perago_core.answers import Done
from perago_core.recovery import Mode
from perago_core.values import Target
from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json
from perago_worker.cli.project import project_of, target_of
from perago_worker.ops.recover import audits, found_lost, recover_target
from perago_worker.runtime.bootstrap import worker_id
from perago_worker.runtime.telemetry import instruments
from perago_worker.stack import Stack


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
