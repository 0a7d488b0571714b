"""What must hold of a table before anybody runs it: which steps lie before which, on every way through the rows.

Exploration judges worlds, and a world does not show what an attempt should have asked. These clauses do: take away the
rows that pass a step, and see whether the place it guards can still be reached.
"""

# ruff: noqa: E501  one clause, one line
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from attrs import frozen

from perago_core.answers import Event, Unknown
from perago_core.attempt import messages as m
from perago_core.attempt import table
from perago_core.attempt.state import Phase
from perago_core.machine.rows import Row
from perago_core.value import Value
from perago_simulation.mutants.tables import Attempts

_BACKINGS = ("soft", "atomic", "conditional", "locked")


@frozen(repr=False)
class OrderClause(Value):
    """No way leads on from a row that is a ``start`` to one that is the ``end``, but through a row that ``passes``."""

    id: str
    says: str
    start: Callable[[Row], bool]
    passes: Callable[[Row], bool]
    end: Callable[[Row], bool]
    ledgers: tuple[str, ...] = ("on", "off")
    backings: tuple[str, ...] = _BACKINGS


def _beginning(row: Row) -> bool:
    return row.phase in {Phase.WORKSPACE, Phase.EARLIER_CLAIMS}


def _fence(row: Row) -> bool:
    return row.event is m.TaskReloaded and row.when.get("attempt") == ("current",)


def _nothing(_row: Row) -> bool:
    return False


def _after(event: type[Event], **facts: str) -> Callable[[Row], bool]:
    wanted = {fact: (value,) for fact, value in facts.items()}
    return lambda row: row.event is event and all(row.when.get(fact) == value for fact, value in wanted.items())


def _sent_unknown(row: Row) -> bool:
    return row.phase is Phase.PUBLICATION and row.event is Unknown


def _into(phase: Phase) -> Callable[[Row], bool]:
    return lambda row: row.next is phase


def _success(row: Row) -> bool:
    return row.ask is table.report_published


_SEND = _into(Phase.PUBLICATION)
_STRONG = ("atomic", "conditional", "locked")

# fmt: off
CLAUSES = (
    OrderClause("S-07", "who is stale does not report", _after(m.TaskReloaded, attempt="stale"), _nothing, _into(Phase.REPORT), backings=_STRONG),
    OrderClause("S-08a", "nothing is staged but after an attempt fence", _beginning, _fence, _into(Phase.STAGING)),
    OrderClause("S-08", "nothing is published but after an attempt fence later than the name", _after(m.StagingOpened), _fence, _SEND),
    OrderClause("S-08b", "nothing is published but after an attempt fence, name or no name", _beginning, _fence, _SEND),
    OrderClause("S-08c", "nothing is published but after an attempt fence later than the lease", _after(m.LeaseHeld), _fence, _SEND, backings=("locked",)),
    OrderClause("S-05b", "an unknown publication is called ours only after an attempt fence", _sent_unknown, _fence, _success),
    OrderClause("S-09", "nothing is asked between seeing the head and publishing", lambda _row: True, lambda row: row.phase is Phase.HEAD, _SEND),
    OrderClause("S-18b", "nothing is published past an open intent", _beginning, _after(m.IntentsSettled, intents="clear"), _SEND, ledgers=("on",)),
    OrderClause("S-24b", "after an unclean release nothing is done before the wait", _after(m.LeaseHeld, predecessor="unclean"), _after(m.Waited), _into(Phase.REVOCATION), backings=("locked",)),
)
# fmt: on


def broken_clauses(table: Attempts) -> tuple[str, ...]:
    """Name the clauses some way through the table breaks."""
    rows = table.definition.rows
    return tuple(
        each.id
        for each in CLAUSES
        if any(_escapes(each, list(_kept(rows, *of))) for of in product(each.backings, each.ledgers, _DIFFS))
    )


_DIFFS = ("changed", "unchanged")


def _kept(rows: Iterable[Row], backing: str, ledger: str, diff: str) -> Iterator[Row]:
    """Return the rows a writable attempt may take."""
    fixed = {"backing": backing, "ledger": ledger, "diff": diff, "mode": "writable"}
    for row in rows:
        if all(fixed.get(fact, wanted[0]) in wanted for fact, wanted in row.when.items()):
            yield row


def _escapes(clause: OrderClause, rows: Sequence[Row]) -> bool:
    left = [row for row in rows if not clause.passes(row)]
    taken = [row for row in left if clause.start(row)]
    reached = {row.next for row in taken}
    while grown := {row.next for row in left if row.phase in reached} - reached:
        reached |= grown
    return any(clause.end(row) for row in (*taken, *(row for row in left if row.phase in reached)))
