"""Adopting: a retry that finds what its task has already published reports that, with the result on record.

What holds on every way of an attempt that adopts is in ``test_attempt_order``, the owner rule in ``test_owner``, what
recovery makes of it in ``test_recovery``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest
from attrs import evolve

from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import ATTEMPT, AttemptState, Phase
from perago_core.attempt import messages as m
from perago_core.attempt.table import outcome
from perago_core.errors import CodecError
from perago_core.fence import Adopted, Case, Decision, Refused, Standing, decide
from perago_core.machine import codec
from perago_core.names import commit_message, merge_message
from perago_core.plan import PlanKind
from perago_core.results import Classification, Completed, Failed, Refusal
from perago_core.value import Value
from perago_core.values import (
    LONGEST_RESULT,
    Attempt,
    Backing,
    Claim,
    CommitRef,
    Head,
    OnAbandoned,
    StagedRef,
    TaskSnapshot,
    TaskStatus,
    claim_of,
)
from tests.core.attempts import (
    CHILD,
    CHILD_TREE,
    INPUT,
    MERGED,
    ON_CHILD,
    ON_INPUT,
    ON_RECORD,
    STRONG,
    Path,
    ended,
    explore,
    head,
    make_attempt,
    menu,
    newer_claim,
    older_claim,
    plan_in,
    play,
    staged_ref,
    taken,
)
from tests.core.test_attempt_paths import STAGE, after_the_report, to_the_head

Choices = Mapping[Phase, Event | tuple[Event, ...]]

OURS = make_attempt().execution
OLDER = older_claim(make_attempt())
NEWER = newer_claim(make_attempt())
MINE = claim_of(make_attempt(), None)


def owners(*words: TaskSnapshot) -> Event:
    return m.OwnersRead(tuple((each.task_id, each) for each in words))


DEAD = owners(ended(OLDER, TaskStatus.TIMED_OUT))
UNCHANGED: Choices = {Phase.BODY: m.BodyDone(OURS, changed=False)}

#: What an earlier attempt published is found before any work is done; this one claims it.
FOUND: Choices = {
    Phase.EARLIER_CLAIMS: m.ClaimsListed((OLDER,)),
    Phase.EARLIER_OWNERS: DEAD,
    Phase.EARLIER_HEAD: m.HeadSeen(ON_CHILD),
}
#: It is still there when the head is seen again, under the own claim.
STILL_THERE: Choices = {
    Phase.CLAIMS: m.ClaimsListed((OLDER, MINE)),
    Phase.OWNERS: DEAD,
    Phase.HEAD: m.HeadSeen(ON_CHILD),
}

every_strong_backing = pytest.mark.parametrize(
    ("backing", "ledger"),
    STRONG,
    ids=[f"{backing.value}-{'ledger' if ledger else 'plain'}" for backing, ledger in STRONG],
)


def run(backing: Backing, choices: Choices, *, ledger: bool = False) -> Path:
    return play(make_attempt(backing, ledger=ledger, adopts=True), choices)


def completed(path: Path) -> Completed:
    result = outcome(path.state).result
    assert isinstance(result, Completed), path
    return result


def failed(path: Path) -> Refusal:
    result = outcome(path.state).result
    assert isinstance(result, Failed), path
    return result.refusal


def silent(path: Path) -> Refusal:
    end = outcome(path.state)
    assert (end.result, "Report" in path.asked) == (None, False), path
    assert end.silence is not None
    return end.silence


# ---------------------------------------------------------------------------------------------------------------------
# Found before any work is done


@pytest.mark.clause("L-03")
@every_strong_backing
def test_a_retry_that_finds_its_tasks_publication_reports_it_and_the_body_does_not_run(
    backing: Backing, ledger: bool
) -> None:
    """Rows EC1 EO2 EH1 H7: a name and a claim as for own work, the safeguards, another look at the head, the report."""
    path = run(backing, {**FOUND, **STILL_THERE}, ledger=ledger)
    assert list(path.asked) == [
        *("ListClaims", "ReadOwners", "ReadHead"),
        *("ReloadTask", "OpenStaging", "ReloadTask"),
        *to_the_head(backing, ledger=ledger, owners=True),
        "Report",
        *after_the_report(backing, ledger=ledger),
    ]
    assert completed(path) == Completed(CHILD, ON_RECORD, OURS)
    assert outcome(path.state).adopted
    attempt = path.attempt
    adopted = StagedRef(attempt.target.repository, attempt.staging_name, CHILD, CHILD_TREE)
    assert m.MakeClaim(claim_of(attempt, adopted, ON_RECORD)) in path.commands
    if ledger:
        token = 7 if backing is Backing.LOCKED else None
        assert m.ArmIntent(adopted, token) in path.commands
        assert m.ConfirmIntent(CHILD) in path.commands


@pytest.mark.parametrize("claim", [OLDER, NEWER], ids=["an earlier attempt", "a twin above us"])
@pytest.mark.parametrize("ref", [CHILD, INPUT], ids=["a commit", "a no-op"])
@every_strong_backing
def test_what_was_accepted_for_the_task_is_reported_at_once_without_a_claim(
    backing: Backing, ledger: bool, claim: Claim, ref: CommitRef
) -> None:
    """Row EO1: it is accepted, so it stays. A lower twin that had to claim would be outranked, and silent for ever."""
    recorded = evolve(claim, result=ON_RECORD, tree=None if ref == INPUT else claim.tree)
    path = run(
        backing,
        {Phase.EARLIER_CLAIMS: m.ClaimsListed((recorded,)), Phase.EARLIER_OWNERS: owners(taken(recorded, ref))},
        ledger=ledger,
    )
    assert list(path.asked) == ["ListClaims", "ReadOwners", "Report", "ReloadTask", "CleanUp"]
    assert completed(path) == Completed(ref, ON_RECORD, OURS)
    assert outcome(path.state).adopted


@pytest.mark.parametrize(
    "snapshot",
    [
        ended(OLDER, TaskStatus.TIMED_OUT),
        evolve(taken(OLDER), result_ref=None),
        evolve(taken(OLDER), result_execution="run-9"),
        evolve(taken(OLDER), status=TaskStatus.FAILED),
    ],
    ids=["not accepted", "no ref", "another execution's", "ended otherwise"],
)
def test_only_an_accepted_result_that_is_on_record_is_reported_without_a_claim(snapshot: TaskSnapshot) -> None:
    """S-05, T-F3: the execution is the nonce, and nobody reports what nobody recorded."""
    path = run(Backing.ATOMIC, {**FOUND, Phase.EARLIER_OWNERS: owners(snapshot), Phase.EARLIER_HEAD: m.HeadSeen(None)})
    assert "MakeClaim" in path.asked
    assert completed(path).ref == MERGED


def test_the_result_of_an_adopter_is_what_it_adopted_and_not_what_its_claim_says() -> None:
    """t2 has dropped its own work for t1's commit and was accepted: nobody reports t2's own result, now or later."""
    attempt = evolve(make_attempt(Backing.CONDITIONAL, adopts=True), number=3)
    adopter = evolve(OLDER, task_id="task-9", execution="run-9", number=2, tree="tree-9", result="{}")
    both = (OLDER, adopter)
    said = owners(ended(OLDER, TaskStatus.TIMED_OUT), taken(adopter))
    found: Choices = {Phase.EARLIER_CLAIMS: m.ClaimsListed(both), Phase.EARLIER_OWNERS: said}
    there: Choices = {Phase.CLAIMS: m.ClaimsListed(both), Phase.OWNERS: said}
    path = play(attempt, {**found, **there, Phase.EARLIER_HEAD: m.HeadSeen(ON_CHILD), Phase.HEAD: m.HeadSeen(ON_CHILD)})
    assert completed(path) == Completed(CHILD, ON_RECORD, OURS)
    built_on = m.HeadSeen(head("X", CHILD))
    lost = play(attempt, {**found, **there, Phase.EARLIER_HEAD: built_on, Phase.HEAD: built_on})
    assert failed(lost).classification is Classification.HEAD_ELSEWHERE


def test_what_was_accepted_for_the_own_task_before_it_was_rerun_is_not_restored() -> None:
    """Who reruns a task takes back what was accepted for it; an earlier delivery's claim must not bring it back."""
    attempt = make_attempt(Backing.ATOMIC, adopts=True)
    earlier = evolve(OLDER, task_id=attempt.task_id)
    path = play(
        attempt, {Phase.EARLIER_CLAIMS: m.ClaimsListed((earlier,)), Phase.EARLIER_OWNERS: owners(taken(earlier))}
    )
    assert "RunBody" in path.asked
    assert completed(path).ref == MERGED


@pytest.mark.parametrize("phase", [Phase.EARLIER_CLAIMS, Phase.EARLIER_OWNERS, Phase.EARLIER_HEAD])
@every_strong_backing
def test_a_look_that_is_not_answered_costs_only_the_work(backing: Backing, ledger: bool, phase: Phase) -> None:
    """Rows ECX EOX EHX: unknown is neither taken for nothing nor for something; the head decides, once it is seen."""
    first = {each: event for each, event in FOUND.items() if tuple(Phase).index(each) < tuple(Phase).index(phase)}
    path = run(backing, {**first, phase: Unknown("timeout")}, ledger=ledger)
    after = path.asked[path.asked.index("PrepareWorkspace") :]
    nothing = run(backing, {}, ledger=ledger)
    assert after == nothing.asked[nothing.asked.index("PrepareWorkspace") :]
    assert completed(path) == Completed(MERGED, '{"rows":1}', OURS)
    assert not outcome(path.state).adopted
    dropped = run(backing, {**first, phase: Unknown("timeout"), **STILL_THERE}, ledger=ledger)
    assert completed(dropped) == Completed(CHILD, ON_RECORD, OURS)


LOOKS: Mapping[str, Choices] = {
    "unanswered": {Phase.EARLIER_CLAIMS: Unknown("timeout")},
    "owners unanswered": {**FOUND, Phase.EARLIER_OWNERS: Unknown("timeout"), Phase.EARLIER_HEAD: ()},
    "head unanswered": {**FOUND, Phase.EARLIER_HEAD: Unknown("timeout")},
    "on the input": {**FOUND, Phase.EARLIER_HEAD: m.HeadSeen(ON_INPUT)},
    "dirty": {**FOUND, Phase.EARLIER_HEAD: m.HeadSeen(evolve(ON_CHILD, dirty=True))},
    "missing": {**FOUND, Phase.EARLIER_HEAD: m.HeadSeen(None)},
    "another lives": {
        **FOUND,
        Phase.EARLIER_OWNERS: owners(ended(OLDER, TaskStatus.IN_PROGRESS)),
        Phase.EARLIER_HEAD: m.HeadSeen(ON_INPUT),
    },
    "outranked": {
        Phase.EARLIER_CLAIMS: m.ClaimsListed((NEWER,)),
        Phase.EARLIER_OWNERS: owners(ended(NEWER, TaskStatus.IN_PROGRESS)),
        Phase.EARLIER_HEAD: m.HeadSeen(ON_INPUT),
    },
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_what_a_look_that_came_to_nothing_has_taught_changes_nothing_that_follows(look: Choices) -> None:
    """Step for step, whatever happens: the same rows, the same commands, the same end as if no claim had been there."""
    attempt = make_attempt(Backing.ATOMIC, adopts=True)
    pairs = [(_at_work(attempt, {}), _at_work(attempt, look))]
    seen = {*pairs}
    while pairs:
        one, other = pairs.pop()
        if ATTEMPT.is_terminal(one):
            assert outcome(one) == outcome(other)
        for event in menu(one):
            went, same = ATTEMPT.fire(one, event), ATTEMPT.fire(other, event)
            assert (went.row, went.commands) == (same.row, same.commands)
            if (went.state, same.state) not in seen:
                seen.add((went.state, same.state))
                pairs.append((went.state, same.state))


def _at_work(attempt: Attempt, look: Choices) -> AttemptState:
    """Give the state in which the workspace is awaited, after such a look."""
    return next(move.state for move in play(attempt, look).moves if move.state.phase is Phase.WORKSPACE)


@pytest.mark.parametrize(
    "seen",
    [ON_INPUT, head("X", CHILD), head("X", INPUT, tree="tree-X"), head("M", INPUT, "W"), head("X", "W")],
    ids=["taken back", "built on", "replaced", "merged", "elsewhere"],
)
@every_strong_backing
def test_an_adopted_publication_that_is_gone_when_looked_at_again_fails_and_nothing_is_published(
    backing: Backing, ledger: bool, seen: Head
) -> None:
    """Row H5: there is no work of its own to publish, and the input is no result of it either."""
    path = run(backing, {**FOUND, **STILL_THERE, Phase.HEAD: m.HeadSeen(seen)}, ledger=ledger)
    refusal = failed(path)
    assert refusal.classification is Classification.ADOPTED_GONE
    assert f"head {seen.commit.ref}" in refusal.actual
    assert not {"RunBody", "Publish"} & {*path.asked}
    assert ("SettleIntent" in path.asked) == ledger, "nothing was published, and that is certain"


@pytest.mark.clause("S-05")
def test_who_adopts_without_working_publishes_nothing_whatever_happens() -> None:
    """Every way on from what was found: no body, no commit, no movement, and a success only with what was found."""
    for backing in (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED):
        found = [path for path in explore(make_attempt(backing, adopts=True)) if "EH1" in path.rows]
        assert found
        for path in found:
            assert not {"PrepareWorkspace", "RunBody", "Upload", "CommitStaging", "Publish"} & {*path.asked}, path
            result = outcome(path.state).result
            assert not isinstance(result, Completed) or (result.ref, result.output) == (CHILD, ON_RECORD), path


NO_OP = evolve(OLDER, tree=None)


@every_strong_backing
def test_a_no_op_is_adopted_too_while_the_head_is_its_input(backing: Backing, ledger: bool) -> None:
    """Its claim is all it leaves. Of two twins one that changes nothing is about to report its input; if the other one
    published then, both would be accepted, with different results.
    """
    left: Choices = {Phase.CLAIMS: m.ClaimsListed((NO_OP, MINE)), Phase.OWNERS: DEAD, Phase.HEAD: m.HeadSeen(ON_INPUT)}
    found: Choices = {**FOUND, Phase.EARLIER_CLAIMS: m.ClaimsListed((NO_OP,)), Phase.EARLIER_HEAD: m.HeadSeen(ON_INPUT)}
    path = run(backing, {**found, **left}, ledger=ledger)
    assert not {"RunBody", "Publish"} & {*path.asked}
    assert m.MakeClaim(claim_of(path.attempt, None, ON_RECORD)) in path.commands
    assert completed(path) == Completed(INPUT, ON_RECORD, OURS)
    dropped = run(backing, left, ledger=ledger)
    assert "RunBody" in dropped.asked
    assert "Publish" not in dropped.asked
    assert completed(dropped) == Completed(INPUT, ON_RECORD, OURS)
    gone = run(backing, {**found, **left, Phase.HEAD: m.HeadSeen(ON_CHILD)}, ledger=ledger)
    assert failed(gone).classification is Classification.ADOPTED_GONE


# ---------------------------------------------------------------------------------------------------------------------
# Found after the work was done


@pytest.mark.parametrize("choices", [{}, UNCHANGED], ids=["changed", "no-op"])
@every_strong_backing
def test_own_work_is_dropped_when_an_earlier_publication_is_at_the_head(
    backing: Backing, ledger: bool, choices: Choices
) -> None:
    """Row H7: also by a no-op, which would else take that publication off. The result is the one on record."""
    path = run(backing, {**choices, **STILL_THERE}, ledger=ledger)
    assert "RunBody" in path.asked
    assert "Publish" not in path.asked
    assert completed(path) == Completed(CHILD, ON_RECORD, OURS)
    assert path.commands[-1] == m.CleanUp(path.attempt.staging_name, release_lease=backing is Backing.LOCKED)


@every_strong_backing
def test_own_work_is_dropped_when_a_result_was_accepted_meanwhile(backing: Backing, ledger: bool) -> None:
    """Row N2: the claims are judged before the head is seen, and what was accepted stays."""
    path = run(backing, {**STILL_THERE, Phase.OWNERS: owners(taken(OLDER)), Phase.HEAD: ()}, ledger=ledger)
    assert not {"Publish", "ArmIntent"} & {*path.asked}
    assert completed(path) == Completed(CHILD, ON_RECORD, OURS)


STANDINGS = [Standing.DEAD, Standing.LIVE, Standing.ACCEPTED, Standing.UNPROVEN]


@pytest.mark.parametrize("state", STANDINGS)
def test_whether_its_owner_lives_makes_no_difference_to_what_is_adopted(state: Standing) -> None:
    """Whoever of the task reports it reports the same commit."""
    attempt = make_attempt(Backing.CONDITIONAL, adopts=True)
    case = Case(attempt, staged_ref(attempt), ON_CHILD, claims=(OLDER,), standings=(("task-1", state),))
    assert decide(case) == Adopted(CHILD, CHILD_TREE, ON_RECORD)


def test_of_several_claims_to_one_tree_the_newest_result_is_taken() -> None:
    """They have published the same data; which of them made the commit nobody can tell."""
    attempt = evolve(make_attempt(Backing.CONDITIONAL, adopts=True), number=3)
    second = evolve(OLDER, task_id="task-9", execution="run-9", number=2, result="{}")
    for claims in ((OLDER, second), (second, OLDER)):
        assert decide(Case(attempt, None, ON_CHILD, claims=claims)) == Adopted(CHILD, CHILD_TREE, "{}")


@pytest.mark.parametrize(
    "claim",
    [
        evolve(OLDER, execution=OURS),
        evolve(OLDER, result=None),
        evolve(OLDER, parent=CommitRef("X")),
        evolve(OLDER, tree="tree-X"),
        evolve(OLDER, tree=None),
    ],
    ids=["our own", "no result", "another input", "another tree", "a no-op, and something was published since"],
)
def test_only_what_a_claim_of_another_describes_with_its_result_is_adopted(claim: Claim) -> None:
    """S-15: anything else is a stranger's, or for the owner rule; nothing was sent for our own claim yet."""
    attempt = make_attempt(Backing.CONDITIONAL, adopts=True)
    assert not isinstance(decide(Case(attempt, staged_ref(attempt), ON_CHILD, claims=(claim,))), Adopted)


@pytest.mark.parametrize(
    "message",
    [
        commit_message("another", 1, "task-9"),
        merge_message(evolve(make_attempt(), logical_task="another").staging_name),
    ],
    ids=["in its own words", "by its name"],
)
def test_a_head_that_says_it_is_another_tasks_is_not_adopted(message: str) -> None:
    """S-06, S-41: the next step, or a workflow beside, has published the tree that was claimed for this task."""
    attempt = make_attempt(Backing.CONDITIONAL, adopts=True)

    def decided(says: str) -> Decision:
        seen = evolve(ON_CHILD, commit=evolve(ON_CHILD.commit, message=says))
        return decide(Case(attempt, staged_ref(attempt), seen, claims=(OLDER,)))

    decision = decided(message)
    assert isinstance(decision, Refused)
    assert decision.refusal.classification is Classification.HEAD_NOT_REPLACEABLE
    # Not one that says nothing, or whose words nobody understands.
    own = (commit_message(attempt.logical_task, 7, "task-7"), merge_message(attempt.staging_name))
    for says in ("", "Publish 1f2e", *own):
        assert isinstance(decided(says), Adopted)


@every_strong_backing
def test_the_body_runs_where_the_head_says_it_is_another_tasks(backing: Backing, ledger: bool) -> None:
    """S-06: the look before the body does not take it for the own task's either; the attempt fails at the head."""
    anothers = evolve(ON_CHILD, commit=evolve(ON_CHILD.commit, message=commit_message("another", 1, "task-9")))
    looks: Choices = {Phase.EARLIER_HEAD: m.HeadSeen(anothers), Phase.HEAD: m.HeadSeen(anothers)}
    path = run(backing, {**FOUND, **STILL_THERE, **looks}, ledger=ledger)
    assert "RunBody" in path.asked
    assert failed(path).classification is Classification.HEAD_NOT_REPLACEABLE


def test_a_publication_on_another_input_is_not_adopted() -> None:
    """S-15: a claim of an earlier run of the workflow names the commit that one began with."""
    attempt = make_attempt(Backing.CONDITIONAL, adopts=True)
    elsewhere = evolve(OLDER, parent=CommitRef("X"))
    assert decide(Case(attempt, staged_ref(attempt), head(CHILD, "X"), claims=(elsewhere,))).verdict == "refuse"


# ---------------------------------------------------------------------------------------------------------------------
# No result on record


@every_strong_backing
def test_a_claim_without_a_result_falls_back_to_the_owner_rule(backing: Backing, ledger: bool) -> None:
    """Rows H2 H5: replaced if it is proven abandoned, refused if not; never reported, for nobody knows its result."""
    old = evolve(OLDER, result=None)
    there: Choices = {
        Phase.EARLIER_CLAIMS: m.ClaimsListed((old,)),
        Phase.EARLIER_HEAD: m.HeadSeen(ON_CHILD),
        Phase.CLAIMS: m.ClaimsListed((old, MINE)),
        Phase.HEAD: m.HeadSeen(ON_CHILD),
    }
    path = run(backing, there, ledger=ledger)
    assert "RunBody" in path.asked
    assert plan_in(path.state).kind is PlanKind.REPLACE
    assert completed(path) == Completed(CommitRef("C"), '{"rows":1}', OURS)
    live = run(backing, {**there, Phase.OWNERS: owners(ended(old, TaskStatus.IN_PROGRESS))}, ledger=ledger)
    assert failed(live).classification is Classification.HEAD_NOT_REPLACEABLE
    accepted = run(backing, {**there, Phase.OWNERS: owners(taken(old))}, ledger=ledger)
    assert failed(accepted).classification is Classification.HEAD_NOT_REPLACEABLE


def test_a_result_that_is_too_long_is_not_kept_in_the_claim() -> None:
    """A claim is read by every retry; a longer result is still reported, only not adopted."""
    attempt = make_attempt(Backing.ATOMIC, adopts=True)
    for length, kept in ((LONGEST_RESULT, True), (LONGEST_RESULT + 1, False)):
        result = "x" * length
        path = play(attempt, {Phase.BODY: m.BodyDone(OURS, changed=True, output=result)})
        claim = evolve(claim_of(attempt, staged_ref(attempt)), result=result if kept else None)
        assert m.MakeClaim(claim) in path.commands
        assert completed(path).output == result


def test_a_claim_of_an_older_release_has_no_result() -> None:
    """Only what was added since may be missing."""
    assert codec.loads(_without(OLDER, "result"), Claim) == evolve(OLDER, result=None)
    assert (
        codec.loads(_without(make_attempt(Backing.ATOMIC), "on_abandoned"), Attempt).on_abandoned is OnAbandoned.ADOPT
    )
    with pytest.raises(CodecError, match="parent"):
        codec.loads(_without(OLDER, "parent"), Claim)


def _without(value: Value, field: str) -> str:
    stored: dict[str, object] = json.loads(codec.dumps(value))
    assert field in stored
    return json.dumps({name: each for name, each in stored.items() if name != field})


# ---------------------------------------------------------------------------------------------------------------------
# Twins


@every_strong_backing
def test_who_is_outranked_is_silent_before_it_publishes(backing: Backing, ledger: bool) -> None:
    """Row N3: the newer one publishes for both; a FAILED of ours may end the workflow it completes."""
    path = run(backing, {Phase.CLAIMS: m.ClaimsListed((MINE, NEWER))}, ledger=ledger)
    refusal = silent(path)
    assert (refusal.classification, "Publish" in path.asked) == (Classification.CLAIM_LOST, False)
    assert refusal.actual == "attempt 3, task task-3, claimed by execution run-3"


@every_strong_backing
def test_who_is_outranked_is_silent_after_the_store_refused_its_publication(backing: Backing, ledger: bool) -> None:
    """Rows PX2 PR1 PR3 PR2 PRX: the twin's claim came after ours was listed, and it is why the store refused."""
    refused: Choices = {Phase.PUBLICATION: NotDone("conflict")}
    path = run(backing, {**refused, Phase.RIVALS: m.ClaimsListed((MINE, NEWER))}, ledger=ledger)
    assert silent(path).actual == "attempt 3, task task-3, claimed by execution run-3"
    settled = ["SettleIntent"] if ledger else []  # nothing was published, and that is certain
    assert list(path.asked[path.asked.index("Publish") :]) == ["Publish", "ListClaims", *settled, "CleanUp"]
    for answer in (m.ClaimsListed((MINE,)), m.ClaimsListed((OLDER, MINE)), Unknown("timeout")):
        alone = run(backing, {**refused, Phase.RIVALS: answer}, ledger=ledger)
        assert failed(alone).classification is Classification.PUBLISH_REFUSED


# ---------------------------------------------------------------------------------------------------------------------
# Who does not adopt

Way = tuple[tuple[str, ...], tuple[object, ...]]


def _ways(attempt: Attempt) -> list[Way]:
    return [(path.rows, path.commands) for path in explore(attempt)]


@pytest.mark.parametrize("ledger", [False, True], ids=["plain", "ledger"])
def test_soft_replaces_whatever_the_task_wants(ledger: bool) -> None:
    """The seed's protocol to the letter: the same rows and the same commands, on every way."""
    assert _ways(make_attempt(ledger=ledger, adopts=True)) == _ways(make_attempt(ledger=ledger))


@pytest.mark.parametrize("backing", Backing)
def test_who_replaces_or_only_reads_does_not_look_for_earlier_attempts(backing: Backing) -> None:
    """It begins with its workspace, and asks for nothing more than before there was adoption."""
    begins: Callable[[Attempt], object] = lambda attempt: ATTEMPT.start(attempt).commands  # noqa: E731
    assert begins(make_attempt(backing)) == (m.PrepareWorkspace(),)
    assert begins(make_attempt(backing, read_only=True, adopts=True)) == (m.PrepareWorkspace(),)
    looks = backing is not Backing.SOFT
    assert (begins(make_attempt(backing, adopts=True)) == (m.ListClaims(),)) == looks


@every_strong_backing
def test_who_replaces_never_adopts(backing: Backing, ledger: bool) -> None:
    """Rows H2 H5 N1 NG PX1: also where a result is on record, accepted or above; the owner rule alone decides."""
    attempt = make_attempt(backing, ledger=ledger)
    replaced = play(attempt, STILL_THERE)
    assert plan_in(replaced.state).kind is PlanKind.REPLACE
    assert [*replaced.asked].index("RunBody") < [*replaced.asked].index("ListClaims")
    accepted = play(attempt, {**STILL_THERE, Phase.OWNERS: owners(taken(OLDER))})
    assert failed(accepted).classification is Classification.HEAD_NOT_REPLACEABLE
    above = play(attempt, {**STILL_THERE, Phase.CLAIMS: m.ClaimsListed((NEWER,)), Phase.HEAD: m.HeadSeen(ON_INPUT)})
    assert completed(above).ref == MERGED
    refused = play(attempt, {Phase.PUBLICATION: NotDone("conflict")})
    assert failed(refused).classification is Classification.PUBLISH_REFUSED
    assert STAGE[0] in refused.asked
    assert refused.asked.count("ListClaims") == 1
