"""Recovery finds out what became of an intent nobody finished. It invents no success and loses no evidence."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import count, product
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

import perago_core.ledger
import perago_core.recovery
from perago_core import fence, ledger
from perago_core.answers import Done, NotDone, Unknown
from perago_core.attempt import messages as m
from perago_core.attempt.run import PERFORM, Execution
from perago_core.calls import Call
from perago_core.errors import ProtocolError
from perago_core.ledger import Intent, IntentState, Movement, Prepared, Settlement, SettlementKind, records
from perago_core.ledger.calls import TRIES, write_settlement
from perago_core.ledger.records import pointer
from perago_core.machine import codec
from perago_core.machine.rows import Command, State
from perago_core.names import attempt_number, staging_name
from perago_core.recovery import (
    RECOVERY,
    WALK_LIMIT,
    Class,
    Ending,
    Mode,
    Recovery,
    RecoveryOutcome,
    RecoveryState,
    Swept,
    Word,
    outcome,
    perform,
    recover,
    start,
    sweep,
)
from perago_core.recovery.classify import AUTHORITIES, MOVEMENTS, Trail, authority, classify, next_look
from perago_core.revocation import revoke
from perago_core.values import Backing, Head, Maintained, OnAbandoned, Operation, Target, TaskStatus
from tests.core.attempts import make_attempt
from tests.core.ledger_world import (
    DEAD,
    EU,
    FAR,
    HEADS,
    MAIN,
    P1,
    ROOT,
    TASKS,
    A,
    CrashedError,
    Fault,
    Paused,
    World,
    audit_of,
    claim_like,
    done,
    empty_world,
    intent_of,
    ref,
    run,
    scene,
    settled_kind,
    task,
)

K = SettlementKind
GROUNDS = "lock 7"
_NONCES = count()


def _sweep(
    world: World, mode: Mode = Mode.SETTLE_ONLY, fault: Fault | None = None, at: int = -1, times: int = 1
) -> Swept:
    grounds = "" if mode in {Mode.PROBE, Mode.SETTLE_ONLY} else GROUNDS
    return done(run(sweep(MAIN, mode, "recoverer", grounds, _nonce()), world, fault, at, times=times))


def _nonce() -> str:
    """What no other sweep has: the clock of these worlds stands still."""
    return str(next(_NONCES))


def _sweep_all(world: World, intent: Intent, mode: Mode = Mode.SETTLE_ONLY) -> None:
    """What the workers of all its targets do when they start."""
    for each in intent.targets:
        done(run(sweep(each.target, mode, "another", GROUNDS, _nonce()), world))


def _one(world: World, mode: Mode = Mode.SETTLE_ONLY) -> RecoveryOutcome:
    (found,) = _sweep(world, mode).outcomes
    return found


def _assert_recovered(world: World, intent: Intent, kind: SettlementKind) -> None:
    """R-31: the one shared oracle. Nothing open, one audit of the right kind, nothing else moved, all of it stable."""
    assert settled_kind(world) is kind
    assert world.under("open/") == world.under("intent/") == world.under("prepared/") == []
    assert world.under("audit/") == [records.audit_key("op-1")]
    audit = audit_of(world)
    assert audit.original_actor == intent.actor
    assert [each.target for each in audit.movements] == [each.target for each in intent.targets]
    heads = world.heads()
    untouched = {MAIN, EU, FAR} - {each.target for each in intent.targets}
    assert all(heads[target] == A for target in untouched)
    before = world.entries
    world.calls.clear()
    again = _sweep(world, Mode.EXCLUSIVE)
    assert (again.outcomes, again.unresolved, world.writes()) == ((), (), [])
    assert (world.entries, world.heads()) == (before, heads)
    done(run(ledger.arm(intent_of(operation_id="op-2")), world))


# ---------------------------------------------------------------------------------------------------------------------
# The classifier


def _trail(world: World, head: str) -> Trail:
    commits = [world.commits[ref(head)]]
    target = intent_of().targets[0]
    while (look := next_look(target, commits[-1])) is not None and look in world.commits:
        commits.append(world.commits[look])
    return Trail(Head(commits[0]), tuple(commits), whole=next_look(target, commits[-1]) is None)


@pytest.mark.clause("R-08", "R-09", "R-10", "R-11")
@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("a0", Class.NO_MOVEMENT),
        ("p1", Class.ROLLED_PAST_EXPECTED),
        ("x1", Class.UNEXPECTED_AT_P1),
        ("m1", Class.UNEXPECTED_AT_P1),
        ("x2", Class.UNEXPECTED_MULTISTEP),
        ("root", Class.INVARIANT_VIOLATION),
        ("n1", Class.OWN_BEFORE_HEAD),
        ("u2", Class.UNVERIFIABLE),
    ],
)
def test_every_head_has_its_class(head: str, expected: Class) -> None:
    """R-08..R-12, K-09: also a head with our tree and two parents, which is not ours."""
    assert classify(intent_of().targets[0], _trail(empty_world(), head)).kind is expected


@pytest.mark.clause("R-12")
def test_a_missing_branch_is_a_violation() -> None:
    """R-12."""
    assert classify(intent_of().targets[0], Trail(None)).kind is Class.INVARIANT_VIOLATION


def test_once_confirmed_only_the_ref_counts() -> None:
    """T-O1, D-7: an equal tree on the same parent is a later attempt's."""
    world = empty_world()
    world.commit("p2", "a0", tree="t1")
    confirmed = evolve(intent_of().targets[0], confirmed=P1)
    assert classify(confirmed, _trail(world, "p1")).kind is Class.ROLLED_PAST_EXPECTED
    assert classify(confirmed, _trail(world, "p2")).kind is Class.UNEXPECTED_AT_P1
    assert classify(confirmed, _trail(world, "n1")).kind is Class.OWN_BEFORE_HEAD


@pytest.mark.clause("S-19")
def test_what_the_authority_accepted_must_be_what_is_there() -> None:
    """S-19: a look-alike is not the accepted commit; the accepted one is ours, whatever we staged: we adopted it."""
    world = empty_world()
    world.commit("p2", "a0", tree="t1")
    target = intent_of().targets[0]
    assert classify(target, _trail(world, "p1"), P1).kind is Class.ROLLED_PAST_EXPECTED
    assert classify(target, _trail(world, "p2"), P1).kind is Class.UNEXPECTED_AT_P1
    assert classify(target, _trail(world, "x1"), ref("x1")).kind is Class.ROLLED_PAST_EXPECTED
    assert classify(target, _trail(world, "x2"), ref("x1")).kind is Class.OWN_BEFORE_HEAD
    assert classify(target, _trail(world, "p1")).kind is Class.ROLLED_PAST_EXPECTED


@given(
    st.sampled_from([*sorted(HEADS.values()), "m1", "x2"]),
    st.text(),
    st.lists(st.tuples(st.text(), st.text())),
    st.booleans(),
)
def test_messages_and_metadata_decide_nothing(
    head: str, message: str, metadata: list[tuple[str, str]], noop: bool
) -> None:
    """P-13, T-O1, D-4."""
    trail = _trail(empty_world(), head)
    scrambled = tuple(evolve(each, message=message, metadata=tuple(metadata)) for each in trail.commits)
    target = intent_of(noop=noop).targets[0]
    other = Trail(Head(scrambled[0]), scrambled, trail.whole)
    assert classify(target, trail).kind is classify(target, other).kind


def test_the_walk_is_bounded() -> None:
    """2.9: a longer way than the limit is unverifiable, and costs no more than the limit."""
    for length, expected, kind in (
        (WALK_LIMIT, Ending.SETTLED, Class.UNEXPECTED_MULTISTEP),
        (WALK_LIMIT + 1, Ending.REFUSED, Class.UNVERIFIABLE),
    ):
        world, _ = scene("dead", "none")
        previous = "a0"
        for number in range(length):
            previous = world.commit(f"long{number}", previous)
        world.point(MAIN, previous)
        found = _one(world)
        assert (found.ending, found.classes) == (expected, ((MAIN, kind),))
        looks = [call for call in world.calls if call.method == "look"]
        assert len(looks) == WALK_LIMIT - 1


def test_the_near_is_seen_without_reading_history() -> None:
    """P-14: head at the input or one step past it needs one read."""
    for movement in ("none", "ours", "unexpected"):
        world, _ = scene("dead", movement)
        _sweep(world)
        looks = [call.method for call in world.calls if call.port == "store"]
        assert looks == ["staging_names", "barrier", "claims", "head"]


# ---------------------------------------------------------------------------------------------------------------------
# The authority


@pytest.mark.parametrize("status", TaskStatus)
def test_the_authority_speaks_of_this_execution(status: TaskStatus) -> None:
    """S-22, S-19, T-O9: open is running, whichever delivery; completed is ours only with our execution id."""
    intent = intent_of()
    expected = "running" if status.is_open else "dead" if status in DEAD else "other"
    assert authority(intent, task(status)) == expected
    assert authority(intent, task(status, retry_count=4, poll_count=9)) == expected
    ours = authority(intent, task(status, result_execution="e1"))
    assert ours == ("ours" if status is TaskStatus.COMPLETED else expected)


def test_an_authority_that_contradicts_the_intent_is_not_believed() -> None:
    """S-19."""
    intent = intent_of()
    confirmed = evolve(intent, state=IntentState.CONFIRMED, targets=(evolve(intent.targets[0], confirmed=P1),))
    assert authority(confirmed, TASKS["ours"]) == "ours"
    assert authority(confirmed, evolve(TASKS["ours"], result_ref=None)) == "ours"
    assert authority(confirmed, evolve(TASKS["ours"], result_ref=ref("x1"))) == "unknown"
    assert authority(intent, TASKS["unknown"]) == "unknown"
    assert authority(intent, None) == "gone"


# ---------------------------------------------------------------------------------------------------------------------
# The decision, completely


def _decision(says: str, movement: str, mode: Mode, *, confirmed: bool) -> SettlementKind | Ending:
    """The decision table, written a second time, by hand. The workflow of the dead task still runs."""
    if mode is Mode.PROBE:
        return Ending.PROBED
    if says == "running":
        return Ending.DEFERRED
    if says == "gone" and not confirmed and movement in {"none", "unexpected"}:
        return K.NOT_PUBLISHED if movement == "none" else K.SUPERSEDED
    if says in {"gone", "unknown"}:
        return Ending.REFUSED
    if says == "other":
        return K.SUPPRESSED
    if movement == "unverifiable":
        return Ending.REFUSED
    if says == "ours":
        return K.ROLLED_FORWARD if movement in {"ours", "buried"} else K.ACCEPTED_LOST
    if movement == "violated":
        return Ending.REFUSED
    if movement == "ours":
        return {Mode.EXCLUSIVE: K.ROLLED_BACK, Mode.KEEP: K.ABANDONED}.get(mode, Ending.STANDING)
    return K.NOT_PUBLISHED if movement == "none" else K.SUPERSEDED


@pytest.mark.clause("S-22", "R-13")
@pytest.mark.parametrize("confirmed", [False, True])
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("says", "movement"), list(product(AUTHORITIES, HEADS)))
def test_the_decision_table_holds_for_every_combination(
    says: str, movement: str, mode: Mode, *, confirmed: bool
) -> None:
    """R-13, R-14, S-21, S-22, K-01, K-02, D-6, T-O3, T-O9: authority x movement x mode, armed and confirmed."""
    world, intent = scene(says, movement, confirmed=confirmed)
    heads, entries = world.heads(), world.entries
    found = _one(world, mode)
    expected = _decision(says, movement, mode, confirmed=confirmed)
    assert (found.authority, found.movement) == (says, movement)
    assert found.next_action
    lost = says == "ours" and movement in {"none", "partial", "unexpected", "violated"}
    assert found.alarm is lost, "also when it only looked"
    assert ("accepted this result and it is not on the branch" in found.reason) is lost
    stands = says in {"dead", "gone"} and movement == "ours" and not isinstance(expected, SettlementKind)
    assert found.unaccepted == (P1 if stands else None), "also when it only looked"
    assert ("is at p1, which nobody accepted" in found.reason) is (stands and found.ending is not Ending.REFUSED)
    if isinstance(expected, Ending):
        assert (found.ending, found.audit) == (expected, None)
        assert (world.entries, world.heads(), world.writes()) == (entries, heads, [])
        return
    assert (found.ending, found.audit) == (Ending.SETTLED, expected)
    assert world.heads() == ({**heads, MAIN: A} if expected is K.ROLLED_BACK else heads)
    _assert_recovered(world, intent, expected)


# ---------------------------------------------------------------------------------------------------------------------
# Before anything is written about a publication nobody will finish


def _named(world: World, task_id: str = "t1", execution: str = "e1", logical: str = "w/step", number: int = 1) -> str:
    """Make the staging name of an attempt."""
    name = staging_name(MAIN, logical, number, 0, task_id, execution)
    done(world.store().open_staging(MAIN, name, A))
    return name


@pytest.mark.clause("S-19")
@pytest.mark.parametrize("says", ["dead", "gone"])
def test_what_was_sent_by_name_cannot_land_after_it_was_settled_as_not_published(says: str) -> None:
    """Counterexample to settling at once: the merge is on its way, the head is where it was."""
    world, intent = scene(says, "none")
    name = _named(world)
    late = fence.compensate(MAIN, A, Head(world.commits[P1]), name)
    assert _one(world).audit is K.NOT_PUBLISHED
    methods = [call.method for call in world.calls if call.port == "store"]
    assert methods == ["staging_names", "drop", "barrier", "claims", "head"]
    assert world.names == set()
    world.point(MAIN, "p1")
    assert isinstance(world.store().publish(late), NotDone), "whatever acts by that name is refused"
    world.point(MAIN, "a0")
    _assert_recovered(world, intent, K.NOT_PUBLISHED)


@pytest.mark.clause("S-19")
@pytest.mark.parametrize("method", ["staging_names", "drop", "barrier"])
@pytest.mark.parametrize("answer", [NotDone("no"), Unknown("silence")])
def test_what_may_still_land_is_not_settled_as_not_published(method: str, answer: NotDone | Unknown) -> None:
    world, intent = scene("dead", "none")
    _named(world)
    world.always["store", method] = answer
    found = _one(world)
    assert (found.ending, settled_kind(world)) == (Ending.DEFERRED, None)
    assert answer.reason in found.reason
    del world.always["store", method]
    assert _one(world).audit is K.NOT_PUBLISHED
    _assert_recovered(world, intent, K.NOT_PUBLISHED)


def test_a_dirty_target_has_no_barrier_and_its_intents_wait_for_one() -> None:
    """Following the advice helps: without the uncommitted objects the next sweep settles."""
    for says in ("dead", "gone"):
        world, _ = scene(says, "none")
        world.point(MAIN, "a0", dirty=True)
        found = _one(world)
        assert (found.ending, "Commit or discard" in found.next_action) == (Ending.DEFERRED, True)
        world.store().repositories["repo"].branches["main"].uncommitted.clear()
        assert _one(world).audit is K.NOT_PUBLISHED


def test_a_sweep_leaves_the_names_of_open_tasks_alone() -> None:
    world, _ = scene("dead", "none")
    world.tasks["w2", "t9"] = task(TaskStatus.IN_PROGRESS, workflow_id="w2", task_id="t9")
    theirs = _named(world, "t9", "e9", "w2/step")
    assert _one(world).audit is K.NOT_PUBLISHED
    assert world.names == {Target("repo", theirs)}


# ---------------------------------------------------------------------------------------------------------------------
# A commit nobody accepted stays open until somebody has decided


@pytest.mark.parametrize("confirmed", [False, True])
def test_an_unaccepted_head_stays_open_until_it_is_taken_back_or_kept(*, confirmed: bool) -> None:
    """Counterexample: a starting worker settled it as abandoned, and no recovery found it any more."""
    for mode, kind in ((Mode.EXCLUSIVE, K.ROLLED_BACK), (Mode.KEEP, K.ABANDONED)):
        world, intent = scene("dead", "ours", confirmed=confirmed)
        for _ in range(3):
            swept = _sweep(world)
            (found,) = swept.unaccepted
            assert found.ending is Ending.STANDING
            assert f"`perago recover {MAIN} --operation op-1 --roll-back`" in found.next_action
            assert swept.unresolved == (), "a later attempt of its task replaces it"
        assert _one(world, mode).audit is kind
        _assert_recovered(world, intent, kind)


def test_what_a_failed_workflow_left_is_taken_back_and_what_a_running_one_left_is_not() -> None:
    world, intent = scene("dead", "ours")
    assert _one(world, Mode.ROLL_BACK_FAILED).ending is Ending.STANDING
    world.tasks["w", "t1"] = evolve(TASKS["dead"], workflow_running=False)
    assert _one(world, Mode.ROLL_BACK_FAILED).audit is K.ROLLED_BACK
    _assert_recovered(world, intent, K.ROLLED_BACK)


def test_an_unaccepted_head_that_was_replaced_is_superseded() -> None:
    """Also by an attempt with the same tree, which only its claim tells from the dead one's."""
    world, intent = scene("dead", "ours")
    assert _one(world).ending is Ending.STANDING
    world.commit("p2", "a0", tree="t1")
    world.point(MAIN, "p2")
    world.store().claim(claim_like(intent, task_id="t2", number=2, execution="e2"))
    world.tasks["w", "t2"] = task(TaskStatus.IN_PROGRESS, task_id="t2")
    found = _one(world)
    assert (found.ending, found.unaccepted) == (Ending.STANDING, None), "it may be about to be accepted"
    world.tasks["w", "t2"] = task(TaskStatus.COMPLETED, task_id="t2", result_execution="e2", result_ref=ref("p2"))
    assert _one(world).audit is K.SUPERSEDED
    _assert_recovered(world, intent, K.SUPERSEDED)


@pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.ROLL_BACK_FAILED])
@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED])
def test_nothing_is_taken_back_while_somebody_publishes(mode: Mode, backing: Backing) -> None:
    """No lock, and nobody's word: whoever publishes has a name, and we look for it with our own in place."""
    world, intent = scene("dead", "ours", intent=intent_of(backing=backing))
    world.tasks["w", "t1"] = evolve(TASKS["dead"], workflow_running=False)
    world.tasks["w2", "t9"] = task(TaskStatus.IN_PROGRESS, workflow_id="w2", task_id="t9")
    theirs = _named(world, "t9", "e9", "w2/step")
    found = _one(world, mode)
    assert (found.ending, theirs in found.reason) == (Ending.DEFERRED, True)
    assert world.heads()[MAIN] == P1
    assert world.names == {Target("repo", theirs)}, "its own anchor is gone"
    world.tasks["w2", "t9"] = task(TaskStatus.COMPLETED, workflow_id="w2", task_id="t9")
    assert _one(world, mode).audit is K.ROLLED_BACK
    _assert_recovered(world, intent, K.ROLLED_BACK)


@pytest.mark.clause("S-01", "S-09")
@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED])
def test_whoever_begins_to_publish_meanwhile_is_seen_or_takes_the_anchor_away(backing: Backing) -> None:
    """At any moment of the recovery: make a name, revoke, pass the barrier, look. What was seen is what stays."""
    moments = 0
    for moment in count():
        world, _ = scene("dead", "ours", confirmed=True, intent=intent_of(backing=backing))
        world.tasks["w2", "t9"] = task(TaskStatus.IN_PROGRESS, workflow_id="w2", task_id="t9")
        paused = Paused(sweep(MAIN, Mode.EXCLUSIVE, "recoverer", GROUNDS), world)
        paused.advance(moment)
        if paused.ended:
            break
        _named(world, "t9", "e9", "w2/step")
        done(run(revoke(MAIN, "w2/step", 1), world))
        done(world.store().barrier(MAIN))
        seen = world.heads()[MAIN]
        paused.finish()
        assert world.heads()[MAIN] == seen, f"moved under an observer at call {moment}"
        moments += seen == P1
    assert moments > 10


def test_two_recoveries_of_one_actor_in_one_millisecond_have_two_anchors() -> None:
    names: set[str] = set()
    for nonce in ("a", "b"):
        world, _ = scene("dead", "ours", confirmed=True)
        done(run(sweep(MAIN, Mode.EXCLUSIVE, "recoverer", GROUNDS, nonce), world))
        names |= {call.args[1] for call in world.calls if call.method == "open_staging"}
    assert len(names) == 2


# ---------------------------------------------------------------------------------------------------------------------
# A task the orchestrator has forgotten


def _say(world: World, word: Word, mode: Mode = Mode.SETTLE_ONLY) -> RecoveryOutcome:
    return run(recover(Recovery("op-1", MAIN, mode, "operator", 5, "asked the team", word)), world)


_SAID = {
    (Word.ACCEPTED, "ours"): K.ROLLED_FORWARD,
    (Word.ACCEPTED, "buried"): K.ROLLED_FORWARD,
    (Word.ACCEPTED, "none"): K.ACCEPTED_LOST,
    (Word.ACCEPTED, "unexpected"): K.ACCEPTED_LOST,
    (Word.ACCEPTED, "violated"): K.ACCEPTED_LOST,
    (Word.ACCEPTED, "unverifiable"): None,
    (Word.NOT_ACCEPTED, "ours"): None,
    (Word.NOT_ACCEPTED, "buried"): K.SUPERSEDED,
    (Word.NOT_ACCEPTED, "none"): K.NOT_PUBLISHED,
    (Word.NOT_ACCEPTED, "unexpected"): K.SUPERSEDED,
    (Word.NOT_ACCEPTED, "violated"): K.SUPERSEDED,
    (Word.NOT_ACCEPTED, "unverifiable"): K.SUPERSEDED,
}


@pytest.mark.parametrize("says", ["gone", "unknown"])
@pytest.mark.parametrize(("word", "movement"), list(_SAID))
def test_a_persons_word_takes_the_place_of_the_orchestrators(says: str, word: Word, movement: str) -> None:
    """The refusal names the command, and following it settles: everything but a history nobody can read."""
    kind = _SAID[word, movement]
    world, intent = scene(says, movement, confirmed=True)
    refused = _one(world)
    assert (refused.ending, "--settle-gone op-1 --as accepted" in refused.next_action) == (Ending.REFUSED, True)
    found = _say(world, word)
    assert found.alarm is (kind is K.ACCEPTED_LOST)
    if kind is not None:
        assert found.audit is kind
        _assert_recovered(world, intent, kind)
    elif movement == "ours":
        assert (found.ending, found.unaccepted) == (Ending.STANDING, P1)
        assert _say(world, word, Mode.EXCLUSIVE).audit is K.ROLLED_BACK
        _assert_recovered(world, intent, K.ROLLED_BACK)
    else:
        assert found.ending is Ending.REFUSED


@pytest.mark.parametrize("says", ["ours", "other", "dead", "running"])
def test_a_persons_word_counts_for_nothing_where_the_orchestrator_has_one(says: str) -> None:
    for word in Word:
        world, _ = scene(says, "ours", confirmed=True)
        plain, _ = scene(says, "ours", confirmed=True)
        assert (_say(world, word).audit, world.heads()) == (_one(plain).audit, plain.heads())


def test_what_was_taken_back_before_its_task_was_forgotten_is_rolled_back() -> None:
    world, intent = scene("gone", "none", confirmed=True)
    plan = Prepared("op-1", "earlier", GROUNDS, (Movement(MAIN, P1, A),))
    world.put(records.prepared_key("op-1"), codec.dumps(plan))
    assert _one(world).audit is K.ROLLED_BACK
    _assert_recovered(world, intent, K.ROLLED_BACK)


@pytest.mark.parametrize("answer", [NotDone("disk full"), Unknown("silence")])
def test_a_lost_result_is_an_alarm_also_when_it_cannot_be_written_down(answer: NotDone | Unknown) -> None:
    world, _ = scene("ours", "none")
    world.always["coordination", "create_if_absent"] = answer
    swept = _sweep(world)
    assert swept.unresolved == ("op-1",)
    (alarm,) = swept.alarms
    assert alarm.startswith("intent op-1: the orchestrator accepted this result and it is not on the branch: ")
    assert "restore the accepted commit" in alarm
    assert answer.reason in alarm


@pytest.mark.parametrize("number", [1, 2])
def test_an_alarm_survives_what_fails_after_its_intent_was_closed(number: int) -> None:
    """The next sweep does not find the intent any more, so this one must say it."""
    world, _ = scene("ours", "none")
    answered = run(sweep(MAIN, Mode.SETTLE_ONLY, "recoverer", maintained_since=A), world)
    assert isinstance(answered, Done)
    lists = [at for at, call in enumerate(world.calls) if call.method == "list"]
    world, _ = scene("ours", "none")
    sweeping = sweep(MAIN, Mode.SETTLE_ONLY, "recoverer", maintained_since=A)
    swept = run(sweeping, world, Fault.LOST_ANSWER, lists[number], times=TRIES)
    assert isinstance(swept, Unknown)
    assert settled_kind(world, "op-1") is K.ACCEPTED_LOST
    assert "intent op-1: the orchestrator accepted this result and it is not on the branch" in swept.reason


def test_an_unanswered_authority_or_target_defers() -> None:
    """T-O10, L-06: fail closed, keep everything."""
    for port, method in (("orchestrator", "reload"), ("store", "claims"), ("store", "head"), ("store", "look")):
        for answer in (Unknown("silence"), NotDone("no")):
            world, _ = scene("dead", "buried")
            world.always[port, method] = answer
            entries = world.entries
            found = _one(world)
            refused = (method, answer) == ("look", NotDone("no"))
            assert found.ending is (Ending.REFUSED if refused else Ending.DEFERRED)
            assert world.entries == entries


@pytest.mark.clause("T-O3")
def test_accepted_while_only_armed_is_rolled_forward() -> None:
    """D-6, T-O3, CW-21, CW-22: the crash between report and confirmation is no rollback."""
    for movement in ("ours", "buried"):
        world, intent = scene("ours", movement)
        assert _one(world).audit is K.ROLLED_FORWARD
        assert audit_of(world).movements == (Movement(MAIN, A, P1),)
        _assert_recovered(world, intent, K.ROLLED_FORWARD)


def test_an_accepted_no_op_is_not_lost_when_the_next_step_has_published() -> None:
    """S-06: its ref is its input, and the input is still there."""
    result = evolve(TASKS["ours"], result_ref=A)
    for head, kind in (
        ("a0", K.ROLLED_FORWARD),
        ("x1", K.ROLLED_FORWARD),
        ("x2", K.ROLLED_FORWARD),
        ("root", K.ACCEPTED_LOST),
    ):
        world, intent = scene("ours", "none", intent=intent_of(noop=True))
        world.tasks["w", "t1"] = result
        world.point(MAIN, head)
        assert _one(world).audit is kind
        _assert_recovered(world, intent, kind)


def test_a_dead_no_op_has_nothing_to_take_back() -> None:
    """CW-25."""
    for head, kind in (("a0", K.NOT_PUBLISHED), ("x1", K.SUPERSEDED)):
        world, intent = scene("dead", "none", intent=intent_of(noop=True))
        world.point(MAIN, head)
        assert _one(world, Mode.EXCLUSIVE).audit is kind
        assert world.heads()[MAIN] == head
        _assert_recovered(world, intent, kind)


def test_accepted_over_maintenance_is_found_by_the_accepted_ref() -> None:
    """H-16: merged over maintenance, its tree was never known in advance."""
    world, intent = scene("ours", "none", intent=intent_of(over_maintenance=True))
    world.tasks["w", "t1"] = evolve(TASKS["ours"], result_ref=ref("x2"))
    world.point(MAIN, "x2")
    assert _one(world).audit is K.ROLLED_FORWARD
    assert audit_of(world).movements == (Movement(MAIN, ref("x1"), ref("x2")),)
    _assert_recovered(world, intent, K.ROLLED_FORWARD)


def test_accepted_maintenance_becomes_known_to_the_sweep_that_finds_it() -> None:
    """H-15, H-16, T-O14: the writer that swept may rebase over it at once."""
    world, _ = scene("ours", "ours", intent=intent_of(operation=Operation.MAINTENANCE))
    world.put("decision/0000000003", "whatever")
    swept = done(run(sweep(MAIN, Mode.SETTLE_ONLY, "recoverer", maintained_since=A), world))
    assert swept.maintained == (Maintained(A, P1),)
    assert _sweep(world).maintained == ()
    assert swept.epoch == 3


# ---------------------------------------------------------------------------------------------------------------------
# Exclusive recovery


def test_who_decides_needs_grounds() -> None:
    """K-02, K-12: never a flag alone."""
    for grounds, mode in product(("", "  "), (Mode.EXCLUSIVE, Mode.KEEP, Mode.ROLL_BACK_FAILED)):
        with pytest.raises(ValueError, match=f"mode {mode.value} needs grounds"):
            Recovery("op-1", MAIN, mode, "operator", grounds=grounds)
    with pytest.raises(ValueError, match="with the word 'accepted' needs grounds"):
        Recovery("op-1", MAIN, Mode.SETTLE_ONLY, "operator", word=Word.ACCEPTED)


@pytest.mark.clause("R-16", "T-O2", "T-O26")
@pytest.mark.parametrize("backing", Backing)
def test_going_back_shows_the_movement_and_leaves_the_authoritys_view(backing: Backing) -> None:
    """R-16, T-O2, T-O26, D-5: the head is the input again, and the audit says from where."""
    world, intent = scene("dead", "ours", confirmed=True, intent=intent_of(backing=backing))
    assert _one(world, Mode.EXCLUSIVE).audit is K.ROLLED_BACK
    assert audit_of(world).movements == (Movement(MAIN, P1, A),)
    assert audit_of(world).actor == "recoverer"
    (published,) = [call for call in world.calls if call.method == "publish"]
    plan = published.args[0]
    assert (plan.target, plan.expected, plan.commit) == (MAIN, P1, A)
    by_name = backing is not Backing.SOFT
    assert (plan.name is not None) is by_name
    assert world.names == set()
    if by_name:
        assert attempt_number(plan.name, intent.logical_task) == intent.number  # so that the next attempt revokes it
    _assert_recovered(world, intent, K.ROLLED_BACK)


@pytest.mark.clause("S-09")
def test_nothing_comes_between_the_last_look_and_the_move() -> None:
    """S-09, CW-29: plan first, then look, then move."""
    world, _ = scene("dead", "ours", confirmed=True)
    _sweep(world, Mode.EXCLUSIVE)
    methods = [call.method for call in world.calls]
    sent = methods.index("publish")
    assert methods[sent - 1] == "head"
    prepared = [n for n, call in enumerate(world.calls) if call.args and str(call.args[0]).startswith("prepared/")]
    assert any(world.calls[n].method == "create_if_absent" for n in prepared if n < sent)


def test_a_look_alike_of_an_accepted_commit_is_never_taken_back() -> None:
    """S-16, T-O1: deterministic attempts give equal trees; the second was accepted, the first is being recovered."""
    world, intent = scene("dead", "ours")
    world.store().claim(claim_like(intent, task_id="t2", number=2, execution="e2"))
    world.tasks["w", "t2"] = task(TaskStatus.COMPLETED, task_id="t2", result_execution="e2", result_ref=P1)
    assert _one(world, Mode.EXCLUSIVE).audit is K.SUPERSEDED
    assert world.heads()[MAIN] == P1


@pytest.mark.clause("S-01")
@pytest.mark.parametrize("confirmed", [False, True])
@pytest.mark.parametrize("tree", ["t1", "another", None], ids=["like ours", "another", "no-op"])
def test_what_another_attempt_adopted_and_was_accepted_with_is_never_taken_back(
    tree: str | None, *, confirmed: bool
) -> None:
    """Attempt 1 publishes and dies; attempt 2, whatever it made itself, finds that, reports it and is accepted.

    Neither what attempt 2 staged nor the confirmed ref of attempt 1 says so; every claim of the task counts.
    """
    world, intent = scene("dead", "ours", confirmed=confirmed)
    world.store().claim(claim_like(intent, task_id="t2", number=2, execution="e2", tree=tree))
    world.tasks["w", "t2"] = task(TaskStatus.COMPLETED, task_id="t2", result_execution="e2", result_ref=P1)
    assert _one(world, Mode.EXCLUSIVE).audit is K.SUPERSEDED
    assert world.heads()[MAIN] == P1
    _assert_recovered(world, intent, K.SUPERSEDED)


@pytest.mark.parametrize("confirmed", [False, True])
def test_what_another_attempt_may_adopt_is_not_taken_back_while_it_lives(*, confirmed: bool) -> None:
    """S-16: it waits, and is taken back once that one has ended unaccepted as well."""
    world, intent = scene("dead", "ours", confirmed=confirmed)
    world.store().claim(claim_like(intent, task_id="t2", number=2, execution="e2", tree=None))
    world.tasks["w", "t2"] = task(TaskStatus.IN_PROGRESS, task_id="t2")
    assert _one(world, Mode.EXCLUSIVE).ending is Ending.STANDING
    assert world.heads()[MAIN] == P1
    world.tasks["w", "t2"] = task(TaskStatus.TIMED_OUT, task_id="t2")
    assert _one(world, Mode.EXCLUSIVE).audit is K.ROLLED_BACK
    _assert_recovered(world, intent, K.ROLLED_BACK)


@pytest.mark.parametrize("noop", [False, True], ids=["other tree", "no-op"])
@pytest.mark.parametrize("confirmed", [False, True])
def test_an_adopters_own_intent_is_settled_by_what_it_adopted(*, noop: bool, confirmed: bool) -> None:
    """S-19: accepted is the ref it reported, not what it staged; if that is gone from the branch, it is an alarm."""
    for head, kind in (("x1", K.ROLLED_FORWARD), ("x2", K.ROLLED_FORWARD), ("p1", K.ACCEPTED_LOST)):
        world = empty_world()
        intent = intent_of(noop=noop)
        done(run(ledger.arm(intent), world))
        if confirmed:
            intent = done(run(ledger.confirm(intent, {MAIN: ref("x1")}), world))
        world.point(MAIN, head)
        world.tasks["w", "t1"] = evolve(TASKS["ours"], result_ref=ref("x1"))
        found = _one(world)
        assert (found.audit, found.alarm) == (kind, kind is K.ACCEPTED_LOST), head
        _assert_recovered(world, intent, kind)


def test_an_adopted_no_op_is_not_lost_when_the_next_step_has_published() -> None:
    """S-06: whatever this one made itself, it reported its input, and the input is still there."""
    for head, kind in (("a0", K.ROLLED_FORWARD), ("x1", K.ROLLED_FORWARD), ("root", K.ACCEPTED_LOST)):
        world, intent = scene("ours", "none")
        world.tasks["w", "t1"] = evolve(TASKS["ours"], result_ref=A)
        world.point(MAIN, head)
        assert _one(world).audit is kind
        _assert_recovered(world, intent, kind)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        ("rival lives", Ending.STANDING),
        ("rival gone", K.ABANDONED),
        ("own claim gone", K.ABANDONED),
        ("soft", K.ABANDONED),
        ("dirty", Ending.STANDING),
        ("plan for another head", Ending.STANDING),
    ],
)
def test_what_is_not_proven_dead_clean_and_planned_stays_where_it_is(
    spoil: str, expected: SettlementKind | Ending
) -> None:
    """S-16, K-02, F-07: whose it is, cannot be known: the books say so. Else it waits for what is in the way to go."""
    backing = Backing.SOFT if spoil == "soft" else Backing.CONDITIONAL
    world, intent = scene("dead", "ours", intent=intent_of(backing=backing))
    if spoil.startswith("rival"):
        world.store().claim(claim_like(intent, task_id="t2", number=2, execution="e2"))
    if spoil == "rival lives":
        world.tasks["w", "t2"] = task(TaskStatus.IN_PROGRESS, task_id="t2")
    if spoil == "own claim gone":
        world.store().records.clear()
    if spoil == "dirty":
        world.point(MAIN, "p1", dirty=True)
    if spoil == "plan for another head":
        plan = Prepared("op-1", "earlier", GROUNDS, (Movement(MAIN, ref("p0"), A),))
        world.put(records.prepared_key("op-1"), codec.dumps(plan))
    found = _one(world, Mode.EXCLUSIVE)
    assert world.heads()[MAIN] == P1
    if isinstance(expected, SettlementKind):
        assert found.audit is expected
        _assert_recovered(world, intent, expected)
    else:
        assert (found.ending, settled_kind(world)) == (expected, None)
        assert ("may have made the head" if spoil == "rival lives" else "cannot be taken back now") in found.reason


def test_a_dead_rival_with_the_same_tree_does_not_stand_in_the_way() -> None:
    """S-16: every commit removed belongs to dead attempts."""
    world, intent = scene("dead", "ours")
    world.store().claim(claim_like(intent, task_id="t2", number=2, execution="e2"))
    world.store().claim(claim_like(intent, task_id="t3", number=3, execution="e3", tree="another"))
    for each in ("t2", "t3"):
        world.tasks["w", each] = task(TaskStatus.FAILED, task_id=each)
    assert _one(world, Mode.EXCLUSIVE).audit is K.ROLLED_BACK


def test_a_rival_nobody_answers_for_defers() -> None:
    """S-16: it may have been accepted."""
    world, intent = scene("dead", "ours")
    world.store().claim(claim_like(intent, task_id="t2", number=2, execution="e2"))
    world.tasks["w", "t2"] = task(TaskStatus.FAILED, task_id="t2")
    before = world.copy()
    assert isinstance(run(sweep(MAIN, Mode.EXCLUSIVE, "recoverer", GROUNDS, "nonce"), before), Done)
    asked = [call.args for call in before.calls].index(("w", "t2"))
    sweeping = sweep(MAIN, Mode.EXCLUSIVE, "recoverer", GROUNDS, "nonce")
    swept = run(sweeping, world, Fault.LOST_ANSWER, asked, times=TRIES)
    assert isinstance(swept, Done)
    assert swept.value.outcomes[0].ending is Ending.DEFERRED
    assert world.heads()[MAIN] == P1


def test_a_published_commit_that_did_not_land_on_its_input_is_not_taken_back() -> None:
    """T-O22, F-01: going back to the input would erase the commit it landed on."""
    world, intent = scene("dead", "ours", confirmed=True)
    world.commit("p1", "x1", tree="t1")
    world.point(MAIN, "p1")
    assert _one(world, Mode.EXCLUSIVE).audit is K.SUPERSEDED
    assert world.heads()[MAIN] == P1
    _assert_recovered(world, intent, K.SUPERSEDED)


@pytest.mark.parametrize("head", ["n1", "x1", None, "a0"])
def test_a_head_that_moves_before_the_move_is_left_alone(head: str | None) -> None:
    """T-O22, S-15: the plan names the head it goes back from; one that is back already is success (D-9)."""
    world, _ = scene("dead", "ours", confirmed=True)
    paused = Paused(sweep(MAIN, Mode.EXCLUSIVE, "recoverer", GROUNDS), world)
    while not world.names:
        paused.advance(1)
    if head is None:
        world.stranger(MAIN).delete()
    else:
        world.point(MAIN, head)
    (found,) = done(paused.finish()).outcomes
    assert "publish" not in [call.method for call in world.calls]
    if head == "a0":
        assert found.audit is K.ROLLED_BACK
        return
    assert found.ending is Ending.REFUSED
    assert ("is missing" if head is None else "planned to go back from p1") in found.reason
    assert world.heads().get(MAIN) == head
    assert world.names == set()


def test_an_anchor_that_is_somebody_elses_is_not_touched() -> None:
    """S-22, S-31: a name that exists refuses, and is not deleted."""
    world, _ = scene("dead", "ours", confirmed=True)
    world.always["store", "open_staging"] = NotDone("exists")
    assert _one(world, Mode.EXCLUSIVE).ending is Ending.REFUSED
    assert not {"drop", "publish"} & {call.method for call in world.calls}
    world.always["store", "open_staging"] = Unknown("silence")
    assert _one(world, Mode.EXCLUSIVE).ending is Ending.REFUSED
    assert [call.method for call in world.calls].count("drop") == 1
    assert world.heads()[MAIN] == P1


def test_a_refused_move_is_judged_by_where_the_branch_is() -> None:
    """D-9, T-O6: another recovery moved it between our look and our move."""
    for head in ("a0", "p1", "n1", None):
        world, _ = scene("dead", "ours", confirmed=True)
        paused = Paused(sweep(MAIN, Mode.EXCLUSIVE, "recoverer", GROUNDS), world)
        while not (world.names and world.calls[-1].method == "head"):
            paused.advance(1)
        world.always["store", "publish"] = NotDone("the head is another, or the branch is protected")
        if head is None:
            world.stranger(MAIN).delete()
        else:
            world.point(MAIN, head)
        (found,) = done(paused.finish()).outcomes
        assert found.ending is (Ending.SETTLED if head == "a0" else Ending.REFUSED)
        assert [call.method for call in world.calls].count("publish") == 1


def test_a_relocation_without_answer_is_revoked_and_deferred() -> None:
    """CW-29, T-O5: never sent again from the same observation; the next sweep settles from the plan."""
    for fault in (Fault.LOST_ANSWER, Fault.LOST_REQUEST):
        world, intent = scene("dead", "ours", confirmed=True)
        at = _number_of(world, "publish")
        (found,) = _sweep(world, Mode.EXCLUSIVE, fault, at).outcomes
        assert found.ending is Ending.DEFERRED
        assert world.names == set()
        assert [call.method for call in world.calls].count("publish") == (fault is Fault.LOST_ANSWER)
        assert _one(world, Mode.EXCLUSIVE).audit is K.ROLLED_BACK
        assert audit_of(world).movements == (Movement(MAIN, P1, A),)
        _assert_recovered(world, intent, K.ROLLED_BACK)


def _number_of(world: World, method: str) -> int:
    copied = world.copy()
    _sweep(copied, Mode.EXCLUSIVE)
    return [call.method for call in copied.calls].index(method)


def test_a_settle_only_sweep_finishes_a_rollback_from_its_plan() -> None:
    """CW-29: the head shows no movement, the plan says why."""
    world, intent = scene("dead", "ours", confirmed=True)
    with pytest.raises(CrashedError):
        _sweep(world, Mode.EXCLUSIVE, Fault.CRASH_AFTER, _number_of(world, "publish"))
    assert world.heads()[MAIN] == A
    assert _one(world).audit is K.ROLLED_BACK
    assert audit_of(world).movements == (Movement(MAIN, P1, A),)
    _assert_recovered(world, intent, K.ROLLED_BACK)


# ---------------------------------------------------------------------------------------------------------------------
# Several targets


def _two(says: str, first: str, second: str, *, confirmed: bool = False) -> tuple[World, Intent]:
    world, intent = scene(says, first, confirmed=confirmed, intent=intent_of(MAIN, FAR))
    world.point(FAR, HEADS[second])
    return world, intent


@pytest.mark.clause("S-20")
@pytest.mark.parametrize(
    ("first", "second", "movement"),
    [
        ("ours", "ours", "ours"),
        ("ours", "buried", "buried"),
        ("ours", "none", "partial"),
        ("none", "buried", "unexpected"),
        ("none", "none", "none"),
        ("ours", "unexpected", "unexpected"),
        ("ours", "violated", "violated"),
        ("violated", "unverifiable", "unverifiable"),
    ],
)
@pytest.mark.parametrize("says", ["ours", "dead"])
@pytest.mark.parametrize("mode", [Mode.SETTLE_ONLY, Mode.EXCLUSIVE])
def test_several_targets_are_settled_together_or_not_at_all(
    says: str, first: str, second: str, movement: str, mode: Mode
) -> None:
    """R-14, S-20: one kind for all; one doubtful target keeps the whole intent."""
    for targets in ((first, second), (second, first)):
        world, intent = _two(says, *targets)
        heads = world.heads()
        found = _one(world, mode)
        assert found.movement == movement
        moves = says == "dead" and mode is Mode.EXCLUSIVE and movement in {"ours", "partial"}
        assert world.heads() == ({**heads, MAIN: A, FAR: A} if moves else heads)
        if found.ending in {Ending.REFUSED, Ending.STANDING}:
            stands = says == "dead" and mode is Mode.SETTLE_ONLY and movement in {"ours", "partial"}
            assert movement in {"violated", "unverifiable"} or stands
            assert settled_kind(world) is None
            continue
        assert found.audit is not None
        assert (found.audit is K.ROLLED_FORWARD) is (says == "ours" and movement in {"ours", "buried"})
        assert (found.audit is K.ROLLED_BACK) is moves
        if moves and movement == "partial":
            assert {each.moves for each in audit_of(world).movements} == {True, False}
        _assert_recovered(world, intent, found.audit)


def test_an_intent_is_settled_from_whichever_target_it_is_found_under() -> None:
    """R-20, L-08: and is then gone from all of them."""
    world, intent = _two("dead", "none", "none")
    done(run(sweep(FAR, Mode.SETTLE_ONLY, "recoverer"), world))
    _assert_recovered(world, intent, K.NOT_PUBLISHED)


@pytest.mark.clause("R-31", "T-O8")
def test_recovery_looks_at_the_intents_own_branch() -> None:
    """T-O8, R-20, R-31: two branches of one repository with equal heads; only the one named is looked at and moved."""
    world, _ = scene("dead", "ours", confirmed=True, intent=intent_of(EU))
    world.point(MAIN, "p1")
    assert _sweep(world, Mode.EXCLUSIVE).outcomes == ()
    (found,) = done(run(sweep(EU, Mode.EXCLUSIVE, "recoverer", GROUNDS), world)).outcomes
    assert found.audit is K.ROLLED_BACK
    assert (world.heads()[EU], world.heads()[MAIN]) == (A, P1)
    assert {call.args[0] for call in world.calls if call.method == "head"} == {EU}


def test_each_intent_is_judged_on_a_fresh_look() -> None:
    """R-20: the second depends on what recovering the first has done."""
    world, first = scene("dead", "ours", confirmed=True)
    second = evolve(intent_of(operation_id="op-2"), execution="e2", task_id="t2")
    done(run(ledger.arm(evolve(second, targets=(evolve(second.targets[0], tree="t2"),))), world))
    world.tasks["w", "t2"] = task(TaskStatus.FAILED, task_id="t2")
    swept = _sweep(world, Mode.EXCLUSIVE)
    assert [(each.operation_id, each.audit) for each in swept.outcomes] == [
        (first.operation_id, K.ROLLED_BACK),
        ("op-2", K.NOT_PUBLISHED),  # seen before the first was taken back it would have been superseded
    ]


@pytest.mark.clause("L-08")
def test_one_doubtful_intent_does_not_keep_the_others_from_being_settled() -> None:
    """T-O12, L-08, R-21: the unresolved are named, per target."""
    world, _ = scene("running", "none")
    other = evolve(intent_of(operation_id="op-2"), task_id="t2")
    done(run(ledger.arm(other), world))
    world.tasks["w", "t2"] = task(TaskStatus.FAILED, task_id="t2")
    swept = _sweep(world)
    assert swept.unresolved == ("op-1",)
    assert settled_kind(world, "op-2") is K.NOT_PUBLISHED
    assert done(run(sweep(EU, Mode.SETTLE_ONLY, "recoverer"), world)).unresolved == ()


@pytest.mark.clause("S-41")
@pytest.mark.parametrize(
    ("changes", "unresolved"),
    [
        pytest.param({}, (), id="a lower twin's intent is no obstacle"),
        pytest.param({"number": 1}, ("op-1",), id="of equal rank it is"),
        pytest.param({"number": 0}, ("op-1",), id="above its own rank it is"),
        pytest.param({"logical_task": "w/other"}, ("op-1",), id="another task's is"),
        pytest.param({"on_abandoned": OnAbandoned.REPLACE}, ("op-1",), id="to whoever replaces it is"),
    ],
)
def test_an_adopting_attempt_goes_on_past_the_open_intent_of_a_lower_twin_and_of_nobody_else(
    changes: dict[str, Any], unresolved: tuple[str, ...]
) -> None:
    """Only what the own claim outranks cannot publish after it; anything else that is open still may."""
    world, _ = scene("running", "none")
    twin = evolve(make_attempt(Backing.CONDITIONAL, ledger=True, adopts=True), target=MAIN, logical_task="w/step")
    attempt = evolve(twin, **changes)
    settle = PERFORM[m.SettleIntents](Execution.of(attempt), m.SettleIntents())
    event = run(settle, world)
    assert isinstance(event, m.IntentsSettled)
    assert event.unresolved == unresolved


# ---------------------------------------------------------------------------------------------------------------------
# Modes, live owners, vanished and unreadable records


@pytest.mark.clause("R-07")
def test_a_clean_target_costs_two_reads() -> None:
    """R-07, S-38: no intents, no work."""
    world = empty_world()
    assert _sweep(world) == Swept((), (), (), 0)
    assert [call.method for call in world.calls] == ["list", "list"]


@pytest.mark.clause("R-06")
@pytest.mark.parametrize(("says", "movement"), list(product(AUTHORITIES, HEADS)))
def test_a_probe_writes_nothing(says: str, movement: str) -> None:
    """R-06: also on an intent that is settled and only needs closing."""
    world, intent = scene(says, movement)
    swept = _sweep(world, Mode.PROBE)
    assert swept.unresolved == ("op-1",)
    assert world.writes() == []
    done(run(write_settlement(Settlement("op-1", K.ABANDONED, (Movement(MAIN, A, P1),))), world))
    world.calls.clear()
    assert _sweep(world, Mode.PROBE).outcomes[0].ending is Ending.ALREADY_SETTLED
    assert world.writes() == []
    assert intent.operation_id in world.under("open/")[0]


@pytest.mark.clause("S-22")
@pytest.mark.parametrize("mode", [Mode.SETTLE_ONLY, Mode.EXCLUSIVE])
@pytest.mark.parametrize("movement", HEADS)
@pytest.mark.parametrize("status", [TaskStatus.IN_PROGRESS, TaskStatus.SCHEDULED])
def test_a_live_owner_is_left_alone(status: TaskStatus, movement: str, mode: Mode) -> None:
    """S-22, T-O9: between arming and reporting nothing of it is touched."""
    world, _ = scene("running", movement)
    world.tasks["w", "t1"] = task(status, retry_count=3)
    entries, heads = world.entries, world.heads()
    found = _one(world, mode)
    assert found.ending is Ending.DEFERRED
    assert (world.entries, world.heads(), world.names) == (entries, heads, set())


@pytest.mark.clause("L-06", "L-10", "T-O13")
def test_the_advised_action_helps() -> None:
    """T-O13, L-06, L-10: what each refusal tells a person to do makes the next sweep succeed."""
    world, _ = scene("running", "ours")
    assert "Wait until the orchestrator has ended that task" in _one(world).next_action
    world.tasks["w", "t1"] = TASKS["dead"]
    assert _one(world, Mode.KEEP).audit is K.ABANDONED

    for movement in ("violated", "unverifiable"):
        world, _ = scene("dead", movement)
        assert "with the input on it" in _one(world).next_action
        world.point(MAIN, "p1")
        assert _one(world, Mode.KEEP).audit is K.ABANDONED

    world, _ = scene("dead", "none")
    world.put(records.intent_key("op-1"), None)
    found = _one(world)
    pointer = records.open_key(MAIN, "op-1")
    assert (found.ending, pointer in found.next_action) == (Ending.REFUSED, True)
    world.put(pointer, None)
    assert _sweep(world).unresolved == ()

    world, _ = scene("dead", "none")
    misplaced = records.open_key(EU, "op-1")
    world.put(misplaced, world.entries[pointer])
    swept = done(run(sweep(EU, Mode.SETTLE_ONLY, "recoverer"), world))
    assert (swept.outcomes[0].ending, misplaced in swept.outcomes[0].next_action) == (Ending.REFUSED, True)
    assert world.under("intent/")
    world.put(misplaced, None)
    assert _one(world).audit is K.NOT_PUBLISHED

    world, _ = scene("ours", "none")
    assert "restore the accepted commit" in _one(world).next_action


@pytest.mark.clause("T-O10")
def test_a_record_that_vanishes_was_settled_by_somebody_else() -> None:
    """CW-27, T-O10, T-O7."""
    for mode in Mode:
        world, intent = scene("dead", "ours")
        paused = Paused(sweep(MAIN, mode, "late", GROUNDS), world)
        paused.advance(1)
        assert _one(world, Mode.KEEP).audit is K.ABANDONED
        (found,) = done(paused.finish()).outcomes
        assert (found.ending, found.audit) == (Ending.ALREADY_SETTLED, K.ABANDONED)
        _assert_recovered(world, intent, K.ABANDONED)


@pytest.mark.clause("T-O11")
def test_a_confirmation_that_lands_after_the_listing_is_seen() -> None:
    """T-O11: the record is read afresh, never from the listing."""
    world, intent = scene("dead", "ours")
    world.commit("p2", "a0", tree="t1")
    world.point(MAIN, "p2")
    paused = Paused(sweep(MAIN, Mode.SETTLE_ONLY, "recoverer"), world)
    paused.advance(1)
    done(run(ledger.confirm(intent, {MAIN: P1}), world))
    (found,) = done(paused.finish()).outcomes
    assert found.audit is K.SUPERSEDED  # the armed record would have called p2 its own
    _assert_recovered(world, intent, K.SUPERSEDED)


def test_a_confirmation_at_any_moment_of_the_sweep_leaves_no_open_intent() -> None:
    """T-O11, S-21: the owner may be slow, not dead."""
    for moment in range(16):
        world, intent = scene("dead", "ours")
        paused = Paused(sweep(MAIN, Mode.KEEP, "recoverer", GROUNDS), world)
        paused.advance(moment)
        run(ledger.confirm(intent, {MAIN: P1}), world)
        done(paused.finish())
        _assert_recovered(world, intent, K.ABANDONED)


@pytest.mark.parametrize("key", ["intent/op-1", "settled/op-1", "prepared/op-1", "audit/op-1"])
@pytest.mark.parametrize("text", ['{"schema": 2}', "not json", "{}"])
def test_an_unreadable_record_is_refused_and_kept(key: str, text: str) -> None:
    """R-19: of whichever kind."""
    for mode in (Mode.KEEP, Mode.EXCLUSIVE):
        world, _ = scene("dead", "ours")
        world.put(key, text)
        found = _one(world, mode)
        assert found.ending is Ending.REFUSED
        assert key in found.reason
        assert world.entries[key] == text
        assert world.under("open/")


def test_a_ledger_that_cannot_be_listed_gives_no_sweep() -> None:
    """D-2, S-26: each of the three listings; silence is not emptiness."""
    for at in range(3):
        for fault in (Fault.REFUSAL, Fault.LOST_REQUEST):
            answer = run(
                sweep(MAIN, Mode.SETTLE_ONLY, "recoverer", maintained_since=A), empty_world(), fault, at, times=3
            )
            assert isinstance(answer, NotDone if fault is Fault.REFUSAL else Unknown)


# ---------------------------------------------------------------------------------------------------------------------
# Crashes and races


@frozen
class Scene:
    """A path through the machine that writes: where it starts, how far it may go, how it ends."""

    world: World
    intent: Intent
    mode: Mode
    kind: SettlementKind


def _scene(start: tuple[World, Intent], mode: Mode, kind: SettlementKind) -> Scene:
    return Scene(*start, mode, kind)


_MAINTENANCE = intent_of(operation=Operation.MAINTENANCE)
SCENES = {
    "accepted": _scene(scene("ours", "ours"), Mode.SETTLE_ONLY, K.ROLLED_FORWARD),
    "accepted maintenance": _scene(scene("ours", "ours", intent=_MAINTENANCE), Mode.SETTLE_ONLY, K.ROLLED_FORWARD),
    "suppressed": _scene(scene("other", "unexpected"), Mode.SETTLE_ONLY, K.SUPPRESSED),
    "not published": _scene(scene("dead", "none"), Mode.SETTLE_ONLY, K.NOT_PUBLISHED),
    "abandoned": _scene(scene("dead", "ours"), Mode.KEEP, K.ABANDONED),
    "superseded": _scene(scene("dead", "unexpected"), Mode.SETTLE_ONLY, K.SUPERSEDED),
    "gone": _scene(scene("gone", "none"), Mode.SETTLE_ONLY, K.NOT_PUBLISHED),
    "lost": _scene(scene("ours", "none"), Mode.SETTLE_ONLY, K.ACCEPTED_LOST),
    "rolled back": _scene(scene("dead", "ours", confirmed=True), Mode.EXCLUSIVE, K.ROLLED_BACK),
    "rolled back, armed": _scene(scene("dead", "ours"), Mode.EXCLUSIVE, K.ROLLED_BACK),
    "two rolled back": _scene(_two("dead", "ours", "ours"), Mode.EXCLUSIVE, K.ROLLED_BACK),
    "part rolled back": _scene(_two("dead", "none", "ours"), Mode.EXCLUSIVE, K.ROLLED_BACK),
}


def _calls_of(world: World, mode: Mode) -> int:
    copied = world.copy()
    _sweep(copied, mode)
    return len(copied.calls)


@pytest.mark.clause("S-21", "L-06", "T-O28")
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("name", SCENES)
def test_a_fault_at_any_single_call_changes_nothing_in_the_end(name: str, fault: Fault) -> None:
    """R-05, R-18, S-21, CW-21..CW-24, CW-28, CW-29, L-06, T-O24, T-O28: strike each call in turn, then sweep again."""
    original, intent, mode, kind = SCENES[name].world, SCENES[name].intent, SCENES[name].mode, SCENES[name].kind
    reference = original.copy()
    _sweep(reference, mode)
    struck = 0
    for at in range(_calls_of(original, mode)):
        world = original.copy()
        answer = None
        try:
            answer = run(sweep(MAIN, mode, "recoverer", GROUNDS), world, fault, at)
            struck += 1
        except CrashedError:
            struck += 1
        assert answer is None or not fault.crashes or world.calls[at].port == "clock"
        _sweep_all(world, intent, mode)
        assert world.heads() == reference.heads()
        assert audit_of(world).movements == audit_of(reference).movements
        assert set(world.entries) == set(reference.entries)
        assert len(world.names) <= 1
        _assert_recovered(world, intent, kind)
    assert struck == _calls_of(original, mode)


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
@pytest.mark.parametrize("name", [name for name, each in SCENES.items() if each.mode is Mode.EXCLUSIVE])
def test_a_rollback_that_died_anywhere_is_finished_without_moving_anything_else(name: str, fault: Fault) -> None:
    """CW-29, S-22, L-06: the next worker's settle-only sweep finds it rolled back, or leaves it to a recovery."""
    original, intent, mode = SCENES[name].world, SCENES[name].intent, SCENES[name].mode
    for at in range(_calls_of(original, mode)):
        world = original.copy()
        try:
            _sweep(world, mode, fault, at)
        except CrashedError:
            heads = world.heads()
            _sweep_all(world, intent)
            assert world.heads() == heads
        back = all(world.heads()[each.target] == A for each in intent.targets)
        if not back:
            assert settled_kind(world) is None
            _sweep_all(world, intent, Mode.EXCLUSIVE)
        _assert_recovered(world, intent, K.ROLLED_BACK)


@pytest.mark.clause("L-07", "T-O7")
@pytest.mark.parametrize("name", SCENES)
def test_two_sweeps_at_once_both_end_with_one_audit(name: str) -> None:
    """L-07, D-9, T-O7: every way of interleaving them once and once again."""
    original, intent, mode, kind = SCENES[name].world, SCENES[name].intent, SCENES[name].mode, SCENES[name].kind
    length = _calls_of(original, mode)
    for first, second in product(range(length + 1), repeat=2):
        world = original.copy()
        one = Paused(sweep(MAIN, mode, "one", GROUNDS), world)
        two = Paused(sweep(MAIN, mode, "two", GROUNDS), world)
        one.advance(first)
        two.advance(second)
        assert done(one.finish()).unresolved == ()
        assert done(two.finish()).unresolved == ()
        _assert_recovered(world, intent, kind)


def test_an_exclusive_and_a_settle_only_sweep_agree_on_one_kind() -> None:
    """L-07, S-21: the first settlement stands for both."""
    original, intent, mode = SCENES["rolled back"].world, SCENES["rolled back"].intent, Mode.EXCLUSIVE
    length = _calls_of(original, mode)
    for first, second in product(range(length + 1), repeat=2):
        world = original.copy()
        one = Paused(sweep(MAIN, mode, "one", GROUNDS), world)
        two = Paused(sweep(MAIN, Mode.SETTLE_ONLY, "two"), world)
        two.advance(first)
        one.advance(second)
        found = (*done(two.finish()).outcomes, *done(one.finish()).outcomes)
        assert {each.audit for each in found} <= {K.ROLLED_BACK, None}
        assert all(each.audit or each.ending is Ending.STANDING for each in found)
        _assert_recovered(world, intent, K.ROLLED_BACK)


@pytest.mark.clause("S-21")
@given(st.sampled_from(["rolled back", "rolled back, armed", "part rolled back"]), st.lists(st.sampled_from([0, 1, 2])))
def test_any_interleaving_of_three_sweeps_agrees_on_one_kind(name: str, schedule: list[int]) -> None:
    """L-07, CW-29, T-O3: a rollback is never written down as *not published*, whoever looks when."""
    original, intent, mode = SCENES[name].world, SCENES[name].intent, SCENES[name].mode
    world = original.copy()
    sweeps = [Paused(sweep(MAIN, each, "sweep", GROUNDS, _nonce()), world) for each in (mode, Mode.SETTLE_ONLY, mode)]
    for each in schedule:
        sweeps[each].advance(1)
    found = [one for each in sweeps for one in done(each.finish()).outcomes]
    assert {one.audit for one in found} <= {K.ROLLED_BACK, None}
    assert all(one.audit or one.ending is Ending.STANDING for one in found)
    _assert_recovered(world, intent, K.ROLLED_BACK)


def test_the_owner_and_a_sweep_settle_at_once() -> None:
    """S-21, CW-22: an accepted attempt closes its own intent while a sweep does the same."""
    for first, second in product(range(9), range(7)):
        world, intent = scene("ours", "ours", confirmed=True)
        one = Paused(sweep(MAIN, Mode.SETTLE_ONLY, "recoverer"), world)
        two = Paused(ledger.settle(intent, K.ACCEPTED, (Movement(MAIN, A, P1),), "worker-1", 9), world)
        one.advance(first)
        two.advance(second)
        assert done(one.finish()).unresolved == ()
        kind = done(two.finish()).kind
        assert kind.accepts
        _assert_recovered(world, intent, kind)


@pytest.mark.clause("R-18")
def test_a_crash_between_the_removals_is_finished_by_the_next_sweep() -> None:
    """CW-24, R-18: the record is gone, a pointer is left; it is closed without a second audit."""
    world, intent = _two("dead", "none", "none")
    done(run(ledger.settle(intent, K.NOT_PUBLISHED, (Movement(MAIN, A, A), Movement(FAR, A, A)), "worker-1", 1), world))
    world.put(records.open_key(FAR, "op-1"), pointer("op-1"))
    (found,) = done(run(sweep(FAR, Mode.SETTLE_ONLY, "recoverer"), world)).outcomes
    assert found.ending is Ending.ALREADY_SETTLED
    assert audit_of(world).actor == "worker-1"
    _assert_recovered(world, intent, K.NOT_PUBLISHED)


# ---------------------------------------------------------------------------------------------------------------------
# The machine


def _fired(world: World, subject: Recovery, fault: Fault | None = None, at: int = -1) -> list[str]:
    """Drive one recovery by hand and give the rows it took; each state survives being stored in between."""
    rows: list[str] = []
    state, commands = start(subject)
    number = 0
    while commands:
        assert outcome(state) is None
        event = run(perform(commands[0], subject), world, fault if number == at else None, 0, times=99)
        stored = codec.loads(codec.dumps(state), cast("type[RecoveryState]", State))
        fired = RECOVERY.fire(stored, event)
        rows.append(fired.row.id)
        state, commands = fired.state, fired.commands
        number += 1
    assert RECOVERY.is_terminal(state)
    assert outcome(state) is not None
    return rows


def test_every_row_is_taken() -> None:
    """Row coverage: no line of the table is dead."""
    taken: set[str] = set()

    def take(
        world: World,
        mode: Mode,
        fault: Fault | None = None,
        at: int = -1,
        *,
        target: Target = MAIN,
        word: Word | None = None,
    ) -> int:
        rows = _fired(world, Recovery("op-1", target, mode, "recoverer", 1, GROUNDS, word), fault, at)
        taken.update(rows)
        return len(rows)

    for says, movement, mode in product(AUTHORITIES, HEADS, Mode):
        world, intent = scene(says, movement)
        take(scene(says, movement, confirmed=True)[0], mode)
        take(scene(says, movement)[0], mode, word=Word.NOT_ACCEPTED)
        rivals = world.copy()
        rivals.store().claim(claim_like(intent, task_id="t2", number=2, execution="e2"))
        for status in (TaskStatus.COMPLETED, TaskStatus.IN_PROGRESS):
            rivals.tasks["w", "t2"] = task(status, task_id="t2")
            take(rivals.copy(), mode)
        dirty = world.copy()
        dirty.point(MAIN, HEADS[movement], dirty=True)
        take(dirty, mode)
        dirty, _ = scene(says, movement, confirmed=True)
        dirty.point(MAIN, HEADS[movement], dirty=True)
        take(dirty, mode)
        steps = take(world.copy(), mode)
        for at, fault in product(range(steps), (Fault.REFUSAL, Fault.LOST_REQUEST)):
            take(world.copy(), mode, fault, at)
    take(scene("dead", "none")[0], Mode.SETTLE_ONLY, target=EU)
    for uncommitted in (False, True):
        world, _ = scene("dead", "ours", intent=intent_of(backing=Backing.SOFT))
        world.point(MAIN, "p1", dirty=uncommitted)
        take(world, Mode.EXCLUSIVE)
    for key, mode in product(("intent", "settled", "prepared"), (Mode.SETTLE_ONLY, Mode.PROBE)):
        world, _ = scene("dead", "none")
        world.put(f"{key}/op-1", "{}")
        take(world, mode)
    plan = codec.dumps(Prepared("op-1", "one", GROUNDS, (Movement(MAIN, P1, A),)))
    for movement, mode in product(("none", "ours"), Mode):
        world, _ = scene("dead", movement)
        world.put("prepared/op-1", plan)
        take(world, mode)
    world, _ = scene("dead", "ours")
    world.always["store", "publish"] = Unknown("silence")
    take(world, Mode.EXCLUSIVE)
    world, _ = scene("dead", "ours")
    world.tasks["w2", "t9"] = task(TaskStatus.IN_PROGRESS, workflow_id="w2", task_id="t9")
    _named(world, "t9", "e9", "w2/step")
    take(world, Mode.EXCLUSIVE)
    settlement = codec.dumps(Settlement("op-1", K.ABANDONED, (Movement(MAIN, A, P1),)))
    for gone, mode in product((False, True), Mode):
        world, _ = scene("dead", "none")
        world.put("settled/op-1", settlement)
        if gone:
            world.put("intent/op-1", None)
        take(world, mode)
    world, _ = scene("dead", "none")
    world.put("intent/op-1", None)
    take(world, Mode.SETTLE_ONLY)
    assert taken == {row.id for row in RECOVERY.definition.rows}


def test_the_facts_are_complete() -> None:
    """Every movement and authority the table speaks of is one the classifier gives."""
    facts = RECOVERY.definition.facts_by_name
    assert facts["movement"].values == MOVEMENTS == (*list(HEADS)[:2], "partial", *list(HEADS)[2:])
    assert facts["authority"].values == AUTHORITIES


def test_a_foreign_command_is_refused() -> None:
    """Misuse is loud."""
    with pytest.raises(ProtocolError, match="Command is not a command of this machine"):
        perform(Command(), Recovery("op-1", MAIN, Mode.PROBE, "recoverer"))


def test_recovering_one_intent_needs_no_sweep() -> None:
    """The operator's tool: one operation id."""
    world, intent = scene("dead", "ours", confirmed=True)
    found = run(recover(Recovery("op-1", MAIN, Mode.EXCLUSIVE, "operator", 5, "nobody is publishing")), world)
    assert (found.operation_id, found.audit, found.classes) == (
        "op-1",
        K.ROLLED_BACK,
        ((MAIN, Class.ROLLED_PAST_EXPECTED),),
    )
    assert (audit_of(world).actor, audit_of(world).at) == ("operator", 5)
    _assert_recovered(world, intent, K.ROLLED_BACK)


# ---------------------------------------------------------------------------------------------------------------------
# Structure

PORTS = {"Store", "Orchestrator", "Workspace", "Coordination"}
MAY_CALL = {
    ("coordination", "get"),
    ("coordination", "create_if_absent"),
    ("coordination", "swap"),
    ("coordination", "list"),
    ("orchestrator", "reload"),
    ("store", "head"),
    ("store", "look"),
    ("store", "claims"),
    ("store", "barrier"),
    ("store", "open_staging"),
    ("store", "drop"),
    ("store", "publish"),
}


def _sources() -> Iterator[ast.Module]:
    for package in (perago_core.ledger, perago_core.recovery):
        for path in sorted(Path(inspect.getfile(package)).parent.glob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.clause("S-07")
def test_no_recovery_command_is_a_report() -> None:
    """K-01, S-07: over the commands, and over every call that ledger and recovery spell out."""
    asked = {row.ask.command.__name__ for row in RECOVERY.definition.rows if row.ask is not None}
    waited = {command.__name__ for commands in RECOVERY.definition.waits.values() for command in commands}
    assert asked | {"ReadRecord"} == waited
    assert not [name for name in waited if "Report" in name]
    spelt: set[tuple[str, str]] = set()
    publishes = 0
    for module in _sources():
        for node in ast.walk(module):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in PORTS:
                spelt.add((node.value.id.lower(), node.attr))
                publishes += node.attr == "publish"
    assert spelt == MAY_CALL
    assert publishes == 1


def test_no_recovery_ever_calls_report() -> None:
    """S-07: over what the conversations really yield, in every scene and mode."""
    called: list[Call] = []
    for says, movement, mode in product(AUTHORITIES, HEADS, Mode):
        world, _ = scene(says, movement)
        _sweep(world, mode)
        called += world.calls
        if mode is not Mode.EXCLUSIVE:
            assert not {"publish", "open_staging"} & {call.method for call in world.calls}
    assert {(call.port, call.method) for call in called} <= MAY_CALL | {("clock", "wall"), ("store", "staging_names")}


def test_the_charges_are_the_ledgers_but_for_the_one_move() -> None:
    """H-05: recovery never spends the attempt's own budget classes."""
    world, _ = scene("dead", "ours", confirmed=True)
    _sweep(world, Mode.EXCLUSIVE)
    assert {call.method for call in world.calls if call.charge != "ledger"} == {"publish", "wall", "staging_names"}


@pytest.mark.clause("S-38")
def test_sweeping_costs_the_same_with_any_number_of_settled_intents_and_other_targets() -> None:
    """S-38, L-08."""
    costs: set[int] = set()
    for settled in (0, 10, 100):
        world, _ = scene("dead", "ours")
        for number in range(settled):
            past = intent_of(operation_id=f"past-{number}")
            done(run(ledger.arm(past), world))
            done(run(ledger.settle(past, K.ACCEPTED, (Movement(MAIN, A, A),), "worker-1", 1), world))
            done(run(ledger.arm(intent_of(EU, operation_id=f"elsewhere-{number}")), world))
        world.calls.clear()
        assert [each.operation_id for each in _sweep(world).outcomes] == ["op-1"]
        costs.add(len(world.calls))
    assert costs == {11}


@pytest.mark.clause("T-O21")
@pytest.mark.parametrize("missing", [False, True])
def test_a_branch_that_went_back_or_vanished_is_kept_for_a_person(*, missing: bool) -> None:
    """R-12, T-O21: in every mode."""
    for mode in (Mode.SETTLE_ONLY, Mode.EXCLUSIVE):
        world, _ = scene("dead", "violated")
        assert world.heads()[MAIN] == ROOT
        if missing:
            world.stranger(MAIN).delete()
        found = _one(world, mode)
        assert (found.ending, found.classes) == (Ending.REFUSED, ((MAIN, Class.INVARIANT_VIOLATION),))
