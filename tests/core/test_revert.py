"""Reverting what nobody accepted on a shared branch: call by call, against a rerun that adopts it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.dead_end import dead_end
from perago_core.driver import drive, run
from perago_core.failpoints import Failpoint
from perago_core.fence import against_reverting
from perago_core.names import (
    commit_message,
    merge_message,
    recovery_name,
    revert_message,
    says_revert,
    staging_name,
    task_in,
)
from perago_core.results import Classification, Completed, Failed, Outcome
from perago_core.revert import Unaccepted, revert, unaccepted
from perago_core.sharing import begin_at, newest_accepted
from perago_core.values import Backing, Claim, Commit, CommitRef
from perago_core.verification import Accepted, Facts, Kind, judge
from tests.core.test_sharing import SCOPES, attempt_of, completed, files, killed, once, refused, sharing
from tests.core.world import INPUT, TARGET, Answering, CrashError, World, ports_with

RIGHT = "wf-1/0/right"
REPORT = "orchestrator.report.before"


def die() -> None:
    raise CrashError


def abandoned(backing: Backing = Backing.ATOMIC) -> tuple[World, Commit]:
    """Let a writer publish and die, and its workflow end."""
    world = World()
    ref = killed(world, "right", backing)
    end(world)
    return world, commit_of(world, ref)


def end(world: World) -> None:
    world.give_up_open_tasks("right")
    world.orchestrator().workflow("wf-1").running = False


def rerun(world: World, backing: Backing = Backing.ATOMIC, number: int = 2) -> Outcome:
    """Let somebody have the workflow go on: its next attempt."""
    world.orchestrator().workflow("wf-1").running = True
    return drive(attempt_of(world, "right", number, backing=backing), world.ports())


def commit_of(world: World, ref: CommitRef) -> Commit:
    return world.store().repositories[TARGET.repository].commits[ref]


def claims_of(world: World) -> tuple[Claim, ...]:
    listed = world.store().claims(TARGET, RIGHT)
    assert isinstance(listed, Done)
    return listed.value


def reverting(world: World, commit: Commit, nonce: str = "recovery", **ports: object) -> Answer[CommitRef]:
    return run(revert(TARGET, commit, RIGHT, nonce), ports_with(world, **ports))


def names(world: World) -> tuple[str, ...]:
    listed = world.store().staging_names(TARGET.repository)
    assert isinstance(listed, Done)
    return tuple(name for name in listed.value if "recovery" in name)


@sharing
def test_what_nobody_accepted_is_undone_by_a_commit_onto_the_head_and_everybody_goes_on(backing: Backing) -> None:
    world, published = abandoned(backing)
    assert run(unaccepted(TARGET), world.ports()) == Done((Unaccepted(published, RIGHT),))
    done = reverting(world, published)
    assert done == Done(world.branch_head())
    assert world.history() == [world.branch_head(), published.ref, INPUT]
    assert set(files(world)) == {"data"}
    assert run(unaccepted(TARGET), world.ports()) == Done(())
    assert names(world) == ()
    before = world.clock().now()
    ref = completed(drive(attempt_of(world, "left", backing=backing), world.ports()))
    assert (world.history()[0], world.clock().now()) == (ref, before), "it has not waited"


@sharing
def test_who_waits_goes_on_once_it_is_reverted_and_has_lost_nothing(backing: Backing) -> None:
    world = World()
    published = commit_of(world, killed(world, "right", backing))
    mine = attempt_of(world, "left", backing=backing)
    looks: list[Failpoint] = []

    def take_back(point: Failpoint) -> None:
        if str(point) == "store.since.before":
            looks.append(point)
            if len(looks) == 3:
                end(world)
                assert isinstance(reverting(world, published), Done)

    assert completed(drive(mine, world.ports(reached=take_back))) == world.branch_head()
    assert set(files(world)) == {"data", "left/x"}


@sharing
def test_commits_of_others_above_it_stay(backing: Backing) -> None:
    world, published = abandoned(backing)
    person = world.stranger(TARGET).commit({"person": b"p"})
    assert isinstance(reverting(world, published), Done)
    assert world.history()[1] == person
    assert set(files(world)) == {"data", "person"}


def test_what_somebody_has_changed_since_is_not_undone() -> None:
    world, published = abandoned()
    world.stranger(TARGET).commit({"right/x": b"theirs"})
    answer = reverting(world, published)
    assert isinstance(answer, NotDone)
    assert "same objects" in answer.reason
    assert files(world)["right/x"] == b"theirs"


# ---------------------------------------------------------------------------------------------------------------------
# Against a rerun


def at_call(number: int, act: Callable[[], object]) -> Callable[[Failpoint], None]:
    """Let something happen before the so-manieth call."""
    seen: list[Failpoint] = []

    def reached(point: Failpoint) -> None:
        if str(point).endswith(".before"):
            seen.append(point)
            if len(seen) == number:
                act()

    return reached


def calls_of(talk: Generator[Any, Any, Any], world: World) -> int:
    counted: list[Failpoint] = []
    run(talk, world.ports(reached=lambda point: counted.append(point) if str(point).endswith(".before") else None))
    return len(counted)


@sharing
def test_a_rerun_at_every_single_call_of_a_recovery_is_never_undone(backing: Backing) -> None:
    world, published = abandoned(backing)
    count = calls_of(revert(TARGET, published, RIGHT, "recovery"), world)
    assert count > 10
    adopted = 0
    for number in range(1, count + 1):
        world, published = abandoned(backing)
        outcomes: list[Outcome] = []
        meanwhile = at_call(number, lambda: outcomes.append(rerun(world, backing)))  # noqa: B023  used at once
        answer = run(revert(TARGET, published, RIGHT, "recovery"), world.ports(reached=meanwhile))
        (outcome,) = outcomes
        if isinstance(outcome.result, Completed):
            adopted += outcome.adopted
            assert "right/x" in files(world), f"accepted, and undone by a revert that it met at call {number}"
            assert outcome.adopted is (outcome.result.ref == published.ref)
        else:
            assert (refused(outcome), isinstance(answer, Done)) == (Classification.ADOPTED_GONE, True)
        assert names(world) == ()
    assert adopted > 5


@sharing
def test_a_recovery_at_every_single_call_of_a_rerun_undoes_nothing_that_is_accepted(backing: Backing) -> None:
    for number in range(1, 40):
        world, published = abandoned(backing)
        world.orchestrator().workflow("wf-1").running = True
        again = attempt_of(world, "right", 2, backing=backing)

        def meanwhile() -> None:
            # The orchestrator's word is old by the time it is judged: the recovery takes the run for ended.
            def ended(given: Answer[Any], *_asked: object) -> Answer[Any]:
                assert isinstance(given, Done)
                seen = given.value
                still = seen.task_id == again.task_id  # noqa: B023  used at once
                return given if still else Done(evolve(seen, workflow_running=False))

            reverting(world, published, orchestrator=Answering(world.orchestrator(), "reload", ended))  # noqa: B023

        outcome = drive(again, world.ports(reached=at_call(number, meanwhile)))
        if isinstance(outcome.result, Completed):
            assert "right/x" in files(world), f"undone at call {number}"


@sharing
def test_a_rerun_after_it_does_not_adopt_what_was_reverted_and_runs_the_body(backing: Backing) -> None:
    world, published = abandoned(backing)
    assert isinstance(reverting(world, published), Done)
    world.orchestrator().workflow("wf-1").running = True
    with pytest.raises(CrashError):
        drive(attempt_of(world, "right", 2, backing=backing), world.ports(reached=once(REPORT, die)))
    anew = world.branch_head()
    assert "right/x" in files(world)
    third = rerun(world, backing, 3)
    assert (third.adopted, completed(third)) == (True, anew), "of two publications of its task the one that stands"


@sharing
def test_a_recovery_that_died_anywhere_keeps_nobody_from_the_next_one(backing: Backing) -> None:
    world, published = abandoned(backing)
    count = calls_of(revert(TARGET, published, RIGHT, "recovery"), world)
    for number in range(1, count + 1):
        world, published = abandoned(backing)

        with pytest.raises(CrashError):
            run(revert(TARGET, published, RIGHT, "first"), world.ports(reached=at_call(number, die)))
        assert isinstance(reverting(world, published, "second"), Done)
        assert set(files(world)) == {"data"}
        assert world.history()[1:] == [published.ref, INPUT]


@sharing
def test_two_recoveries_at_once_make_one_revert(backing: Backing) -> None:
    world, published = abandoned(backing)
    count = calls_of(revert(TARGET, published, RIGHT, "recovery"), world)
    for number in range(1, count + 1):
        world, published = abandoned(backing)
        others: list[Answer[CommitRef]] = []
        beside = at_call(number, lambda: others.append(reverting(world, published, "second")))  # noqa: B023  as above
        own = run(revert(TARGET, published, RIGHT, "first"), world.ports(reached=beside))
        assert isinstance(own, Done) or isinstance(others[0], Done)
        assert world.history()[1:] == [published.ref, INPUT]


# ---------------------------------------------------------------------------------------------------------------------
# Three answers


def test_a_publication_without_an_answer_is_found_out_about() -> None:
    world, published = abandoned()
    landed = Answering(world.store(), "publish", lambda *_: Unknown("no answer"))
    assert reverting(world, published, store=landed) == Done(world.branch_head())
    world, published = abandoned()
    world.store().delay_publications()
    assert reverting(world, published) == NotDone("the store has not reverted it")
    (late,) = world.store().in_flight()
    assert isinstance(world.store().advance(late), NotDone), "its name is gone"


@pytest.mark.parametrize("method", ["drop", "barrier", "head", "since"])
def test_what_cannot_be_found_out_is_unknown(method: str) -> None:
    world, published = abandoned()
    sent: list[object] = []

    class Store:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def answered(*args: Any) -> Any:  # noqa: ANN401  any port call
                if name == "publish":
                    sent.append(name)
                    return Unknown("no answer")
                if sent and name == method:
                    return NotDone("no")
                return getattr(world.store(), name)(*args)

            return answered

    assert isinstance(reverting(world, published, store=Store()), Unknown)


_READS = ("claims", "open_staging", "revert", "claim", "staging_names", "barrier", "head", "since", "publish")


@pytest.mark.parametrize("answer", [NotDone("no"), Unknown("no answer")], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("method", _READS)
def test_nothing_is_called_reverted_that_is_not(method: str, answer: Answer[Any]) -> None:
    world, published = abandoned()

    class Store:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            return (lambda *_: answer) if name == method else getattr(world.store(), name)

    found = reverting(world, published, store=Store())
    assert isinstance(found, NotDone | Unknown)
    assert world.branch_head() == published.ref


def test_a_claim_without_an_answer_is_read_back() -> None:
    world, published = abandoned()
    lost = Answering(world.store(), "claim", lambda *_: Unknown("no answer"))
    assert isinstance(reverting(world, published, store=lost), Done)


@pytest.mark.parametrize("number", [1, 2])
def test_an_orchestrator_that_does_not_answer_leaves_it_as_it_is(number: int) -> None:
    world, published = abandoned()
    asked: list[object] = []

    def silent(given: object, *_asked: object) -> object:
        asked.append(given)
        return Unknown("no answer") if len(asked) >= number else given

    port = Answering(world.orchestrator(), "reload", silent)
    assert isinstance(reverting(world, published, orchestrator=port), Unknown)
    assert world.branch_head() == published.ref


def test_claims_that_cannot_be_listed_once_more_leave_it_as_it_is() -> None:
    """With its own claim in place it asks again who has claimed; a rerun may be among them."""
    world, published = abandoned()
    before = len(claims_of(world))

    def silent(given: object, *_asked: object) -> object:
        return Unknown("no answer") if len(claims_of(world)) > before else given

    store = Answering(world.store(), "claims", silent)
    assert reverting(world, published, store=store) == Unknown("no answer")
    assert world.branch_head() == published.ref


@pytest.mark.parametrize("method", ["head", "claims"])
def test_a_look_that_goes_unanswered_has_not_found_nothing(method: str) -> None:
    world, _ = abandoned()
    asked: list[object] = []

    def silent(given: object, *_asked: object) -> object:
        asked.append(given)
        return Unknown("no answer") if len(asked) > (method == "claims") else given

    for _ in range(2):
        store = Answering(world.store(), method, silent)
        assert run(unaccepted(TARGET), ports_with(world, store=store)) == Unknown("no answer")


def test_a_branch_that_is_missing_or_dirty_is_left_alone() -> None:
    world, published = abandoned()
    missing = Answering(world.store(), "head", lambda *_: Done(None))
    assert run(unaccepted(TARGET), ports_with(world, store=missing)) == Done(())
    assert isinstance(reverting(world, published, store=missing), NotDone)

    def soiled(given: Answer[Any], *_asked: object) -> Answer[Any]:
        assert isinstance(given, Done)
        return Done(evolve(given.value, dirty=True))

    dirty = Answering(world.store(), "head", soiled)
    assert isinstance(reverting(world, published, store=dirty), NotDone)
    world.stranger(TARGET).reset(INPUT)
    gone = reverting(world, published)
    assert isinstance(gone, NotDone)
    assert "not below the head" in gone.reason


def test_one_that_changed_nothing_is_not_reverted() -> None:
    world, published = abandoned()
    nothing = Answering(world.store(), "revert", lambda *_: Done(None))
    answer = reverting(world, published, store=nothing)
    assert isinstance(answer, NotDone)
    assert "nothing to revert" in answer.reason


# ---------------------------------------------------------------------------------------------------------------------
# What stays


def test_what_goes_on_was_accepted_or_is_forgotten_stays() -> None:
    world = World()
    published = commit_of(world, killed(world, "right"))
    world.give_up_open_tasks("right")
    found = run(unaccepted(TARGET), world.ports())
    assert isinstance(found, Done)
    (seen,) = found.value
    assert seen.stays == "workflow wf-1 goes on, and may adopt it"
    assert reverting(world, published) == NotDone(seen.stays)
    end(world)
    forgotten = ports_with(world, orchestrator=Answering(world.orchestrator(), "reload", lambda *_: Done(None)))
    answer = run(revert(TARGET, published, RIGHT, "recovery"), forgotten)
    assert isinstance(answer, NotDone)
    assert "is forgotten" in answer.reason
    completed(rerun(world))
    world.orchestrator().workflow("wf-1").running = False
    answer = reverting(world, published)
    assert isinstance(answer, NotDone)
    assert "was accepted for task" in answer.reason
    assert against_reverting(published, (), {}) == "no claim says whose it is"


def test_what_a_task_without_a_scope_has_left_is_its_intents_matter() -> None:
    world = World()
    world.crash(world.attempt(1, Backing.ATOMIC), "orchestrator.report.before")
    world.orchestrator().workflow("wf-1").running = False
    assert run(unaccepted(TARGET), world.ports()) == Done(())
    strange = World()
    strange.stranger(TARGET).commit({"person": b"p"})
    assert run(unaccepted(TARGET), strange.ports()) == Done(())


# ---------------------------------------------------------------------------------------------------------------------
# Who looks later


def test_a_reverted_pair_counts_as_absent_for_whoever_begins_or_starts() -> None:
    world = World()
    accepted = completed(drive(attempt_of(world, "left"), world.ports()))
    published = commit_of(world, killed(world, "right"))
    workflow = world.orchestrator().workflow("wf-2")
    world.give_up_open_tasks("right")
    workflow.running = False
    task = "wf-2/0/right"
    head = commit_of(world, world.branch_head())
    assert run(newest_accepted(TARGET, head), world.ports()) == Done(accepted)
    assert isinstance(run(revert(TARGET, published, task, "recovery"), world.ports()), Done)
    head = commit_of(world, world.branch_head())
    assert run(newest_accepted(TARGET, head), world.ports()) == Done(head.ref)
    begun = run(begin_at(TARGET, INPUT, SCOPES["reader"], "wf/other"), world.ports())
    assert begun == Done(INPUT), "nothing that it reads differs"
    world.stranger(TARGET).commit({"right/x": b"a person's"})
    begun = run(begin_at(TARGET, INPUT, SCOPES["right"], task), world.ports())
    assert begun == Done(world.branch_head()), "its own publication is not there any more: nothing to adopt"


def test_no_fixed_input_gets_past_a_revert() -> None:
    world, published = abandoned()
    reverted = reverting(world, published)
    assert isinstance(reverted, Done)
    plain = world.attempt(1, Backing.ATOMIC, step="plain")
    found = run(dead_end(plain), world.ports())
    assert isinstance(found, Done)
    assert found.value is not None
    assert f"{reverted.value}, which reverts {published.ref}" in found.value.actual


def test_verify_names_the_pair_and_holds_an_accepted_one_against_us() -> None:
    world, published = abandoned()
    assert isinstance(reverting(world, published), Done)
    history = tuple(commit_of(world, ref) for ref in world.history())
    verdict = judge(Facts(TARGET, history, whole=True, accepted=(), claims=claims_of(world)))
    assert [each.kind for each in verdict.findings] == [Kind.REVERT, Kind.REVERTED, Kind.EARLIER]
    assert verdict.broken == ()
    accepted = (Accepted("t1", RIGHT, published.ref, 1),)
    verdict = judge(Facts(TARGET, history, whole=True, accepted=accepted, claims=claims_of(world)))
    assert verdict.broken == (f"reverted: task t1 was accepted with {published.ref}",)


def test_a_recoverys_claim_is_above_its_attempt_and_below_the_next() -> None:
    world, published = abandoned()
    assert isinstance(reverting(world, published), Done)
    attempt, recovery = claims_of(world)
    assert attempt.rank < recovery.rank < evolve(attempt, number=attempt.number + 1).rank
    assert attempt.key != recovery.key
    assert (recovery.reverts, recovery.result) == (published.ref, None)


def test_a_revert_says_of_which_task_it_is() -> None:
    message = revert_message("c1", "wf/step", 3, "t7")
    assert task_in(message) == task_in(commit_message("wf/step", 3, "t7")) == "wf/step"


def test_a_commit_says_that_it_reverts_by_its_words_or_by_the_name_it_came_from() -> None:
    anchor = recovery_name(TARGET, "wf/step", 3, "t7", "nonce")
    name = staging_name(TARGET, "wf/step", 3, 0, "t7", "run1")
    assert says_revert(revert_message("c1", "wf/step", 3, "t7"))
    assert says_revert(merge_message(anchor))
    assert not any(
        map(says_revert, (commit_message("wf/step", 3, "t7"), merge_message(name), "Revert something", "", "Publish x"))
    )


def test_a_failed_attempt_is_told_what_became_of_what_it_was_to_adopt() -> None:
    """The rerun had found it; by the time it looks again a recovery has reverted it. The next attempt runs the body."""
    world, published = abandoned()
    world.orchestrator().workflow("wf-1").running = True
    again = attempt_of(world, "right", 2)

    def over(given: Answer[Any], *_asked: object) -> Answer[Any]:
        assert isinstance(given, Done)
        return Done(evolve(given.value, workflow_running=False))

    def ended() -> None:
        answering = Answering(world.orchestrator(), "reload", over)
        assert isinstance(reverting(world, published, orchestrator=answering), Done)

    outcome = drive(again, world.ports(reached=at_call(5, ended)))
    assert isinstance(outcome.result, Failed)
    assert refused(outcome) is Classification.ADOPTED_GONE
    assert completed(rerun(world, number=3)) == world.branch_head()
