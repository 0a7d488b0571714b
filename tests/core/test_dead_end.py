"""Dead ends: where no attempt of a task with a fixed input can be published any more, and where one still may be."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.dead_end import ABOUT_THE_HEAD, dead_end
from perago_core.driver import drive, run
from perago_core.names import commit_message, merge_message, task_id_in
from perago_core.results import Classification, Completed, Failed, Refusal
from perago_core.values import Attempt, Backing, CommitRef, Landed, Operation, Scope, Target
from tests.core.world import INPUT, TARGET, Answering, World, ports_with, writes

STRONG = [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED]
strong = pytest.mark.parametrize("backing", STRONG, ids=lambda each: each.value)


def another(world: World, backing: Backing = Backing.ATOMIC, step: str = "other", data: bytes = b"other") -> Attempt:
    """Hand out an attempt of another workflow, with the same input."""
    return world.attempt(1, backing, step=step, body=writes(data), execution=f"run-{step}", ledger=_ledger(backing))


def _ledger(backing: Backing) -> bool:
    return backing is Backing.LOCKED


def accepted(world: World, attempt: Attempt) -> CommitRef:
    result = drive(attempt, world.ports()).result
    assert isinstance(result, Completed), result
    return result.ref


def asked(world: World, attempt: Attempt, **others: Any) -> Answer[Refusal | None]:  # noqa: ANN401  stand-ins of ports
    return run(dead_end(attempt), ports_with(world, **others))


def found(world: World, attempt: Attempt) -> Refusal | None:
    answer = asked(world, attempt)
    assert isinstance(answer, Done), answer
    return answer.value


@strong
def test_above_somebody_elses_accepted_result_no_attempt_is_ever_published(backing: Backing) -> None:
    """And it is so: the attempt itself, and the one after it, are refused because of where the head is."""
    world = World()
    mine = world.attempt(1, backing, ledger=_ledger(backing))
    assert found(world, mine) is None
    ref = accepted(world, another(world, backing))
    refusal = found(world, mine)
    assert refusal is not None
    assert refusal.classification is Classification.HEAD_ELSEWHERE
    assert ref in refusal.actual
    assert "accepted from" in refusal.actual
    assert "Start the run anew" in refusal.next_action
    again = world.attempt(2, backing, ledger=_ledger(backing))
    for each in (mine, again):
        result = drive(each, world.ports()).result
        assert result is None or isinstance(result, Failed)
        if result is not None:
            assert result.refusal.classification in ABOUT_THE_HEAD
    assert world.branch_head() == ref


@strong
def test_a_strangers_commit_stays_however_deep_it_lies(backing: Backing) -> None:
    world = World()
    mine = world.attempt(1, backing, ledger=_ledger(backing))
    person = world.stranger(TARGET)
    below = person.commit({"person": b"p"})
    refusal = found(world, mine)
    assert refusal is not None
    assert f"{below}, somebody else's, lies above it" in refusal.actual
    person.commit({"person": b"q"})
    assert found(world, mine) is not None


@strong
def test_what_the_own_task_has_left_is_no_dead_end_and_the_next_attempt_succeeds(backing: Backing) -> None:
    world = World()
    world.abandon(backing, ledger=_ledger(backing))
    mine = world.attempt(2, backing, ledger=_ledger(backing))
    assert found(world, mine) is None
    assert isinstance(drive(mine, world.ports()).result, Completed)


def test_what_has_the_tree_of_an_own_publication_may_be_one_whoever_says_to_have_made_it() -> None:
    """Adoption goes by the tree, not by the message."""
    world = World()
    world.abandon(Backing.ATOMIC, ledger=False)
    person = world.stranger(TARGET)
    person.reset(INPUT)
    person.commit({"data": b"1", "more": b"1"})
    assert found(world, world.attempt(2, Backing.ATOMIC)) is None


def test_what_another_task_has_left_unaccepted_may_yet_be_taken_back() -> None:
    world = World()
    mine = world.attempt(1, Backing.ATOMIC, step="mine", execution="run-mine")
    world.abandon(Backing.ATOMIC, ledger=False)
    assert found(world, mine) is None
    world.stranger(TARGET).reset(INPUT)
    assert isinstance(drive(mine, world.ports()).result, Completed)


def test_an_accepted_result_above_one_that_is_not_stays() -> None:
    """The own publication is buried: it can be neither adopted nor replaced without taking the accepted one off."""
    world = World()
    buried = world.abandon(Backing.ATOMIC, ledger=False)
    mine = world.attempt(2, Backing.ATOMIC)
    over = evolve(another(world), input=buried)
    world.workspace().accept(over, writes(b"over"))
    accepted(world, over)
    assert found(world, mine) is not None


def test_an_input_that_was_taken_off_the_branch_leads_nowhere() -> None:
    world = World()
    person = world.stranger(TARGET)
    gone = person.commit({"gone": b"g"})
    person.reset(INPUT)
    refusal = found(world, evolve(world.attempt(1, Backing.ATOMIC), input=gone))
    assert refusal is not None
    assert f"{gone} is no commit below it" in refusal.actual


def test_a_branch_that_is_not_there_is_made_by_no_retry() -> None:
    world = World()
    mine = evolve(world.attempt(1, Backing.ATOMIC), target=Target(TARGET.repository, "nowhere"))
    refusal = found(world, mine)
    assert refusal is not None
    assert refusal.classification is Classification.TARGET_MISSING


@pytest.mark.parametrize(
    "otherwise",
    [
        {"backing": Backing.SOFT},
        {"read_only": True},
        {"operation": Operation.MAINTENANCE},
        {"over_maintenance": True, "ledger": True},
        {"scope": Scope((), ("mine/",))},
    ],
    ids=["soft", "read only", "maintenance", "over maintenance", "scope"],
)
def test_where_the_input_is_not_fixed_or_requests_land_blindly_nothing_is_for_ever(otherwise: dict[str, Any]) -> None:
    world = World()
    mine = evolve(world.attempt(1, Backing.ATOMIC), **otherwise)
    world.stranger(TARGET).commit({"person": b"p"})
    assert found(world, mine) is None


def test_a_scope_that_its_backing_does_not_honour_changes_nothing() -> None:
    world = World()
    mine = world.attempt(1, Backing.LOCKED, ledger=True, scope=Scope((), ("mine/",)))
    world.stranger(TARGET).commit({"person": b"p"})
    assert found(world, mine) is not None


@pytest.mark.parametrize("silence", [Unknown("no answer"), NotDone("no answer")])
@pytest.mark.parametrize("method", ["head", "since", "claims", "look"])
def test_what_cannot_be_read_is_not_taken_for_a_dead_end(method: str, silence: Unknown | NotDone) -> None:
    world = World()
    mine = world.attempt(1, Backing.ATOMIC)
    accepted(world, another(world))
    answer = asked(world, mine, store=Answering(world.store(), method, lambda *_: silence))
    assert not isinstance(answer, Done) or method == "look", answer


def test_a_publication_of_a_task_nobody_has_heard_of_is_a_strangers() -> None:
    """Tasks of settled workflows are collected; what they have published stays."""
    world = World()
    mine = world.attempt(1, Backing.ATOMIC, step="mine", execution="run-mine")
    world.abandon(Backing.ATOMIC, ledger=False)
    forgetful = Answering(world.orchestrator(), "reload", lambda *_: Done(None))
    answer = asked(world, mine, orchestrator=forgetful)
    assert isinstance(answer, Done)
    assert answer.value is not None
    assert "somebody else's" in answer.value.actual


def test_a_joined_publication_is_judged_by_the_claims_of_its_task() -> None:
    world = World()
    mine = world.attempt(1, Backing.ATOMIC, step="mine", execution="run-mine")
    accepted(world, evolve(another(world), scope=Scope((), ("",))))
    refusal = found(world, mine)
    assert refusal is not None
    assert "accepted from wf-2/0/other" in refusal.actual


def test_a_commit_says_from_which_task_it_comes_in_its_own_words_or_by_the_name_it_was_published_under() -> None:
    attempt = World().attempt(3, Backing.ATOMIC)
    assert task_id_in(commit_message(attempt.logical_task, 3, "task-7") + "\n\nPerago-Code: x") == "task-7"
    assert task_id_in(merge_message(attempt.staging_name)) == attempt.task_id
    assert task_id_in("Publish the results of May") is None
    assert task_id_in("a person's attempt to mend it") is None


def renamed(world: World, name: str) -> Answering:
    """A store that makes a commit of its own for what it publishes, and says no more in it than the staging name."""

    def says(given: Done[tuple[Landed, ...]], *_: object) -> Done[tuple[Landed, ...]]:
        return Done(
            tuple(evolve(each, commit=evolve(each.commit, message=merge_message(name))) for each in given.value)
        )

    return Answering(world.store(), "since", says)


def test_a_publication_that_only_names_its_staging_is_judged_by_the_task_in_that_name() -> None:
    world = World()
    mine, other = world.attempt(1, Backing.ATOMIC), another(world)
    ref = accepted(world, other)
    store = renamed(world, other.staging_name)
    answer = asked(world, mine, store=store)
    assert isinstance(answer, Done)
    assert answer.value is not None
    assert f"{ref}, accepted from task {other.task_id}" in answer.value.actual
    silent = Answering(world.orchestrator(), "reload", lambda *_: Unknown("no answer"))
    assert asked(world, mine, store=store, orchestrator=silent) == Unknown("no answer")


def test_an_unaccepted_publication_that_only_names_its_staging_makes_no_dead_end() -> None:
    world = World()
    mine = world.attempt(1, Backing.ATOMIC, step="mine", execution="run-mine")
    left = world.attempt(1, Backing.ATOMIC)
    world.crash(left, "orchestrator.report.before")
    assert asked(world, mine, store=renamed(world, left.staging_name)) == Done(None)


def test_an_orchestrator_that_does_not_answer_makes_no_dead_end() -> None:
    world = World()
    mine = world.attempt(1, Backing.ATOMIC)
    accepted(world, another(world))
    silent = Answering(world.orchestrator(), "reload", lambda *_: Unknown("no answer"))
    assert asked(world, mine, orchestrator=silent) == Unknown("no answer")
