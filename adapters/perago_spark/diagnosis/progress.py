"""How far Spark is, told while it works: what its own page would show, as one fraction and one line.

It informs and decides nothing. A Spark that does not answer is not followed any more; its jobs say themselves what is
wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Takes a share of the work, between 0 and 1, and a line.
Tell: TypeAlias = Callable[[float, str], object]
#: Seconds between two looks.
_PACE: Final = 0.5


@frozen
class Stage:
    """One stage that Spark works on: its tasks, and how many of them are done and under way."""

    number: int
    tasks: int
    done: int
    running: int


@contextmanager
def following(spark: SparkSession, tell: Tell) -> Generator[None]:
    """Tell how far the jobs of this process are, whenever that has changed."""
    session: Any = spark
    last: list[str] = []

    def told(stages: Iterable[Stage]) -> None:
        share, line = in_words(stages)
        if line and last != [line]:
            last[:] = [line]
            tell(share, line)

    from perago_spark.process.session import is_connected  # noqa: PLC0415  importable without Spark

    follow = _on_server if is_connected(session) else _here
    with follow(session, told):
        yield


def in_words(stages: Iterable[Stage]) -> tuple[float, str]:
    """Say how many tasks are done of the stages that Spark knows now. Nothing runs: nothing is said."""
    known = [each for each in stages if each.tasks]
    tasks, done = sum(each.tasks for each in known), sum(each.done for each in known)
    if not tasks:
        return 0.0, ""
    running = sum(each.running for each in known)
    names = ", ".join(str(each.number) for each in sorted(known, key=lambda each: each.number))
    return done / tasks, f"Spark stage {names}: {done} of {tasks} tasks done, {running} running"


@contextmanager
def _here(session: Any, told: Callable[[Iterable[Stage]], None]) -> Generator[None]:  # noqa: ANN401  of either kind
    """Ask Spark in this process, again and again. Such a process runs one task at a time, so all jobs are its own."""
    over = threading.Event()

    def look() -> None:
        try:
            while not over.wait(_PACE):
                told(_active_stages(session.sparkContext.statusTracker()))
        except Exception:  # noqa: BLE001  Java is gone, or the body stopped Spark
            return

    looking = threading.Thread(target=look, name="perago-progress", daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


def _active_stages(tracker: Any) -> Iterable[Stage]:  # noqa: ANN401  Spark's own, untyped
    """Give the stages of all active jobs. Those that have not begun are counted too, once Spark knows their tasks."""
    stages: set[int] = set()
    for job in tracker.getActiveJobsIds():
        info = tracker.getJobInfo(job)
        stages.update(info.stageIds if info is not None else ())
    for each in sorted(stages):
        info = tracker.getStageInfo(each)
        if info is not None:
            yield Stage(each, info.numTasks, info.numCompletedTasks, info.numActiveTasks)


@contextmanager
def _on_server(session: Any, told: Callable[[Iterable[Stage]], None]) -> Generator[None]:  # noqa: ANN401  as above
    """Listen to what the server says about the operations of this session."""

    def heard(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:  # noqa: ANN401, FBT001  Spark's
        del operation_id, done
        known = [Stage(each.stage_id, each.num_tasks, each.num_completed_tasks, 0) for each in stages or ()]
        if known:
            told([*known[:-1], Stage(known[-1].number, known[-1].tasks, known[-1].done, inflight_tasks)])

    session.registerProgressHandler(heard)
    try:
        yield
    finally:
        session.removeProgressHandler(heard)
