"""What each failure leads to: a reported FAILED, silence, or finding out; for each backing.

The mapping is that of architecture.md, section 5, "What a failed fence reports" and "Unknown answers".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import Phase
from perago_core.attempt import messages as m
from perago_core.attempt.state import BEYOND_SOFT, is_accepted, is_current
from perago_core.attempt.table import outcome
from perago_core.names import commit_message
from perago_core.plan import PlanKind
from perago_core.results import Acceptance, Classification, Completed, Failed, FailedTerminally, status_of
from perago_core.values import Attempt, Backing, Head, TaskSnapshot, TaskStatus, claim_of
from tests.core.attempts import (
    BACKINGS,
    INPUT,
    INTERRUPTS,
    MERGED,
    ON_CHILD,
    ON_INPUT,
    STRONG,
    TREE,
    Path,
    accepted,
    commit,
    current,
    head,
    make_attempt,
    menu,
    older_claim,
    play,
    stale,
)

Choices = Mapping[Phase, Event | tuple[Event, ...]]

OURS = make_attempt().execution
FENCES = {
    Phase.FENCE_0: {Phase.BODY: m.StagingWanted(OURS)},
    Phase.FENCE_1: {},
    Phase.FENCE_2: {},
    Phase.FENCE_3: {},
}
BEFORE_CLAIM = (Phase.FENCE_0, Phase.FENCE_1, Phase.FENCE_2)


def _titles(pairs: tuple[tuple[Backing, bool], ...]) -> list[str]:
    return [f"{backing.value}-{'ledger' if ledger else 'plain'}" for backing, ledger in pairs]


every_backing = pytest.mark.parametrize(("backing", "ledger"), BACKINGS, ids=_titles(BACKINGS))
every_strong_backing = pytest.mark.parametrize(("backing", "ledger"), STRONG, ids=_titles(STRONG))


def failed(path: Path) -> Classification:
    """Return the class of a reported failure."""
    result = outcome(path.state).result
    assert isinstance(result, Failed), path
    return result.refusal.classification


def silent(path: Path) -> Classification:
    """Return the class of a silence; nothing was reported."""
    end = outcome(path.state)
    assert end.result is None, path
    assert end.silence is not None, path
    assert "Report" not in path.asked, path
    return end.silence.classification


# ---------------------------------------------------------------------------------------------------------------------
# The attempt fence, field by field


def _with(snapshot: TaskSnapshot, changes: Mapping[str, Any]) -> TaskSnapshot:
    return evolve(snapshot, **changes)


@pytest.mark.clause("P-02")
@pytest.mark.parametrize("backing", Backing)
@pytest.mark.parametrize(
    "wrong",
    [
        {"status": TaskStatus.SCHEDULED},
        {"status": TaskStatus.COMPLETED},
        {"status": TaskStatus.TIMED_OUT},
        {"status": TaskStatus.CANCELED},
        {"workflow_id": "workflow-9"},
        {"task_id": "task-9"},
        {"retry_count": 9},
    ],
    ids=str,
)
def test_attempt_fence_rejects_each_of_the_seeds_fields_alone(backing: Backing, wrong: Mapping[str, object]) -> None:
    """P-02, P-01: status, workflow, task, retry count."""
    attempt = make_attempt(backing)
    assert is_current(attempt, current(attempt))
    assert not is_current(attempt, _with(current(attempt), wrong))


@pytest.mark.parametrize("backing", Backing)
@pytest.mark.parametrize(
    "wrong",
    [{"started_at": 9}, {"poll_count": 9}, {"worker_id": "worker-9"}, {"workflow_running": False}],
    ids=str,
)
def test_attempt_fence_outside_soft_tells_two_deliveries_apart(backing: Backing, wrong: Mapping[str, object]) -> None:
    """N-01, N-07, F-14: start time, poll count, worker, workflow; the seed's fence looks at none of them."""
    attempt = make_attempt(backing)
    assert is_current(attempt, _with(current(attempt), wrong)) == (backing is Backing.SOFT)


@pytest.mark.parametrize("backing", Backing)
def test_attempt_that_is_gone_is_not_current(backing: Backing) -> None:
    """P-02, N-07: a purged task confirms nothing."""
    assert not is_current(make_attempt(backing), None)


# ---------------------------------------------------------------------------------------------------------------------
# Failed fences


@pytest.mark.clause("P-05")
@pytest.mark.parametrize("phase", BEFORE_CLAIM, ids=lambda phase: phase.name)
@pytest.mark.parametrize("gone", [False, True])
@every_backing
def test_stale_attempt_never_goes_on(backing: Backing, ledger: bool, gone: bool, phase: Phase) -> None:
    """P-05, P-04, architecture 5; rows EX FX GX 1 4: FAILED in soft as in the seed, silence elsewhere."""
    attempt = make_attempt(backing, ledger=ledger)
    path = play(attempt, {**FENCES[phase], phase: m.TaskReloaded(None if gone else stale(attempt))})
    judge = failed if backing is Backing.SOFT else silent
    assert judge(path) is Classification.ATTEMPT_STALE
    assert path.moves[-2 if backing is not Backing.SOFT else -3].before.phase is phase
    assert "Publish" not in path.asked


@pytest.mark.clause("P-03")
def test_stale_attempt_never_stages() -> None:
    """P-03: fence 1 comes first, so there is nothing to remove."""
    for backing in Backing:
        attempt = make_attempt(backing)
        path = play(attempt, {Phase.FENCE_1: m.TaskReloaded(stale(attempt))})
        assert "OpenStaging" not in path.asked
        assert path.commands[-1] == m.CleanUp()


@pytest.mark.clause("P-04")
def test_attempt_that_went_stale_while_staging_removes_its_name_and_moves_nothing() -> None:
    """P-04, P-28: a staging commit, no target mutation, the name named for removal."""
    for backing in Backing:
        attempt = make_attempt(backing)
        path = play(attempt, {Phase.FENCE_2: m.TaskReloaded(stale(attempt))})
        assert "CommitStaging" in path.asked
        assert "MakeClaim" not in path.asked
        assert path.commands[-1] == m.CleanUp(attempt.staging_name)


@pytest.mark.parametrize("phase", BEFORE_CLAIM, ids=lambda phase: phase.name)
@every_backing
def test_unreadable_task_is_failed_only_while_our_own_deadline_has_not_passed(
    backing: Backing, ledger: bool, phase: Phase
) -> None:
    """Architecture 5; rows EX FX GX 2 3 5: soft reports in any case, the others only in time."""
    attempt = make_attempt(backing, ledger=ledger)
    in_time = play(attempt, {**FENCES[phase], phase: Unknown("timeout", now=1.0, until=1.5)})
    too_late = play(attempt, {**FENCES[phase], phase: Unknown("timeout", now=1.5, until=1.5)})
    assert failed(in_time) is Classification.ATTEMPT_UNKNOWN
    judge = failed if backing is Backing.SOFT else silent
    assert judge(too_late) is Classification.ATTEMPT_UNKNOWN


@pytest.mark.parametrize("ledger", [False, True])
def test_fence_under_the_lease_gives_the_lease_back(ledger: bool) -> None:
    """Architecture 5 `locked`, CW-16; rows JX1 JX2 JX3: silent if stale, FAILED if unknown in time; lease freed."""
    attempt = make_attempt(Backing.LOCKED, ledger=ledger)
    ends = [
        silent(path := play(attempt, {Phase.FENCE_3: m.TaskReloaded(stale(attempt))})),
        failed(play(attempt, {Phase.FENCE_3: Unknown("timeout", now=1.0, until=2.0)})),
        silent(play(attempt, {Phase.FENCE_3: Unknown("timeout", now=3.0, until=2.0)})),
    ]
    assert ends == [Classification.ATTEMPT_STALE, *[Classification.ATTEMPT_UNKNOWN] * 2]
    assert "RevokeOlder" not in path.asked
    assert path.commands[-1] == m.CleanUp(attempt.staging_name, release_lease=True)


def test_stale_explanation_names_both_sides() -> None:
    """L-10: what was polled, what the orchestrator shows now."""
    attempt = evolve(make_attempt(), worker_id="")
    path = play(attempt, {Phase.FENCE_1: m.TaskReloaded(evolve(stale(attempt), workflow_running=False))})
    result = outcome(path.state).result
    assert isinstance(result, Failed)
    assert result.refusal.expected == "task task-2 of workflow-1 IN_PROGRESS, retry 1, started 200, poll 1, worker -"
    assert result.refusal.actual == (
        "task task-2 of workflow-1 TIMED_OUT, retry 1, started 200, poll 1, worker -, workflow not running"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Failures that are reported


REPORTED: list[tuple[Phase, Event, Classification]] = [
    (Phase.WORKSPACE, NotDone("x"), Classification.WORKSPACE_FAILED),
    (Phase.WORKSPACE, Unknown("x"), Classification.WORKSPACE_FAILED),
    (Phase.BODY, m.BodyFailed(OURS, "x"), Classification.BODY_FAILED),
    (Phase.BODY, Unknown("x"), Classification.BODY_LOST),
    (Phase.STAGING, NotDone("x"), Classification.STAGING_FAILED),
    (Phase.STAGING, Unknown("x"), Classification.STAGING_UNKNOWN),
    (Phase.UPLOAD, NotDone("x"), Classification.STAGING_FAILED),
    (Phase.UPLOAD, Unknown("x"), Classification.STAGING_UNKNOWN),
    (Phase.COMMIT, NotDone("x"), Classification.STAGING_FAILED),
    (Phase.COMMIT, Unknown("x"), Classification.STAGING_UNKNOWN),
    (Phase.CLAIM, NotDone("x"), Classification.CLAIM_FAILED),
    (Phase.CLAIMS, Unknown("x"), Classification.CLAIMS_UNREADABLE),
    (Phase.OWNERS, Unknown("x"), Classification.CLAIMS_UNREADABLE),
    (Phase.INTENTS, Unknown("x"), Classification.LEDGER_UNAVAILABLE),
    (Phase.INTENTS, m.IntentsSettled(3, unresolved=("operation-1",)), Classification.RECOVERY_REQUIRED),
    (Phase.INTENTS, m.IntentsSettled(4), Classification.POLICY_CHANGED),
    (Phase.LEASE, NotDone("x"), Classification.LEASE_BUSY),
    (Phase.LEASE, Unknown("x"), Classification.LEASE_BUSY),
    (Phase.REVOCATION, NotDone("x"), Classification.REVOCATION_FAILED),
    (Phase.REVOCATION, Unknown("x"), Classification.REVOCATION_FAILED),
    (Phase.BARRIER, NotDone("x"), Classification.BARRIER_FAILED),
    (Phase.BARRIER, Unknown("x"), Classification.BARRIER_FAILED),
    (Phase.INTENT, NotDone("x"), Classification.LEDGER_UNAVAILABLE),
    (Phase.INTENT, Unknown("x"), Classification.LEDGER_UNAVAILABLE),
    (Phase.HEAD, Unknown("x"), Classification.TARGET_UNREADABLE),
    (Phase.HEAD, m.HeadSeen(None), Classification.TARGET_MISSING),
    (Phase.HEAD, m.HeadSeen(evolve(ON_INPUT, dirty=True)), Classification.TARGET_DIRTY),
    (Phase.HEAD, m.HeadSeen(head("X", "W")), Classification.HEAD_ELSEWHERE),
    (Phase.HEAD, m.HeadSeen(head("M", INPUT, "W")), Classification.HEAD_MERGED),
    (Phase.PUBLICATION, NotDone("x"), Classification.PUBLISH_REFUSED),
]
LEDGER_PHASES = {Phase.INTENTS, Phase.INTENT}
WITH_OTHERS: Choices = {Phase.CLAIMS: m.ClaimsListed((older_claim(make_attempt()),))}


def _reaches(backing: Backing, phase: Phase, *, ledger: bool) -> bool:
    if phase in LEDGER_PHASES:
        return ledger
    if phase in {Phase.REVOCATION, Phase.BARRIER}:
        return backing in {Backing.CONDITIONAL, Backing.LOCKED}
    if phase is Phase.LEASE:
        return backing is Backing.LOCKED
    return backing is not Backing.SOFT or phase not in BEYOND_SOFT


CASES = [
    pytest.param(
        backing, ledger, phase, event, expected, id=f"{title}-{phase.name}-{type(event).__name__}-{expected.value}"
    )
    for (backing, ledger), title in zip(BACKINGS, _titles(BACKINGS), strict=True)
    for phase, event, expected in REPORTED
    if _reaches(backing, phase, ledger=ledger)
]


@pytest.mark.clause("P-12", "P-34", "R-22", "C11")
@pytest.mark.parametrize(("backing", "ledger", "phase", "event", "expected"), CASES)
def test_failure_is_reported_as_failed_and_nothing_is_published(
    backing: Backing, ledger: bool, phase: Phase, event: Event, expected: Classification
) -> None:
    """P-12, P-30, P-31, P-34, P-42, R-21, R-22, R-23, W-17, S-13, N-04: refused or unknown, one plain FAILED."""
    path = play(
        make_attempt(backing, ledger=ledger),
        {**(WITH_OTHERS if phase is Phase.OWNERS else {}), phase: event},
    )
    assert failed(path) is expected
    assert [type(command) for command in path.commands].count(m.Publish) == (phase is Phase.PUBLICATION)
    assert path.asked.count("Report") == 1


@pytest.mark.clause("R-23", "T-O12")
def test_intent_that_was_armed_is_settled_when_nothing_was_published() -> None:
    """T-O12, R-23, CW-17; rows Z5 ZU5 ZX3: a refused attempt leaves no open intent, whatever became of its report."""
    for backing, _ in BACKINGS:
        for answer in (m.Reported(), Unknown("timeout"), NotDone("no such task")):
            attempt = make_attempt(backing, ledger=True)
            path = play(attempt, {Phase.HEAD: m.HeadSeen(head("X", "W")), Phase.REPORT: answer})
            assert path.asked[-3:] == ("Report", "SettleIntent", "CleanUp")


@pytest.mark.clause("P-07")
def test_read_only_body_that_wants_to_write_fails() -> None:
    """P-07; row B9: no name is opened for it."""
    path = play(make_attempt(read_only=True), {Phase.BODY: m.StagingWanted(OURS)})
    assert failed(path) is Classification.READ_ONLY_WROTE
    assert "OpenStaging" not in path.asked


@pytest.mark.clause("P-29")
def test_pre_check_ends_the_task_for_good_and_a_body_that_says_so_too() -> None:
    """P-29, S-36, S-37; rows B4 B5: and these are the statuses the orchestrator is told."""
    plain = play(make_attempt(), {Phase.BODY: m.BodyFailed(OURS, "x")})
    terminal = play(make_attempt(), {Phase.BODY: m.BodyFailed(OURS, "x", terminal=True)})
    ends = [outcome(path.state).result for path in (plain, terminal)]
    assert isinstance(ends[0], Failed)
    assert isinstance(ends[1], FailedTerminally)
    assert [status_of(end) for end in (ends[0], ends[1])] == [
        TaskStatus.FAILED,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
    ]
    assert "retry cannot help" in ends[1].refusal.next_action
    assert status_of(Completed(INPUT, "{}", OURS)) is TaskStatus.COMPLETED


@pytest.mark.clause("S-31", "P-42")
@pytest.mark.parametrize("phase", [Phase.STAGING, Phase.STAGING_0], ids=lambda phase: phase.name)
def test_name_in_doubt_is_removed_and_a_refused_one_is_not_ours(phase: Phase) -> None:
    """P-42, S-31, T-P2, T-O24; rows SX OX: never adopt a residue, never delete what somebody else made."""
    first = {Phase.BODY: m.StagingWanted(OURS)} if phase is Phase.STAGING_0 else {}
    for backing in Backing:
        attempt = make_attempt(backing)
        unknown = play(attempt, {**first, phase: Unknown("timeout")})
        refused = play(attempt, {**first, phase: NotDone("the name exists")})
        assert unknown.commands[-1] == m.CleanUp(attempt.staging_name)
        assert refused.commands[-1] == m.CleanUp(None)


# ---------------------------------------------------------------------------------------------------------------------
# Claims


@every_strong_backing
def test_lost_claim_is_silent(backing: Backing, ledger: bool) -> None:
    """S-40, S-17, rule 6; row K2: the winner has the same task id."""
    attempt = make_attempt(backing, ledger=ledger)
    other = evolve(claim_of(attempt, None), execution="run-9")
    path = play(attempt, {Phase.CLAIM: m.ClaimStands(other)})
    assert silent(path) is Classification.CLAIM_LOST
    assert path.asked[-2:] == ("MakeClaim", "CleanUp")
    end = outcome(path.state)
    assert end.silence is not None
    assert end.silence.actual == "claimed by execution run-9"


@every_strong_backing
def test_unknown_claim_is_read_back_by_its_nonce(backing: Backing, ledger: bool) -> None:
    """Architecture 5, T-W9, S-40, F-10; rows K3 Q1 to Q4: ours goes on; another's, none, still unknown are silent."""
    attempt = make_attempt(backing, ledger=ledger)
    lost: Choices = {Phase.CLAIM: Unknown("timeout")}
    mine = claim_of(attempt, None)

    ours = play(attempt, {**lost, Phase.CLAIM_CHECK: m.ClaimRead(mine)})
    assert isinstance(outcome(ours.state).result, Completed)
    at = ours.asked.index("MakeClaim")
    onward = "RevokeOlder" if backing is Backing.CONDITIONAL else "ListClaims"
    assert ours.asked[at : at + 3] == ("MakeClaim", "ReadClaim", onward)

    other = play(attempt, {**lost, Phase.CLAIM_CHECK: m.ClaimRead(evolve(mine, execution="run-9"))})
    nobody = play(attempt, {**lost, Phase.CLAIM_CHECK: m.ClaimRead(None)})
    unread = play(attempt, {**lost, Phase.CLAIM_CHECK: Unknown("timeout")})
    assert silent(other) is Classification.CLAIM_LOST
    assert silent(nobody) is Classification.CLAIM_LOST
    assert silent(unread) is Classification.CLAIM_FAILED


# ---------------------------------------------------------------------------------------------------------------------
# Unknown publications

LOST: Choices = {Phase.PUBLICATION: Unknown("timeout")}


@pytest.mark.clause("P-31")
def test_unknown_publication_in_soft_is_failed_and_never_sent_again() -> None:
    """P-31, rule 2, K-10; row P4: also when it actually succeeded."""
    for ledger in (False, True):
        path = play(make_attempt(ledger=ledger), LOST)
        assert failed(path) is Classification.PUBLISH_UNKNOWN
        assert path.asked.count("Publish") == 1
        assert "ReadHead" not in path.asked[path.asked.index("Publish") :]
        # The intent stays open: a sweep finds out what became of it.
        assert "SettleIntent" not in path.asked


@pytest.mark.clause("H-19")
@every_strong_backing
def test_unknown_publication_that_is_provably_ours_completes_while_the_attempt_is_current(
    backing: Backing, ledger: bool
) -> None:
    """K-10, 2.5 row 6, H-19, T-O24; rows P5 P6 R1 R2 R3 R5: own name, barrier, head, fence, then as if published."""
    path = play(make_attempt(backing, ledger=ledger), LOST)
    result = outcome(path.state).result
    assert isinstance(result, Completed)
    assert result.ref == MERGED
    at = path.asked.index("Publish")
    finding_out = [] if backing is Backing.ATOMIC else ["DropStaging", "PassBarrier"]
    assert list(path.asked[at + 1 :][: len(finding_out) + 3]) == [*finding_out, "ReadHead", "ReloadTask", "Report"]
    assert path.commands[-1] == m.CleanUp(path.attempt.staging_name, release_lease=backing is Backing.LOCKED)


@every_strong_backing
def test_unknown_publication_that_is_ours_but_stale_is_silent(backing: Backing, ledger: bool) -> None:
    """K-10, S-07; row RF1: proof of effect gives nobody the right to speak for a task that is somebody else's."""
    attempt = make_attempt(backing, ledger=ledger)
    path = play(attempt, {**LOST, Phase.OWN_FENCE: m.TaskReloaded(stale(attempt))})
    assert silent(path) is Classification.ATTEMPT_STALE
    assert "SettleIntent" not in path.asked


@every_strong_backing
def test_unknown_publication_that_is_ours_with_an_unreadable_task(backing: Backing, ledger: bool) -> None:
    """Architecture 5, S-19; rows RF2 RF3: FAILED in time, silent after; the target did move, so a sweep settles."""
    attempt = make_attempt(backing, ledger=ledger)
    in_time = play(attempt, {**LOST, Phase.OWN_FENCE: Unknown("timeout", now=1.0, until=2.0)})
    too_late = play(attempt, {**LOST, Phase.OWN_FENCE: Unknown("timeout", now=2.0, until=2.0)})
    assert failed(in_time) is Classification.ATTEMPT_UNKNOWN
    assert silent(too_late) is Classification.ATTEMPT_UNKNOWN
    assert "SettleIntent" not in (*in_time.asked, *too_late.asked)


@every_strong_backing
@pytest.mark.parametrize(
    "seen",
    [
        None,
        ON_INPUT,
        head("X", INPUT, tree="tree-X"),
        head("X", "W", tree=TREE),
        head("X", INPUT, "W", tree=TREE),
        Head(evolve(head("X", INPUT, tree=TREE).commit, message=commit_message("another", 1, "task-9"))),
    ],
    ids=["missing", "unmoved", "other tree", "other parent", "two parents", "another task's"],
)
def test_effect_that_is_not_provably_ours_is_failed(backing: Backing, ledger: bool, seen: Head | None) -> None:
    """H-19, T-O1, K-10; row R4: the same place, the same content, or the same message alone prove nothing."""
    path = play(make_attempt(backing, ledger=ledger), {**LOST, Phase.OWN_HEAD: m.HeadSeen(seen)})
    assert failed(path) is Classification.PUBLISH_UNKNOWN
    assert "SettleIntent" not in path.asked
    assert path.commands[-1] == m.CleanUp(path.attempt.staging_name, release_lease=False)


@every_strong_backing
def test_return_to_the_input_is_never_adopted(backing: Backing, ledger: bool) -> None:
    """Architecture 5 "Unknown answers": the input was there before us, so seeing it there proves nothing."""
    attempt = make_attempt(backing, ledger=ledger)
    path = play(
        attempt,
        {
            **LOST,
            Phase.BODY: m.BodyDone(OURS, changed=False),
            Phase.CLAIMS: m.ClaimsListed((older_claim(attempt),)),
            Phase.HEAD: m.HeadSeen(ON_CHILD),
            Phase.OWN_HEAD: m.HeadSeen(ON_INPUT),
        },
    )
    (sent,) = [command for command in path.commands if isinstance(command, m.Publish)]
    assert sent.plan.kind is PlanKind.RETURN
    assert failed(path) is Classification.PUBLISH_UNKNOWN


@pytest.mark.parametrize("backing", [Backing.CONDITIONAL, Backing.LOCKED], ids=lambda backing: backing.value)
@pytest.mark.parametrize(
    ("phase", "event", "expected"),
    [
        (Phase.OWN_REVOCATION, NotDone("x"), Classification.PUBLISH_UNKNOWN),
        (Phase.OWN_REVOCATION, Unknown("x"), Classification.PUBLISH_UNKNOWN),
        (Phase.OWN_BARRIER, NotDone("x"), Classification.BARRIER_FAILED),
        (Phase.OWN_BARRIER, Unknown("x"), Classification.BARRIER_FAILED),
        (Phase.OWN_HEAD, Unknown("x"), Classification.TARGET_UNREADABLE),
    ],
    ids=lambda value: value.name if isinstance(value, Phase) else type(value).__name__,
)
def test_whoever_cannot_find_out_has_failed_and_says_where_to_look(
    backing: Backing, phase: Phase, event: Event, expected: Classification
) -> None:
    """S-05, L-10, architecture 5; rows RX RB RH: the lease is kept, the intent stays open, nobody says "nothing"."""
    path = play(make_attempt(backing, ledger=True), {**LOST, phase: event})
    assert failed(path) is expected
    result = outcome(path.state).result
    assert isinstance(result, Failed)
    assert result.refusal.next_action.startswith("Look at the target's head")
    assert path.commands[-1] == m.CleanUp(path.attempt.staging_name, release_lease=False)
    assert "SettleIntent" not in path.asked


@every_strong_backing
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (m.CommitSeen(None), Classification.PUBLISHED_ELSEWHERE),
        (m.CommitSeen(commit(MERGED, "X", tree=TREE)), Classification.PUBLISHED_ELSEWHERE),
        (m.CommitSeen(commit(MERGED, INPUT, tree="tree-X")), Classification.PUBLISHED_ELSEWHERE),
        (m.CommitSeen(commit(MERGED, INPUT, "X", tree=TREE)), Classification.PUBLISHED_ELSEWHERE),
    ],
    ids=["missing", "elsewhere", "other tree", "two parents"],
)
def test_publication_that_is_not_what_was_planned_is_no_success(
    backing: Backing, ledger: bool, event: Event, expected: Classification
) -> None:
    """S-04, N-05, T-F6; row Y2: the store retried inside and it landed on a stranger's commit."""
    path = play(make_attempt(backing, ledger=ledger), {Phase.READ_BACK: event})
    assert failed(path) is expected
    assert path.commands[-1] == m.CleanUp(path.attempt.staging_name, release_lease=False)


@every_strong_backing
def test_a_lost_read_back_is_looked_for_at_the_head_and_costs_no_recompute(backing: Backing, ledger: bool) -> None:
    """L-02, S-05; row YX1: the store said it landed, so the head may prove it; what is not proven is no success."""
    attempt = make_attempt(backing, ledger=ledger)
    lost: Choices = {Phase.READ_BACK: Unknown("timeout")}
    found: Choices = {**lost, Phase.OWN_HEAD: m.HeadSeen(head(MERGED, INPUT, tree=TREE))}
    ours = play(attempt, found)
    result = outcome(ours.state).result
    assert isinstance(result, Completed)
    assert result.ref == MERGED
    at = ours.asked.index("ReadCommit")
    assert ours.asked[at : at + 4] == ("ReadCommit", "ReadHead", "ReloadTask", "Report")
    for seen in (head(MERGED, INPUT, tree="tree-X"), head("X", MERGED), ON_INPUT):
        other = play(attempt, {**lost, Phase.OWN_HEAD: m.HeadSeen(seen)})
        assert failed(other) is Classification.PUBLISH_UNKNOWN
        assert other.commands[-1] == m.CleanUp(attempt.staging_name, release_lease=False)
    stale_by_then = play(attempt, {**found, Phase.OWN_FENCE: m.TaskReloaded(stale(attempt))})
    assert silent(stale_by_then) is Classification.ATTEMPT_STALE


# ---------------------------------------------------------------------------------------------------------------------
# Reports


@every_strong_backing
def test_unknown_report_is_read_back_and_no_other_status_is_reported(backing: Backing, ledger: bool) -> None:
    """N-04 row 28, T-F3, F-13; rows ZU2 ZU3: one report, then the task tells."""
    attempt = make_attempt(backing, ledger=ledger)
    lost: Choices = {Phase.REPORT: Unknown("timeout")}
    taken = play(attempt, lost)
    other = play(attempt, {**lost, Phase.ACCEPTANCE: m.TaskReloaded(evolve(accepted(attempt), result_execution="y"))})
    ended = play(attempt, {**lost, Phase.ACCEPTANCE: m.TaskReloaded(stale(attempt))})
    gone = play(attempt, {**lost, Phase.ACCEPTANCE: m.TaskReloaded(None)})
    unread = play(attempt, {**lost, Phase.ACCEPTANCE: Unknown("timeout")})
    found = [outcome(path.state).acceptance for path in (taken, other, ended, gone, unread)]
    assert found == [Acceptance.ACCEPTED, *[Acceptance.NOT_ACCEPTED] * 3, Acceptance.UNKNOWN]
    for path in (taken, other, ended, gone, unread):
        assert path.asked.count("Report") == 1
        assert isinstance(outcome(path.state).result, Completed)
        assert ("SettleIntent" in path.asked) == (ledger and path is taken)


@pytest.mark.clause("P-20")
@every_backing
def test_refused_report_is_the_end_of_it(backing: Backing, ledger: bool) -> None:
    """T-P6, P-20; row ZX1: the orchestrator does not want it; nothing else is reported, a sweep settles the intent."""
    path = play(make_attempt(backing, ledger=ledger), {Phase.REPORT: NotDone("no such task")})
    assert path.asked[-2:] == ("Report", "CleanUp")
    assert outcome(path.state).acceptance is Acceptance.NOT_ACCEPTED


@pytest.mark.clause("P-27")
def test_soft_without_a_ledger_does_not_read_back() -> None:
    """P-27, architecture 3; rows Z1 ZU1: the seed reports and is done."""
    path = play(make_attempt(), {Phase.REPORT: Unknown("timeout")})
    assert path.asked[-2:] == ("Report", "CleanUp")
    assert outcome(path.state).acceptance is Acceptance.UNKNOWN


def test_acceptance_is_recognised_by_the_nonce() -> None:
    """T-F3, S-19: COMPLETED by somebody else is not our acceptance."""
    attempt = make_attempt()
    assert is_accepted(attempt, accepted(attempt))
    not_ours: list[TaskSnapshot | None] = [
        None,
        current(attempt),
        evolve(accepted(attempt), result_execution="run-9"),
        evolve(accepted(attempt), result_execution=None),
        evolve(accepted(attempt), status=TaskStatus.FAILED),
    ]
    assert not any(is_accepted(attempt, snapshot) for snapshot in not_ours)


@pytest.mark.clause("R-04")
def test_ledger_that_does_not_answer_after_the_report_changes_nothing() -> None:
    """R-04; rows ZC2 ZC3 ZS2 ZS3: the result stands, a sweep finishes the bookkeeping."""
    attempt = make_attempt(Backing.ATOMIC, ledger=True)
    best = outcome(play(attempt).state)
    for phase in (Phase.CONFIRMATION, Phase.SETTLEMENT):
        for event in menu_of(attempt, phase):
            assert outcome(play(attempt, {phase: event}).state) == best


def menu_of(attempt: Attempt, phase: Phase) -> list[Event]:
    """Return the answers the attempt may get in a phase of its usual way."""
    (state,) = [move.before for move in play(attempt).moves if move.before.phase is phase]
    return [event for event in menu(state) if event not in INTERRUPTS]
