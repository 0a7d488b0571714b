"""One task from its input to its result, as a worker runs it, on the simulated store and orchestrator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import define, evolve, field, frozen

from perago_core.answers import Done
from perago_core.budget import PublishBudget
from perago_core.ports import Assignment
from perago_core.results import Result
from perago_core.values import Attempt, Backing, CommitRef, Target
from perago_simulation.ports import SimulatedWorld
from perago_worker.api.registry import Registry
from perago_worker.bodies.notes import Note, Transferred
from perago_worker.bodies.pool import Bodies
from perago_worker.folders.cache import Cache
from perago_worker.folders.sandboxes import Sandboxes
from perago_worker.folders.workspace import Limits, LocalWorkspace, Readable
from perago_worker.runtime.assignment import attempt_input
from perago_worker.runtime.attempt import Node, Runtime, pin
from perago_worker.runtime.telemetry import Silence

TASKS = "tests.worker.sample_tasks"
MAIN = Target("lake", "main")
FILES: Mapping[str, bytes] = {"data/a.txt": b"alpha", "data/b.txt": b"beta", "other/c.txt": b"gamma"}
NODE = Node("worker-1", Backing.ATOMIC, epoch=0, ledger=False, budget=PublishBudget())

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
    told: list[tuple[str, str]] = field(factory=list[tuple[str, str]])

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

    def runtime(self) -> Runtime:
        """Give what runs attempts in a worker, over this world."""
        world = self.world
        return Runtime(
            orchestrator=world.orchestrator(),
            store=world.store(),
            workspace=self.workspace,
            tasks=self.registry,
            coordination=world.coordination(),
            clock=world.clock(),
            node=NODE,
            instruments=Silence(),
            tell=lambda task_id, line: self.told.append((task_id, line)),
            traces=self.folder / "trace",
        )

    def poll(self, task: str) -> Assignment:
        """Start a workflow of one task and take it."""
        orchestrator = self.world.orchestrator()
        orchestrator.start((task,), MAIN, self.first)
        polled = orchestrator.poll(NODE.worker_id, (task,), 1)
        assert isinstance(polled, Done)
        return polled.value[0]

    def attempt(self, task: str) -> Attempt:
        """Poll a task, and pin the attempt as the worker does."""
        assignment = self.poll(task)
        return pin(assignment, attempt_input(assignment, self.registry[task]), NODE)

    def run(self, task: str, make: Input | None = None) -> Ran:
        """Let the worker's runtime run one task to its end, from the text of its input to the result it reports."""
        assignment = evolve(self.poll(task), input=(make or given())(self.first))
        return self.ended(self.runtime().run(assignment, self.world.clock().now()).result)

    def ended(self, result: Result | None) -> Ran:
        """Give a result with what is on the branch now."""
        repository = self.world.store().repository(MAIN.repository)
        assert repository is not None
        head = repository.branches[MAIN.branch].at
        files = {path: repository.blobs[address] for path, address in repository.tree(head).items()}
        return Ran(result, tuple(self.notes), head, files)

    def sandboxes(self) -> tuple[str, ...]:
        """Name the sandboxes that exist, of living executions too."""
        return Sandboxes(self.folder / "work").names()

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
