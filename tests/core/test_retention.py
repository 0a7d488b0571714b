"""Retention: what is over goes after its time, a part at a time; what somebody may still need stays."""

from __future__ import annotations

import pytest

from perago_core import ledger
from perago_core.answers import Done, NotDone, Unknown
from perago_core.ledger import Movement, SettlementKind, records
from perago_core.ledger.retention import Collected, Retention, collect
from perago_core.values import Operation
from tests.core.ledger_world import MAIN, P1, A, CrashedError, Fault, World, done, empty_world, intent_of, run

SHORT = Retention(settled=1_000, audit=60_000)
K = SettlementKind


def past(
    *operations: str, kind: SettlementKind = K.ACCEPTED, operation: Operation = Operation.LOGICAL, ago: float = 2.0
) -> World:
    """Make a world in which these operations were settled so many seconds ago."""
    world = empty_world()
    for each in operations:
        settle(world, each, kind, operation)
    world.clock().sleep(ago)
    return world


def settle(world: World, operation_id: str, kind: SettlementKind, operation: Operation) -> None:
    intent = intent_of(operation_id=operation_id, operation=operation)
    done(run(ledger.arm(intent), world))
    done(run(ledger.settle(intent, kind, (Movement(MAIN, A, P1),), "worker-1", world.clock().wall()), world))


def test_settlement_and_maintenance_go_first_and_the_evidence_later() -> None:
    """R-04, R-18: the audit record stays longer, on purpose; in the end nothing of the operation is left."""
    world = past("op-1", operation=Operation.MAINTENANCE)
    assert len(world.entries) == 3
    assert done(run(collect(SHORT, limit=10), world)) == Collected(1, settlements=1, maintained=1)
    assert world.under("") == [records.audit_key("op-1")]
    world.clock().sleep(60)
    assert done(run(collect(SHORT, limit=10), world)) == Collected(1, audits=1)
    assert world.under("") == []


def test_what_is_young_stays() -> None:
    world = past("op-1", ago=0.5)
    before = world.entries
    found = done(run(collect(SHORT, limit=10), world))
    assert (found.looked_at, found.removed) == (1, 0)
    assert world.entries == before
    assert [call.method for call in world.calls[-2:]] == ["wall", "list"], "a young record costs no call of its own"


def test_for_ever_is_for_ever() -> None:
    world = past("op-1", ago=1e9)
    before = world.entries
    assert done(run(collect(Retention(settled=None, audit=None), limit=10), world)).removed == 0
    assert world.entries == before
    assert done(run(collect(Retention(settled=1, audit=None), limit=10), world)).settlements == 1
    assert world.under("") == [records.audit_key("op-1")]


def test_evidence_is_never_kept_for_less_than_what_it_is_evidence_of() -> None:
    for settled, audit in ((2, 1), (None, 1)):
        with pytest.raises(ValueError, match="raise audit or lower settled"):
            Retention(settled=settled, audit=audit)


@pytest.mark.parametrize("kind", [kind for kind in K if kind.is_kept_for_good])
def test_what_is_kept_for_good_is_never_collected(kind: SettlementKind) -> None:
    """An abandoned publication is still on the branch, and a lost result is an alarm, however old they are."""
    world = past("op-1", kind=kind, ago=1e9)
    before = world.entries
    assert done(run(collect(SHORT, limit=10), world)).removed == 0
    assert world.entries == before


@pytest.mark.parametrize("key", [records.intent_key("op-1"), records.open_key(MAIN, "op-1")])
def test_what_a_sweep_is_not_done_with_is_kept(key: str) -> None:
    """R-04, S-21: a settlement must stand as long as anybody finds the intent."""
    world = past("op-1", ago=1e9)
    world.put(key, "left by one who died while closing")
    before = world.entries
    assert done(run(collect(SHORT, limit=10), world)).removed == 0
    assert world.entries == before


def test_a_record_that_cannot_be_read_stays() -> None:
    """R-19: it may be a newer program's."""
    world = past(ago=1e9)
    world.put(records.audit_key("op-1"), '{"schema": 99}')
    assert done(run(collect(SHORT, limit=10), world)) == Collected(1)
    assert world.under("audit/") == [records.audit_key("op-1")]


def test_each_part_costs_no_more_than_its_limit_and_all_parts_are_the_whole() -> None:
    """S-38: a worker collects beside its work, so a part is bounded, whatever there is."""
    world = past(*(f"op-{number:02}" for number in range(7)), ago=1e9)
    total, parts = Collected(), 0
    while parts == 0 or total.after:
        world.calls.clear()
        total += done(run(collect(SHORT, after=total.after, limit=3), world))
        parts += 1
        assert len(world.calls) <= 2 + 3 * 6
    assert (parts, total) == (3, Collected(7, settlements=7, audits=7))
    assert world.under("") == []


def test_a_dry_run_counts_the_same_and_removes_nothing() -> None:
    world = past("op-1", "op-2", operation=Operation.MAINTENANCE, ago=1e9)
    world.put(records.open_key(MAIN, "op-2"), "still open")
    before = world.entries
    counted = done(run(collect(SHORT, limit=10, dry_run=True), world))
    assert world.entries == before
    assert counted == done(run(collect(SHORT, limit=10), world)) == Collected(2, settlements=1, maintained=1, audits=1)


def test_a_crash_or_silence_at_any_call_leaves_what_the_next_one_finishes() -> None:
    """CW-23: the record that the others are found by goes last."""
    calls = 8
    for at in range(1, calls):
        for fault in Fault:
            world = past("op-1", operation=Operation.MAINTENANCE, ago=1e9)
            if fault.crashes:
                with pytest.raises(CrashedError):
                    run(collect(SHORT, limit=10), world, fault, at)
            else:
                answer = run(collect(SHORT, limit=10), world, fault, at)
                assert isinstance(answer, NotDone if fault is Fault.REFUSAL else Unknown)
            assert isinstance(run(collect(SHORT, limit=10), world), Done)
            assert world.under("") == [], (at, fault)
    world = past("op-1", operation=Operation.MAINTENANCE, ago=1e9)
    world.calls.clear()
    done(run(collect(SHORT, limit=10), world))
    assert len(world.calls) == calls, "each call was struck"


def test_a_dry_run_that_is_not_answered_says_so() -> None:
    for at in range(1, 8):
        world = past("op-1", operation=Operation.MAINTENANCE, ago=1e9)
        assert isinstance(run(collect(SHORT, limit=10, dry_run=True), world, Fault.REFUSAL, at), NotDone)
