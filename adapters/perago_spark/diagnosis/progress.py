"""The progress of Spark's jobs while they run: what Spark's own page would show, as one fraction and one line.

It informs and decides nothing. A Spark that does not answer is not asked again; its jobs fail by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Called with the share of the work that is done, between 0 and 1, and a line of text.
Report: TypeAlias = Callable[[float, str], object]
#: Seconds between two polls.
_INTERVAL: Final = 0.5


@frozen
class Stage:
    """One stage that Spark works on: its tasks, and how many of them are done and under way."""

    number: int
    tasks: int
    done: int
    running: int


@contextmanager
def following(spark: SparkSession, report: Report) -> Generator[None]:
    """Report the progress of this process's jobs, whenever it has changed."""
    session: Any = spark
    last: list[str] = []

    def publish(stages: Iterable[Stage]) -> None:
        share, line = summary(stages)
        if line and last != [line]:
            last[:] = [line]
            report(share, line)

    from perago_spark.process.session import is_connected  # noqa: PLC0415  importable without Spark

    follow = _on_server if is_connected(session) else _here
    with follow(session, publish):
        yield


def summary(stages: Iterable[Stage]) -> tuple[float, str]:
    """Return the share of tasks that are done and a line about them; an empty line if nothing runs."""
    known = [each for each in stages if each.tasks]
    tasks, done = sum(each.tasks for each in known), sum(each.done for each in known)
    if not tasks:
        return 0.0, ""
    running = sum(each.running for each in known)
    names = ", ".join(str(each.number) for each in sorted(known, key=lambda each: each.number))
    return done / tasks, f"Spark stage {names}: {done} of {tasks} tasks done, {running} running"


@contextmanager
def _here(session: Any, publish: Callable[[Iterable[Stage]], None]) -> Generator[None]:  # noqa: ANN401  of either kind
    """Poll the Spark of this process. Such a process runs one task at a time, so all jobs are that task's."""
    over = threading.Event()

    def poll() -> None:
        try:
            while not over.wait(_INTERVAL):
                publish(_active_stages(session.sparkContext.statusTracker()))
        except Exception:  # noqa: BLE001  Java is gone, or the body stopped Spark
            return

    polling = threading.Thread(target=poll, name="perago-progress", daemon=True)
    polling.start()
    try:
        yield
    finally:
        over.set()
        polling.join()


def _active_stages(tracker: Any) -> Iterable[Stage]:  # noqa: ANN401  Spark's own, untyped
    """Yield the stages of all active jobs, also those that have not begun, once Spark knows their tasks."""
    stages: set[int] = set()
    for job in tracker.getActiveJobsIds():
        info = tracker.getJobInfo(job)
        stages.update(info.stageIds if info is not None else ())
    for each in sorted(stages):
        info = tracker.getStageInfo(each)
        if info is not None:
            yield Stage(each, info.numTasks, info.numCompletedTasks, info.numActiveTasks)


@contextmanager
def _on_server(session: Any, publish: Callable[[Iterable[Stage]], None]) -> Generator[None]:  # noqa: ANN401  as above
    """Receive the server's progress messages about the operations of this session."""

    def received(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:  # noqa: ANN401, FBT001  Spark's
        del operation_id, done
        known = [Stage(each.stage_id, each.num_tasks, each.num_completed_tasks, 0) for each in stages or ()]
        if known:
            publish([*known[:-1], Stage(known[-1].number, known[-1].tasks, known[-1].done, inflight_tasks)])

    session.registerProgressHandler(received)
    try:
        yield
    finally:
        session.removeProgressHandler(received)
