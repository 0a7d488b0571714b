"""The simulated ports: drivers run on them, faults strike where asked, publications take two steps, crashes heal."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from itertools import count, product

import pytest
from attrs import evolve, fields

from perago_conformance.support import attempt_of
from perago_core import Outcome, adrive, drive
from perago_core.answers import Done, NotDone, Unknown
from perago_core.failpoints import Failpoint
from perago_core.plan import PlanKind
from perago_core.ports import Sink
from perago_core.results import Acceptance, Classification, Completed, Failed
from perago_core.values import Attempt, Backing, CommitRef, Target, TaskStatus
from perago_simulation.ports import Body, Fault, SimulatedClock, SimulatedWorld
from perago_simulation.ports.workspace import Files
from perago_simulation.world.capabilities import NEEDS, Capabilities, best_backing
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import Request, World
from perago_simulation.world.store import Store

MAIN = Target("lake", "main")

every_backing = pytest.mark.parametrize("backing", Backing, ids=lambda backing: backing.value)
strong_backing = pytest.mark.parametrize(
    "backing", [each for each in Backing if each is not Backing.SOFT], ids=lambda backing: backing.value
)


class CrashError(BaseException):
    """The process is gone. Not an ``Exception``: nothing in the core may survive it."""


def edit(files: Files) -> None:
    files["data"] = files["data"] + b" and more"


def nothing(_files: Files) -> None:
    """Change nothing."""


def made(backing: Backing) -> tuple[SimulatedWorld, CommitRef]:
    world = SimulatedWorld(NEEDS[backing])
    return world, world.store().create(MAIN, {"data": b"first"})


def started(world: SimulatedWorld, backing: Backing, body: Body = edit, *, ledger: bool = False) -> Attempt:
    """Poll one task and take it on."""
    polled = world.orchestrator().poll("worker", ("clean",), 1)
    assert isinstance(polled, Done)
    (task,) = polled.value
    execution = f"run of {task.snapshot.task_id} #{task.snapshot.poll_count}"
    attempt = attempt_of(task, execution, backing, ledger=ledger)
    world.workspace().accept(attempt, body)
    return attempt


def history(world: SimulatedWorld, target: Target = MAIN) -> list[CommitRef]:
    """Return the first-parent chain, newest first."""
    repository = world.store().repository(target.repository)
    assert repository is not None
    refs = [repository.branches[target.branch].at]
    while parents := repository.commits[refs[-1]].parents:
        refs.append(parents[0])
    return refs


def accepted(world: SimulatedWorld, workflow: str) -> list[CommitRef]:
    return [
        task.result.ref for task in world.orchestrator().workflow(workflow).tasks if isinstance(task.result, Completed)
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Drivers


@every_backing
def test_both_drivers_do_the_same(backing: Backing) -> None:
    outcomes: list[tuple[Outcome, list[CommitRef], int]] = []
    for asynchronous in (False, True):
        world, ref = made(backing)
        world.orchestrator().start(("clean",), MAIN, ref)
        attempt = started(world, backing)
        ports = world.asynchronous_ports() if asynchronous else world.ports()
        outcome = asyncio.run(adrive(attempt, ports)) if asynchronous else drive(attempt, ports)
        assert isinstance(outcome.result, Completed), outcome
        outcomes.append((outcome, history(world), sum(ports.meter.calls.values())))
    assert outcomes[0] == outcomes[1], "a run repeated gives the same ids, answers and number of calls"


@strong_backing
def test_executions_in_one_event_loop_interleave_and_one_is_accepted(backing: Backing) -> None:
    """P-40: one attempt delivered three times."""
    world, ref = made(backing)
    workflow = world.orchestrator().start(("clean",), MAIN, ref)
    attempt = started(world, backing)
    copies = [evolve(attempt, execution=f"copy {number}") for number in range(3)]
    for copy in copies:
        world.workspace().accept(copy, edit)

    async def together() -> list[Outcome]:
        return await asyncio.gather(*(adrive(copy, world.asynchronous_ports()) for copy in copies))

    outcomes = asyncio.run(together())
    assert sum(isinstance(outcome.result, Completed) for outcome in outcomes) == 1
    assert [*accepted(world, workflow), ref] == history(world)


@every_backing
def test_threads_share_one_world(backing: Backing) -> None:
    world = SimulatedWorld(NEEDS[backing])
    targets = [Target("lake", f"branch-{number}") for number in range(8)]
    refs = [world.store().create(target, {"data": b"first"}) for target in targets]
    for target, ref in zip(targets, refs, strict=True):
        world.orchestrator().start(("clean",), target, ref)
    attempts = [started(world, backing, ledger=True) for _ in targets]
    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(drive, attempt, world.ports()) for attempt in attempts]
        outcomes = [each.result() for each in running]
    for attempt, outcome in zip(attempts, outcomes, strict=True):
        assert isinstance(outcome.result, Completed), outcome
        assert history(world, attempt.target) == [outcome.result.ref, attempt.input]


@every_backing
def test_a_body_may_ask_for_staging_while_it_runs(backing: Backing) -> None:
    """A generator body yields, and is sent its sink."""

    def body(files: Files) -> Generator[None, Sink, None]:
        sink = yield
        put = sink.put("streamed", BytesIO(files["data"] * 3))
        assert isinstance(put, Done)
        sink.link((put.value,))

    world, ref = made(backing)
    world.orchestrator().start(("clean",), MAIN, ref)
    outcome = drive(started(world, backing, body), world.ports())
    assert isinstance(outcome.result, Completed), outcome
    opened = world.store().read("lake", outcome.result.ref).get("streamed")
    assert isinstance(opened, Done)
    assert opened.value.read() == b"first" * 3


# ---------------------------------------------------------------------------------------------------------------------
# Faults


def test_each_fault_does_to_a_call_what_it_says() -> None:
    world, _ = made(Backing.ATOMIC)
    coordination = world.coordination()
    world.fail("coordination.create_if_absent", Fault.REFUSED, Fault.DROPPED, None, Fault.LANDED)
    answers: list[tuple[type[object], bool]] = []
    for key in ("refused", "dropped", "passes", "landed", "after"):
        answer = coordination.create_if_absent(key, "x")
        found = coordination.get(key)
        assert isinstance(found, Done)
        answers.append((type(answer), found.value is not None))
    assert answers == [(NotDone, False), (Unknown, False), (Done, True), (Unknown, True), (Done, True)]


def test_a_fault_for_a_call_that_does_not_exist_is_refused() -> None:
    """T-O19: a misspelt fault would never strike, and the test would test nothing."""
    world, _ = made(Backing.ATOMIC)
    with pytest.raises(ValueError, match=r"no such port call: store\.pubish"):
        world.fail("store.pubish", Fault.LANDED)


@strong_backing
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_a_publication_whose_answer_is_lost_is_found_out_about(backing: Backing, fault: Fault) -> None:
    """S-05, N-04: never sent again. What landed is recognised as our own; what did not is no success."""
    world, ref = made(backing)
    workflow = world.orchestrator().start(("clean",), MAIN, ref)
    attempt = started(world, backing)
    world.fail("store.publish", fault)
    outcome = drive(attempt, world.ports())
    if fault is Fault.LANDED:
        assert isinstance(outcome.result, Completed), outcome
        assert history(world) == [outcome.result.ref, ref] == [*accepted(world, workflow), ref]
    else:
        refused = fault is Fault.REFUSED
        assert isinstance(outcome.result, Failed), outcome
        found = outcome.result.refusal.classification
        assert found is (Classification.PUBLISH_REFUSED if refused else Classification.PUBLISH_UNKNOWN)
        assert (history(world), accepted(world, workflow)) == ([ref], [])


# ---------------------------------------------------------------------------------------------------------------------
# Publications in two phases


def test_a_delayed_publication_of_a_blind_store_lands_whenever_it_likes() -> None:
    """N-03: the successor is accepted, then the zombie's request arrives, and the accepted result is buried."""
    world, ref = made(Backing.SOFT)
    workflow = world.orchestrator().start(("clean",), MAIN, ref)
    zombie = started(world, Backing.SOFT)
    world.store().delay_publications()
    assert isinstance(drive(zombie, world.ports()).result, Failed)
    successor = drive(started(world, Backing.SOFT, nothing), world.ports())
    assert isinstance(successor.result, Completed)
    (late,) = world.store().in_flight()
    assert world.store().advance(late) is None
    landed = world.store().advance(late)
    assert isinstance(landed, Done)
    assert accepted(world, workflow) == [ref]
    assert history(world) == [landed.value, ref], "a commit nobody accepted lies on what was accepted (S-02b)"


@strong_backing
def test_a_delayed_publication_does_not_land_after_its_successor(backing: Backing) -> None:
    """N-03, S-30: revoked by name or overtaken by claim, whichever the store knows."""
    world, ref = made(backing)
    workflow = world.orchestrator().start(("clean",), MAIN, ref)
    zombie = started(world, backing)
    world.store().delay_publications()
    assert isinstance(drive(zombie, world.ports()).result, Failed)
    world.clock().sleep(60)
    successor = drive(started(world, backing), world.ports())
    assert isinstance(successor.result, Completed), successor
    (late,) = world.store().in_flight()
    assert isinstance(world.store().advance(late), NotDone)
    assert [*accepted(world, workflow), ref] == history(world)


def crash_after_publishing(point: Failpoint) -> None:
    if str(point) == "store.publish.after":
        raise CrashError


def test_an_update_that_was_begun_begins_again_when_the_branch_changes() -> None:
    world, ref = made(Backing.ATOMIC)
    world.orchestrator().start(("clean",), MAIN, ref)
    attempt = started(world, Backing.ATOMIC)
    store = world.store()
    store.delay_publications()
    # Its clean-up would revoke the name the request acts by.
    with suppress(CrashError):
        drive(attempt, world.ports(crash_after_publishing))
    (publication,) = store.in_flight()
    assert publication.plan.kind is PlanKind.MERGE
    assert store.advance(publication) is None, "it has begun"
    theirs = world.stranger(MAIN).commit({"other": b"stranger"})
    refused = store.advance(publication)
    assert isinstance(refused, NotDone)
    assert theirs in refused.reason
    assert history(world) == [theirs, ref]


# ---------------------------------------------------------------------------------------------------------------------
# Crashes


def reached_in(backing: Backing, body: Body, *, ledger: bool) -> list[Failpoint]:
    """Return every failpoint of an undisturbed run, in order."""
    world, ref = made(backing)
    world.orchestrator().start(("clean",), MAIN, ref)
    points: list[Failpoint] = []
    outcome = drive(started(world, backing, body, ledger=ledger), world.ports(points.append))
    assert isinstance(outcome.result, Completed), outcome
    return points


def crash_at(number: int) -> Callable[[Failpoint], None]:
    """Crash at the failpoint of this number, counted from 0."""
    passed = count()

    def reached(_point: Failpoint) -> None:
        if next(passed) == number:
            raise CrashError

    return reached


@every_backing
@pytest.mark.parametrize("ledger", [False, True], ids=["plain", "ledger"])
@pytest.mark.parametrize("body", [edit, nothing], ids=["edit", "nothing"])
def test_a_crash_at_any_point_heals_with_the_next_attempt(backing: Backing, body: Body, ledger: bool) -> None:
    """R-30, S-01, S-02, S-03, L-01: die before and after every call; the retry is accepted, alone on its input."""
    points = reached_in(backing, body, ledger=ledger)
    for at in range(len(points)):
        world, ref = made(backing)
        workflow = world.orchestrator().start(("clean",), MAIN, ref)
        with suppress(CrashError):
            drive(started(world, backing, body, ledger=ledger), world.ports(crash_at(at)))
        world.clock().sleep(100)
        if not accepted(world, workflow):
            outcome = drive(started(world, backing, body, ledger=ledger), world.ports())
            assert isinstance(outcome.result, Completed), (points[at], outcome)
        (result,) = accepted(world, workflow)
        assert history(world) == ([ref] if body is nothing else [result, ref]), points[at]


@strong_backing
def test_a_dead_worker_is_noticed_and_its_late_report_ignored(backing: Backing) -> None:
    world, ref = made(backing)
    workflow = world.orchestrator().start(("clean",), MAIN, ref, response_timeout=30.0)
    zombie = started(world, backing)
    slept: list[bool] = []

    def pause(point: Failpoint) -> None:
        if str(point) == "orchestrator.report.before" and not slept:
            slept.append(True)
            world.clock().sleep(100)
            outcome = drive(started(world, backing), world.ports())
            assert isinstance(outcome.result, Completed), outcome

    late = drive(zombie, world.ports(pause))
    assert late.acceptance is Acceptance.NOT_ACCEPTED
    assert [*accepted(world, workflow), ref] == history(world)
    task = world.orchestrator().reload(workflow, zombie.task_id)
    assert isinstance(task, Done)
    assert task.value is not None
    assert task.value.status is TaskStatus.TIMED_OUT


def test_a_dirty_target_is_refused() -> None:
    """F-07, N-08."""
    world, ref = made(Backing.CONDITIONAL)
    world.orchestrator().start(("clean",), MAIN, ref)
    world.stranger(MAIN).write("left", b"behind")
    outcome = drive(started(world, Backing.CONDITIONAL), world.ports())
    assert isinstance(outcome.result, Failed), outcome
    assert outcome.result.refusal.classification is Classification.BARRIER_FAILED
    assert history(world) == [ref]


# ---------------------------------------------------------------------------------------------------------------------
# Capabilities


def test_the_probe_finds_by_behaviour_what_the_flags_say() -> None:
    """On every store that also acts without a condition, whatever else it can or cannot do."""
    names = [each.name for each in fields(Capabilities) if each.name not in {"blind", "lease", "overwrites"}]
    for bits in product((False, True), repeat=len(names)):
        able = Capabilities(**dict(zip(names, bits, strict=True)))
        answer = SimulatedWorld(able).store().probe()
        proved = Backing(answer.value.value) if isinstance(answer, Done) else None
        best = best_backing(able).backing
        assert proved == (best if best in {Backing.ATOMIC, Backing.CONDITIONAL} else None), (able, answer)


class OnlyOnAFullMoon(Store):
    """A store of one's own: it refuses every relocation."""

    def refusal(self, setting: Setting, world: World, request: Request) -> str | None:
        if request.plan.kind is not PlanKind.MERGE:
            return "not a full moon"
        return super().refusal(setting, world, request)


def test_a_store_of_ones_own_semantics_can_be_run_on() -> None:
    """The hook the explorer takes; what it would explore is what runs."""
    world = SimulatedWorld(NEEDS[Backing.SOFT], OnlyOnAFullMoon())
    ref = world.store().create(MAIN, {"data": b"first"})
    world.orchestrator().start(("clean",), MAIN, ref)
    world.fail("orchestrator.report", Fault.DROPPED)
    first = drive(started(world, Backing.SOFT), world.ports())
    assert isinstance(first.result, Completed)
    world.clock().sleep(100)
    second = drive(started(world, Backing.SOFT), world.ports())
    assert isinstance(second.result, Failed)
    assert "not a full moon" in str(second.result.refusal)


def test_without_leases_locked_is_refused_and_says_why() -> None:
    world = SimulatedWorld(evolve(NEEDS[Backing.LOCKED], lease=False))
    ref = world.store().create(MAIN, {"data": b"first"})
    world.orchestrator().start(("clean",), MAIN, ref)
    outcome = drive(started(world, Backing.LOCKED), world.ports())
    assert isinstance(outcome.result, Failed)
    assert "no leases" in str(outcome.result.refusal)


# ---------------------------------------------------------------------------------------------------------------------
# The rest of the furniture


def test_time_only_goes_forward() -> None:
    clock = SimulatedClock()
    before = clock.wall()
    clock.sleep(1.5)
    assert (clock.now(), clock.wall() - before) == (1.5, 1500)
    for seconds in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="time only goes forward"):
            clock.sleep(seconds)


def test_a_sink_sent_to_another_process_says_that_its_world_is_not_there() -> None:
    """Silently writing into a copy would be worse than any error."""
    world, _ = made(Backing.ATOMIC)
    sink = world.store().sink(MAIN, "name")
    assert pickle.loads(pickle.dumps(sink)).store is world.store()  # noqa: S301  our own pickle
    program = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(sink), capture_output=True, check=False)  # noqa: S603  no shell
    assert done.returncode != 0
    assert b"lives in the memory of process" in done.stderr
