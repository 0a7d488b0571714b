"""One task, two targets, and death at any request: the production code on a store in memory, or in a folder.

An execution dies where a test says, before a request or after it, or its last request lands when somebody else has gone
on. Whoever comes next is another process: a retry, a twin, a recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from io import BytesIO
from secrets import token_hex
from typing import Any, Protocol

from attrs import define, field

from perago_conformance.attempts import pinned
from perago_conformance.support import done
from perago_core.answers import Answer, Done, NotDone
from perago_core.attempt.messages import BodyDone, BodyEvent
from perago_core.driver import Ports, drive, run
from perago_core.ledger import list_open
from perago_core.ports import Assignment, Sink
from perago_core.recovery import Mode, sweep
from perago_core.results import Outcome
from perago_core.values import Attempt, Backing, Beside, Commit, CommitRef, Target
from perago_simulation.ports import SimulatedWorld

FIRST, OTHER = Target("lake", "main"), Target("lake", "other")
TARGETS = (FIRST, OTHER)


class Died(BaseException):
    """The process is gone: nothing catches it on the way."""


class Deaths:
    """Counts what a process does, and lets it die at one of these moments; ``late``: what it was doing happens then."""

    def __init__(self) -> None:
        self.count = 0
        self.at: int | None = None
        self.before = True
        self.late = False
        self.held: Callable[[], object] | None = None
        self.lands_at: int | None = None

    def __call__(self, act: Callable[[], Any]) -> Any:  # noqa: ANN401  whatever a request gives
        self.count += 1
        if self.held is not None and self.count == self.lands_at:
            held, self.held = self.held, None
            held()
        if self.count != self.at:
            return act()
        if self.late:
            self.held = act
        elif not self.before:
            act()
        raise Died

    @contextmanager
    def dying(self, at: int | None, *, before: bool = True, late: bool = False) -> Generator[None]:
        """Begin to count, and die at this moment if there is one."""
        self.count, self.at, self.before, self.late = 0, at, before, late
        try:
            yield
        except Died:
            assert at is not None
        finally:
            self.at = None


class ManagedStore(Protocol):
    """What a scene asks of a store beside its port."""

    def create(self, target: Target, files: Any = None) -> Answer[CommitRef]: ...  # noqa: ANN401  files by path

    def head(self, target: Target) -> Answer[Any]: ...

    def look(self, repository: str, ref: CommitRef) -> Answer[Commit | None]: ...


class _Body:
    """A workspace whose body changes every target; what it writes says which execution wrote it."""

    def prepare(self, attempt: Attempt) -> Answer[None]:
        """Prepare nothing."""
        del attempt
        return Done(None)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Change something."""
        return Done(BodyDone(attempt.execution, changed=True))

    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:
        """Refuse: the body never asks for staging."""
        del sink
        return NotDone(f"the body of {attempt.execution} did not ask for staging")

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        """Write the execution's name."""
        stored = done(sink.put("by.txt", BytesIO(attempt.execution.encode())))
        return sink.link((stored,))

    def remove(self, attempt: Attempt) -> Answer[None]:
        """Remove nothing."""
        del attempt
        return Done(None)


@define
class Scene:
    """A store with both targets, and one workflow of one task that publishes to them."""

    store: Any
    deaths: Deaths
    world: SimulatedWorld = field(factory=SimulatedWorld)
    inputs: tuple[CommitRef, ...] = ()
    workflow_id: str = ""
    #: The same task on one target, for comparison: the second is then never touched.
    alone: bool = False
    seen: set[tuple[str, str]] = field(factory=set[tuple[str, str]])

    def begin(self) -> Scene:
        """Make the targets and start the workflow."""
        self.inputs = tuple(done(self.store.create(each, {"by.txt": b"nobody"})) for each in TARGETS)
        self.world.orchestrator().start(("both",), FIRST, self.inputs[0], retries=9)
        return self

    def ports(self) -> Ports:
        """Give a new process's ports."""
        return Ports(
            orchestrator=self.world.orchestrator(),
            store=self.store,
            workspace=_Body(),
            coordination=self.world.coordination(),
            clock=self.world.clock(),
        )

    def poll(self) -> Assignment | None:
        """Take the task once it is there to be taken; ``None``: it has ended."""
        for _ in range(400):
            polled = done(self.world.orchestrator().poll("worker", ("both",), 1))
            if polled:
                self.workflow_id = polled[0].snapshot.workflow_id
                return polled[0]
            self.world.clock().sleep(10.0)
        return None

    def attempt(self, assignment: Assignment) -> Outcome:
        """Run one attempt, pinned as a worker does."""
        first = CommitRef(self.inputs[0])
        other = done(self.store.head(OTHER)).commit.ref
        name = f"e{assignment.number}"
        beside = () if self.alone else (Beside(OTHER, other),)
        attempt = pinned(assignment, name, FIRST, first, Backing.ATOMIC, ledger=True, beside=beside)
        return drive(attempt, self.ports())

    def give_up(self, assignment: Assignment) -> None:
        """Let the orchestrator find that nobody works on it any more."""
        snapshot = done(self.world.orchestrator().reload(None, assignment.snapshot.task_id))
        assert snapshot is not None
        if snapshot.status.is_open:
            self.world.orchestrator().give_up(snapshot.workflow_id, snapshot.task_id)

    def recover(self, mode: Mode) -> tuple[str, ...]:
        """Sweep both targets, and give what stays open."""
        for each in TARGETS:
            done(run(sweep(each, mode, "operator", "the run has failed", token_hex(4)), self.ports()))
        return tuple(each for target in TARGETS for each in done(run(list_open(target), self.ports())))

    def heads(self) -> tuple[Commit, Commit]:
        """Give both heads."""
        first, other = (done(self.store.head(each)).commit for each in TARGETS)
        return first, other

    def written_by(self) -> tuple[str, str]:
        """Say which execution each target shows."""
        found: list[str] = []
        for each, head in zip(TARGETS, self.heads(), strict=True):
            with done(self.store.read(each.repository, head.ref).get("by.txt")) as data:
                found.append(data.read().decode())
        self.seen.add((found[0], found[1]))
        return found[0], found[1]

    def accepted(self) -> CommitRef | None:
        """Give what the orchestrator took as the result."""
        for task in self.world.orchestrator().workflow(self.workflow_id).tasks:
            snapshot = done(self.world.orchestrator().reload(self.workflow_id, task.id))
            if snapshot is not None and snapshot.result_ref is not None:
                return snapshot.result_ref
        return None

    def see_it_through(self) -> None:
        """Let attempts follow each other until one is accepted, looking at both targets in between."""
        while (assignment := self.poll()) is not None:
            self.attempt(assignment)
            self.written_by()
            self.give_up(assignment)
            if self.accepted() is not None:
                return

    def check(self) -> None:
        """What holds whenever somebody looks: both targets are one execution's, or nobody's."""
        first, other = self.written_by()
        assert other == ("nobody" if self.alone else first), self.seen

    def check_end(self) -> None:
        """What holds at the end: the accepted result is on both targets, and the books are closed."""
        self.check()
        head, other = self.heads()
        assert self.accepted() == head.ref
        assert head.parents == (self.inputs[0],)
        assert other.ref == self.inputs[1] if self.alone else other.parents == (self.inputs[1],)
        assert self.recover(Mode.SETTLE_ONLY) == ()


def every_death(count: int) -> Iterator[tuple[int, bool]]:
    """Give each moment at which a process may die that does so many things: before and after."""
    for at in range(1, count + 1):
        yield at, True
        yield at, False
