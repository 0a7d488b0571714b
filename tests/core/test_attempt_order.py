"""What holds on every way through an attempt: orders, counts, who may say COMPLETED, what is said otherwise.

``explore`` gives every way there is, for every backing, with and without a ledger; each promise is checked on all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from perago_core.answers import NotDone
from perago_core.attempt import Phase
from perago_core.attempt import messages as m
from perago_core.attempt.table import outcome, step
from perago_core.ledger.records import SettlementKind
from perago_core.machine.rows import Command
from perago_core.plan import PlanKind
from perago_core.results import Acceptance, Completed, Failed, FailedTerminally, Outcome, Refusal
from perago_core.values import Attempt, Backing, OnAbandoned, Operation, TaskSnapshot, TaskStatus
from tests.core.attempts import INPUT, INTERRUPTS, Move, Path, all_attempts, explore, make_attempt, menu, walk

BY_NAME = {Backing.CONDITIONAL, Backing.LOCKED}

#: What changes something outside: nothing of it before the orchestrator has confirmed the attempt.
MUTATING = {
    "OpenStaging",
    "Upload",
    "CommitStaging",
    "MakeClaim",
    "AcquireLease",
    "RevokeOlder",
    "PassBarrier",
    "ArmIntent",
    "Publish",
    "DropStaging",
}


def _title(attempt: Attempt) -> str:
    words = [attempt.backing.value, "ledger" if attempt.ledger else "plain"]
    if attempt.on_abandoned is OnAbandoned.ADOPT:
        words.append("adopting")
    if attempt.read_only:
        words.append("read-only")
    if attempt.operation is Operation.MAINTENANCE:
        words.append("maintenance")
    return "-".join([*words, *(["over-maintenance"] if attempt.over_maintenance else [])])


#: But those that share their branch: who was not the first looks again, so their ways have no end.
ENDING = [each for each in all_attempts() if not each.shares]
on_every_way = pytest.mark.parametrize("attempt", ENDING, ids=_title)
WRITABLE = [each for each in ENDING if not each.read_only]
on_every_writable_way = pytest.mark.parametrize("attempt", WRITABLE, ids=_title)
on_every_way_by_name = pytest.mark.parametrize(
    "attempt", [each for each in WRITABLE if each.backing in BY_NAME], ids=_title
)
on_every_locked_way = pytest.mark.parametrize(
    "attempt", [each for each in WRITABLE if each.backing is Backing.LOCKED], ids=_title
)


@cache
def publishing(attempt: Attempt) -> tuple[Path, ...]:
    """Give the ways on which the target was asked to move."""
    return tuple(path for path in explore(attempt) if "Publish" in path.asked)


def answers(path: Path, phase: Phase) -> Iterator[Move]:
    """Give the moves made while waiting in a phase."""
    return (move for move in path.moves if move.before.phase is phase)


def last(path: Path, name: str, before: int | None = None) -> int:
    """Give the last position of a command, or -1."""
    names = path.asked[:before]
    return len(names) - 1 - names[::-1].index(name) if name in names else -1


def unresolved(path: Path) -> bool:
    """Say whether a publication was sent whose fate nobody has found out."""
    sent = [move for move in path.moves if move.before.phase is Phase.PUBLICATION]
    if not sent or isinstance(sent[0].event, m.Published | NotDone):
        return False
    return "R3" not in path.rows


def test_number_of_ways_is_pinned() -> None:
    """Promises on all ways are worth what the ways are: a row or an event that gets lost shows here first."""
    assert {_title(attempt): len(explore(attempt)) for attempt in ENDING} == {
        "soft-plain": 202,
        "soft-ledger": 274,
        "atomic-plain": 1508,
        "atomic-ledger": 1868,
        "conditional-plain": 1820,
        "conditional-ledger": 2180,
        "locked-plain": 4724,
        "locked-ledger": 5264,
        "soft-plain-read-only": 16,
        "atomic-plain-read-only": 16,
        "conditional-plain-read-only": 16,
        "locked-plain-read-only": 16,
        "atomic-ledger-maintenance": 1604,
        "atomic-ledger-over-maintenance": 1796,
        "atomic-plain-adopting": 3399,
        "atomic-ledger-adopting": 4279,
        "conditional-plain-adopting": 3859,
        "locked-plain-adopting": 10755,
    }


# ---------------------------------------------------------------------------------------------------------------------
# Orders


@pytest.mark.clause("S-09")
@on_every_writable_way
def test_nothing_comes_between_observing_the_head_and_sending_the_plan(attempt: Attempt) -> None:
    """S-09, rule 1; rows H1 H2 H3: the plan rests on the head that was read just before, and expects it."""
    assert publishing(attempt)
    for path in publishing(attempt):
        sent = path.asked.index("Publish")
        assert path.asked[sent - 1] == "ReadHead", path
        (observed,) = answers(path, Phase.HEAD)
        publish = path.commands[sent]
        assert isinstance(observed.event, m.HeadSeen)
        assert isinstance(publish, m.Publish)
        assert observed.event.head is not None
        assert publish.plan.expected == observed.event.head.commit.ref, path


@pytest.mark.clause("S-08", "P-01")
@on_every_writable_way
def test_every_publication_follows_a_fence_later_than_its_name_and_its_commit(attempt: Attempt) -> None:
    """S-08, P-01, P-04: name before last fence before send."""
    for path in publishing(attempt):
        sent = path.asked.index("Publish")
        fence_passed = last(path, "ReloadTask", sent)
        assert fence_passed > last(path, "OpenStaging", sent), path
        assert fence_passed > last(path, "CommitStaging", sent), path
        assert fence_passed > 0, path


@pytest.mark.clause("W-23")
@on_every_way_by_name
def test_older_names_are_revoked_and_a_barrier_passed_before_the_head_is_read(attempt: Attempt) -> None:
    """Architecture 5, W-23, S-30: revoke, barrier, observe, send.

    The claims are listed before the head is read: under a lease before all of it, else past the barrier (L-02).
    """
    guards = ["RevokeOlder", "PassBarrier", "ReadHead"]
    guards.insert(0 if attempt.backing is Backing.LOCKED else 2, "ListClaims")
    for path in publishing(attempt):
        claimed = path.asked.index("MakeClaim")  # whoever adopts has looked before it did any work
        positions = [path.asked.index(name, claimed) for name in guards]
        assert positions == sorted(positions), path
        assert positions[-1] < path.asked.index("Publish"), path


@on_every_locked_way
def test_the_attempt_is_confirmed_again_under_the_lease(attempt: Attempt) -> None:
    """Architecture 5 `locked`, K-14: lease, wait after an unclean predecessor, fence 3, revoke, observe."""
    for path in publishing(attempt):
        lease, revoked, head = (path.asked.index(name) for name in ("AcquireLease", "RevokeOlder", "ReadHead"))
        assert "ReloadTask" in path.asked[lease:revoked], path
        assert lease < revoked < head, path
        (held,) = answers(path, Phase.LEASE)
        assert isinstance(held.event, m.LeaseHeld)
        assert ("AwaitTakeover" in path.asked) == (not held.event.clean), path


@on_every_way
def test_the_order_is_publish_then_report_then_clean_up(attempt: Attempt) -> None:
    """Architecture 6, P-46 as changed by architecture 5: one clean-up, last; at most one report, after publishing."""
    for path in explore(attempt):
        assert path.asked[-1] == "CleanUp", path
        assert path.asked.count("CleanUp") == 1, path
        assert path.asked.count("Report") <= 1, path
        if "Report" in path.asked and "Publish" in path.asked:
            assert path.asked.index("Publish") < path.asked.index("Report"), path


@pytest.mark.clause("H-22", "R-02", "R-03", "R-24")
@on_every_way
def test_no_effect_is_asked_for_twice(attempt: Attempt) -> None:
    """K-15, K-16, H-22, R-02, R-03, R-24: one attempt, one publication that is all of it, no loop around an effect."""
    once = MUTATING - {"PassBarrier"}
    for path in explore(attempt):
        assert all(path.asked.count(name) <= 1 for name in once), path
        # The second barrier is our own, after an unknown publication.
        assert path.asked.count("PassBarrier") <= (2 if "DropStaging" in path.asked else 1), path


@on_every_way
def test_nothing_is_changed_before_the_orchestrator_has_confirmed_the_attempt(attempt: Attempt) -> None:
    """P-03, T-P10: the first task reload comes before every effect, on every way."""
    for path in explore(attempt):
        effects = [index for index, name in enumerate(path.asked) if name in MUTATING]
        if effects:
            assert "ReloadTask" in path.asked[: effects[0]], path


@pytest.mark.clause("R-01")
@on_every_writable_way
def test_intent_is_durable_before_the_publication_and_settled_after_the_report(attempt: Attempt) -> None:
    """S-18, R-01, T-O12; rows A1 IG3 M1: armed after every refusal that does not depend on the head, closed last.

    Only who is outranked after the store refused settles without a report (PR3): it is silent, and nothing was moved.
    """
    for path in explore(attempt):
        if not attempt.ledger:
            assert not {"SettleIntents", "ArmIntent", "ConfirmIntent", "SettleIntent"} & {*path.asked}, path
            continue
        if "Publish" in path.asked:
            assert path.asked.index("ArmIntent") == path.asked.index("ReadHead") - 1, path
        for name in ("ConfirmIntent", "SettleIntent"):
            if name in path.asked and "PR3" not in path.rows:
                assert path.asked.index("ArmIntent") < path.asked.index("Report") < path.asked.index(name), path


# ---------------------------------------------------------------------------------------------------------------------
# What is never asked for


@pytest.mark.clause("S-10")
def test_read_only_asks_for_nothing_but_its_body() -> None:
    """P-07, S-10, rule 5: no reload, no head, no staging, no claim, no ledger, no lock, no publication."""
    for backing in Backing:
        for path in explore(make_attempt(backing, read_only=True)):
            assert {*path.asked} <= {"PrepareWorkspace", "RunBody", "Report", "CleanUp"}, path
            assert path.commands[-1] == m.CleanUp(), path


@pytest.mark.clause("S-12", "P-33")
@on_every_writable_way
def test_no_op_never_commits_and_never_moves_the_target_to_anything_but_the_input(attempt: Attempt) -> None:
    """S-12, P-33, T-P8: unchanged, or nothing staged after all."""
    for path in explore(attempt):
        unchanged = any(isinstance(move.event, m.BodyDone) and not move.event.changed for move in path.moves)
        if unchanged:
            assert "Upload" not in path.asked, path
            assert "CommitStaging" not in path.asked, path
        if unchanged or any(isinstance(move.event, m.NothingStaged) for move in path.moves):
            assert path.state.known.staged is None, path
            for command in path.commands:
                if isinstance(command, m.Publish):
                    assert (command.plan.kind, command.plan.commit) == (PlanKind.RETURN, INPUT), path


NEVER = {
    Backing.SOFT: {"MakeClaim", "ListClaims", "ReadOwners", "AcquireLease", "RevokeOlder", "PassBarrier", "ReadCommit"},
    Backing.ATOMIC: {"AcquireLease", "AwaitTakeover", "RevokeOlder", "PassBarrier", "DropStaging"},
    Backing.CONDITIONAL: {"AcquireLease", "AwaitTakeover"},
    Backing.LOCKED: set[str](),
}


@on_every_way
def test_a_backing_asks_only_for_what_it_adds(attempt: Attempt) -> None:
    """K-04, W-02, architecture 5: no lock outside `locked`, no revocation in `atomic`, nothing of both in `soft`."""
    for path in explore(attempt):
        assert not NEVER[attempt.backing] & {*path.asked}, path


@pytest.mark.clause("P-19")
@pytest.mark.parametrize(
    ("backing", "adopts"),
    [*((backing, False) for backing in Backing), (Backing.ATOMIC, True)],
    ids=lambda each: each.value if isinstance(each, Backing) else "adopts" if each else "replaces",
)
def test_ledger_adds_evidence_and_changes_no_verdict(backing: Backing, adopts: bool) -> None:
    """P-19, architecture 5: without its own commands and failures, the same ways and the same ends remain."""
    own = (m.SettleIntents, m.ArmIntent, m.ConfirmIntent, m.SettleIntent)
    of_its_own = {Phase.INTENTS, Phase.INTENT}

    def verdicts(*, ledger: bool) -> set[tuple[tuple[Command, ...], object, object]]:
        found: set[tuple[tuple[Command, ...], object, object]] = set()
        for path in explore(make_attempt(backing, ledger=ledger, adopts=adopts)):
            if any(
                move.before.phase in of_its_own and not isinstance(move.event, m.IntentsSettled | m.Armed)
                for move in path.moves
            ) or any(row in {"I1", "ZA4"} for row in path.rows):
                continue
            reported = last(path, "Report")
            asked = path.commands[: reported + 1] if reported >= 0 else path.commands
            end = outcome(path.state)
            found.add((tuple(each for each in asked if not isinstance(each, own)), end.result, end.silence))
        return found

    assert verdicts(ledger=True) == verdicts(ledger=False)


# ---------------------------------------------------------------------------------------------------------------------
# What is said at the end


def _why_completed(path: Path, ref: str) -> str:
    """Name what justifies a COMPLETED, looking at what happened and not at what the machine remembers."""
    if path.attempt.read_only:
        return "read only"
    if path.moves[-1].before.known.accepted is not None:
        return "accepted before"
    (seen,) = answers(path, Phase.HEAD)
    assert isinstance(seen.event, m.HeadSeen)
    if "Publish" not in path.asked:
        return "nothing to do" if ref == INPUT or path.attempt.operation is Operation.MAINTENANCE else "adopted"
    (sent,) = answers(path, Phase.PUBLICATION)
    if isinstance(sent.event, m.Published):
        if path.attempt.backing is Backing.SOFT or ref == INPUT:
            return "published"
        (read,) = answers(path, Phase.READ_BACK)
        if isinstance(read.event, m.CommitSeen):
            return "verified" if read.row == "Y1" else "not verified"
    found = [move.event for move in answers(path, Phase.OWN_HEAD)]
    proven = len(found) == 1 and isinstance(found[0], m.HeadSeen) and found[0].head is not None
    current = [move.row for move in answers(path, Phase.OWN_FENCE)] == ["R5"]
    return "proven ours" if proven and current else "not proven"


@pytest.mark.clause("S-05", "P-22")
@on_every_way
def test_completed_is_never_said_out_of_uncertainty(attempt: Attempt) -> None:
    """S-05, P-22, P-31, K-10: published and verified, nothing to do, read only, or proven ours while still current.

    Whoever adopts may also say it of what was accepted, or of what is at the head, for its own task.
    """
    reasons: set[str] = set()
    for path in explore(attempt):
        result = outcome(path.state).result
        if isinstance(result, Completed):
            assert not unresolved(path), path
            reasons.add(_why_completed(path, result.ref))
    expected = {"nothing to do", "published"} if attempt.backing is Backing.SOFT else {"nothing to do", "verified"}
    if attempt.backing is not Backing.SOFT:
        expected |= {"proven ours", *([] if attempt.operation is Operation.MAINTENANCE else ["published"])}
    if attempt.on_abandoned is OnAbandoned.ADOPT:
        expected |= {"accepted before", "adopted"}
    if attempt.over_maintenance:
        # Its child of the input is maintenance, published over and never taken back; and no tree proves a merge ours.
        expected -= {"published"}
    assert reasons == ({"read only"} if attempt.read_only else expected)


@pytest.mark.clause("P-11", "T-P12")
@on_every_way
def test_output_is_the_input_or_what_this_execution_published(attempt: Attempt) -> None:
    """S-06, P-11, T-P12; maintenance may name the head that already holds its very content (H-12, H-23), and whoever
    adopts the child of the input that an earlier attempt of its task published, or what was accepted for the task.
    """
    for path in explore(attempt):
        result = outcome(path.state).result
        if not isinstance(result, Completed) or result.ref == INPUT:
            continue
        assert result.execution == attempt.execution
        if "Publish" in path.asked:
            assert result.ref == _published(path), path
            continue
        assert attempt.operation is Operation.MAINTENANCE or attempt.on_abandoned is OnAbandoned.ADOPT
        seen = [move.event.head for move in answers(path, Phase.HEAD) if isinstance(move.event, m.HeadSeen)]
        accepted = [each.result_ref for each in _tasks_of_others(path) if each.status is TaskStatus.COMPLETED]
        assert result.ref in {*accepted, *(each.commit.ref for each in seen if each is not None)}, path
        if not accepted:
            assert [each.commit.parents for each in seen if each is not None] == [(INPUT,)], path


def _published(path: Path) -> str | None:
    """Give what the store said was published or, where it did not say, what was found at the head."""
    (sent,) = answers(path, Phase.PUBLICATION)
    if isinstance(sent.event, m.Published):
        return sent.event.ref
    (found,) = answers(path, Phase.OWN_HEAD)
    assert isinstance(found.event, m.HeadSeen)
    assert found.event.head is not None
    return found.event.head.commit.ref


def _tasks_of_others(path: Path) -> Iterator[TaskSnapshot]:
    for move in path.moves:
        if isinstance(move.event, m.OwnersRead):
            yield from (snapshot for _, snapshot in move.event.snapshots if snapshot is not None)


@pytest.mark.clause("S-36")
@on_every_way
def test_only_a_check_or_the_body_itself_ends_a_task_for_good(attempt: Attempt) -> None:
    """S-36, P-05, P-29, P-30; row B5."""
    seen = 0
    for path in explore(attempt):
        if isinstance(outcome(path.state).result, FailedTerminally):
            seen += 1
            (said,) = [move.event for move in path.moves if move.row == "B5"]
            assert isinstance(said, m.BodyFailed)
            assert said.terminal, path
            assert "Publish" not in path.asked, path
    assert seen > 0


def _explanations(end: Outcome) -> list[Refusal]:
    found = [end.result.refusal] if isinstance(end.result, Failed | FailedTerminally) else []
    return [*found, *([] if end.silence is None else [end.silence])]


@pytest.mark.clause("S-37", "L-10", "P-36")
@on_every_way
def test_every_end_but_success_is_explained(attempt: Attempt) -> None:
    """L-10, S-37, P-36, P-44: expected, found, class, what to do next; success has none of it."""
    for path in explore(attempt):
        end = outcome(path.state)
        assert (end.silence is not None) == (end.result is None), path
        explanations = _explanations(end)
        assert len(explanations) == (0 if isinstance(end.result, Completed) else 1), path
        for refusal in explanations:
            assert all((refusal.expected, refusal.actual, refusal.next_action)), path
            assert refusal.classification.value in str(refusal)


@on_every_writable_way
def test_nobody_is_told_that_nothing_was_published_when_it_may_have_been(attempt: Attempt) -> None:
    """P-22, L-10, T-O13: once sent, only the store's own refusal says that nothing happened."""
    for path in publishing(attempt):
        (sent,) = answers(path, Phase.PUBLICATION)
        refused = isinstance(sent.event, NotDone)
        end = outcome(path.state)
        for refusal in _explanations(end):
            nothing = refusal.next_action.startswith("Nothing was published")
            assert nothing == (refused and end.result is not None), path


@pytest.mark.clause("S-40")
@on_every_way
def test_whoever_lost_or_never_knew_the_claim_is_silent(attempt: Attempt) -> None:
    """S-40, rule 6, T-W9; rows K2 Q2 Q3 DE-CLAIM: a FAILED would end the attempt of the one who won."""
    silent = {"K2", "Q2", "Q3", "DE-CLAIM", "DE-CLAIM_CHECK", "AL-CLAIM", "AL-CLAIM_CHECK"}
    for path in explore(attempt):
        if silent & {*path.rows}:
            assert "Report" not in path.asked, path
            assert outcome(path.state).result is None, path


# ---------------------------------------------------------------------------------------------------------------------
# What is left behind


@pytest.mark.clause("S-33")
@on_every_way
def test_whoever_may_have_made_a_name_removes_it(attempt: Attempt) -> None:
    """Rule 3, P-28, P-42, T-P2, S-33: from the request on, whatever came of it; a name that was refused is not ours."""
    for path in explore(attempt):
        end = path.commands[-1]
        assert isinstance(end, m.CleanUp)
        opening = [move for move in path.moves if move.before.phase in {Phase.STAGING_0, Phase.STAGING}]
        refused = any(isinstance(move.event, NotDone) for move in opening)
        made = "OpenStaging" in path.asked and not refused
        assert end.name == (attempt.staging_name if made else None), path


@on_every_way
def test_lease_is_released_only_when_the_fate_of_the_publication_is_known(attempt: Attempt) -> None:
    """Architecture 5 `locked`, S-24: after an unknown publication the successor must meet an unclean lease."""
    for path in explore(attempt):
        end = path.commands[-1]
        assert isinstance(end, m.CleanUp)
        held = any(isinstance(move.event, m.LeaseHeld) for move in path.moves)
        if not held or unresolved(path):
            assert not end.release_lease, path
        elif isinstance(outcome(path.state).result, Completed) or "Publish" not in path.asked:
            assert end.release_lease, path


@on_every_writable_way
def test_intent_is_settled_only_by_what_is_certain(attempt: Attempt) -> None:
    """S-19, S-21, K-01, T-O3: accepted after reading the acceptance, not published if nothing can have moved."""
    for path in explore(attempt):
        for command in path.commands:
            if not isinstance(command, m.SettleIntent):
                continue
            if command.kind is SettlementKind.ACCEPTED:
                assert outcome(path.state).acceptance is Acceptance.ACCEPTED, path
                continue
            assert command.kind is SettlementKind.NOT_PUBLISHED
            assert command.ref is None
            sent = [move.event for move in answers(path, Phase.PUBLICATION)]
            assert all(isinstance(event, NotDone) for event in sent), path


@pytest.mark.clause("S-32", "P-32")
def test_clean_up_never_changes_the_result() -> None:
    """P-32, S-32; rows X1 X2 X3: what is left is named, the rest is as if all had gone well."""
    cleaning = {path.state for path in walk(all_attempts()).values() if path.state.phase is Phase.CLEAN_UP}
    assert cleaning
    for state in cleaning:
        answered = [outcome(step(state, event).state) for event in menu(state) if event not in INTERRUPTS]
        assert len({(end.result, end.silence, end.acceptance, end.backing) for end in answered}) == 1
        assert [end.left_behind for end in answered] == [(), ("workspace",), ("staging name",)]
