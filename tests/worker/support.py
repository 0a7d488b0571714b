"""One task from its input to its result, as a worker runs it, on the simulated store and orchestrator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import define, field, frozen

from perago_core.answers import Done
from perago_core.driver import Ports, drive
from perago_core.results import FailedTerminally, Result
from perago_core.values import Attempt, Backing, CommitRef, Target
from perago_simulation.ports import SimulatedWorld
from perago_worker.body.bodies import Bodies
from perago_worker.body.notes import Note, Transferred
from perago_worker.contract import read_input, refusal_of
from perago_worker.errors import InputError
from perago_worker.files.cache import Cache
from perago_worker.registry import Registry
from perago_worker.workspace import Limits, LocalWorkspace, Readable

TASKS = "tests.worker.sample_tasks"
MAIN = Target("lake", "main")
FILES: Mapping[str, bytes] = {"data/a.txt": b"alpha", "data/b.txt": b"beta", "other/c.txt": b"gamma"}

#: Makes the input of a task that starts at this commit.
Input = Callable[[CommitRef], str]


def given(params: object = None, /, **more: object) -> Input:
    """Make a well-formed input; ``more`` replaces keys at the top, ``None`` removes them."""

    def make(ref: CommitRef) -> str:
        place = {"repository": MAIN.repository, "branch": MAIN.branch, "refType": "commit", "ref": ref}
        document = {"params": {} if params is None else params, "workspace": place, **more}
        return json.dumps({key: value for key, value in document.items() if value is not None})

    return make


def placed(**change: object) -> Input:
    """Make an input whose workspace differs in these keys; ``None`` removes one."""

    def make(ref: CommitRef) -> str:
        place: dict[str, object] = {"repository": MAIN.repository, "branch": MAIN.branch, "ref": ref, **change}
        kept = {key: value for key, value in place.items() if value is not None}
        return json.dumps({"params": {}, "workspace": kept})

    return make


@frozen
class Ran:
    """How a task ended, and what it left."""

    result: Result | None
    notes: tuple[Note, ...]
    head: CommitRef
    files: dict[str, bytes]


@define
class Bench:
    """A world with one branch, and a local workspace in it."""

    folder: Path
    bodies: Bodies
    files: Mapping[str, bytes] = field(default=FILES)
    limits: Limits = field(default=Limits(grace=1.0))
    modules: tuple[str, ...] = (TASKS,)
    world: SimulatedWorld = field(factory=SimulatedWorld)
    notes: list[Note] = field(factory=list[Note])
    registry: Registry = field(init=False)
    workspace: LocalWorkspace = field(init=False)
    first: CommitRef = field(init=False)
    executions: int = 0

    def __attrs_post_init__(self) -> None:
        self.registry = Registry.of_modules(*self.modules)
        self.first = self.world.store().create(MAIN, self.files)
        self.workspace = self.open()

    def open(self, store: Readable | None = None) -> LocalWorkspace:
        """Open the same folders again, as another worker would."""
        return LocalWorkspace(
            store or self.world.store(),
            self.registry,
            self.bodies,
            self.folder / "work",
            Cache(self.folder / "cache", 1 << 30),
            limits=self.limits,
            listener=lambda _attempt, note: self.notes.append(note),
        )

    def said(self) -> list[Note]:
        """Give what bodies have said, without how far their files were."""
        return [note for note in self.notes if not isinstance(note, Transferred)]

    def attempt(self, task: str, ref: CommitRef | None = None) -> Attempt:
        """Poll a task as a worker does, and pin the attempt."""
        orchestrator = self.world.orchestrator()
        orchestrator.start((task,), MAIN, ref or self.first)
        self.executions += 1
        polled = orchestrator.poll(f"worker-{self.executions}", (task,), 1)
        assert isinstance(polled, Done)
        (assignment,) = polled.value
        seen = assignment.snapshot
        return Attempt(
            workflow_id=seen.workflow_id,
            task_id=seen.task_id,
            retry_count=seen.retry_count,
            logical_task=assignment.logical_task,
            number=assignment.number,
            execution=f"run-{self.executions}",
            target=MAIN,
            input=ref or self.first,
            backing=Backing.ATOMIC,
            worker_id=seen.worker_id,
            started_at=seen.started_at,
            poll_count=seen.poll_count,
            read_only=self.registry[task].read_only,
        )

    def run(self, task: str, make: Input | None = None) -> Ran:
        """Run one task to its end, from the text of its input to the result that is reported."""
        definition = self.registry[task]
        try:
            read = read_input((make or given())(self.first), definition)
        except InputError as error:
            return self.ended(FailedTerminally(refusal_of(error)))
        attempt = self.attempt(task, None if read.workspace is None else read.workspace.ref)
        self.workspace.accept(attempt, task, read.params)
        return self.ended(drive(attempt, self.ports()).result)

    def ports(self) -> Ports:
        """Give the ports of one execution."""
        world = self.world
        return Ports(
            orchestrator=world.orchestrator(),
            store=world.store(),
            workspace=self.workspace,
            coordination=world.coordination(),
            clock=world.clock(),
        )

    def ended(self, result: Result | None) -> Ran:
        """Give a result with what is on the branch now."""
        repository = self.world.store().repository(MAIN.repository)
        assert repository is not None
        head = repository.branches[MAIN.branch].at
        files = {path: repository.blobs[address] for path, address in repository.tree(head).items()}
        return Ran(result, tuple(self.notes), head, files)

    def branches(self) -> set[str]:
        """Name all branches, staging names too."""
        repository = self.world.store().repository(MAIN.repository)
        assert repository is not None
        return set(repository.branches)


def processes_with(token: str) -> list[int]:
    """Find the living processes on this machine whose command line holds a token."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if token.encode() in words:
            found.append(int(place.name))
    return found
