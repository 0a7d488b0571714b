"""Who may not act on a target any more (S-01, S-30, S-32): which names die before a publication, and which stay."""

from __future__ import annotations

from contextlib import suppress

import pytest

from perago_core.answers import Done, NotDone, Unknown
from perago_core.budget import PublishBudget
from perago_core.driver import drive, run
from perago_core.failpoints import Failpoint
from perago_core.names import recovery_name, staging_name, target_prefix
from perago_core.results import Classification, Completed, Failed
from perago_core.revocation import pin, revoke
from perago_core.values import Attempt, Backing, Target, TaskSnapshot, TaskStatus
from tests.core.world import INPUT, TARGET, CrashError, Fault, World

BESIDE = Target(TARGET.repository, "beside")
OWN = "wf-2/load"
#: A third of the lease is a whole number of seconds, so that no renewal comes a rounding error too late.
BUDGET = PublishBudget(lease_ttl=12)


class Names:
    """One name of each kind there is on one target."""

    older = staging_name(TARGET, OWN, 1, 0, "own1", "e1")
    mine = staging_name(TARGET, OWN, 2, 1, "own2", "e2")
    newer = staging_name(TARGET, OWN, 3, 2, "own3", "e3")
    own_recovery = recovery_name(TARGET, OWN, 1, "own1", "e4")
    failed = staging_name(TARGET, "wf-1/load", 7, 0, "failed", "e5")
    accepted = staging_name(TARGET, "wf-1/clean", 7, 0, "accepted", "e6")
    terminated = staging_name(TARGET, "wf-0/load", 1, 0, "terminated", "e7")
    foreign_recovery = recovery_name(TARGET, "wf-1/load", 6, "failed", "e8")
    unheard = staging_name(TARGET, "wf-x/load", 1, 0, "unheard", "e9")
    running = staging_name(TARGET, "wf-3/load", 1, 0, "running", "e10")
    elsewhere = staging_name(BESIDE, "wf-1/load", 1, 0, "failed", "e11")
    somebodys = f"{target_prefix(TARGET)}notes"


GOING = {
    Names.older,
    Names.own_recovery,
    Names.failed,
    Names.accepted,
    Names.terminated,
    Names.foreign_recovery,
    Names.unheard,
}
STAYING = {Names.mine, Names.newer, Names.running, Names.elsewhere, Names.somebodys}


def crowded() -> World:
    world = World()
    for name in GOING | STAYING:
        world.store.branches[name] = INPUT
    for task_id, status, running in (
        ("failed", TaskStatus.FAILED, False),
        ("accepted", TaskStatus.COMPLETED, False),
        ("terminated", TaskStatus.IN_PROGRESS, False),
        ("running", TaskStatus.IN_PROGRESS, True),
    ):
        world.orchestrator.tasks[task_id] = TaskSnapshot("wf", task_id, 0, status, workflow_running=running)
    return world


def test_the_names_of_older_attempts_and_of_ended_tasks_go_and_no_other() -> None:
    world = crowded()
    gone = run(revoke(TARGET, OWN, 2), world.ports())
    assert isinstance(gone, Done)
    assert set(gone.value) == GOING
    assert world.store.branches.keys() == {TARGET.branch, *STAYING}


def test_who_has_no_task_of_its_own_asks_about_every_name() -> None:
    """Whoever pins an input, or recovers, has no attempt whose older ones would go unasked."""
    world = crowded()
    for task_id in ("own1", "own2", "own3"):
        world.orchestrator.tasks[task_id] = TaskSnapshot("wf-2", task_id, 0, TaskStatus.IN_PROGRESS)
    gone = run(revoke(TARGET), world.ports())
    assert isinstance(gone, Done)
    assert set(gone.value) == GOING - {Names.older, Names.own_recovery}


def test_in_the_common_case_one_listing_is_all() -> None:
    """H-05: and a task is asked about once, however many names it has."""
    world = World()
    ports = world.ports()
    assert run(revoke(TARGET, OWN, 2), ports) == Done(())
    assert ports.meter.calls.total() == 1
    crowd = crowded()
    ports = crowd.ports()
    run(revoke(TARGET, OWN, 2), ports)
    assert dict(ports.meter.calls) == {"revoke": 1 + len(GOING), "task": 5}


def test_what_is_not_answered_ends_the_revocation() -> None:
    """S-01: who may still act and who may not is then unknown, and nothing is published around that."""
    for faults in (
        {"orchestrator": {"reload": [None, Fault.DROPPED]}},
        {"store": {"staging_names": [Fault.DROPPED]}},
        {"store": {"drop": [None, Fault.LOST]}},
    ):
        assert isinstance(run(revoke(TARGET, OWN, 2), crowded().ports(faults)), Unknown)
    refused = crowded().ports({"store": {"drop": [Fault.REFUSED]}})
    assert isinstance(run(revoke(TARGET, OWN, 2), refused), NotDone)


# ---------------------------------------------------------------------------------------------------------------------
# The next workflow


def stopped(world: World, attempt: Attempt, point: str) -> None:
    """Let an attempt die at a point."""

    def crash(reached: Failpoint) -> None:
        if str(reached) == point:
            raise CrashError

    with suppress(CrashError):
        drive(attempt, world.ports(reached=crash))
    world.orchestrator.end(attempt.task_id, TaskStatus.TIMED_OUT)
    world.clock.sleep(60)


@pytest.mark.parametrize("backing", [Backing.CONDITIONAL, Backing.LOCKED])
def test_the_next_workflow_takes_the_name_of_the_last_attempt_of_a_failed_one(backing: Backing) -> None:
    """S-01: nobody else ever would, and the late replacement of that attempt would undo what is accepted."""
    world = World()
    abandoned = world.abandon(backing, ledger=False)
    last = world.attempt(2, backing)
    stopped(world, last, "store.publish.before")
    assert last.staging_name in world.store.branches
    more = {
        "workflow_id": "next",
        "logical_task": "next/load",
        "task_id": "next-1",
        "input": abandoned,
        "budget": BUDGET,
    }
    heads: list[bool] = []

    def watch(reached: Failpoint) -> None:
        if str(reached) == "store.barrier.before":
            heads.append(last.staging_name in world.store.branches)

    result = drive(world.attempt(1, backing, **more), world.ports(reached=watch)).result
    assert isinstance(result, Completed)
    assert heads == [False], "gone before the barrier, so that nothing begun under it can end after"


@pytest.mark.parametrize("backing", [Backing.CONDITIONAL, Backing.LOCKED])
def test_an_orchestrator_that_does_not_answer_for_a_foreign_name_keeps_the_attempt_from_publishing(
    backing: Backing,
) -> None:
    world = crowded()
    before = world.branch_head()
    reloads = 2 if backing is Backing.CONDITIONAL else 3
    faults = {"orchestrator": {"reload": [*[None] * reloads, Fault.DROPPED]}}
    result = drive(world.attempt(2, backing), world.ports(faults)).result
    assert isinstance(result, Failed)
    assert result.refusal.classification is Classification.REVOCATION_FAILED
    assert world.branch_head() == before


# ---------------------------------------------------------------------------------------------------------------------
# Where the next workflow starts


def test_the_head_is_pinned_after_the_ended_are_revoked_and_the_barrier_has_answered() -> None:
    """L-02: what lands between reading the head and the first publication would be a stranger's for ever."""
    world = crowded()
    calls: list[str] = []

    def watch(reached: Failpoint) -> None:
        calls.append(str(reached))

    pinned = run(pin(TARGET), world.ports(reached=watch))
    assert pinned == world.store.head(TARGET)
    asked = [each.removesuffix(".before") for each in calls if each.endswith(".before")]
    assert asked[:2] == ["store.head", "store.staging_names"]
    assert asked[-2:] == ["store.barrier", "store.head"]
    assert not GOING - {Names.older, Names.own_recovery} & world.store.branches.keys()


def test_nothing_is_pinned_where_somebody_does_not_answer() -> None:
    for faults in (
        {"store": {"head": [None, Fault.DROPPED]}},
        {"store": {"staging_names": [Fault.DROPPED]}},
        {"store": {"barrier": [Fault.REFUSED]}},
        {"store": {"barrier": [Fault.LOST]}},
        {"orchestrator": {"reload": [Fault.DROPPED]}},
    ):
        assert not isinstance(run(pin(TARGET), crowded().ports(faults)), Done)


def test_a_branch_that_is_not_there_is_not_there() -> None:
    world = World()
    del world.store.branches[TARGET.branch]
    ports = world.ports()
    assert run(pin(TARGET), ports) == Done(None)
    assert ports.meter.calls.total() == 1
