"""``drive`` and ``adrive`` over ports that really hold something: each path, each fault, each crash, each resume."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from io import BytesIO
from typing import Any

import pytest
from attrs import evolve

from perago_core import ATTEMPT, Ports, adrive, drive, dumps, load_state, outcome
from perago_core.answers import Answer, Done, Event, NotDone, Unknown
from perago_core.attempt import AttemptState, Phase, messages, start, step
from perago_core.attempt.messages import AttemptLost, BodyDone, BodyEvent, DeadlineExceeded
from perago_core.attempt.state import UNDER_LEASE
from perago_core.budget import PublishBudget
from perago_core.calls import Call
from perago_core.errors import ProtocolError
from perago_core.failpoints import Edge, Failpoint
from perago_core.ledger import records
from perago_core.ledger.records import Movement, Settlement, SettlementKind
from perago_core.ports import Sink
from perago_core.results import Acceptance, Classification, Completed, Failed, Outcome
from perago_core.values import (
    Attempt,
    Backing,
    Claim,
    CommitRef,
    Maintained,
    OnAbandoned,
    Operation,
    Target,
    TaskSnapshot,
    TaskStatus,
)
from perago_simulation.ports import Asynchronous, Body, Fault
from tests.core.world import INPUT, TARGET, Answering, CrashError, World, changes_nothing, ports_with, writes

BACKINGS = [(backing, ledger) for backing in Backing for ledger in (False, True)]
STRONG = [(backing, ledger) for backing, ledger in BACKINGS if backing is not Backing.SOFT]

by_backing = pytest.mark.parametrize(
    ("backing", "ledger"),
    BACKINGS,
    ids=lambda value: value.value if isinstance(value, Backing) else f"ledger-{value}",
)
#: Each backing with and without a ledger, replacing what was abandoned; outside ``soft`` also adopting it.
CONDUCTS = [
    *((backing, ledger, OnAbandoned.REPLACE) for backing, ledger in BACKINGS),
    *((backing, ledger, OnAbandoned.ADOPT) for backing, ledger in STRONG),
]
by_conduct = pytest.mark.parametrize(
    ("backing", "ledger", "on_abandoned"),
    CONDUCTS,
    ids=lambda value: f"ledger-{value}" if isinstance(value, bool) else value.value,
)
by_strong_backing = pytest.mark.parametrize(
    ("backing", "ledger"),
    STRONG,
    ids=lambda value: value.value if isinstance(value, Backing) else f"ledger-{value}",
)


def retry_until_accepted(
    world: World,
    backing: Backing,
    *,
    ledger: bool,
    first: int = 2,
    on_abandoned: OnAbandoned = OnAbandoned.REPLACE,
) -> Outcome:
    """Let the orchestrator give up what is open, wait out leases, and run fresh attempts until one is accepted."""
    result: Outcome | None = None
    for number in (first, first + 1):
        world.give_up_open_tasks()
        world.clock().sleep(60)
        attempt = world.attempt(number, backing, ledger=ledger, on_abandoned=on_abandoned)
        result = drive(attempt, world.ports())
        if isinstance(result.result, Completed):
            return result
    pytest.fail(f"no fresh attempt completed: {result}")


def check_at_rest(world: World) -> None:
    """S-01, S-02b, S-03: what was accepted is on the branch, alone, and the tip is clean."""
    accepted = world.accepted()
    assert accepted, "somebody must have been accepted"
    history = world.history()
    assert all(ref in history for ref in accepted)
    assert history in ([accepted[-1], INPUT], [INPUT])


@pytest.mark.clause("P-08", "P-26")
@by_backing
def test_first_publish_moves_the_target_from_input_to_exactly_one_commit(backing: Backing, ledger: bool) -> None:
    """P-08, P-24, P-26, S-04: A -> P, nothing left behind."""
    world = World()
    attempt = world.attempt(1, backing, ledger=ledger)
    result = drive(attempt, saying(world, BodyDone(attempt.execution, changed=True, output='{"rows":1}')))
    assert isinstance(result.result, Completed)
    assert world.history() == [result.result.ref, INPUT]
    assert result.result.output == '{"rows":1}'
    assert world.branches() == {TARGET.branch}
    assert (world.workspace().places(), result.left_behind) == ((), ())
    assert world.coordination().leases() == ()


@by_backing
def test_unchanged_body_completes_without_a_commit(backing: Backing, ledger: bool) -> None:
    """P-09, P-33, S-12, T-P8: the output is the input and no commit was made, not even an empty one."""
    world = World()
    result = drive(world.attempt(1, backing, ledger=ledger, body=changes_nothing), world.ports())
    assert isinstance(result.result, Completed)
    assert (result.result.ref, world.history()) == (INPUT, [INPUT])
    assert world.store().repositories[TARGET.repository].commits.keys() == {INPUT}


@by_backing
def test_retry_replaces_an_abandoned_publication(backing: Backing, ledger: bool) -> None:
    """P-10, P-16, CW-18, L-03: history is A -> C, never A -> H -> C."""
    world = World()
    abandoned = world.abandon(backing, ledger=ledger)
    result = drive(world.attempt(2, backing, ledger=ledger, body=writes(b"2")), world.ports())
    assert isinstance(result.result, Completed)
    assert world.history() == [result.result.ref, INPUT]
    assert abandoned not in world.history()


@by_backing
def test_unchanged_retry_takes_an_abandoned_publication_off_the_target(backing: Backing, ledger: bool) -> None:
    """P-11, CW-25: the abandoned commit is never presented as this attempt's output."""
    world = World()
    world.abandon(backing, ledger=ledger)
    result = drive(world.attempt(2, backing, ledger=ledger, body=changes_nothing), world.ports())
    assert isinstance(result.result, Completed)
    assert (result.result.ref, world.history()) == (INPUT, [INPUT])


@pytest.mark.clause("L-03")
@by_strong_backing
@pytest.mark.parametrize("body", [writes(b"2"), changes_nothing], ids=["changed", "no-op"])
def test_retry_that_adopts_reports_an_abandoned_publication_and_its_body_does_not_run(
    backing: Backing, ledger: bool, body: Body
) -> None:
    """The commit stays where it is, its result is the one on record, and nothing is computed a second time."""
    world = World()
    first = world.attempt(1, backing, ledger=ledger, on_abandoned=OnAbandoned.ADOPT)

    def dies(point: Failpoint) -> None:
        if str(point) == "orchestrator.report.before":
            raise CrashError

    said = BodyDone(first.execution, changed=True, output='{"rows":1}')
    workspace = Answering(world.workspace(), "run", lambda *_: Done(said))
    with pytest.raises(CrashError):
        drive(first, ports_with(world, workspace=workspace, reached=dies))
    published = world.branch_head()
    world.clock().sleep(60)
    calls: list[str] = []
    retry = world.attempt(2, backing, ledger=ledger, on_abandoned=OnAbandoned.ADOPT, body=body)
    result = drive(retry, world.ports(reached=lambda point: calls.append(str(point))))
    assert result.result == Completed(published, '{"rows":1}', retry.execution)
    assert (world.history(), result.adopted) == ([published, INPUT], True)
    assert not {"workspace.run.before", "store.publish.before"} & {*calls}
    assert retry.staging_name not in world.branches()


@pytest.mark.clause("S-10")
def test_read_only_task_touches_nothing() -> None:
    """P-07, S-10: no reload, no head read, no staging; the output is the input."""
    for backing, ledger in BACKINGS:
        world = World()
        ports = world.ports()
        result = drive(world.attempt(1, backing, ledger=ledger, read_only=True), ports)
        assert isinstance(result.result, Completed)
        assert result.result.ref == INPUT
        assert dict(ports.meter.calls) == {"local": 3, "task": 1}


@by_strong_backing
def test_a_strangers_commit_is_never_replaced(backing: Backing, ledger: bool) -> None:
    """K-08, S-15, P-22: a child of the input without a claim record refuses, and stays."""
    world = World()
    stranger = world.stranger(TARGET).commit({"data": b"of a stranger"})
    result = drive(world.attempt(1, backing, ledger=ledger), world.ports())
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.HEAD_NOT_REPLACEABLE
    assert world.history() == [stranger, INPUT]


@by_strong_backing
def test_second_delivery_of_one_attempt_stays_silent(backing: Backing, ledger: bool) -> None:
    """N-01, S-17, S-40, rule 6: the duplicate loses the claim, publishes nothing and reports nothing."""
    world = World()
    first = world.attempt(1, backing, ledger=ledger)
    duplicate = evolve(first, execution="run-1b")
    world.workspace().accept(duplicate, writes())

    def stop_before_publish(point: Failpoint) -> None:
        if str(point) == "store.publish.before":
            raise CrashError

    with pytest.raises(CrashError):
        drive(first, world.ports(reached=stop_before_publish))
    result = drive(duplicate, world.ports())
    assert result.result is None
    assert result.silence is not None
    assert result.silence.classification is Classification.CLAIM_LOST
    assert (world.results(), world.history()) == ([], [INPUT])


def calls_of(backing: Backing, *, ledger: bool, on_abandoned: OnAbandoned = OnAbandoned.REPLACE) -> list[Failpoint]:
    """Give every call of a first publication, in order."""
    seen: list[Failpoint] = []
    world = World()
    drive(world.attempt(1, backing, ledger=ledger, on_abandoned=on_abandoned), world.ports(reached=seen.append))
    return [point for point in seen if point.edge is Edge.BEFORE]


def saying(world: World, event: BodyEvent) -> Ports:
    """Return ports whose bodies run, and say this of it."""
    return ports_with(world, workspace=Answering(world.workspace(), "run", lambda *_: Done(event)))


@pytest.mark.clause("P-30")
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
@by_conduct
def test_any_single_call_going_wrong_loses_nothing(
    backing: Backing, ledger: bool, on_abandoned: OnAbandoned, fault: Fault
) -> None:
    """N-04, S-05, S-01, L-02, P-30, P-31, P-32: refuse, lose or drop each call once; a retry still ends it all well."""
    points = calls_of(backing, ledger=ledger, on_abandoned=on_abandoned)
    for index in range(len(points)):
        world = World()
        attempt = world.attempt(1, backing, ledger=ledger, on_abandoned=on_abandoned)
        point = points[index]
        earlier = sum((each.port, each.method) == (point.port, point.method) for each in points[:index])
        world.fail(f"{point.port}.{point.method}", *[None] * earlier, fault)
        result = drive(attempt, world.ports())
        if result.acceptance is not Acceptance.ACCEPTED and not world.accepted():
            retry_until_accepted(world, backing, ledger=ledger, on_abandoned=on_abandoned)
        check_at_rest(world)


@pytest.mark.clause("R-05")
@pytest.mark.parametrize("edge", list(Edge), ids=lambda edge: edge.value)
@by_conduct
def test_a_crash_at_any_call_loses_nothing(
    backing: Backing, ledger: bool, on_abandoned: OnAbandoned, edge: Edge
) -> None:
    """CW-01 to CW-22, CW-25, CW-33, CW-34, R-05: die before or after each call, then a fresh worker finishes."""
    count = len(calls_of(backing, ledger=ledger, on_abandoned=on_abandoned))
    for index in range(count):
        world = World()
        reached = iter(range(10_000))

        def crash(point: Failpoint, index: int = index, reached: Iterator[int] = reached) -> None:
            if point.edge is edge and next(reached) == index:
                raise CrashError

        attempt = world.attempt(1, backing, ledger=ledger, on_abandoned=on_abandoned)
        with pytest.raises(CrashError):
            drive(attempt, world.ports(reached=crash))
        if not world.accepted():
            retry_until_accepted(world, backing, ledger=ledger, on_abandoned=on_abandoned)
        check_at_rest(world)


@by_backing
def test_asynchronous_driver_makes_the_same_calls(backing: Backing, ledger: bool) -> None:
    """S-39: the same events give the same commands with any port implementation, synchronous or not."""
    seen: list[Failpoint] = []
    world = World()
    attempt = world.attempt(1, backing, ledger=ledger)
    result = asyncio.run(adrive(attempt, world.asynchronous_ports(reached=seen.append)))
    assert isinstance(result.result, Completed)
    assert [point for point in seen if point.edge is Edge.BEFORE] == calls_of(backing, ledger=ledger)


def test_asynchronous_port_that_raises_has_not_answered() -> None:
    """Three answers, no exception: also for coroutines."""
    world = World()

    class Broken(Asynchronous):
        def __getattr__(self, name: str) -> Callable[..., Any]:
            async def call(*_args: object) -> object:
                raise OSError(name)

            return call

    wrapped: dict[str, Any] = {
        "orchestrator": Asynchronous(world.orchestrator()),
        "store": Asynchronous(world.store()),
        "workspace": Broken(world.workspace()),
        "clock": Asynchronous(world.clock()),
    }
    result = asyncio.run(adrive(world.attempt(1), Ports(**wrapped)))
    assert isinstance(result.result, Failed)
    assert "workspace.prepare raised OSError: prepare" in result.result.refusal.actual
    assert result.faults[0] == "workspace.prepare raised OSError: prepare"


class ClaimsBadly:
    """A store with a mistake in one call: it raises there, or forgets to wrap what it found."""

    def __init__(self, store: Any, mistake: Callable[[], object]) -> None:  # noqa: ANN401  whatever the world has
        self._store, self._mistake = store, mistake

    def claim(self, _claim: Claim) -> object:
        return self._mistake()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def oops() -> object:
    found: dict[str, object] = {}
    return found["oops"]


def test_a_mistake_in_a_port_is_in_the_outcome_also_where_the_machine_found_out_by_itself() -> None:
    """Counterexample, seen: `{}["oops"]` in `claim` ended as "claim-lost ... nothing to do", the KeyError nowhere."""
    told: list[tuple[str, Exception]] = []

    def complain(call: Call, error: Exception) -> None:
        told.append((call.method, error))

    for mistake, fault in (
        (oops, "store.claim raised KeyError: 'oops'"),
        (lambda: "a claim", "store.claim answered str, not Done, NotDone or Unknown"),
    ):
        world = World()
        store = ClaimsBadly(world.store(), mistake)
        ports = ports_with(world, store=store, faulty=complain)
        ended = drive(world.attempt(1, Backing.ATOMIC), ports)
        assert ended.silence is not None
        assert ended.silence.classification is Classification.CLAIM_LOST
        assert ended.faults == (fault,)
    (raised, answered) = told
    assert (raised[0], type(raised[1]), raised[1].__traceback__ is not None) == ("claim", KeyError, True)
    assert (answered[0], type(answered[1])) == ("claim", TypeError)


def test_a_fault_that_comes_again_is_told_once_and_whoever_is_told_changes_nothing() -> None:
    world, told, calls = World(), list[Exception](), list[None]()
    attempt = world.attempt(1, Backing.ATOMIC)
    until = world.clock().now() + attempt.budget.publish_timeout + 1.0

    def again() -> object:
        calls.append(None)
        return oops()

    def complain(_call: object, error: Exception) -> None:
        told.append(error)
        raise RuntimeError("the log is full")

    ports = ports_with(world, store=ClaimsBadly(world.store(), again), faulty=complain)
    ended = drive(attempt, ports, attempt_until=lambda: until)
    assert len(calls) > 1, "it was asked again while there was time"
    assert (len(told), ended.faults) == (1, ("store.claim raised KeyError: 'oops'",))


def test_an_attempt_without_a_mistake_has_no_faults() -> None:
    world = World()
    assert drive(world.attempt(1, Backing.ATOMIC), ports_with(world)).faults == ()


def test_port_that_raises_or_answers_nonsense_is_unknown() -> None:
    """An exception is a missing answer, and so is anything that is not one of the three."""
    world = World()

    class Nonsense:
        def prepare(self, _attempt: Attempt) -> str:
            return "fine"

        def remove(self, _attempt: Attempt) -> None:
            raise OSError("disk")

    result = drive(world.attempt(1), ports_with(world, workspace=Nonsense()))
    assert isinstance(result.result, Failed)
    assert "answered str" in result.result.refusal.actual
    assert result.left_behind == ("workspace",)


class Unreachable(NotDone):
    """A refusal that says more to its own adapter."""


class Silent(Unknown):
    """A missing answer that says more to its own adapter."""


@pytest.mark.parametrize("kind", [Unreachable, Silent])
def test_an_adapters_own_kind_of_answer_is_one_of_the_three(kind: type[NotDone | Unknown]) -> None:
    """Counterexample: Conductor away at the report answered ``Unreachable``, and the attempt ended by an exception."""
    world = World()

    class Away:
        def prepare(self, _attempt: Attempt) -> Answer[None]:
            return kind("nobody there")

        def remove(self, _attempt: Attempt) -> Answer[None]:
            return kind("nobody there")

    result = drive(world.attempt(1), ports_with(world, workspace=Away()))
    assert isinstance(result.result, Failed)
    assert "nobody there" in result.result.refusal.actual
    assert result.left_behind == ("workspace",)


def test_a_clock_that_fails_is_the_runtimes_own_bug() -> None:
    """The clock has no unknown: without time no deadline can be judged, so the failure is passed on."""
    world = World()

    class Stopped:
        def now(self) -> float:
            raise OSError("no clock")

    with pytest.raises(OSError, match="no clock"):
        drive(world.attempt(1), ports_with(world, clock=Stopped()))


def test_observer_sees_every_step_and_can_change_none() -> None:
    """An observer that raises is not heard."""
    world = World()
    seen: list[str] = []

    def observe(before: AttemptState, _event: Event, fired: Any) -> None:  # noqa: ANN401
        seen.append(f"{before.phase.name} {fired.row.id} {fired.state.phase.name}")
        raise RuntimeError("watch me")

    result = drive(world.attempt(1), world.ports(), observe=observe)
    assert isinstance(result.result, Completed)
    assert seen == [
        "WORKSPACE W1 BODY",
        "BODY B2 FENCE_1",
        "FENCE_1 F1 STAGING",
        "STAGING S1 UPLOAD",
        "UPLOAD U1 COMMIT",
        "COMMIT C1 FENCE_2",
        "FENCE_2 G1 HEAD",
        "HEAD H1 PUBLICATION",
        "PUBLICATION P1 REPORT",
        "REPORT Z1 CLEAN_UP",
        "CLEAN_UP X1 DONE",
    ]


@pytest.mark.clause("W-21")
@pytest.mark.parametrize("backing", list(Backing), ids=lambda backing: backing.value)
def test_interruption_before_publishing_publishes_nothing(backing: Backing) -> None:
    """Rule 4, W-21, T-W3: losing the attempt while a publication is being prepared refuses it."""
    for phase in (Phase.BODY, Phase.FENCE_1, Phase.FENCE_2, Phase.HEAD):
        world = World()
        attempt = world.attempt(1, backing)

        def lost(state: AttemptState, phase: Phase = phase) -> Event | None:
            return AttemptLost("heartbeat says so") if state.phase is phase else None

        result = drive(attempt, world.ports(), interrupts=lost)
        assert (result.result is None) is (backing is not Backing.SOFT)
        assert (world.history(), world.branches() - {TARGET.branch}) == ([INPUT], set())


@pytest.mark.parametrize("backing", list(Backing), ids=lambda backing: backing.value)
@pytest.mark.parametrize("lost", [True, False], ids=["lost", "failed"])
def test_a_body_stopped_because_its_attempt_is_lost_reports_nothing_of_its_own(backing: Backing, lost: bool) -> None:
    """A stale worker's FAILED could end the attempt of its successor under the same task id (W-21, S-40)."""
    world = World()

    def stopped(_files: object) -> None:
        raise RuntimeError("stopped")

    attempt = world.attempt(1, backing, body=stopped)
    world.fail("workspace.run", Fault.DROPPED if lost else None)
    asked = iter([None, AttemptLost("the heartbeat found another worker")])

    def interrupts(state: AttemptState) -> Event | None:
        return next(asked, None) if state.phase is Phase.BODY else None

    result = drive(attempt, world.ports(), interrupts=interrupts)
    assert (result.result is None) is (backing is not Backing.SOFT)
    assert world.history() == [INPUT]


@pytest.mark.parametrize("backing", list(Backing), ids=lambda backing: backing.value)
@pytest.mark.parametrize("phase", [Phase.FENCE_2, Phase.PUBLICATION, Phase.REPORT, Phase.CLEAN_UP])
def test_an_interruption_that_is_told_for_ever_ends_the_execution_all_the_same(backing: Backing, phase: Phase) -> None:
    """A lost attempt stays lost. Once the result is on its way that changes nothing, and must not stop it either."""
    world = World()
    reached: list[object] = []

    def interrupts(state: AttemptState) -> Event | None:
        reached.append(state.phase)
        return AttemptLost("still lost") if phase in reached else None

    result = drive(world.attempt(1, backing), world.ports(), interrupts=interrupts)
    late = phase in {Phase.REPORT, Phase.CLEAN_UP}
    assert isinstance(result.result, Completed) is late
    assert world.branches() == {TARGET.branch}


def test_interruption_while_publishing_is_an_unknown_publication() -> None:
    """Rule 4: the request may be on its way; the attempt finds out and, finding nothing, fails."""
    world = World()
    given = iter([DeadlineExceeded("time is up")])

    def interrupts(state: AttemptState) -> Event | None:
        return next(given, None) if state.phase is Phase.PUBLICATION else None

    result = drive(world.attempt(1, Backing.CONDITIONAL), world.ports(), interrupts=interrupts)
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.DEADLINE_EXCEEDED
    assert world.history() == [INPUT]


def test_past_its_own_deadline_an_attempt_sends_nothing_and_says_nothing() -> None:
    """A reload that looks fine does not help once the deadline counted from the last good heartbeat has passed."""
    for backing, ledger in STRONG:
        world = World()
        world.clock().sleep(10)
        result = drive(world.attempt(1, backing, ledger=ledger), world.ports(), attempt_until=lambda: 5.0)
        assert result.result is None
        assert result.silence is not None
        assert result.silence.classification is Classification.ATTEMPT_LATE
        assert (world.history(), world.results()) == ([INPUT], [])


def test_body_may_write_while_it_runs() -> None:
    """B7: a fence comes before that staging opens; fences 1 and 2 follow as usual."""
    for backing, ledger in BACKINGS:
        world = World()

        def body(_files: object) -> Generator[None, Sink, None]:
            for number in range(2):
                sink = yield
                stored = sink.put(f"part-{number}", BytesIO(b"written while it runs"))
                assert isinstance(stored, Done)
                assert sink.link((stored.value,)) == Done(None)

        result = drive(world.attempt(1, backing, ledger=ledger, body=body), world.ports())
        assert isinstance(result.result, Completed)
        assert world.history() == [result.result.ref, INPUT]
        listed = world.store().read(TARGET.repository, result.result.ref).list("part-")
        assert isinstance(listed, Done)
        assert [each.path for each in listed.value] == ["part-0", "part-1"]


def test_completion_of_another_execution_is_dropped_and_nothing_is_run_twice() -> None:
    """P-40, T-P6: the port answered for somebody else, so its true answer counts as lost."""
    world = World()
    attempt = world.attempt(1)
    result = drive(attempt, saying(world, BodyDone("run-0", changed=True)))
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.BODY_LOST


@by_backing
def test_stored_state_resumes_at_every_step_and_never_publishes_twice(backing: Backing, ledger: bool) -> None:
    """State is data; K-15: an effect whose answer nobody holds any more is unknown, and unknown is never sent again."""
    world = World()
    stored: list[str] = []

    def keep(before: AttemptState, _event: Event, fired: Any) -> None:  # noqa: ANN401
        if not stored:
            stored.append(dumps(before))
        stored.append(dumps(fired.state))

    drive(world.attempt(1, backing, ledger=ledger), world.ports(), observe=keep)
    for text in stored:
        again = World()
        again.attempt(1, backing, ledger=ledger)
        state = load_state(text, ATTEMPT)
        calls: list[Failpoint] = []
        drive(state, again.ports(reached=calls.append))
        sent = [point for point in calls if str(point) == "store.publish.before"]
        assert len(sent) <= (state.phase not in {Phase.PUBLICATION, Phase.READ_BACK})


def test_a_resumed_execution_has_lost_its_lease() -> None:
    """W-20, S-25: the process that held the lease is gone, so under `locked` a resumed attempt refuses."""
    world = World()
    attempt = world.attempt(1, Backing.LOCKED)
    kept: list[AttemptState] = []
    drive(attempt, world.ports(), observe=lambda before, _event, _fired: kept.append(before))
    before_head = next(state for state in kept if state.phase is Phase.HEAD)
    again = World()
    again.attempt(1, Backing.LOCKED)
    result = drive(before_head, again.ports())
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.LEASE_LOST


def test_unclean_predecessor_makes_the_successor_wait_and_keep_its_lease_alive() -> None:
    """W-23, W-24, S-24: the takeover interval passes on the clock, with the lease renewed meanwhile."""
    world = World()
    world.abandon(Backing.LOCKED, ledger=False)
    before = world.clock().now()
    result = drive(world.attempt(2, Backing.LOCKED), world.ports())
    assert isinstance(result.result, Completed)
    assert world.clock().now() - before >= PublishBudget().takeover_wait


def test_lease_that_cannot_be_renewed_during_the_wait_is_lost() -> None:
    """W-20, W-22, S-25: no answer until the local deadline, so nothing is published."""
    world = World()
    abandoned = world.abandon(Backing.LOCKED, ledger=False)
    world.fail("coordination.keep_alive", *[Fault.DROPPED] * 20)
    result = drive(world.attempt(2, Backing.LOCKED), world.ports())
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.LEASE_LOST
    assert world.history() == [abandoned, INPUT]


def test_lease_lost_between_two_steps_refuses() -> None:
    """Rule 4: the lease is looked after before each step, and its loss refuses before anything is sent."""
    world = World()
    attempt = world.attempt(1, Backing.LOCKED)

    def time_passes(point: Failpoint) -> None:
        if str(point) == "store.staging_names.after":
            world.clock().sleep(30)

    result = drive(attempt, world.ports(reached=time_passes))
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.LEASE_LOST
    assert world.history() == [INPUT]


def between_head_and_publish(backing: Backing, *, seconds: float) -> list[str]:
    """Return what is called between observing the head and sending the plan, when observing took so many seconds."""
    world = World()
    seen: list[str] = []

    def reached(point: Failpoint) -> None:
        seen.append(str(point))
        if seen[-1] == "store.head.after" and "store.publish.before" not in seen:
            world.clock().sleep(seconds)

    budget = PublishBudget(lease_ttl=30.0)
    attempt = world.attempt(1, backing, ledger=True, budget=budget)
    result = drive(attempt, world.ports(reached=reached))
    assert isinstance(result.result, Completed)
    sent = seen.index("store.publish.before")
    observed = max(index for index in range(sent) if seen[index] == "store.head.after")
    return seen[observed + 1 : sent]


@pytest.mark.clause("S-09")
@pytest.mark.parametrize("backing", list(Backing), ids=lambda backing: backing.value)
def test_the_driver_calls_nothing_between_observing_the_head_and_sending_the_plan(backing: Backing) -> None:
    """S-09 of what is carried out, not of the table: the driver adds calls of its own, and a lease may be due here."""
    assert between_head_and_publish(backing, seconds=12) == []


@pytest.mark.clause("S-09")
def test_a_driver_that_renews_the_lease_there_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: tend the lease before each command, also before the one that publishes."""
    monkeypatch.setattr("perago_core.attempt.run.UNDER_LEASE", (*UNDER_LEASE, Phase.PUBLICATION))
    assert between_head_and_publish(Backing.LOCKED, seconds=12) == [
        "coordination.keep_alive.before",
        "coordination.keep_alive.after",
    ]


def test_a_takeover_wait_leaves_as_much_of_the_lease_as_publishing_needs() -> None:
    """A wait that ended 3.2 s after a renewal left a lease of 10 s too short to publish under, though none was due yet.

    However long it takes, the wait ends with a lease that covers reading the head and the publish request.
    """
    for wait in (6.5, 9.9, 10.0, 29.9, 30.0, 30.1, 33.1, 33.2, 33.3, 36.5):
        world = World()
        world.abandon(Backing.LOCKED, ledger=False)
        budget = PublishBudget(takeover_wait=wait)
        result = drive(world.attempt(2, Backing.LOCKED, budget=budget), world.ports())
        assert isinstance(result.result, Completed), (wait, result)


@pytest.mark.clause("W-17")
def test_busy_lease_refuses_without_waiting() -> None:
    """W-17: busy is an answer. Who has no deadline waits for nothing."""
    world = World()

    def stop(point: Failpoint) -> None:
        if str(point) == "store.head.before":
            raise CrashError

    with pytest.raises(CrashError):
        drive(world.attempt(1, Backing.LOCKED), world.ports(reached=stop))
    result = drive(world.attempt(2, Backing.LOCKED), world.ports())
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.LEASE_BUSY


def test_lease_is_not_released_after_an_unknown_publication() -> None:
    """Architecture 5: whoever comes next must meet an unclean release and wait."""
    world = World()
    world.fail("store.publish", Fault.DROPPED)
    world.fail("store.drop", Fault.DROPPED)
    drive(world.attempt(1, Backing.LOCKED), world.ports())
    assert len(world.coordination().leases()) == 1


def test_release_that_is_not_certain_is_left_behind_and_said_so() -> None:
    """P-32, T-W16: the result stands."""
    world = World()
    world.fail("coordination.revoke", Fault.DROPPED)
    result = drive(world.attempt(1, Backing.LOCKED), world.ports())
    assert isinstance(result.result, Completed)
    assert result.left_behind == ("lease",)


def test_clean_up_tries_everything_whatever_fails() -> None:
    """P-32, S-32: a name that cannot be dropped does not keep the workspace from being removed."""
    world = World()
    world.fail("store.drop", Fault.REFUSED)
    result = drive(world.attempt(1), world.ports())
    assert isinstance(result.result, Completed)
    assert [each.partition(" perago-")[0] for each in result.left_behind] == ["staging name"]
    assert world.workspace().places() == ()


@pytest.mark.clause("H-11")
def test_accepted_maintenance_lets_an_opted_in_logical_attempt_through_and_no_other() -> None:
    """H-11 to H-16, N-12: the pair of tests that must pass together."""
    for opted_in in (False, True):
        world = World()
        compaction = world.attempt(
            1, Backing.ATOMIC, ledger=True, operation=Operation.MAINTENANCE, step="compact", body=lays_out_anew
        )
        assert isinstance(drive(compaction, world.ports()).result, Completed)
        logical = world.attempt(2, Backing.ATOMIC, ledger=True, over_maintenance=opted_in, body=writes(b"logical"))
        result = drive(logical, world.ports())
        assert isinstance(result.result, Completed) is opted_in
        assert len(world.history()) == (3 if opted_in else 2)


def lays_out_anew(files: Any) -> None:  # noqa: ANN401  a mapping from paths to bytes
    """Be a body that leaves the content as it is, and puts it elsewhere."""
    files["part-0"] = files.pop("data")


@pytest.mark.clause("H-15")
@by_backing
def test_a_maintenance_that_rewrites_its_content_publishes_nothing_and_is_not_recorded(
    backing: Backing, ledger: bool
) -> None:
    """H-11, H-15: it called itself maintenance, was recorded as such, and logical writers went over it."""
    world = World()
    posing = world.attempt(1, backing, ledger=ledger, operation=Operation.MAINTENANCE, body=writes(b"other rows"))
    result = drive(posing, world.ports()).result
    assert isinstance(result, Failed)
    assert result.refusal.classification is Classification.CONTENT_NOT_PRESERVED
    assert world.history() == [INPUT]
    assert world.coordination().list("maintained/") == Done(())


@pytest.mark.clause("L-08", "R-21")
def test_open_intent_nobody_can_settle_refuses_with_its_operation_id() -> None:
    """R-21, L-08, T-O13: recovery required, and the refusal names what is open."""
    world = World()
    world.abandon(Backing.ATOMIC, ledger=True)
    attempt = world.attempt(2, Backing.ATOMIC, ledger=True)

    def knows_only_this(answer: Answer[TaskSnapshot | None], _workflow_id: str, task_id: str) -> Answer[Any]:
        return answer if task_id == attempt.task_id else Done(None)

    forgetful = Answering(world.orchestrator(), "reload", knows_only_this)
    result = drive(attempt, ports_with(world, orchestrator=forgetful))
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.RECOVERY_REQUIRED
    assert "run-1" in result.result.refusal.actual


@pytest.mark.clause("L-08", "R-21")
@pytest.mark.parametrize("whose", ["a lower twin's", "another task's", "of a task that replaces"])
def test_only_the_open_intent_of_a_lower_twin_keeps_nobody_from_adopting(whose: str) -> None:
    """Our claim or its revocation keeps a lower twin from publishing after us; what it has published we adopt."""
    world = World()
    backing, adopts = Backing.CONDITIONAL, OnAbandoned.ADOPT
    left = world.attempt(1, backing, ledger=True, on_abandoned=adopts)
    if whose == "another task's":
        left = world.attempt(1, backing, ledger=True, on_abandoned=adopts, step="another")
    world.crash(left, "orchestrator.report.before" if whose == "a lower twin's" else "store.publish.before")
    published = world.branch_head()
    attempt = world.attempt(2, backing, ledger=True, on_abandoned=adopts)
    if whose == "of a task that replaces":
        attempt = evolve(attempt, on_abandoned=OnAbandoned.REPLACE)

    def knows_only_this(answer: Answer[TaskSnapshot | None], _workflow_id: str, task_id: str) -> Answer[Any]:
        if task_id == attempt.task_id or not isinstance(answer, Done) or answer.value is None:
            return answer
        return Done(evolve(answer.value, status=TaskStatus.IN_PROGRESS))

    living = Answering(world.orchestrator(), "reload", knows_only_this)
    result = drive(attempt, ports_with(world, orchestrator=living))
    if whose == "a lower twin's":
        assert isinstance(result.result, Completed)
        assert (result.result.ref, world.history()) == (published, [published, INPUT])
        return
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.RECOVERY_REQUIRED
    assert left.execution in result.result.refusal.actual


@pytest.mark.clause("S-26")
def test_policy_epoch_that_moved_refuses() -> None:
    """S-26: workers of two policies never publish beside each other."""
    world = World()
    world.coordination().create_if_absent("decision/0000000007", "{}")
    result = drive(world.attempt(1, Backing.ATOMIC, ledger=True), world.ports())
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.POLICY_CHANGED


@pytest.mark.clause("S-38", "H-01", "H-03", "H-04", "T-P4")
def test_costs_are_flat_in_history_branches_and_settled_intents() -> None:
    """H-01, H-02, H-03, H-04, S-38, P-14, T-P4: the same calls at any depth, and each head is opened once or twice."""
    for backing, ledger in BACKINGS:
        costs: list[dict[str, int]] = []
        for size in (1, 10, 100):
            world = World()
            at = INPUT
            for number in range(size):
                at = world.stranger(TARGET).commit({"old": b"%d" % number})
                world.stranger(Target(TARGET.repository, f"other-{number}")).recreate(at)
                world.coordination().create_if_absent(f"settled/old-{number}", "{}")
            ports = world.ports()
            result = drive(world.attempt(1, backing, ledger=ledger, input=at), ports)
            assert isinstance(result.result, Completed)
            costs.append({**ports.meter.calls, "hops": ports.meter.calls.total(), "items": ports.meter.items.total()})
        assert costs[0] == costs[1] == costs[2]


@pytest.mark.clause("S-38", "H-04")
@pytest.mark.parametrize("opted_in", [False, True], ids=["strict", "over maintenance"])
def test_a_publication_brings_as_many_items_and_bytes_after_ten_thousand_others(opted_in: bool) -> None:
    """H-04, S-38: one call may carry all of history; what is counted is what the answers bring, not only the calls."""
    brought: list[tuple[dict[str, int], ...]] = []
    for size in (0, 10_000):
        world = World()
        seed_history(world, size)
        ports = world.ports()
        result = drive(world.attempt(1, Backing.LOCKED, ledger=True, over_maintenance=opted_in), ports)
        assert isinstance(result.result, Completed)
        brought.append((dict(ports.meter.calls), dict(ports.meter.items), dict(ports.meter.bytes)))
    assert brought[0] == brought[1]
    # The lease, the lists and the records that were written come back; an empty list brings nothing.
    assert 0 < brought[1][2]["ledger"] < 10_000


def seed_history(world: World, size: int) -> None:
    """Write down what so many settled publications leave: of each its settlement, audit record and maintenance."""
    older = [CommitRef(f"old-{number}") for number in range(size)] + [INPUT]
    for number in range(size):
        operation_id = f"run-of-{number}"
        movements = (Movement(TARGET, older[number], older[number + 1]),)
        settlement = Settlement(operation_id, SettlementKind.ACCEPTED, movements)
        maintained = Maintained(older[number], older[number + 1])
        for key, text in (
            (records.settled_key(operation_id), records.encode(settlement)),
            (records.audit_key(operation_id), records.encode(settlement)),
            (records.maintained_key(TARGET, maintained), records.encode(maintained)),
        ):
            world.coordination().create_if_absent(key, text)


@pytest.mark.clause("H-02", "H-30", "T-O17", "T-O18")
def test_meter_counts_operations_apart_from_hops() -> None:
    """H-02, H-05, H-30, T-O17, T-O18: built into the wrapper, each call charged to one class, the sum is the total."""
    world = World()
    ports = world.ports()
    drive(world.attempt(1), ports)
    assert ports.meter.calls.total() == sum(ports.meter.calls.values()) == 12
    assert ports.meter.operations["stage"] == ports.meter.calls["stage"] + 2


def test_outcome_of_an_unfinished_attempt_is_refused() -> None:
    """Asking too early is misuse, and says what is awaited."""
    state, _ = start(World().attempt(1))
    with pytest.raises(ProtocolError, match="waits for the workspace"):
        outcome(state)


@pytest.mark.clause("P-23", "P-37")
def test_the_loop_of_an_embedder_needs_nothing_but_start_step_and_outcome() -> None:
    """P-23, P-37: no transaction verb, no callback: commands out, events in."""
    world = World()
    state, asked = start(world.attempt(1, read_only=True))
    assert asked == (messages.PrepareWorkspace(),)
    while asked:
        (command,) = asked
        answer = command.answers.done[0]
        state, asked = step(state, BodyDone("run-1", changed=False) if answer is BodyDone else answer())
    assert isinstance(outcome(state).result, Completed)


@pytest.mark.clause("H-17")
@by_strong_backing
def test_owner_that_cannot_be_asked_about_is_not_replaced(backing: Backing, ledger: bool) -> None:
    """H-17, S-16: validation reads are as fresh as the decision they protect; without the authority's word, refuse."""
    world = World()
    abandoned = world.abandon(backing, ledger=ledger)
    fences = 2
    world.fail("orchestrator.reload", *[None] * fences, Fault.DROPPED)
    result = drive(world.attempt(2, backing, ledger=ledger), world.ports())
    assert isinstance(result.result, Failed)
    assert result.result.refusal.classification is Classification.CLAIMS_UNREADABLE
    assert world.history() == [abandoned, INPUT]
