"""Where tasks meet faults: one workspace on one lake, an attempt that runs beside the test, and a verdict."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Self, cast

from attrs import define, field

from perago_core.driver import drive
from perago_core.ports import Store
from perago_core.results import Completed, Failed, Outcome
from perago_core.values import CommitRef
from perago_spark import SparkWorkspace, WarmBodies
from perago_spark.format import layout
from perago_spark.format.arrow import pq
from perago_spark.process.pool import descendants
from tests.spark.faults import FaultyStore, Marks
from tests.spark.lake import Lake, done

FOLDER: Final = "sales/orders/"
ROWS: Final = 1000
LONGEST: Final = 900.0


def wait_until(holds: Callable[[], bool], what: str, longest: float = 300.0) -> None:
    until = time.monotonic() + longest
    while not holds():
        assert time.monotonic() < until, f"not within {longest:g} s: {what}"
        time.sleep(0.05)


def rows_of(lake: Lake, ref: CommitRef) -> list[int]:
    """Read the rows of the data set as anybody would: every file that is not hidden."""
    listed = done(lake.source(ref).list(FOLDER))
    data = [done(lake.source(ref).get(each.path)).read() for each in listed if layout.is_data(each.path)]
    return [row for each in data for row in pq.read_table(BytesIO(each)).column("id").to_pylist()]


@define
class FaultHarness:
    """One workspace, one lake, and the marks of one test."""

    lake: Lake
    workspace: SparkWorkspace
    bodies: WarmBodies
    marks: Marks
    before: CommitRef = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.before = self.lake.head

    def start(self, fault: str, via: str = "arrow", *, links_itself: bool = False, keeps: bool = False) -> Running:
        """Run an attempt that writes 1000 rows in 4 tasks, beside the test."""
        store = FaultyStore(self.lake.store, fault, self.marks, links_itself=links_itself, keeps=keeps)
        # An overwrite would remove the files that tasks have linked themselves, because no winner names them.
        mode = "append" if links_itself else "overwrite"
        params = {"via": via, "mode": mode, "fault": fault, "marks": str(self.marks.folder)}
        return Running(self, cast("Store", store), params)

    def run(self, fault: str, via: str = "arrow") -> Outcome:
        """Run such an attempt to its end."""
        with self.start(fault, via) as running:
            return running.ended()

    def unchanged(self) -> None:
        """The target is the input, and nothing is left of the attempt."""
        assert (self.lake.head, self.lake.stagings()) == (self.before, ())

    def published(self) -> None:
        """The target is exactly input -> staged, and every row is there once."""
        head = done(self.lake.store.head(self.lake.target)).commit
        assert head.parents == (self.before,)
        assert self.lake.stagings() == ()
        rows = rows_of(self.lake, head.ref)
        assert (len(rows), len(set(rows))) == (ROWS, ROWS)

    def java(self) -> int:
        """Return the Java below the one body that runs: the driver's."""
        (body,) = self.bodies.running()
        found = [each for each in descendants(body) if _is_java(each)]
        assert found, "the body has no Java"
        return found[0]


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip() == "java"
    except OSError:
        return False


class Running:
    """An attempt in the middle of something. Left, it is cancelled and what it waits for is let go."""

    def __init__(self, harness: FaultHarness, store: Store, params: dict[str, Any]) -> None:
        self._harness = harness
        self._outcomes: list[Outcome] = []
        self.attempt = harness.lake.attempt("writes_rows")
        harness.workspace.accept(self.attempt, "writes_rows", json.dumps(params))
        ports = harness.lake.ports(harness.workspace, store)
        self._thread = threading.Thread(target=lambda: self._outcomes.append(drive(self.attempt, ports)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._harness.marks.allow()
        if self._thread.is_alive():
            self._harness.workspace.cancel(self.attempt, "the test is over")
            self._thread.join(LONGEST)

    def wait(self, word: str) -> None:
        """Wait until something has happened in it."""
        wait_until(lambda: self._harness.marks.count(word) > 0 or not self._thread.is_alive(), word, LONGEST)
        assert self._harness.marks.count(word), self._outcomes

    def cancel(self, reason: str = "the attempt was lost") -> None:
        self._harness.workspace.cancel(self.attempt, reason)

    def ended(self) -> Outcome:
        self._thread.join(LONGEST)
        assert not self._thread.is_alive(), f"the attempt never ended: {self._harness.marks.told()}"
        (outcome,) = self._outcomes
        return outcome


def completed(outcome: Outcome) -> None:
    assert isinstance(outcome.result, Completed), outcome
    assert json.loads(outcome.result.output) == {"rows": ROWS}


def reason(outcome: Outcome) -> str:
    assert isinstance(outcome.result, Failed), outcome
    return str(outcome.result.refusal)


def harness_of(lake: Lake, workspace: SparkWorkspace, bodies: WarmBodies, folder: Path) -> Iterator[FaultHarness]:
    """Make the harness of one test; frozen processes must not outlive it."""
    folder.mkdir()
    yield FaultHarness(lake, workspace, bodies, Marks(folder))
