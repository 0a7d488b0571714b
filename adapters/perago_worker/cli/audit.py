"""``perago audit``: how every publication was settled."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from perago_core.answers import Done
from perago_core.ledger.records import Audit, SettlementKind
from perago_worker.cli.console import AsJson, CommandError, UnansweredError, out, print_json
from perago_worker.cli.project import project_of
from perago_worker.ops.recover import audits


def audit(
    context: typer.Context,
    *,
    kind: Annotated[str, typer.Option(metavar="KIND", help="Only those settled as this, e.g. 'rolled back'.")] = "",
    actor: Annotated[
        str, typer.Option(metavar="TEXT", help="Only those made or settled by one whose name has this.")
    ] = "",
    target: Annotated[str, typer.Option(metavar="REPOSITORY/BRANCH", help="Only those of this branch.")] = "",
    as_json: AsJson = False,
) -> None:
    """List how every publication was settled: one record for each, for good."""
    kinds = [each.value for each in SettlementKind]
    if kind and kind not in kinds:
        raise CommandError(f"expected --kind to be one of {', '.join(kinds)}; found {kind!r}")
    found = audits(project_of(context).stack)
    if not isinstance(found, Done):
        raise UnansweredError(f"the ledger cannot be read: {found.reason}")
    readable = [each for each in found.value if isinstance(each, Audit)]
    records = [
        each
        for each in readable
        if kind in {"", each.kind.value}
        and (actor in each.actor or actor in each.original_actor)
        and target in {"", *(str(move.target) for move in each.movements)}
    ]
    if as_json:
        print_json([describe_audit(each) for each in records])
        return
    table = Table("when", "what", "task", "attempt", "target", "from", "to", box=None, pad_edge=False)
    for each in sorted(records, key=lambda record: record.at):
        at = datetime.fromtimestamp(each.at / 1000, UTC).strftime("%m-%d %H:%M:%S")
        for move in each.movements:
            what = (at, each.kind.value, each.task_id[:8], str(each.number), escape(str(move.target)))
            table.add_row(*what, move.before[:8], (move.after or "unknown")[:8])
    out.print(table)
    # Beneath the table, where a sentence has room.
    for each in records:
        if each.actor != each.original_actor:
            out.print(
                f"task {escape(each.task_id[:8])}, attempt {each.number}: left open by {escape(each.original_actor)}, "
                f"settled by {escape(each.actor)}"
            )
    unreadable = len(found.value) - len(readable)
    if unreadable:
        raise CommandError(f"{unreadable} record(s) cannot be read by this version: upgrade it")


def describe_audit(record: Audit) -> dict[str, Any]:
    """Describe how one publication was settled."""
    return {
        "operation": record.operation_id,
        "kind": record.kind.value,
        "task": record.task_id,
        "attempt": record.number,
        "worker": record.original_actor,
        "settled_by": record.actor,
        "at": record.at,
        "movements": [
            {"target": str(move.target), "before": move.before, "after": move.after} for move in record.movements
        ],
    }
