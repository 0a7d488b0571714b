"""Commands that read what the cluster has written down: how publications were settled, and how they are fenced."""

from __future__ import annotations

from datetime import UTC, datetime

import typer
from rich.markup import escape
from rich.table import Table

from perago_core.answers import Done
from perago_core.ledger.records import Audit
from perago_core.policy.messages import Decision
from perago_core.policy.state import PREFIX, latest_decision
from perago_worker.cli.console import AsJson, CommandError, add_commands, out, print_json, project_of, teaching
from perago_worker.ops.recover import audits

policy_app = typer.Typer(no_args_is_help=True, help="The cluster's decision on how publications are fenced.")


def add_to(app: typer.Typer, panel: str) -> None:
    """Add these commands."""
    add_commands(app, panel, audit=audit)
    policy_app.command("show")(teaching(policy_show))
    app.add_typer(policy_app, name="policy", rich_help_panel=panel)


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
                    "worker": each.original_actor,
                    "settled_by": each.actor,
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
    table = Table("when", "what", "task", "attempt", "target", "from", "to", "worker", box=None, pad_edge=False)
    for each in sorted(records, key=lambda record: record.at):
        at = datetime.fromtimestamp(each.at / 1000, UTC).strftime("%m-%d %H:%M:%S")
        for move in each.movements:
            what = (at, each.kind.value, each.task_id[:8], str(each.number), escape(str(move.target)))
            who = escape(each.original_actor)
            if each.actor != each.original_actor:
                who = f"{who}, settled by {escape(each.actor)}"
            table.add_row(*what, move.before[:8], (move.after or "unknown")[:8], who)
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
