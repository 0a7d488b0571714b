"""Who may not act on a target any more (S-01, S-30, S-32): which names die before a publication, and which stay."""

from __future__ import annotations

import pytest

from perago_core.answers import Done, NotDone, Unknown
from perago_core.budget import PublishBudget
from perago_core.driver import drive, run
from perago_core.failpoints import Failpoint
from perago_core.names import recovery_name, staging_name, target_prefix
from perago_core.results import Classification, Completed, Failed, Refusal
from perago_core.revocation import Revoked, pin, revoke
from perago_core.values import Backing, Target
from perago_simulation.ports import Fault
from tests.core.world import INPUT, TARGET, World, writes

BESIDE = Target(TARGET.repository, "beside")
OWN = "wf-2/load"
#: The tasks ``crowded`` starts, each of a workflow of its own.
FAILED, ACCEPTED, TERMINATED, RUNNING, OWN_1, OWN_2, OWN_3 = (f"wf-{number}-task-1" for number in range(1, 8))
#: A third of the lease is a whole number of seconds, so that no renewal comes a rounding error too late.
BUDGET = PublishBudget(lease_ttl=12)


class Names:
    """One name of each kind there is on one target."""

    older = staging_name(TARGET, OWN, 1, 0, OWN_1, "e1")
    mine = staging_name(TARGET, OWN, 2, 1, OWN_2, "e2")
    newer = staging_name(TARGET, OWN, 3, 2, OWN_3, "e3")
    own_recovery = recovery_name(TARGET, OWN, 1, OWN_1, "e4")
    failed = staging_name(TARGET, "wf-1/load", 7, 0, FAILED, "e5")
    accepted = staging_name(TARGET, "wf-1/clean", 7, 0, ACCEPTED, "e6")
    terminated = staging_name(TARGET, "wf-0/load", 1, 0, TERMINATED, "e7")
    foreign_recovery = recovery_name(TARGET, "wf-1/load", 6, FAILED, "e8")
    unheard = staging_name(TARGET, "wf-x/load", 1, 0, "unheard", "e9")
    running = staging_name(TARGET, "wf-3/load", 1, 0, RUNNING, "e10")
    elsewhere = staging_name(BESIDE, "wf-1/load", 1, 0, FAILED, "e11")
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
        assert world.store().open_staging(TARGET, name, INPUT) == Done(None)
    attempts = {attempt.task_id: attempt for attempt in (world.attempt(step=f"step-{each}") for each in range(1, 8))}
    assert attempts.keys() == {FAILED, ACCEPTED, TERMINATED, RUNNING, OWN_1, OWN_2, OWN_3}
    refusal = Refusal(Classification.BODY_FAILED, "a result", "an error", "try again")
    world.orchestrator().report(attempts[FAILED], Failed(refusal))
    world.orchestrator().report(attempts[ACCEPTED], Completed(INPUT, "{}", "run-1"))
    # Ended, while its task is still in progress: what a real orchestrator shows until it has cancelled the task.
    world.orchestrator().workflow(attempts[TERMINATED].workflow_id).running = False
    return world


def test_the_names_of_older_attempts_and_of_ended_tasks_go_and_no_other() -> None:
    world = crowded()
    gone = run(revoke(TARGET, OWN, 2), world.ports())
    assert isinstance(gone, Done)
    assert set(gone.value.dropped) == GOING
    assert set(gone.value.at_work) == {Names.mine, Names.newer, Names.running}
    assert world.branches() == {TARGET.branch, *STAYING}


def test_a_recovery_leaves_the_anchors_of_its_own_task_alone() -> None:
    """Two recoveries of one publication make the same movement; dropping each other's anchors, both would fail."""
    gone = run(revoke(TARGET, recovered=FAILED), crowded().ports())
    assert isinstance(gone, Done)
    assert set(gone.value.dropped) == GOING - {Names.older, Names.own_recovery, Names.foreign_recovery}


def test_who_has_no_task_of_its_own_asks_about_every_name() -> None:
    """Whoever pins an input, or recovers, has no attempt whose older ones would go unasked."""
    world = crowded()
    gone = run(revoke(TARGET), world.ports())
    assert isinstance(gone, Done)
    assert set(gone.value.dropped) == GOING - {Names.older, Names.own_recovery}


def test_in_the_common_case_one_listing_is_all() -> None:
    """H-05: and a task is asked about once, however many names it has."""
    world = World()
    ports = world.ports()
    assert run(revoke(TARGET, OWN, 2), ports) == Done(Revoked())
    assert ports.meter.calls.total() == 1
    crowd = crowded()
    ports = crowd.ports()
    run(revoke(TARGET, OWN, 2), ports)
    assert dict(ports.meter.calls) == {"revoke": 1 + len(GOING), "task": 5}


def test_what_is_not_answered_ends_the_revocation() -> None:
    """S-01: who may still act and who may not is then unknown, and nothing is published around that."""
    for call, *faults in (
        ("orchestrator.reload", None, Fault.DROPPED),
        ("store.staging_names", Fault.DROPPED),
        ("store.drop", None, Fault.LANDED),
    ):
        world = crowded()
        world.fail(call, *faults)
        assert isinstance(run(revoke(TARGET, OWN, 2), world.ports()), Unknown)
    refused = crowded()
    refused.fail("store.drop", Fault.REFUSED)
    assert isinstance(run(revoke(TARGET, OWN, 2), refused.ports()), NotDone)


# ---------------------------------------------------------------------------------------------------------------------
# The next workflow


@pytest.mark.parametrize("backing", [Backing.CONDITIONAL, Backing.LOCKED])
def test_the_next_workflow_takes_the_name_of_the_last_attempt_of_a_failed_one(backing: Backing) -> None:
    """S-01: nobody else ever would, and the late replacement of that attempt would undo what is accepted."""
    world = World()
    abandoned = world.abandon(backing, ledger=False)
    last = world.attempt(2, backing)
    world.crash(last, "store.publish.before")
    assert last.staging_name in world.branches()
    heads: list[bool] = []

    def watch(reached: Failpoint) -> None:
        if str(reached) == "store.barrier.before":
            heads.append(last.staging_name in world.branches())

    attempt = world.attempt(1, backing, step="next", input=abandoned, budget=BUDGET, body=writes(b"next"))
    result = drive(attempt, world.ports(reached=watch)).result
    assert isinstance(result, Completed)
    assert heads == [False], "gone before the barrier, so that nothing begun under it can end after"


@pytest.mark.parametrize("backing", [Backing.CONDITIONAL, Backing.LOCKED])
def test_an_orchestrator_that_does_not_answer_for_a_foreign_name_keeps_the_attempt_from_publishing(
    backing: Backing,
) -> None:
    world = crowded()
    before = world.branch_head()
    reloads = 2 if backing is Backing.CONDITIONAL else 3
    world.fail("orchestrator.reload", *[None] * reloads, Fault.DROPPED)
    result = drive(world.attempt(2, backing), world.ports()).result
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
    assert pinned == world.store().head(TARGET)
    asked = [each.removesuffix(".before") for each in calls if each.endswith(".before")]
    assert asked[:2] == ["store.head", "store.staging_names"]
    assert asked[-2:] == ["store.barrier", "store.head"]
    assert not GOING - {Names.older, Names.own_recovery} & world.branches()


def test_nothing_is_pinned_where_somebody_does_not_answer() -> None:
    for call, *faults in (
        ("store.head", None, Fault.DROPPED),
        ("store.staging_names", Fault.DROPPED),
        ("store.barrier", Fault.REFUSED),
        ("store.barrier", Fault.LANDED),
        ("orchestrator.reload", Fault.DROPPED),
    ):
        world = crowded()
        world.fail(call, *faults)
        assert not isinstance(run(pin(TARGET), world.ports()), Done)


def test_a_branch_that_is_not_there_is_not_there() -> None:
    world = World()
    world.stranger(TARGET).delete()
    ports = world.ports()
    assert run(pin(TARGET), ports) == Done(None)
    assert ports.meter.calls.total() == 1
