"""The ledger keeps what was intended, and never guesses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from perago_core import ledger
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Talk
from perago_core.ledger import (
    Intent,
    IntentState,
    Movement,
    Prepared,
    Settlement,
    SettlementKind,
    TargetIntent,
    records,
)
from perago_core.ledger.calls import TRIES, close, read_record, write_audit, write_prepared, write_settlement
from perago_core.ledger.records import Unreadable, decode, encode, pointer
from perago_core.ledger.records import audit_of as records_audit_of
from perago_core.ledger.retention import Collected, Retention, collect
from perago_core.machine import codec
from perago_core.names import escape, unescape
from perago_core.policy.state import decision_key
from perago_core.ports import Entry
from perago_core.values import Maintained, Operation, Target
from tests.core.ledger_world import (
    EU,
    FAR,
    MAIN,
    P1,
    A,
    CrashedError,
    Fault,
    World,
    audit_of,
    done,
    empty_world,
    intent_of,
    ref,
    run,
    settled_kind,
)

MOVED = (Movement(MAIN, A, P1),)
names = st.text(min_size=1).filter(str.strip)


def _settle(intent: Intent, kind: SettlementKind = SettlementKind.ACCEPTED) -> Talk[Settlement]:
    return ledger.settle(intent, kind, tuple(Movement(each.target, A, P1) for each in intent.targets), "worker-1", 9)


def _armed(
    *targets: Target,
    operation_id: str = "op-1",
    operation: Operation = Operation.LOGICAL,
) -> tuple[World, Intent]:
    world, intent = empty_world(), intent_of(*targets, operation_id=operation_id, operation=operation)
    done(run(ledger.arm(intent), world))
    world.calls.clear()
    return world, intent


# ---------------------------------------------------------------------------------------------------------------------
# Records


def test_a_record_is_read_back_as_it_was_written() -> None:
    """R-01, R-17: nothing of identity, plan or evidence is lost on the way."""
    intent = intent_of(MAIN, FAR)
    confirmed = evolve(
        intent,
        state=IntentState.CONFIRMED,
        targets=tuple(evolve(each, confirmed=P1) for each in intent.targets),
        lease_token=3,
        epoch=4,
    )
    settlement = Settlement("op-1", SettlementKind.SUPERSEDED, (Movement(MAIN, A), Movement(FAR, A, P1)))
    audit = records_audit_of(intent, settlement, "recoverer", 12)
    plan = Prepared("op-1", "recoverer", "lock 7", MOVED)
    for each in (intent, confirmed):
        assert decode(Intent, Entry(records.intent_key("op-1"), encode(each))) == each
    assert decode(Settlement, Entry(records.settled_key("op-1"), encode(settlement))) == settlement
    assert decode(ledger.Audit, Entry(records.audit_key("op-1"), encode(audit))) == audit
    assert decode(Prepared, Entry(records.prepared_key("op-1"), encode(plan))) == plan


def test_equal_records_give_equal_text() -> None:
    """T-W9: "is it ours" is a comparison of content."""
    assert encode(intent_of()) == encode(intent_of())
    assert encode(intent_of()) != encode(evolve(intent_of(), execution="e2"))


SPOILT: dict[str, Callable[[dict[str, Any]], Any]] = {
    "newer schema": lambda raw: {**raw, "schema": 2},
    "schema that only equals 1": lambda raw: {**raw, "schema": True},
    "no schema": lambda raw: {key: value for key, value in raw.items() if key != "schema"},
    "a field too many": lambda raw: {**raw, "surprise": 1},
    "a field too few": lambda raw: {key: value for key, value in raw.items() if key != "execution"},
    "wrong type": lambda raw: {**raw, "number": "1"},
    "unknown backing": lambda raw: {**raw, "backing": "wishful"},
    "targets not a list": lambda raw: {**raw, "targets": "main"},
    "no targets": lambda raw: {**raw, "targets": []},
    "confirmed without refs": lambda raw: {**raw, "state": "confirmed"},
    "under another's key": lambda raw: {**raw, "operation_id": "op-2"},
    "no object": lambda raw: [raw],
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_record_that_cannot_be_understood_is_refused_and_kept(spoil: Callable[[dict[str, Any]], Any]) -> None:
    """R-19: newer, malformed or misplaced; never guessed, never removed."""
    world, intent = _armed()
    key = records.intent_key("op-1")
    world.put(key, json.dumps(spoil(json.loads(encode(intent)))))
    before = world.entries
    answer = run(read_record(Intent, key), world)
    assert isinstance(done(answer), Unreadable)
    assert key in str(done(answer))
    assert world.entries == before


def test_text_that_is_no_record_is_refused() -> None:
    """R-19."""
    for text in ("", "{", "[" * 100_000, "null", "\x00"):
        assert isinstance(decode(Intent, Entry("intent/op-1", text)), Unreadable)


@pytest.mark.clause("R-14")
def test_an_intent_that_cannot_exist_is_not_made() -> None:
    """R-14 (empty set), T-O4: no targets, one target twice, half confirmed, half staged."""
    whole = intent_of(MAIN, FAR)
    with pytest.raises(ValueError, match="one or more different targets"):
        evolve(whole, targets=())
    with pytest.raises(ValueError, match="one or more different targets"):
        evolve(whole, targets=(whole.targets[0], whole.targets[0]))
    with pytest.raises(ValueError, match="all of them are confirmed or none is"):
        evolve(whole, state=IntentState.CONFIRMED, targets=(evolve(whole.targets[0], confirmed=P1), whole.targets[1]))
    with pytest.raises(ValueError, match="staged and tree together"):
        TargetIntent(MAIN, A, staged=ref("c1"))


# ---------------------------------------------------------------------------------------------------------------------
# Keys


@given(names, names, names, names)
def test_two_targets_never_share_a_prefix(repository: str, branch: str, other: str, another: str) -> None:
    """T-O8: whatever the names, what is listed for one target is not the other's."""
    one, two = Target(repository, branch), Target(other, another)
    same = records.open_prefix(two).startswith(records.open_prefix(one))
    assert same is (one == two)


@pytest.mark.clause("R-20")
@given(names, names, names)
def test_an_operation_id_is_read_back_from_its_pointer(repository: str, branch: str, operation_id: str) -> None:
    """R-20: the listing alone says which intents are open."""
    target = Target(repository, branch)
    assert records.operation_of(target, records.open_key(target, operation_id)) == operation_id
    assert unescape(escape(operation_id)) == operation_id


# ---------------------------------------------------------------------------------------------------------------------
# Arm


@pytest.mark.clause("T-O27")
def test_an_armed_intent_is_found_under_each_of_its_targets_and_no_other() -> None:
    """R-01, S-18, T-O8, T-O27."""
    world, intent = _armed(MAIN, FAR, operation_id="op/1 ü")
    assert done(run(ledger.list_open(MAIN), world)) == ("op/1 ü",)
    assert done(run(ledger.list_open(FAR), world)) == ("op/1 ü",)
    assert done(run(ledger.list_open(EU), world)) == ()
    assert done(run(read_record(Intent, records.intent_key("op/1 ü")), world)) == intent


def test_open_intents_are_listed_in_a_fixed_order() -> None:
    """R-20."""
    world = empty_world()
    for operation_id in ("op-3", "op-1", "op-2"):
        done(run(ledger.arm(intent_of(operation_id=operation_id)), world))
    assert done(run(ledger.list_open(MAIN), world)) == ("op-1", "op-2", "op-3")


@pytest.mark.clause("T-O24")
@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST])
@pytest.mark.parametrize("at", range(3))
def test_arming_survives_a_lost_answer(fault: Fault, at: int) -> None:
    """T-O24: sending again is harmless, and finds what the first request did."""
    world = empty_world()
    assert run(ledger.arm(intent_of(MAIN, FAR)), world, fault, at) == Done(intent_of(MAIN, FAR))
    assert len(world.entries) == 3


def test_a_call_without_answer_is_sent_three_times_and_no_more() -> None:
    """K-15: the budget is a constant."""
    world = empty_world()
    world.always["coordination", "create_if_absent"] = Unknown("silence")
    assert run(ledger.arm(intent_of()), world) == Unknown("silence")
    assert len(world.calls) == TRIES == 3


def test_a_refused_arm_stops_at_once() -> None:
    """R-01: whoever cannot write the intent must not have the effect."""
    for at in range(3):
        assert isinstance(run(ledger.arm(intent_of(MAIN, FAR)), empty_world(), Fault.REFUSAL, at), NotDone)


def test_a_record_or_pointer_that_stands_and_differs_is_not_ours() -> None:
    """T-W9: existence is not success."""
    for key, value in (
        (records.intent_key("op-1"), encode(evolve(intent_of(), execution="e2"))),
        (records.open_key(MAIN, "op-1"), pointer("op-2")),
    ):
        world = empty_world()
        world.put(key, value)
        assert isinstance(run(ledger.arm(intent_of()), world), NotDone)
        assert world.entries[key] == value


def test_only_an_armed_intent_is_armed() -> None:
    """S-21."""
    intent = intent_of()
    confirmed = evolve(intent, state=IntentState.CONFIRMED, targets=(evolve(intent.targets[0], confirmed=P1),))
    with pytest.raises(ValueError, match="is confirmed"):
        run(ledger.arm(confirmed), empty_world())


# ---------------------------------------------------------------------------------------------------------------------
# Confirm


@pytest.mark.parametrize("fault", [None, Fault.LOST_ANSWER, Fault.LOST_REQUEST])
def test_a_confirmed_intent_carries_every_published_ref(fault: Fault | None) -> None:
    """D-7, T-O24: also when the answer to the swap is lost and its repetition is answered with no."""
    world, intent = _armed(MAIN, FAR)
    answer = run(ledger.confirm(intent, {MAIN: P1, FAR: ref("p2")}), world, fault, 0)
    confirmed = done(answer)
    assert confirmed.state is IntentState.CONFIRMED
    assert [each.confirmed for each in confirmed.targets] == [P1, ref("p2")]
    assert done(run(read_record(Intent, records.intent_key("op-1")), world)) == confirmed


@pytest.mark.clause("T-O4")
def test_a_partly_published_intent_is_never_confirmed() -> None:
    """T-O4: the full list of targets or nothing; and only once."""
    world, intent = _armed(MAIN, FAR)
    for published in ({MAIN: P1}, {MAIN: P1, EU: P1}, {}):
        with pytest.raises(ValueError, match="one ref for each of its targets"):
            run(ledger.confirm(intent, published), world)
    confirmed = done(run(ledger.confirm(intent, {MAIN: P1, FAR: P1}), world))
    with pytest.raises(ValueError, match="an armed intent"):
        run(ledger.confirm(confirmed, {MAIN: P1, FAR: P1}), world)


def test_a_settled_intent_is_never_confirmed() -> None:
    """S-21: armed, confirmed, settled, and never back."""
    world, intent = _armed()
    done(run(_settle(intent, SettlementKind.NOT_PUBLISHED), world))
    before = world.entries
    assert isinstance(run(ledger.confirm(intent, {MAIN: P1}), world), NotDone)
    assert world.entries == before


def test_an_unanswered_confirmation_is_unknown() -> None:
    """T-O24: neither the swap nor reading back may be silent."""
    world, intent = _armed()
    world.always["coordination", "swap"] = Unknown("silence")
    assert isinstance(run(ledger.confirm(intent, {MAIN: P1}), world), Unknown)
    world.always = {("coordination", "swap"): Done(value=False), ("coordination", "get"): Unknown("silence")}
    assert isinstance(run(ledger.confirm(intent, {MAIN: P1}), world), Unknown)


# ---------------------------------------------------------------------------------------------------------------------
# Settle


def test_settling_writes_settlement_then_audit_then_closes() -> None:
    """R-04, R-17, S-21."""
    world, intent = _armed(MAIN, FAR)
    stands = done(run(_settle(intent), world))
    assert stands == Settlement("op-1", SettlementKind.ACCEPTED, (Movement(MAIN, A, P1), Movement(FAR, A, P1)))
    assert [call.args[0].split("/")[0] for call in world.calls] == ["settled", "audit", "intent", "open", "open"]
    assert world.under("open/") == world.under("intent/") == []
    audit = audit_of(world)
    assert (audit.kind, audit.actor, audit.original_actor, audit.at) == (stands.kind, "worker-1", "worker-1", 9)
    assert (audit.workflow_id, audit.task_id, audit.number, audit.execution) == ("w", "t1", 1, "e1")
    assert audit.movements == stands.movements


@pytest.mark.clause("S-21", "T-O6")
def test_the_first_settlement_stands() -> None:
    """S-21, T-O6: losing the race is success, and the kind is the winner's."""
    world, intent = _armed()
    done(run(write_settlement(Settlement("op-1", SettlementKind.ABANDONED, MOVED)), world))
    assert done(run(_settle(intent), world)).kind is SettlementKind.ABANDONED
    assert settled_kind(world) is SettlementKind.ABANDONED
    assert world.under("open/") == []


def test_settling_twice_changes_nothing() -> None:
    """S-21: exactly one audit record, the first."""
    world, intent = _armed()
    done(run(_settle(intent), world))
    before = world.entries
    done(run(ledger.settle(intent, SettlementKind.NOT_PUBLISHED, MOVED, "somebody else", 99), world))
    assert world.entries == before


def test_settling_an_intent_whose_confirmation_nobody_heard_of_still_closes_it() -> None:
    """S-21: the record is confirmed, the owner only knows it as armed."""
    world, intent = _armed()
    run(ledger.confirm(intent, {MAIN: P1}), world)
    done(run(_settle(intent), world))
    assert world.under("intent/") == world.under("open/") == []


def test_failing_to_close_does_not_undo_a_settlement() -> None:
    """R-04: the owner's settlement counts; the next sweep closes."""
    world, intent = _armed()
    world.always["coordination", "swap"] = NotDone("no")
    assert done(run(_settle(intent), world)).kind is SettlementKind.ACCEPTED
    assert world.under("open/") == [records.open_key(MAIN, "op-1")]


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST])
@pytest.mark.parametrize("at", range(5))
def test_settling_survives_a_lost_answer_anywhere(fault: Fault, at: int) -> None:
    """T-O24, T-O28."""
    world, intent = _armed(MAIN, FAR)
    done(run(_settle(intent), world, fault, at))
    assert settled_kind(world) is SettlementKind.ACCEPTED
    assert world.under("open/") == world.under("intent/") == []
    assert len(world.under("audit/")) == 1


@pytest.mark.parametrize("at", range(2))
def test_a_settlement_or_audit_that_is_not_taken_leaves_the_intent_open(at: int) -> None:
    """CW-23: nothing is closed before both stand."""
    for fault in (Fault.REFUSAL, Fault.LOST_REQUEST):
        world, intent = _armed()
        answer = run(_settle(intent), world, fault, at, times=TRIES)
        assert isinstance(answer, NotDone if fault is Fault.REFUSAL else Unknown)
        assert world.under("open/") == [records.open_key(MAIN, "op-1")]


@pytest.mark.clause("S-20")
def test_a_settlement_names_every_target() -> None:
    """S-20."""
    world, intent = _armed(MAIN, FAR)
    with pytest.raises(ValueError, match="one movement for each"):
        run(ledger.settle(intent, SettlementKind.ACCEPTED, MOVED, "worker-1", 9), world)


def test_a_settlement_or_audit_that_cannot_be_read_is_refused_and_kept() -> None:
    """R-19."""
    for key in (records.settled_key("op-1"), records.audit_key("op-1")):
        world, intent = _armed()
        world.put(key, '{"schema": 2}')
        answer = run(_settle(intent), world)
        assert isinstance(answer, NotDone)
        assert world.entries[key] == '{"schema": 2}'
        assert world.under("open/")


@pytest.mark.clause("R-17")
def test_an_audit_that_contradicts_the_settlement_is_refused() -> None:
    """R-17, T-W9: an audit record of another kind is nobody's success."""
    world, intent = _armed()
    other = Settlement("op-1", SettlementKind.SUPERSEDED, MOVED)
    done(run(write_audit(intent, other, "somebody", 1), world))
    assert isinstance(run(_settle(intent), world), NotDone)
    assert world.under("open/")


def test_the_plan_that_stands_is_the_first() -> None:
    """CW-29: a second recoverer follows the plan that was written before anything moved."""
    world = empty_world()
    first = Prepared("op-1", "one", "lock 1", MOVED)
    done(run(write_prepared(first), world))
    assert done(run(write_prepared(evolve(first, actor="two")), world)) == first


def test_closing_keeps_what_it_does_not_know() -> None:
    """R-19: a record, a pointer that another program wrote stays."""
    for key in (records.intent_key("op-1"), records.open_key(MAIN, "op-1")):
        world, intent = _armed()
        world.put(key, '{"schema": 2}')
        answer = run(close(Settlement("op-1", SettlementKind.ACCEPTED, MOVED), intent), world)
        assert isinstance(answer, NotDone)
        assert world.entries[key] == '{"schema": 2}'


@pytest.mark.clause("L-07")
def test_closing_a_record_that_never_stands_still_gives_up() -> None:
    """L-07: bounded, also against a record that changes each time it is looked at."""
    world, intent = _armed()
    world.always["coordination", "swap"] = Done(value=False)
    answer = run(close(Settlement("op-1", SettlementKind.ACCEPTED, MOVED), intent), world)
    assert isinstance(answer, NotDone)
    assert world.under("intent/")


def test_closing_takes_the_plan_along() -> None:
    """CW-29: nothing of a recovered intent is left but its evidence."""
    settlement = Settlement("op-1", SettlementKind.ROLLED_BACK, MOVED)
    world, intent = _armed()
    done(run(write_prepared(Prepared("op-1", "one", "lock 1", MOVED)), world))
    done(run(close(settlement, intent, planned=True), world))
    assert world.entries == {}
    world.always["coordination", "get"] = Unknown("silence")
    assert isinstance(run(close(settlement, None, planned=True), world), Unknown)


def test_an_unanswered_closing_is_unknown() -> None:
    """R-04."""
    for intent in (intent_of(), None):
        world = empty_world()
        world.always["coordination", "swap"] = Unknown("silence")
        answer: Answer[None] = run(close(Settlement("op-1", SettlementKind.ACCEPTED, MOVED), intent), world)
        assert isinstance(answer, Unknown)


# ---------------------------------------------------------------------------------------------------------------------
# Maintenance and epoch


@pytest.mark.clause("H-15")
def test_only_accepted_maintenance_is_written_down() -> None:
    """H-15, H-16: what a later writer may rebase over."""
    for operation in Operation:
        for kind in SettlementKind:
            world, intent = _armed(operation=operation)
            done(run(_settle(intent, kind), world))
            expected = (Maintained(A, P1),) if operation is Operation.MAINTENANCE and kind.accepts else ()
            assert done(run(ledger.maintained(MAIN, A), world)) == expected
            assert done(run(ledger.maintained(MAIN, P1), world)) == ()
            assert done(run(ledger.maintained(EU, A), world)) == ()


@pytest.mark.clause("H-16")
def test_maintenance_is_followed_from_a_commit_on_and_no_further_than_the_limit() -> None:
    """H-15, H-16: the chain to the head; what is older is not read; a circle ends; past the limit nothing is proven."""
    world, _ = _armed()
    chain = [ref(f"m{number}") for number in range(ledger.MAINTAINED_LIMIT + 9)]
    for record in (*map(Maintained, chain, chain[1:]), Maintained(chain[3], chain[0])):
        world.put(records.maintained_key(MAIN, record), encode(record))
    from_the_third = done(run(ledger.maintained(MAIN, chain[2]), world))
    assert from_the_third[0] == Maintained(chain[2], chain[3])
    assert Maintained(chain[0], chain[1]) in from_the_third
    assert len({each.parent for each in from_the_third}) == ledger.MAINTAINED_LIMIT
    near_the_end = done(run(ledger.maintained(MAIN, chain[-3]), world))
    assert near_the_end == (Maintained(chain[-3], chain[-2]), Maintained(chain[-2], chain[-1]))


@pytest.mark.clause("H-12")
def test_maintenance_begins_from_where_earlier_maintenance_has_led() -> None:
    """H-12, T-O6: the loser of a race goes on from the winner; where the way parts or turns back it ends."""
    world, _ = _armed()
    m1, m2, m3, other = (ref(name) for name in ("m1", "m2", "m3", "other"))
    newest = ledger.newest_maintained(MAIN, A)
    assert done(run(newest, world)) == A
    for record in (Maintained(A, m1), Maintained(m1, m2)):
        world.put(records.maintained_key(MAIN, record), encode(record))
    assert done(run(ledger.newest_maintained(MAIN, A), world)) == m2
    for record in (Maintained(m2, m3), Maintained(m2, other)):
        world.put(records.maintained_key(MAIN, record), encode(record))
    assert done(run(ledger.newest_maintained(MAIN, A), world)) == m2
    world.put(records.maintained_key(MAIN, Maintained(m2, other)), None)
    world.put(records.maintained_key(MAIN, Maintained(m3, A)), encode(Maintained(m3, A)))
    assert done(run(ledger.newest_maintained(MAIN, A), world)) == A, "a circle proves nothing"
    assert isinstance(run(ledger.newest_maintained(MAIN, A), world, Fault.REFUSAL, 0), NotDone)


def test_a_maintenance_without_effect_is_not_written_down() -> None:
    """S-12: nothing to rebase over."""
    for movement in (Movement(MAIN, A, A), Movement(MAIN, A)):
        world, intent = _armed(operation=Operation.MAINTENANCE)
        done(run(ledger.settle(intent, SettlementKind.ACCEPTED, (movement,), "worker-1", 9), world))
        assert world.under("maintained/") == []


def test_maintenance_is_written_down_before_the_audit() -> None:
    """CW-23: a crash at any call leaves either the record or an intent that will be finished."""
    for at in range(5):
        world, intent = _armed(operation=Operation.MAINTENANCE)
        with pytest.raises(CrashedError):
            run(_settle(intent), world, Fault.CRASH_AFTER, at)
        assert bool(world.under("audit/")) <= bool(world.under("maintained/"))


def test_maintenance_that_cannot_be_written_or_read_refuses() -> None:
    """R-19."""
    key = records.maintained_key(MAIN, Maintained(A, P1))
    for text in ('{"schema": 2}', encode(Maintained(A, ref("p2")))):
        world, intent = _armed(operation=Operation.MAINTENANCE)
        world.put(key, text)
        assert isinstance(run(_settle(intent), world), NotDone)
        assert isinstance(run(ledger.maintained(MAIN, A), world), NotDone)
        assert world.entries[key] == text


def test_every_intent_is_listed_whether_a_target_points_to_it_or_not() -> None:
    """S-21: who died between record and pointer left what no sweep finds; a record of a newer program refuses all."""
    world, first = _armed()
    stray = intent_of(operation_id="op-2")
    with pytest.raises(CrashedError):
        run(ledger.arm(stray), world, Fault.CRASH_AFTER, 0)
    assert done(run(ledger.list_open(MAIN), world)) == ("op-1",)
    assert done(run(ledger.list_intents(), world)) == (first, stray)
    done(run(ledger.forget(stray), world))
    assert done(run(ledger.list_intents(), world)) == (first,)
    world.put(records.intent_key("op-3"), '{"schema": 2}')
    assert isinstance(run(ledger.list_intents(), world), NotDone)


def test_the_epoch_is_the_highest_decision() -> None:
    """S-26, S-27: read from the keys the policy machine writes."""
    world = empty_world()
    assert done(run(ledger.read_epoch(), world)) == 0
    for epoch in (2, 10, 9):
        world.put(decision_key(epoch), "whatever")
    assert done(run(ledger.read_epoch(), world)) == 10
    world.put("decision/next", "a newer program's")
    assert isinstance(run(ledger.read_epoch(), world), NotDone)


def test_a_ledger_that_cannot_be_listed_shows_nothing() -> None:
    """D-2: silence is not emptiness."""
    for answer in (NotDone("no"), Unknown("silence")):
        world, _ = _armed()
        world.always["coordination", "list"] = answer
        reads = (ledger.list_open(MAIN), ledger.list_intents(), ledger.read_epoch(), ledger.maintained(MAIN, A))
        assert [run(conversation, world) for conversation in reads] == [answer] * 4


def test_reading_a_record_is_done_refused_or_unknown() -> None:
    """T-O10: only "not found" is benign."""
    world, _ = _armed()
    assert done(run(read_record(Intent, "intent/nobody"), world)) is None
    world.always["coordination", "get"] = Unknown("silence")
    assert isinstance(run(read_record(Intent, records.intent_key("op-1")), world), Unknown)


def test_listing_costs_the_same_with_any_number_of_settled_intents() -> None:
    """S-38: what is settled has left the listed prefix."""
    world = empty_world()
    for number in range(50):
        intent = intent_of(operation_id=f"op-{number}")
        done(run(ledger.arm(intent), world))
        done(run(_settle(intent), world))
    world.calls.clear()
    assert done(run(ledger.list_open(MAIN), world)) == ()
    assert len(world.calls) == 1
    assert len(world.under("settled/")) == len(world.under("audit/")) == 50


@pytest.mark.clause("H-05")
def test_every_call_of_the_ledger_is_charged_to_the_ledger() -> None:
    """H-05."""
    world, intent = _armed()
    run(_settle(intent), world)
    assert {call.charge for call in world.calls} == {"ledger"}


def test_intents_survive_the_general_codec() -> None:
    """The records are ordinary values of the core."""
    assert codec.loads(codec.dumps(intent_of()), Intent) == intent_of()


# ---- Retention: what is over goes after its time, a part at a time; what somebody may still need stays.


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
