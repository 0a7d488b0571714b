"""A lake on the embedded git store, and tasks run in it to their end, as a worker runs them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field

from perago_conformance.attempts import pinned
from perago_core.answers import Answer, Done
from perago_core.driver import Ports, drive
from perago_core.names import staging_name
from perago_core.ports import Sink, Source, Store, Workspace
from perago_core.results import Outcome
from perago_core.values import Attempt, Backing, CommitRef, Scope, Target
from perago_local.git.store import GitStore
from perago_simulation.ports import SimulatedWorld
from perago_spark import ReadPlace, SparkWorkspace, WritePlace
from perago_spark.api.datasets import SparkDatasets
from perago_spark.api.scope import DatasetScope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MAIN = Target("lake", "main")


def done(answer: Answer[Any]) -> Any:  # noqa: ANN401  whatever the port gives
    assert isinstance(answer, Done), answer
    return answer.value


@define
class Lake:
    """One repository with one branch. Writes of a test go to staging names of their own."""

    folder: Path
    target: Target = MAIN
    backing: Backing = Backing.ATOMIC
    store: Any = field(init=False)
    world: SimulatedWorld = field(factory=SimulatedWorld)
    names: int = 0

    def __attrs_post_init__(self) -> None:
        self.store = self.made()

    def made(self) -> Any:  # noqa: ANN401  a store, with what stores have beside the port
        """Make the store with the branch in it."""
        store = GitStore(self.folder)
        done(store.create(self.target, {"README": b"a lake"}))
        return store

    @property
    def head(self) -> CommitRef:
        """Return the commit the target stands at."""
        ref: CommitRef = done(self.store.head(self.target)).commit.ref
        return ref

    def source(self, ref: CommitRef | None = None) -> Source:
        """Read a commit, the head if none is named."""
        found: Source = self.store.read(self.target.repository, ref or self.head)
        return found

    @property
    def staging(self) -> str:
        """Return the name that ``stage`` opened last."""
        return staging_name(self.target, "lake/stage", self.names, 0, "stage", "by-hand")

    def stage(self, at: CommitRef | None = None) -> Sink:
        """Open a staging name at a commit, the head if none is named."""
        self.names += 1
        done(self.store.open_staging(self.target, self.staging, at or self.head))
        sink: Sink = self.store.sink(self.target, self.staging)
        return sink

    def committed(self) -> CommitRef | None:
        """Commit the last staging name; ``None``: nothing was changed."""
        staged = done(self.store.commit(self.target, self.staging, "a test"))
        return None if staged is None else CommitRef(staged.commit)

    def writing(
        self, sink: Sink, folder: str, write: str, *, at: CommitRef | None = None, by: tuple[str, ...] = ()
    ) -> dict[str, str]:
        """Return the options of a write."""
        return WritePlace(self.source(at), sink, folder, write, by).options()

    def reading(self, ref: CommitRef, folder: str, *columns: str) -> dict[str, str]:
        """Return the options of a read."""
        return ReadPlace(self.source(ref), folder, columns or None).options()

    def attempt(self, task: str, *, read_only: bool = False) -> Attempt:
        """Poll a task as a worker does, and pin the attempt."""
        orchestrator = self.world.orchestrator()
        orchestrator.start((task,), self.target, self.head)
        self.names += 1
        (assignment,) = done(orchestrator.poll(f"worker-{self.names}", (task,), 1))
        execution = f"run-{self.names}"
        return pinned(assignment, execution, self.target, self.head, self.backing, read_only=read_only)

    def ports(self, workspace: Workspace, store: Store | None = None) -> Ports:
        """Return the ports of one execution; ``store``: the lake's own with something around it."""
        return Ports(
            orchestrator=self.world.orchestrator(),
            store=store or self.store,
            workspace=workspace,
            clock=self.world.clock(),
            coordination=self.world.coordination(),
        )

    def run(self, workspace: SparkWorkspace, task: str, params: str = "{}", *, read_only: bool = False) -> Outcome:
        """Run one task to its end."""
        attempt = self.attempt(task, read_only=read_only)
        workspace.accept(attempt, task, params)
        return drive(attempt, self.ports(workspace))

    def above(self, base: str, head: CommitRef, folder: str) -> list[tuple[str, Source]]:
        """Return a commit; with a folder those above it, oldest first, as a worker gives them to a stream."""
        if not folder:
            return [(base, self.source(CommitRef(base)))]
        landed = done(self.store.since(self.target.repository, CommitRef(base), head, (folder,)))
        return [(each.commit.ref, self.source(each.commit.ref)) for each in reversed(landed)]

    def paths(self, ref: CommitRef | None = None) -> list[str]:
        """List the paths of a commit."""
        return [each.path for each in done(self.source(ref).list())]

    def stagings(self) -> tuple[str, ...]:
        """Name the staging names that exist."""
        names: tuple[str, ...] = done(self.store.staging_names(self.target.repository))
        return names


# ---- Data sets as a body has them, in this process: each task reads the head, and what it wrote becomes the head.


def datasets(
    spark: SparkSession, lake: Lake, at: CommitRef, *, maintenance: bool = False, declared: Scope | None = None
) -> SparkDatasets:
    """Return the data sets of a task that reads this commit; its staging name begins at the first write."""
    given = DatasetScope(f"run-{lake.names}", lake.source(at), "", False, maintenance, at, declared)  # noqa: FBT003  it writes
    return SparkDatasets(spark, given, lambda: lake.stage(at), commits=lambda base, under: lake.above(base, at, under))


class TaskRunner:
    """A lake whose commits are made one after the other by tasks of this process."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.spark = spark
        self.lake = lake
        self.at = lake.head

    @contextmanager
    def task(self, *, maintenance: bool = False, declared: Scope | None = None) -> Generator[SparkDatasets]:
        """Run a task; if it ends well and has changed something, its commit is what the next one reads."""
        ws = datasets(self.spark, self.lake, self.at, maintenance=maintenance, declared=declared)
        yield ws
        assert ws.unfinished == ()
        if ws.changed:
            made = self.lake.committed()
            assert made is not None
            self.at = made

    def rows(self, name: str) -> list[int]:
        """Read the column ``id`` of a data set, sorted."""
        found = datasets(self.spark, self.lake, self.at).read(name).select("id").collect()
        return sorted(each["id"] for each in found)

    def files(self, name: str) -> int:
        """Count the data files of a data set."""
        return sum(each.startswith(f"{name}/") and each.endswith(".parquet") for each in self.lake.paths(self.at))
