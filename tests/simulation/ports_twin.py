"""Two worlds under one schedule: each move of the explored world is made on the simulated ports too, and compared.

The explored world holds names and small numbers; the ports hold bytes, and run the production conversations call by
call. If both go through the same moves and look the same after each, what was explored is what runs.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from attrs import Factory, define

from perago_core import ledger
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.attempt import AttemptState
from perago_core.attempt.run import Execution
from perago_core.calls import Call
from perago_core.driver import Ports, run
from perago_core.ports import Assignment
from perago_core.values import Attempt, CommitRef, OnAbandoned, TaskSnapshot
from perago_simulation.ports import Publication, SimulatedClock, SimulatedWorld
from perago_simulation.ports.workspace import Files
from perago_simulation.world.history import ROOT, chain
from perago_simulation.world.model import Label, Model
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import (
    CLEAN,
    COMPLETED,
    DEAD,
    DIRTY,
    ENDED,
    MISSING,
    OPEN,
    RUNNING,
    TARGET,
    World,
    branch_of,
    snapshot_of,
)

#: Commands of more than one call: losing "the" answer has no one meaning for them.
CONVERSATIONS = (
    "ReadOwners",
    "SettleIntents",
    "AcquireLease",
    "AwaitTakeover",
    "RevokeOlder",
    "ArmIntent",
    "ConfirmIntent",
    "SettleIntent",
    "CleanUp",
)


@define
class Worker:
    """One execution on the ports: its conversation, the call it wants to make next, its publications on their way."""

    assignment: Assignment
    attempt: Attempt
    execution: Execution
    dialogue: Generator[Call, Answer[Any], AttemptState]
    ports: Ports
    call: Call | None
    fate: str = RUNNING
    awaited: Publication | None = None
    sent: list[Publication] = Factory(list[Publication])
    fired: int = 0

    def answer(self, answer: Answer[Any]) -> None:
        """Let the conversation learn an answer and say what it wants next."""
        try:
            self.call = self.dialogue.send(answer)
        except StopIteration:
            self.call, self.fate = None, ENDED

    def watch(self, *_step: object) -> None:
        """Count the events the execution has learnt."""
        self.fired += 1

    def carry_out(self, lost: str = "") -> None:
        """Make all calls of one command; with ``lost``, the answer to its one call does not arrive."""
        before = self.fired
        while self.fired == before:
            assert self.call is not None
            real = self.call.port != "clock"
            answer = Unknown("dropped") if lost == "dropped" and real else self.ports.call(self.call)
            self.answer(Unknown("answer lost") if lost and real else answer)

    def send(self, world: SimulatedWorld) -> None:
        """Go on to the publication and put it on its way."""
        assert self.call is not None
        while self.call.method != "publish":
            assert self.call.port == "clock", f"{self.call} comes between the observation and the send (S-09)"
            self.answer(self.ports.call(self.call))
        self.awaited = world.store().send(self.call.args[0])
        self.sent.append(self.awaited)


class Twin:
    """The simulated ports in step with a model."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.world = SimulatedWorld(setting.store)
        self.workers: list[Worker] = []
        self.refs: dict[str, CommitRef] = {ROOT: self.world.store().create(TARGET, {"input": b"A"})}
        self.workflow = self.world.orchestrator().start(
            tuple(f"step{number}" for number in range(setting.steps)),
            TARGET,
            self.refs[ROOT],
            retries=setting.attempts - 1,
            response_timeout=float("inf"),
        )

    # -----------------------------------------------------------------------------------------------------------------
    # Moves

    def follow(self, label: Label) -> None:
        """Make the move that the label tells of."""
        who, what, about = label
        match who:
            case "store":
                self._store(what, about)
            case "orchestrator":
                self._orchestrator(what, about)
            case "fault":
                self._fault(what, about)
            case "stranger":
                self._stranger(what, about)
            case "coordination":
                for lease in self.world.coordination().leases():
                    self.world.coordination().end(lease)
            case _:
                self._work(self.workers[int(who[1:])], what, about)

    def _work(self, worker: Worker, what: str, about: str) -> None:
        if what != "Publish":
            worker.carry_out({"dropped": "dropped", "landed, answer lost": "landed"}.get(about, ""))
        elif about == "stops waiting":
            worker.awaited = None
            worker.answer(Unknown("no answer in time"))
        else:
            worker.send(self.world)

    def _store(self, what: str, about: str) -> None:
        who, _, outcome = about.partition(": ")
        worker = self.workers[int(who.split()[0][1:])]
        publication = self._publication(worker, copy=who.endswith("(copy)"))
        answer = self.world.store().advance(publication)
        if what == "begin":
            assert answer is None, f"the ports did not begin: {answer}"
            return
        worker.sent.remove(publication)
        if what == "refuse":
            assert isinstance(answer, NotDone), f"the ports did not refuse: {answer}"
            assert answer.reason.startswith(outcome)
        else:
            assert isinstance(answer, Done), f"the ports did not install: {answer}"
            ref = outcome.removesuffix(", answer lost")
            assert self.refs.setdefault(ref, answer.value) == answer.value
        if worker.awaited is publication and worker.fate is RUNNING:
            worker.awaited = None
            worker.answer(Unknown("answer lost") if outcome.endswith(", answer lost") else answer)

    def _publication(self, worker: Worker, *, copy: bool) -> Publication:
        if copy or len(worker.sent) == 1:
            return worker.sent[-1]
        (original,) = [each for each in worker.sent if each is not worker.awaited]
        return original

    def _orchestrator(self, what: str, about: str) -> None:
        orchestrator = self.world.orchestrator()
        if what == "give up":
            open_tasks = [task.id for task in orchestrator.workflow(self.workflow).tasks if task.status.is_open]
            (task_id,) = open_tasks
            orchestrator.give_up(self.workflow, task_id)
        elif what == "terminate":
            orchestrator.terminate(self.workflow)
        elif what == "hand out":
            steps = orchestrator.workflow(self.workflow).steps
            polled = orchestrator.poll("", steps, 1)
            assert isinstance(polled, Done)
            (assignment,) = polled.value
            self._start(assignment, changed="(changed)" in about)
        else:
            assert what == "deliver again"
            self._start(self.workers[-1].assignment, changed="(changed)" in about)

    def _start(self, assignment: Assignment, *, changed: bool) -> None:
        """Start an execution and let it come to the end of its body."""
        index, seen = len(self.workers), assignment.snapshot
        attempt = Attempt(
            seen.workflow_id,
            seen.task_id,
            seen.retry_count,
            assignment.logical_task,
            assignment.number,
            f"e{index}",
            TARGET,
            CommitRef(json.loads(assignment.input)["workspace"]["ref"]),
            self.setting.backing,
            started_at=seen.started_at,
            poll_count=seen.poll_count,
            on_abandoned=OnAbandoned.ADOPT if self.setting.adopts else OnAbandoned.REPLACE,
            ledger=self.setting.ledger,
        )

        def body(files: Files) -> None:
            if changed:
                files["same" if self.setting.same_tree else attempt.execution] = attempt.input.encode()

        self.world.workspace().accept(attempt, body)
        ports = Ports(
            orchestrator=self.world.orchestrator(),
            store=self.world.store(),
            workspace=self.world.workspace(),
            coordination=self.world.coordination(),
            # A clock of its own: in the explored world nobody's waiting makes another one late.
            clock=SimulatedClock(),
        )
        execution = Execution.of(attempt)
        dialogue = execution.dialogue()
        worker = Worker(assignment, attempt, execution, dialogue, ports, next(dialogue))
        execution.observe = worker.watch
        self.workers.append(worker)
        worker.carry_out()
        worker.carry_out()

    def _stranger(self, what: str, about: str) -> None:
        stranger, files = self.world.stranger(TARGET), {f"stranger {about}": b"F"}
        match what:
            case "commit":
                self.refs[about] = stranger.commit(files)
            case "merge":
                self.refs[about] = stranger.merge(files)
            case "reset":
                stranger.reset(self.refs[about])
            case "delete":
                assert stranger.delete() == self.refs[about]
            case "recreate":
                stranger.recreate(self.refs[about])
            case "write":
                stranger.write("uncommitted", b"F")
            case _:
                assert what == "discard"
                stranger.discard()

    def _fault(self, what: str, about: str) -> None:
        if what == "crash":
            worker = self.workers[int(about[1:])]
            worker.fate, worker.call = DEAD, None
            worker.dialogue.close()
        else:
            assert what == "resend"
            worker = self.workers[int(about.removeprefix("publication of e"))]
            assert worker.awaited is not None
            worker.awaited = self.world.store().send(worker.awaited.plan)
            worker.sent.append(worker.awaited)

    # -----------------------------------------------------------------------------------------------------------------
    # Comparison

    def compare(self, explored: World) -> None:
        """Demand that both worlds look the same: branch, names, claims, tasks, requests, intents, each execution."""
        self._learn(explored)
        assert self._branch() == branch_of(explored)
        if self._branch() is not MISSING:
            assert self.history() == [self.refs[ref] for ref in chain(explored.head)]
        assert self._names() == {run for run, _ in explored.names}
        assert self._claimed(explored) == sorted(claim.execution for claim in explored.claims)
        assert [self._mapped(snapshot) for snapshot in self._tasks()] == [
            snapshot_of(task, index) for index, task in enumerate(explored.tasks)
        ]
        assert sorted((index, sent.begun) for index, each in enumerate(self.workers) for sent in each.sent) == sorted(
            (request.run, request.begun) for request in explored.requests
        )
        assert self._intents() == sorted(f"e{run}" for run in explored.intents)
        for worker, expected in zip(self.workers, explored.runs, strict=True):
            assert worker.fate == expected.fate
            if expected.state is not None:
                state = worker.execution.state
                assert state.phase is expected.state.phase
                assert [type(each) for each in state.pending] == [type(each) for each in expected.state.pending]

    def _branch(self) -> str:
        head = self.world.store().head(TARGET)
        assert isinstance(head, Done)
        if head.value is None:
            return MISSING
        return DIRTY if head.value.dirty else CLEAN

    def history(self) -> list[CommitRef]:
        """Return the target's first-parent chain, newest first."""
        repository = self.world.store().repository(TARGET.repository)
        assert repository is not None
        refs = [repository.branches[TARGET.branch].at]
        while parents := repository.commits[refs[-1]].parents:
            refs.append(parents[0])
        return refs

    def _learn(self, explored: World) -> None:
        """Learn what the staged commits are called in the other world."""
        for worker, other in zip(self.workers, explored.runs, strict=True):
            staged = worker.execution.state.known.staged
            if other.state is not None and other.state.known.staged is not None:
                assert staged is not None
                assert self.refs.setdefault(other.state.known.staged.commit, staged.commit) == staged.commit

    def _names(self) -> set[int]:
        repository = self.world.store().repository(TARGET.repository)
        assert repository is not None
        owners = {worker.attempt.staging_name: index for index, worker in enumerate(self.workers)}
        return {owners[name] for name in repository.branches if name != TARGET.branch}

    def _claimed(self, explored: World) -> list[str]:
        tasks = {worker.attempt.logical_task for worker in self.workers}
        found: list[str] = []
        for task in tasks:
            listed = self.world.store().claims(TARGET, task)
            assert isinstance(listed, Done)
            found += [claim.execution for claim in listed.value]
        assert len(found) == len(explored.claims)
        return sorted(found)

    def _tasks(self) -> list[TaskSnapshot]:
        handed_out = dict.fromkeys(worker.attempt.task_id for worker in self.workers)
        reloaded = [self.world.orchestrator().reload(self.workflow, task) for task in handed_out]
        return [each.value for each in reloaded if isinstance(each, Done) and each.value is not None]

    def _mapped(self, seen: TaskSnapshot) -> TaskSnapshot:
        """Return a snapshot as the explored world writes it."""
        index = list(dict.fromkeys(worker.attempt.task_id for worker in self.workers)).index(seen.task_id)
        names = {ref: name for name, ref in self.refs.items()}
        return TaskSnapshot(
            "wf",
            f"t{index}",
            seen.retry_count,
            seen.status,
            workflow_running=seen.status.value != "CANCELED",
            result_execution=seen.result_execution if seen.result_ref is not None else None,
            result_ref=None if seen.result_ref is None else CommitRef(names[seen.result_ref]),
        )

    def _intents(self) -> list[str]:
        listed = run(ledger.list_open(TARGET), self.workers[0].ports)
        assert isinstance(listed, Done)
        return sorted(listed.value)


def supported(label: Label, explored: World) -> bool:
    """Return whether a move means the same thing in both worlds.

    Left out: the lost answer of a command of several calls; an upload under a name that is revoked already, which the
    ports refuse at once and the explored world when it is committed; the end of a lease whose holder lives, which the
    production keeper notices and the explored one, who never looks, does not; and a sweep that finds the intent of an
    attempt that has ended unaccepted. The production sweep first drops the names of all who have ended and passes the
    barrier, and leaves an intent open whose commit is the head; the explored one settles at once, with less to rest on.
    """
    who, what, about = label
    if what == "SettleIntents" and any(_is_dead(explored, run) for run in explored.intents):
        return False
    if what in CONVERSATIONS and about in {"dropped", "landed, answer lost"}:
        return False
    if what == "Upload" and int(who[1:]) not in dict(explored.names):
        return False
    return who != "coordination" or explored.runs[explored.lease.holder].fate is not RUNNING


def _is_dead(explored: World, run: int) -> bool:
    return explored.tasks[explored.runs[run].task].status not in {OPEN, COMPLETED}


def moves(model: Model, explored: World | None) -> list[tuple[Label, World]]:
    """Give what can happen next in both worlds."""
    if explored is None:
        return list(model.beginnings())
    return [(label, after) for label, after in model.moves(explored) if supported(label, explored)]
