"""The ports together: whole attempts, a crash and its retry, policy, lease and recovery on one stack of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from attrs import evolve

from perago_conformance.bodies import listing
from perago_conformance.harness import Stack
from perago_conformance.support import (
    FIRST,
    MAIN,
    attempt_of,
    contents,
    done,
    head_of,
    parents_of,
    place_of,
    strongest,
)
from perago_core import Outcome, Ports, drive, policy
from perago_core.budget import PublishBudget
from perago_core.calls import Dialogue
from perago_core.driver import run
from perago_core.failpoints import Failpoint
from perago_core.lease import LeaseEnd, LeaseRequest
from perago_core.lease.run import Keeper
from perago_core.ledger import list_open
from perago_core.policy import OnIndeterminate, Policy, PolicySettings, Resolved
from perago_core.ports import Assignment
from perago_core.recovery import Ending, Mode, sweep
from perago_core.results import Acceptance, Completed, Failed
from perago_core.values import Backing, CommitRef, TaskStatus


class CrashError(BaseException):
    """The process is gone. Not an ``Exception``: nothing in the core may survive it."""


def ports(stack: Stack, reached: Callable[[Failpoint], None] | None = None) -> Ports:
    return Ports(
        orchestrator=stack.orchestrator.port,
        store=stack.store.port,
        workspace=stack.workspace.port,
        coordination=stack.coordination.port,
        clock=stack.clock,
        reached=reached,
    )


def crash_at(name: str) -> Callable[[Failpoint], None]:
    wanted = Failpoint.parse(name)

    def reached(point: Failpoint) -> None:
        if point == wanted:
            raise CrashError(str(point))

    return reached


def budget(stack: Stack) -> PublishBudget:
    """Make a lease that outlasts a publication by far, in the stack's own measure of what is long."""
    ttl = 4 * stack.coordination.ttl
    return PublishBudget(
        lease_ttl=ttl,
        lease_margin=ttl / 5,
        publish_timeout=ttl / 5,
        publish_p99=ttl / 10,
        margin=ttl / 10,
        takeover_wait=ttl / 2,
    )


def poll(stack: Stack, *names: str) -> Assignment:
    (assignment,) = done(stack.orchestrator.port.poll("worker-1", names or ("clean",), 1))
    return assignment


def work(
    stack: Stack,
    assignment: Assignment,
    body: str,
    backing: Backing,
    *,
    ledger: bool = False,
    execution: str | None = None,
    reached: Callable[[Failpoint], None] | None = None,
) -> Outcome:
    """Do what a worker does with a polled task."""
    attempt = attempt_of(assignment, execution or f"run-{assignment.snapshot.task_id}", backing, ledger=ledger)
    attempt = evolve(attempt, budget=budget(stack))
    stack.workspace.accept(attempt, body)
    return drive(attempt, ports(stack, reached))


def every_way(stack: Stack) -> Iterator[tuple[Backing, bool]]:
    for backing in sorted(stack.store.traits.backings, key=lambda each: each.value):
        yield backing, False
        yield backing, True


def nothing_is_left(stack: Stack) -> None:
    """S-33: no staging name, no local directory, no lease that keeps anybody waiting, no open intent."""
    assert stack.store.branches("lake") == {"main"}
    assert stack.workspace.leftovers() == ()
    assert done(run(list_open(MAIN), ports(stack))) == ()
    assert [entry for entry in done(stack.coordination.port.list("")) if entry.key.startswith("lock")] == []


# ---------------------------------------------------------------------------------------------------------------------
# Whole attempts


def test_a_whole_attempt_completes_on_every_backing_the_store_supports(stack: Stack) -> None:
    """L-01, S-01, S-04: published directly on the input, accepted, and nothing left."""
    at = stack.store.create(MAIN, FIRST)
    for number, (backing, ledger) in enumerate(every_way(stack)):
        workflow = stack.orchestrator.start(("clean",), MAIN, at)
        outcome = work(stack, poll(stack), "edit", backing, ledger=ledger)
        assert isinstance(outcome.result, Completed), (backing, ledger, outcome)
        unread = backing is Backing.SOFT and not ledger
        assert outcome.acceptance is (Acceptance.UNREAD if unread else Acceptance.ACCEPTED)
        assert outcome.left_behind == ()
        assert head_of(stack.store) == outcome.result.ref != at
        assert parents_of(stack.store, outcome.result.ref) == (at,)
        assert [each.ref for each in stack.orchestrator.accepted(workflow)] == [outcome.result.ref]
        expected = b"alpha" + b" and more" * (number + 1)
        assert stack.store.read_file("lake", "main", "data/a.txt") == expected
        nothing_is_left(stack)
        at = outcome.result.ref


def test_an_attempt_that_changes_nothing_completes_and_moves_nothing(stack: Stack) -> None:
    """S-12."""
    ref = stack.store.create(MAIN, FIRST)
    for backing, ledger in every_way(stack):
        workflow = stack.orchestrator.start(("clean",), MAIN, ref)
        outcome = work(stack, poll(stack), "nothing", backing, ledger=ledger)
        assert isinstance(outcome.result, Completed), (backing, ledger, outcome)
        assert outcome.result.ref == ref == head_of(stack.store)
        assert [each.ref for each in stack.orchestrator.accepted(workflow)] == [ref]
        nothing_is_left(stack)


def test_a_workflow_of_three_steps_builds_each_on_the_one_before(stack: Stack) -> None:
    """S-03: the history is exactly the accepted results."""
    backing = strongest(stack.store)
    first = stack.store.create(MAIN, FIRST)
    workflow = stack.orchestrator.start(("clean", "join", "sum"), MAIN, first)
    refs = [first]
    for step, body in (("clean", "add"), ("join", "delete"), ("sum", "index")):
        assignment = poll(stack, step)
        assert place_of(assignment)["ref"] == refs[-1]
        outcome = work(stack, assignment, body, backing)
        assert isinstance(outcome.result, Completed), outcome
        assert parents_of(stack.store, outcome.result.ref) == (refs[-1],)
        refs.append(outcome.result.ref)
    assert [each.ref for each in stack.orchestrator.accepted(workflow)] == refs[1:]
    assert head_of(stack.store) == refs[-1]
    files = {"data/b.txt": b"beta", "keep.txt": b"keep", "new/räksmörgås und mehr.txt": b"added"}
    assert contents(stack.store.port.read("lake", refs[-1])) == {**files, "index.txt": listing(files)}
    nothing_is_left(stack)


def test_a_body_that_fails_publishes_nothing_and_is_tried_again(stack: Stack) -> None:
    """P-30."""
    ref = stack.store.create(MAIN, FIRST)
    workflow = stack.orchestrator.start(("clean",), MAIN, ref)
    outcome = work(stack, poll(stack), "fail", strongest(stack.store))
    assert isinstance(outcome.result, Failed), outcome
    assert head_of(stack.store) == ref
    nothing_is_left(stack)
    again = work(stack, poll(stack), "edit", strongest(stack.store))
    assert isinstance(again.result, Completed), again
    assert [each.ref for each in stack.orchestrator.accepted(workflow)] == [again.result.ref]


def test_a_head_that_is_somewhere_else_is_refused_and_the_stranger_stays(stack: Stack) -> None:
    """S-13, S-15."""
    ref = stack.store.create(MAIN, FIRST)
    stack.store.stranger_commits(MAIN, {"one.txt": b"1"})
    theirs = stack.store.stranger_commits(MAIN, {"two.txt": b"2"})
    stack.orchestrator.start(("clean",), MAIN, ref)
    outcome = work(stack, poll(stack), "edit", strongest(stack.store))
    assert isinstance(outcome.result, Failed), outcome
    assert theirs in str(outcome.result.refusal)
    assert head_of(stack.store) == theirs
    nothing_is_left(stack)


# ---------------------------------------------------------------------------------------------------------------------
# A crash and what follows


def crashed_after_publishing(stack: Stack, backing: Backing) -> tuple[str, Assignment, CommitRef]:
    """Let a first worker die between its publication and its report, and let the orchestrator notice."""
    ref = stack.store.create(MAIN, FIRST)
    workflow = stack.orchestrator.start(("clean",), MAIN, ref)
    first = poll(stack)
    with suppress(CrashError):
        work(stack, first, "add", backing, ledger=True, reached=crash_at("orchestrator.report.before"))
    assert head_of(stack.store) != ref, "it must have published before it died"
    stack.clock.sleep(1.5 * max(stack.orchestrator.response_timeout, budget(stack).lease_ttl))
    return workflow, first, ref


def test_an_abandoned_publication_is_adopted_by_the_retry(stack: Stack) -> None:
    """S-03, S-06, L-03: what is there is reported, whatever the retry would have done; ``soft`` replaces it."""
    backing = strongest(stack.store)
    workflow, first, ref = crashed_after_publishing(stack, backing)
    abandoned = head_of(stack.store)
    outcome = work(stack, poll(stack), "edit", backing, ledger=True)
    assert isinstance(outcome.result, Completed), outcome
    assert outcome.adopted is (backing is not Backing.SOFT)
    assert head_of(stack.store) == outcome.result.ref
    assert (outcome.result.ref == abandoned) is outcome.adopted
    assert parents_of(stack.store, outcome.result.ref) == (ref,)
    assert [each.ref for each in stack.orchestrator.accepted(workflow)] == [outcome.result.ref]
    gone = done(stack.orchestrator.port.reload(workflow, first.snapshot.task_id))
    assert gone is not None
    assert gone.status is TaskStatus.TIMED_OUT


def test_a_zombie_that_wakes_after_its_successor_was_accepted_changes_nothing(stack: Stack) -> None:
    """S-01, N-03. Paused at the last moment before its fence reads the task again."""
    backing = strongest(stack.store)
    ref = stack.store.create(MAIN, FIRST)
    workflow = stack.orchestrator.start(("clean",), MAIN, ref)
    zombie, successor = poll(stack), list[CommitRef]()

    def paused(point: Failpoint) -> None:
        if str(point) == "workspace.run.after" and not successor:
            stack.clock.sleep(1.5 * stack.orchestrator.response_timeout)
            outcome = work(stack, poll(stack), "edit", backing)
            assert isinstance(outcome.result, Completed), outcome
            successor.append(outcome.result.ref)

    late = work(stack, zombie, "add", backing, reached=paused)
    assert not isinstance(late.result, Completed), late
    assert head_of(stack.store) == successor[0]
    assert [each.ref for each in stack.orchestrator.accepted(workflow)] == successor
    nothing_is_left(stack)


def audits(stack: Stack) -> int:
    return len(done(stack.coordination.port.list("audit/")))


def test_a_sweep_leaves_an_unaccepted_head_open_until_it_is_replaced(stack: Stack) -> None:
    """L-06, S-21, S-22, K-12: it moves nothing, the next attempt finds its way free, then it is settled, once.

    ``soft`` keeps no claims, so nothing proves whose commit it is: settled at once.
    """
    backing = strongest(stack.store)
    workflow, first, ref = crashed_after_publishing(stack, backing)
    abandoned, operation = head_of(stack.store), f"run-{first.snapshot.task_id}"
    assert done(run(list_open(MAIN), ports(stack))) == (operation,)
    for _ in range(2):
        swept = done(run(sweep(MAIN, Mode.SETTLE_ONLY, "sweeper"), ports(stack)))
        assert (swept.unresolved, head_of(stack.store)) == ((), abandoned)
        if backing is not Backing.SOFT:
            assert [(each.operation_id, each.unaccepted) for each in swept.outcomes] == [(operation, abandoned)]
            assert audits(stack) == 0
    outcome = work(stack, poll(stack), "edit", backing, ledger=True)
    assert isinstance(outcome.result, Completed), outcome
    assert parents_of(stack.store, head_of(stack.store)) == (ref,)
    assert [each.ref for each in stack.orchestrator.accepted(workflow)] == [head_of(stack.store)]
    for _ in range(2):
        swept = done(run(sweep(MAIN, Mode.SETTLE_ONLY, "sweeper"), ports(stack)))
        assert (swept.unresolved, swept.unaccepted, audits(stack)) == ((), (), 2)


def test_an_exclusive_recovery_takes_the_abandoned_publication_back(stack: Stack) -> None:
    """K-02, S-21: whoever else may be working.

    ``soft`` keeps no claims, so nothing proves whose commit it is: settled, and left where it is.
    """
    backing = strongest(stack.store)
    _, _, ref = crashed_after_publishing(stack, backing)
    abandoned = head_of(stack.store)
    swept = done(run(sweep(MAIN, Mode.EXCLUSIVE, "operator", "every worker is stopped"), ports(stack)))
    assert [each.ending for each in swept.outcomes] == [Ending.SETTLED]
    assert (swept.unresolved, audits(stack)) == ((), 1)
    assert head_of(stack.store) == (abandoned if backing is Backing.SOFT else ref)
    assert stack.store.branches("lake") == {MAIN.branch}, "its anchor and the dead attempt's name are gone"


# ---------------------------------------------------------------------------------------------------------------------
# Policy and lease


def resolve(settings: PolicySettings) -> Dialogue[policy.PolicyState]:
    state, commands = policy.start(settings)
    while commands:
        event = yield from policy.perform(commands[0], settings)
        state, commands = policy.step(state, event)
    return state


def test_nodes_agree_on_the_one_backing_the_store_proves(stack: Stack) -> None:
    """S-26, S-27: the second node follows what the first has stored."""
    stack.store.create(MAIN, FIRST)  # some stores are tried in the repositories they have
    resolved: list[Resolved] = []
    for node in ("node-1", "node-2", "node-3"):
        settings = PolicySettings(Policy.AUTO, OnIndeterminate.FAIL, coordination=True, node=node)
        outcome = policy.outcome(run(resolve(settings), ports(stack)))
        assert isinstance(outcome, Resolved), outcome
        resolved.append(outcome)
    proved = stack.store.traits.probe
    assert {each.backing for each in resolved} == {Backing.LOCKED if proved is None else Backing(proved.value)}
    assert {each.epoch for each in resolved} == {1}
    assert [each.own for each in resolved] == [True, False, False]


def keeper(owner: str, ttl: float) -> Keeper:
    return Keeper(LeaseRequest(MAIN, owner, ttl, ttl / 5))


def test_a_lock_has_one_holder_and_goes_on_cleanly(stack: Stack) -> None:
    """S-23: the token only ever rises, and a clean release is known to the next holder."""
    ttl, wired = 4 * stack.coordination.ttl, ports(stack)
    first, second = keeper("first", ttl), keeper("second", ttl)
    assert run(first.acquire(), wired)
    assert not run(second.acquire(), wired)
    assert second.end is LeaseEnd.BUSY
    assert run(first.tend(), wired)
    token = first.held
    assert token is not None
    assert run(first.release(), wired)
    third = keeper("third", ttl)
    assert run(third.acquire(), wired)
    assert third.held is not None
    assert (third.held.token > token.token, third.held.clean) == (True, True)
    assert run(third.release(), wired)


def test_a_lock_whose_holder_died_is_taken_over_uncleanly_and_the_holder_knows(stack: Stack) -> None:
    """L-04, S-25: after the lease has run out the next one gets it, and the first one must not act any more."""
    ttl, wired = stack.coordination.ttl, ports(stack)
    first, second = keeper("first", ttl), keeper("second", 4 * ttl)
    assert run(first.acquire(), wired)
    token = first.held
    assert token is not None
    stack.clock.sleep(1.5 * ttl)
    assert run(second.acquire(), wired)
    assert second.held is not None
    assert (second.held.token > token.token, second.held.clean) == (True, False)
    assert not run(first.tend(), wired)
    assert run(second.tend(), wired)
