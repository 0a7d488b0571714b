"""The ways through an attempt as exact sequences of commands, for each backing, with and without a ledger.

The order of each is that of architecture.md, section 5. What holds on all ways is in ``test_attempt_order``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import evolve

from perago_core.answers import Event
from perago_core.attempt import ATTEMPT, Phase
from perago_core.attempt import messages as m
from perago_core.attempt.state import BEYOND_SOFT
from perago_core.attempt.table import outcome, start, step
from perago_core.errors import ProtocolError
from perago_core.ledger.records import SettlementKind
from perago_core.plan import Condition, PlanKind, PublishPlan
from perago_core.results import Acceptance, Completed, Outcome
from perago_core.values import Attempt, Backing, CommitRef, claim_of
from tests.core.attempts import (
    BACKINGS,
    CHILD,
    INPUT,
    MERGED,
    ON_CHILD,
    Path,
    all_attempts,
    make_attempt,
    older_claim,
    plan_in,
    play,
    staged_ref,
    walk,
)

Choices = Mapping[Phase, Event | tuple[Event, ...]]

OURS = make_attempt().execution

#: The other claims are there, their owner is dead, and its publication is what the target shows.
ABANDONED: Choices = {
    Phase.CLAIMS: m.ClaimsListed((older_claim(make_attempt()), claim_of(make_attempt(), None))),
    Phase.HEAD: m.HeadSeen(ON_CHILD),
}
UNCHANGED: Choices = {Phase.BODY: m.BodyDone(OURS, changed=False)}

every_backing = pytest.mark.parametrize(
    ("backing", "ledger"),
    BACKINGS,
    ids=[f"{backing.value}-{'ledger' if ledger else 'plain'}" for backing, ledger in BACKINGS],
)


def run(backing: Backing, choices: Choices, *, ledger: bool) -> Path:
    """Play the attempt; ``soft`` lists no claims."""
    known = {phase: each for phase, each in choices.items() if backing is not Backing.SOFT or phase not in BEYOND_SOFT}
    return play(make_attempt(backing, ledger=ledger), known)


def to_the_head(backing: Backing, *, ledger: bool, owners: bool = False, takeover: bool = False) -> list[str]:
    """Give what lies between the last fence before the claim and the head, and the head itself."""
    judge = ["ListClaims", *(["ReadOwners"] if owners else [])]
    settle = ["SettleIntents"] if ledger else []
    lease = ["AcquireLease", *(["AwaitTakeover"] if takeover else []), "ReloadTask"]
    arm = ["ArmIntent"] if ledger else []
    guards = {
        Backing.SOFT: settle,
        Backing.ATOMIC: ["MakeClaim", *judge, *settle],
        Backing.CONDITIONAL: ["MakeClaim", "RevokeOlder", "PassBarrier", *judge, *settle],
        Backing.LOCKED: ["MakeClaim", *judge, *settle, *lease, "RevokeOlder", "PassBarrier"],
    }
    return [*guards[backing], *arm, "ReadHead"]


def after_the_report(backing: Backing, *, ledger: bool) -> list[str]:
    """Give what comes after a completed result was sent: bookkeeping, reading the task back, the end."""
    if ledger:
        return ["ConfirmIntent", "ReloadTask", "SettleIntent", "CleanUp"]
    return ["CleanUp"] if backing is Backing.SOFT else ["ReloadTask", "CleanUp"]


BEGIN = ["PrepareWorkspace", "RunBody"]
STAGE = ["OpenStaging", "Upload", "CommitStaging"]


def completed(path: Path) -> tuple[Completed, Outcome]:
    found = outcome(path.state)
    assert isinstance(found.result, Completed)
    return found.result, found


# ---------------------------------------------------------------------------------------------------------------------
# The five ways of the seed


@every_backing
def test_read_only_runs_reports_and_cleans_up(backing: Backing, ledger: bool) -> None:
    """P-07, S-10, rule 5; rows W1 B1 Z1 X1: output is the input, nothing is read back."""
    path = play(make_attempt(backing, ledger=ledger, read_only=True))
    assert list(path.asked) == [*BEGIN, "Report", "CleanUp"]
    assert path.rows == ("W1", "B1", "Z1", "X1")
    result, end = completed(path)
    assert (result.ref, result.output, end.acceptance) == (INPUT, '{"rows":1}', Acceptance.UNREAD)


@every_backing
def test_no_op_on_the_input_completes_without_a_commit(backing: Backing, ledger: bool) -> None:
    """P-03, P-09, P-33, S-12, K-05; rows F3 F4 F6, H4: no staging in soft, a bare anchor elsewhere."""
    path = run(backing, UNCHANGED, ledger=ledger)
    anchor = ["OpenStaging", "ReloadTask"] if backing is not Backing.SOFT else []
    assert list(path.asked) == [
        *BEGIN,
        "ReloadTask",
        *anchor,
        *to_the_head(backing, ledger=ledger),
        "Report",
        *after_the_report(backing, ledger=ledger),
    ]
    assert completed(path)[0].ref == INPUT


@every_backing
def test_first_publish_merges_what_was_staged(backing: Backing, ledger: bool) -> None:
    """P-04, P-08, P-24, P-27; rows F1 S1 U1 C1, H1: name, upload, commit, last fence, safeguards, head, send."""
    path = run(backing, {}, ledger=ledger)
    assert list(path.asked) == [
        *BEGIN,
        "ReloadTask",
        *STAGE,
        "ReloadTask",
        *to_the_head(backing, ledger=ledger),
        "Publish",
        *([] if backing is Backing.SOFT else ["ReadCommit"]),
        "Report",
        *after_the_report(backing, ledger=ledger),
    ]
    assert plan_in(path.state).kind is PlanKind.MERGE
    result, end = completed(path)
    assert result.ref == MERGED
    assert (end.acceptance is Acceptance.ACCEPTED) == (backing is not Backing.SOFT or ledger)


@pytest.mark.clause("P-10", "P-16")
@every_backing
def test_replacement_puts_the_staged_commit_in_place_of_the_abandoned_one(backing: Backing, ledger: bool) -> None:
    """P-10, P-16, K-08; rows L1 N1 NG, H2: the claims' owners are asked about before the head is read."""
    path = run(backing, ABANDONED, ledger=ledger)
    assert list(path.asked) == [
        *BEGIN,
        "ReloadTask",
        *STAGE,
        "ReloadTask",
        *to_the_head(backing, ledger=ledger, owners=True),
        "Publish",
        *([] if backing is Backing.SOFT else ["ReadCommit"]),
        "Report",
        *after_the_report(backing, ledger=ledger),
    ]
    plan = plan_in(path.state)
    assert (plan.kind, plan.expected, plan.commit) == (PlanKind.REPLACE, CHILD, "C")
    assert completed(path)[0].ref == "C"


@every_backing
def test_no_op_over_an_abandoned_publication_returns_the_target_to_the_input(backing: Backing, ledger: bool) -> None:
    """P-11, S-06; row H3, P3: output is the input, never the abandoned head."""
    path = run(backing, {**ABANDONED, **UNCHANGED}, ledger=ledger)
    anchor = ["OpenStaging", "ReloadTask"] if backing is not Backing.SOFT else []
    assert list(path.asked) == [
        *BEGIN,
        "ReloadTask",
        *anchor,
        *to_the_head(backing, ledger=ledger, owners=True),
        "Publish",
        "Report",
        *after_the_report(backing, ledger=ledger),
    ]
    plan = plan_in(path.state)
    assert (plan.kind, plan.expected, plan.commit) == (PlanKind.RETURN, CHILD, INPUT)
    assert completed(path)[0].ref == INPUT


# ---------------------------------------------------------------------------------------------------------------------
# Bodies that write while they run


@every_backing
def test_body_that_asks_for_staging_gets_it_after_a_fence_of_its_own(backing: Backing, ledger: bool) -> None:
    """P-03, P-23; rows B7 E1 O1 B8 F2: fence before the name, none opened twice, upload after the next fence."""
    wanted = m.StagingWanted(OURS)
    path = run(backing, {Phase.BODY: (wanted, wanted, m.BodyDone(OURS, changed=True))}, ledger=ledger)
    assert list(path.asked) == [
        *BEGIN,
        "ReloadTask",
        "OpenStaging",
        "ResumeBody",
        "ResumeBody",
        "ReloadTask",
        "Upload",
        "CommitStaging",
        "ReloadTask",
        *to_the_head(backing, ledger=ledger),
        "Publish",
        *([] if backing is Backing.SOFT else ["ReadCommit"]),
        "Report",
        *after_the_report(backing, ledger=ledger),
    ]
    assert path.commands[4] == m.ResumeBody(path.attempt.staging_name)


@pytest.mark.clause("P-09")
@every_backing
def test_body_that_asked_for_staging_and_changed_nothing_is_a_no_op(backing: Backing, ledger: bool) -> None:
    """P-09, P-33; rows F3 F4 F7: nothing is committed; the name it had already is the anchor, and is removed."""
    path = run(backing, {Phase.BODY: (m.StagingWanted(OURS), m.BodyDone(OURS, changed=False))}, ledger=ledger)
    fence_2 = ["ReloadTask"] if backing is not Backing.SOFT else []
    assert list(path.asked) == [
        *BEGIN,
        "ReloadTask",
        "OpenStaging",
        "ResumeBody",
        "ReloadTask",
        *fence_2,
        *to_the_head(backing, ledger=ledger),
        "Report",
        *after_the_report(backing, ledger=ledger),
    ]
    assert path.commands[-1] == m.CleanUp(path.attempt.staging_name, release_lease=backing is Backing.LOCKED)


@pytest.mark.clause("T-P8")
@every_backing
def test_upload_that_leaves_nothing_to_commit_is_a_no_op(backing: Backing, ledger: bool) -> None:
    """S-12, T-P8; row C2: equal content gives no empty commit and the output is the input."""
    path = run(backing, {Phase.COMMIT: m.NothingStaged()}, ledger=ledger)
    assert list(path.asked) == [
        *BEGIN,
        "ReloadTask",
        *STAGE,
        "ReloadTask",
        *to_the_head(backing, ledger=ledger),
        "Report",
        *after_the_report(backing, ledger=ledger),
    ]
    assert completed(path)[0].ref == INPUT


# ---------------------------------------------------------------------------------------------------------------------
# What the commands carry


@pytest.mark.clause("W-24")
def test_unclean_predecessor_is_waited_for_before_the_fence_under_the_lease() -> None:
    """W-24, architecture 5 `locked`; rows T2 D1: lease, wait, fence 3, revoke, barrier, head."""
    path = play(make_attempt(Backing.LOCKED), {Phase.LEASE: m.LeaseHeld(7, clean=False)})
    first = path.asked.index("MakeClaim")
    last = path.asked.index("ReadHead") + 1
    assert list(path.asked[first:last]) == to_the_head(Backing.LOCKED, ledger=False, takeover=True)
    assert m.AwaitTakeover(path.attempt.budget.takeover_wait) in path.commands


@pytest.mark.clause("P-24", "H-09")
@every_backing
def test_commands_name_this_execution_and_nothing_else(backing: Backing, ledger: bool) -> None:
    """P-24, P-25, P-40, H-09: pinned, or handed on from the answer before: what was committed is claimed and armed."""
    path = run(backing, ABANDONED, ledger=ledger)
    attempt = path.attempt
    name = attempt.staging_name
    asked = {type(command): command for command in path.commands}
    assert asked[m.OpenStaging] == m.OpenStaging(name, INPUT)
    assert asked[m.Upload] == m.Upload(name)
    assert asked[m.CommitStaging] == m.CommitStaging(name, "workflow-1.load.0 attempt 2 (task-2)")
    assert asked[m.CleanUp] == m.CleanUp(name, release_lease=backing is Backing.LOCKED)
    if backing is not Backing.SOFT:
        assert asked[m.MakeClaim] == m.MakeClaim(claim_of(attempt, staged_ref(attempt), '{"rows":1}'))
        assert asked[m.ReadOwners] == m.ReadOwners((("workflow-1", "task-1"),))
        assert asked[m.ReadCommit] == m.ReadCommit(CommitRef("C"))
    if backing in {Backing.CONDITIONAL, Backing.LOCKED}:
        assert asked[m.RevokeOlder] == m.RevokeOlder(attempt.number)
    if ledger:
        token = 7 if backing is Backing.LOCKED else None
        assert asked[m.ArmIntent] == m.ArmIntent(staged_ref(attempt), token)
        assert asked[m.ConfirmIntent] == m.ConfirmIntent(CommitRef("C"))
        assert asked[m.SettleIntent] == m.SettleIntent(SettlementKind.ACCEPTED, CommitRef("C"))


def test_owners_are_asked_about_once_each_in_a_fixed_order() -> None:
    """S-39: two claims of one task are one question, our own is none."""
    attempt = make_attempt(Backing.ATOMIC)
    old = older_claim(attempt)
    claims = (
        evolve(old, task_id="task-0", number=0, execution="run-0"),
        old,
        evolve(old, execution="run-1b"),
        claim_of(attempt, None),
    )
    path = play(attempt, {Phase.CLAIMS: m.ClaimsListed(claims)})
    assert m.ReadOwners((("workflow-1", "task-0"), ("workflow-1", "task-1"))) in path.commands


@pytest.mark.clause("H-07", "H-08", "T-O15")
@every_backing
def test_named_fresh_reads_are_made_as_often_as_documented_and_nothing_else_is_read_again(
    backing: Backing, ledger: bool
) -> None:
    """H-07, H-08, H-17, T-O15, 2.10: fences, one head, the claims, the open intents."""
    path = run(backing, {}, ledger=ledger)
    fences = {Backing.SOFT: 2, Backing.ATOMIC: 2, Backing.CONDITIONAL: 2, Backing.LOCKED: 3}[backing]
    sent = path.asked.index("Publish")
    assert path.asked[:sent].count("ReloadTask") == fences
    assert path.asked.count("ReadHead") == 1
    assert path.asked.count("ListClaims") == (backing is not Backing.SOFT)
    assert path.asked.count("SettleIntents") == ledger
    assert path.asked[sent:].count("ReloadTask") == (backing is not Backing.SOFT or ledger)


@pytest.mark.clause("H-21", "H-24")
@pytest.mark.parametrize("ledger", [False, True])
@pytest.mark.parametrize("choices", [{}, ABANDONED, UNCHANGED, {**ABANDONED, **UNCHANGED}], ids=["1", "2", "3", "4"])
def test_lease_comes_on_top_and_replaces_no_other_guard(ledger: bool, choices: Choices) -> None:
    """H-21, H-24, K-04: "I hold the lock, so I skip the check" is a bug; without lease and fence 3 all is there.

    In another order before the head: ``locked`` judges the claims before it takes the lease, to hold it no longer than
    it must; ``conditional`` judges them past the barrier, since no lease keeps a late claimant away (L-02).
    """
    conditional = run(Backing.CONDITIONAL, choices, ledger=ledger)
    locked = run(Backing.LOCKED, choices, ledger=ledger)
    at = locked.asked.index("AcquireLease")
    assert locked.asked[at : at + 2] == ("AcquireLease", "ReloadTask")
    without = (*locked.asked[:at], *locked.asked[at + 2 :])
    claimed, seen = (conditional.asked.index(each) for each in ("MakeClaim", "ReadHead"))
    assert (without[:claimed], without[seen:]) == (conditional.asked[:claimed], conditional.asked[seen:])
    assert sorted(without) == sorted(conditional.asked)
    for mine, theirs in zip(_plans(locked), _plans(conditional), strict=True):
        assert evolve(mine, token=None) == theirs
        assert mine.condition is Condition.HEAD


def _plans(path: Path) -> list[PublishPlan]:
    return [command.plan for command in path.commands if isinstance(command, m.Publish)]


# ---------------------------------------------------------------------------------------------------------------------
# The whole table


@pytest.mark.clause("T-O25")
def test_every_row_is_fired_by_some_way() -> None:
    """Row coverage, T-O25: no row is there for show, and none is reached only by a state made by hand."""
    found = walk(all_attempts())
    assert [*found] == [row.id for row in ATTEMPT.definition.rows]
    for row, path in found.items():
        assert path.rows[-1] == row
        assert row not in path.rows[:-1], "the shortest way fires its row last and once"


@pytest.mark.clause("S-39")
def test_walking_again_gives_the_same_ways_and_each_can_be_replayed() -> None:
    """S-39: vectors are generated from these ways; they must not change by themselves."""
    soft, locked = make_attempt(), make_attempt(Backing.LOCKED)
    once = walk((soft, locked))
    again = walk((soft, locked, soft))  # not remembered from before: another question with the same answer
    assert [(row, path.attempt, path.events) for row, path in once.items()] == [
        (row, path.attempt, path.events) for row, path in again.items()
    ]
    for path in once.values():
        state = start(path.attempt).state
        for move in path.moves:
            assert state == move.before
            state = step(state, move.event).state
        assert state == path.state


def test_outcome_of_an_attempt_that_has_not_ended_is_a_protocol_error() -> None:
    """The error says what the attempt waits for."""
    with pytest.raises(ProtocolError, match="it waits for the workspace"):
        outcome(start(make_attempt()).state)


@pytest.mark.clause("H-10")
def test_an_attempt_is_what_was_polled() -> None:
    """H-07, H-10: nothing that was pinned changes on any way."""
    for path in walk(all_attempts()).values():
        subjects: set[Attempt] = {move.state.subject for move in path.moves}
        assert subjects == {path.attempt}
