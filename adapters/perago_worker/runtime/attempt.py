"""One assignment from poll to outcome: pin the attempt, keep its heart beating, drive it, tell what happened.

Only the driver talks to the store and reports. The heartbeat runs beside it and can do two things: say that the attempt
is lost, which stops the body at once, and move the deadline after which nothing is published. So does the lease, where
there is one: it is kept alive, or lost.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from attrs import define, evolve, field, frozen

from perago_core.answers import Done, Event
from perago_core.attempt.messages import DeadlineExceeded, HeadSeen, IntentsSettled, Published, Report
from perago_core.attempt.run import Observer
from perago_core.attempt.state import AFTER_REPORT, FROM_PUBLICATION, AttemptState, Known
from perago_core.budget import PublishBudget
from perago_core.calls import Call
from perago_core.dead_end import dead_end
from perago_core.driver import Ports, charge_of, drive, run
from perago_core.ledger import newest_maintained
from perago_core.machine.codec import dumps
from perago_core.machine.rows import Fired
from perago_core.machine.trace import Tracer
from perago_core.measured import Measured
from perago_core.ports import Assignment, Clock, Coordination, Orchestrator, Store, TaskWorkspace, Workspace
from perago_core.results import Acceptance, Outcome, Refusal
from perago_core.sharing import begin_at
from perago_core.values import SHARING, Attempt, Backing, Beside, Between, Operation
from perago_worker.api.task import TaskDefinition
from perago_worker.logger import log
from perago_worker.ops.collector import Collector
from perago_worker.ops.recover import report_alarms
from perago_worker.runtime.assignment import AttemptInput, attempt_input, patience_of
from perago_worker.runtime.dead_ends import DeadEnds
from perago_worker.runtime.failpoints import Watcher
from perago_worker.runtime.further_targets import FurtherTargets
from perago_worker.runtime.heartbeat import Heartbeat
from perago_worker.runtime.internal_tasks import InternalTask, UnreadableInput
from perago_worker.runtime.lease import LeaseThread
from perago_worker.runtime.lineage_reporter import LineageReporter
from perago_worker.runtime.liveness import Lookout
from perago_worker.runtime.measuring import BudgetWatch, PublicationTimer, measured
from perago_worker.runtime.provenance import attributed
from perago_worker.runtime.task_log import Tell
from perago_worker.runtime.telemetry import (
    Instruments,
    count_operations,
    count_outcome,
    count_step,
    joined,
    line_writer,
    summary,
    trace_file,
)
from perago_worker.runtime.turns import ProcessTurns


@frozen
class Node:
    """What a worker has settled before it polls: who it is, and the backing its cluster agreed on."""

    worker_id: str
    backing: Backing
    epoch: int
    ledger: bool
    budget: PublishBudget


@define
class Stop:
    """Whether the time this worker has for its attempts is over, and why."""

    why: str | None = None


@frozen
class Runtime:
    """What all attempts of a worker share."""

    orchestrator: Orchestrator
    store: Store
    workspace: TaskWorkspace
    tasks: Mapping[str, TaskDefinition]
    coordination: Coordination | None
    clock: Clock
    node: Node
    instruments: Instruments
    tell: Tell
    traces: Path
    own: Mapping[str, TaskDefinition] = field(factory=dict[str, TaskDefinition])
    failpoint: Watcher | None = None
    lookout: Lookout | None = None
    collectors: Sequence[Collector] = ()
    budget_watch: BudgetWatch | None = None
    codes: Mapping[str, str] = field(factory=dict[str, str])
    lineage: LineageReporter | None = None
    turns: ProcessTurns = field(factory=ProcessTurns)
    further: FurtherTargets = field(factory=FurtherTargets)
    stopped: Stop = field(factory=Stop)

    def stop(self, why: str) -> None:
        """Let no attempt begin anything more: bodies end at once, and what has not begun to publish fails."""
        self.stopped.why = why
        self.workspace.cancel_all(why)

    def run(self, assignment: Assignment, polled_at: float, free: Callable[[], object] = lambda: None) -> Outcome:
        """Run one assignment to its end; call ``free`` when only the report is left.

        ``polled_at``: when the poll that brought it was sent, by our own clock.
        """
        own = self.own.get(assignment.task_name)
        definition = own or self.tasks[assignment.task_name]
        place = self._newest(attempt_input(assignment, definition), assignment)
        beside = self._beside(assignment, place, definition)
        attempt = pin(assignment, place, self.node, () if isinstance(beside, str) else beside)
        ends = DeadEnds(lambda: self._dead_end(attempt))
        workspace: Workspace
        if isinstance(beside, str):
            workspace = UnreadableInput(beside, terminal=False)
        elif own is not None and place.trouble is None:
            workspace = InternalTask(own, place.params, self.store)
        elif place.trouble is None:
            self.workspace.accept(attempt, assignment.task_name, place.params)
            workspace = ends.checked(self.workspace)
        else:
            workspace = UnreadableInput(place.trouble)
        patience = patience_of(assignment, definition)
        heart = Heartbeat(
            attempt,
            self.orchestrator,
            self.clock,
            interval=min(self.node.budget.heartbeat_interval, patience / 3),
            patience=patience,
            since=polled_at,
            on_loss=lambda why: self.workspace.cancel(attempt, why),
        )
        names = {"task": assignment.task_name, "backing": attempt.backing.value}
        write = line_writer(trace_file(self.traces, attempt))
        timer = PublicationTimer(self.clock.now)
        code = self.codes.get(assignment.task_name, "")
        ports = self._ports(assignment.task_name, workspace, names, attributed(self.store, attempt, code), ends)
        lease = LeaseThread(ports)
        shown = nullcontext() if self.lookout is None else self.lookout.showing(attempt, heart.until)
        heart.start()
        if self.lineage is not None:
            self.lineage.begin(attempt, definition, code)
        try:
            with shown as sign, self.instruments.span("attempt", {**names, "task_id": attempt.task_id}):
                outcome = drive(
                    attempt,
                    ports,
                    observe=_before_report(self._observer(attempt, names, write, timer), heart, free),
                    interrupts=lambda state: self._interruption(state, heart),
                    attempt_until=heart.until,
                    background=lease,
                    turns=self.turns,
                )
                if sign is not None:
                    sign.closed = outcome.acceptance is Acceptance.ACCEPTED
        finally:
            heart.stop()
            lease.stop()
        outcome = ends.told(outcome)
        self._conclude(attempt, outcome, names)
        if self.lineage is not None:
            self.lineage.end(attempt, definition, code, outcome)
        self._keep(measured(ports.meter, timer), names, write)
        for each in self.collectors:
            each.collect_now_and_then()
        return outcome

    def _newest(self, place: AttemptInput, assignment: Assignment) -> AttemptInput:
        """Say where an attempt begins: as it was told, or, if that can only be refused, at a newer commit."""
        if place.trouble is not None:
            return place
        return self._maintained(place) if place.scope is None else self._shared(place, assignment)

    def _shared(self, place: AttemptInput, assignment: Assignment) -> AttemptInput:
        """Let a task that shares its branch begin anew where what it reads or writes was changed by somebody else.

        If that cannot be found out, it begins as told, and finds out in the end.
        """
        given = place.workspace
        if place.scope is None or not place.movable or self.node.backing not in SHARING:
            return place
        ports = Ports(orchestrator=self.orchestrator, store=self.store, workspace=None, clock=self.clock)
        found = run(begin_at(given.target, given.ref, place.scope, assignment.logical_task), ports)
        if not isinstance(found, Done) or found.value == given.ref:
            return place
        self.tell(
            assignment.snapshot.task_id,
            f"pinned again: begins at {found.value}, not at {given.ref}, because others have changed what it declares",
        )
        return evolve(place, workspace=evolve(given, ref=found.value))

    def _maintained(self, place: AttemptInput) -> AttemptInput:
        """Let maintenance begin from where accepted maintenance has led since, for it could not be published before it.

        Each retry looks anew, so that the task's retries bound it. If the ledger does not answer, it begins as told.
        """
        if place.operation is not Operation.MAINTENANCE or not self.node.ledger:
            return place
        ports = Ports(orchestrator=None, store=None, workspace=None, coordination=self.coordination, clock=self.clock)
        found = run(newest_maintained(place.workspace.target, place.workspace.ref), ports)
        if not isinstance(found, Done):
            return place
        return evolve(place, workspace=evolve(place.workspace, ref=found.value))

    def _beside(
        self, assignment: Assignment, place: AttemptInput, definition: TaskDefinition
    ) -> tuple[Beside, ...] | str:
        """Pin the further targets of a task as they are now, or say what is wrong with one."""
        names = () if definition.workspace is None else definition.workspace.targets
        if not names or place.trouble is not None:
            return ()
        ports = Ports(
            orchestrator=self.orchestrator,
            store=self.store,
            workspace=None,
            coordination=self.coordination,
            clock=self.clock,
        )
        run_of = assignment.snapshot.workflow_id
        return self.further.pinned(names, place.workspace.target, run_of, ports, ledger=self.node.ledger)

    def _dead_end(self, attempt: Attempt) -> Refusal | None:
        """Say why nothing of the attempt's task can be published any more; ``None`` also where nobody could tell."""
        ports = Ports(orchestrator=self.orchestrator, store=self.store, workspace=None, clock=self.clock)
        found = run(dead_end(attempt), ports)
        return found.value if isinstance(found, Done) else None

    def _interruption(self, state: AttemptState, heart: Heartbeat) -> Event | None:
        """Return what ends an attempt from outside. What may have been published is seen through, stop or no stop."""
        if state.phase in AFTER_REPORT:
            return None
        if self.stopped.why is None or state.phase in FROM_PUBLICATION:
            return heart.loss()
        return heart.loss() or DeadlineExceeded(self.stopped.why)

    def _ports(self, task: str, workspace: Workspace, names: dict[str, str], store: Store, ends: DeadEnds) -> Ports:
        def timed(call: Call, took: float) -> None:
            about = {"call": f"{call.port}.{call.method}", "class": charge_of(call)}
            self.instruments.record("call.seconds", took, {**names, **about})

        def faulty(call: Call, error: Exception) -> None:
            log.error("%s.%s did not answer, which is taken for unknown", call.port, call.method, exc_info=error)

        return Ports(
            orchestrator=ends.telling(self.orchestrator),
            store=store,
            workspace=workspace,
            coordination=self.coordination,
            clock=self.clock,
            reached=None if self.failpoint is None else self.failpoint.of(task),
            timed=timed,
            faulty=faulty,
        )

    def _observer(
        self, attempt: Attempt, names: dict[str, str], write: Callable[[str], object], timer: PublicationTimer
    ) -> Observer:
        trace = Tracer("attempt", write, self.clock.wall)
        below: list[Between] = []

        def observe(before: AttemptState, event: Event, fired: Fired[Attempt, Known]) -> None:
            if isinstance(event, IntentsSettled):
                report_alarms(attempt.target, event.alarms, self.instruments)
            if isinstance(event, HeadSeen) and event.between is not None:
                below[:] = [event.between]
            if isinstance(event, Published) and below:  # not before: nothing comes between a look and its publication
                self.tell(attempt.task_id, joined(event.ref, below[0]))
            timer.observe(before, fired)
            trace(before, event, fired)
            log.debug("%s %s: %s -> %s", attempt.task_id, fired.row.id, type(event).__name__, fired.state.phase.name)
            count_step(self.instruments, names, before, event, fired)

        return observe

    def _keep(self, found: Measured, names: dict[str, str], write: Callable[[str], object]) -> None:
        """Hand on what was measured: to the trace, to dashboards, and to whoever compares it with the budget."""
        with suppress(OSError):  # a trace that cannot be written changes nothing
            write(dumps(found))
        count_operations(self.instruments, names, found)
        if self.budget_watch is not None:
            self.budget_watch.add(found)

    def _conclude(self, attempt: Attempt, outcome: Outcome, names: dict[str, str]) -> None:
        line = summary(attempt, outcome)
        log.info("%s", line)
        self.tell(attempt.task_id, line)
        count_outcome(self.instruments, names, attempt, outcome)
        for what in outcome.left_behind:
            log.warning("%s left behind: %s; `perago gc` removes it", attempt.task_id, what)


def pin(assignment: Assignment, place: AttemptInput, node: Node, beside: tuple[Beside, ...] = ()) -> Attempt:
    """Make the attempt: everything that is fixed from here on, and an execution id nobody else has."""
    snapshot = assignment.snapshot
    # An intent names one parent and one tree, and keeps everybody else from the branch while it is open.
    ledger = node.ledger and (place.scope is None or node.backing not in SHARING)
    return Attempt(
        workflow_id=snapshot.workflow_id,
        task_id=snapshot.task_id,
        retry_count=snapshot.retry_count,
        logical_task=assignment.logical_task,
        number=assignment.number,
        execution=secrets.token_hex(8),
        target=place.workspace.target,
        input=place.workspace.ref,
        backing=node.backing,
        worker_id=snapshot.worker_id,
        started_at=snapshot.started_at,
        poll_count=snapshot.poll_count,
        read_only=place.read_only,
        operation=place.operation,
        # Only the ledger proves that what came between was maintenance (H-15).
        over_maintenance=place.over_maintenance and ledger,
        on_abandoned=place.on_abandoned,
        ledger=ledger,
        epoch=node.epoch,
        budget=node.budget,
        scope=place.scope,
        on_conflict=place.on_conflict,
        beside=beside,
    )


def _before_report(observe: Observer, heart: Heartbeat, free: Callable[[], object]) -> Observer:
    """Stop the heartbeat and free the worker's slot as soon as the report is all that is left to send.

    No beat may be on its way when the result is sent: it could undo it. A loss that the last beat has found is asked
    for after this and before the report. After the report a loss changes nothing.
    """

    def watch(before: AttemptState, event: Event, fired: Fired[Attempt, Known]) -> None:
        if any(isinstance(command, Report) for command in fired.commands):
            heart.stop()
            free()
        observe(before, event, fired)

    return watch
