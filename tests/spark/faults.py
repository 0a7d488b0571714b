"""Faults inside a write: what tasks and the commit meet on their way to the store, and where a test can hold them.

The store is the real one. Its sink is wrapped by one that does what it is told and then lets something happen, in
whichever process Spark runs it: a task that fails after its upload, an executor that dies, a commit that stops
half-way. What happens is written down in one file, in the order in which it happens.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from attrs import frozen

from perago_core.answers import Answer, Done, Unknown
from perago_core.ports import Sink, Store, Stored
from perago_core.values import Target
from perago_spark.format.arrow import Batch

#: The task that meets a fault: the second of four.
STRUCK: Final = 1
LONGEST: Final = 600.0


@frozen
class Marks:
    """A folder through which processes tell each other how far they are."""

    folder: Path

    def tell(self, word: str) -> None:
        """Add to what has happened; one short line is written whole."""
        handle = os.open(self.folder / "events", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{word}\n".encode())
        finally:
            os.close(handle)

    def told(self) -> list[str]:
        """Give what has happened, in order."""
        place = self.folder / "events"
        return place.read_text("utf-8").splitlines() if place.exists() else []

    def count(self, word: str) -> int:
        return sum(each.split()[0] == word for each in self.told())

    def first(self, name: str) -> bool:
        """Return whether nobody has been here before."""
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def allow(self) -> None:
        """Let go on what is held."""
        (self.folder / "go").touch()

    def hold(self) -> None:
        """Say that we are held and wait until we are let go; for long, but not for ever."""
        self.tell(f"held {os.getpid()}")
        until = time.monotonic() + LONGEST
        while not (self.folder / "go").exists() and time.monotonic() < until:
            time.sleep(0.02)
        self.tell("released")

    def detail(self, word: str) -> str:
        """Return what was said with a word, the first time."""
        return next(each.split()[1] for each in self.told() if each.split()[0] == word)

    def wait(self, word: str, times: int = 1, longest: float = LONGEST) -> None:
        """Wait until something has happened so many times."""
        until = time.monotonic() + longest
        while self.count(word) < times:
            assert time.monotonic() < until, f"never {word!r} {times} times: {self.told()}"
            time.sleep(0.02)


def java_above() -> int:
    """Find the Java that this worker belongs to: the executor, or the driver where they are one."""
    pid = os.getpid()
    while pid > 1:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
        if "(java)" in stat:
            return pid
        pid = int(stat.rpartition(")")[2].split()[1])
    raise AssertionError("no Java above")


def _fail(_marks: Marks) -> None:
    raise RuntimeError("this attempt of the task fails after its upload")


def _exit(_marks: Marks) -> None:
    os._exit(1)


def _kill_java(_marks: Marks) -> None:
    os.kill(java_above(), signal.SIGKILL)


def _freeze_java(marks: Marks) -> None:
    java = java_above()
    marks.tell(f"frozen {java}")
    os.kill(java, signal.SIGSTOP)


STRIKES: Final[dict[str, Callable[[Marks], None]]] = {
    "task exception": _fail,
    "worker exit": _exit,
    "executor SIGKILL": _kill_java,
    "executor SIGSTOP": _freeze_java,
}


def strike(fault: str, marks: Marks) -> None:
    """Do to this process what the fault says: once, to the first that comes by."""
    if fault == "race":
        # Both attempts of the task have uploaded before either may say so.
        marks.tell("racing")
        marks.wait("racing", 2)
    elif fault in STRIKES and marks.first("struck"):
        marks.tell("struck")
        STRIKES[fault](marks)


@frozen
class FaultySink:
    """The sink of the store, and one fault. ``links_itself``: the tasks link what they put, as none of ours does."""

    inner: Sink
    fault: str
    marks: Marks
    links_itself: bool = False

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        answer = self.inner.put(path, data)
        self.marks.tell(f"put {path}")
        if isinstance(answer, Done) and self.links_itself:
            self.inner.link((answer.value,))
        if f"/part-{STRUCK:05d}." in path:
            strike(self.fault, self.marks)
            if self.fault == "hold put":
                self.marks.hold()
        return answer

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        if self.fault == "hold link":
            self.marks.hold()
        if self.fault == "half a link":
            self.inner.link(stored[: len(stored) // 2], deleted)
            return Unknown("the connection broke while files were linked")
        return self._told("linked", self.inner.link(stored, deleted))

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        return self.inner.list(prefix)

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        if self.fault == "hold seal":
            self.marks.hold()
        if self.fault == "no seal":
            return Unknown("the connection broke before the seal was written")
        return self._told("sealed", self.inner.seal(path, manifest))

    def _told(self, word: str, answer: Answer[None]) -> Answer[None]:
        self.marks.tell(word if isinstance(answer, Done) else f"refused {word}")
        return answer


class FaultyStore:
    """The store, whose sinks have a fault. ``keeps``: staging names stay, to be looked at."""

    def __init__(
        self, inner: Store, fault: str, marks: Marks, *, links_itself: bool = False, keeps: bool = False
    ) -> None:
        self._inner = inner
        self._fault = fault
        self._marks = marks
        self._links_itself = links_itself
        self._keeps = keeps

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the store has
        return getattr(self._inner, name)

    def sink(self, target: Target, name: str) -> FaultySink:
        return FaultySink(self._inner.sink(target, name), self._fault, self._marks, self._links_itself)

    def drop(self, target: Target, name: str) -> Answer[None]:
        return Done(None) if self._keeps else self._inner.drop(target, name)


@frozen
class Striking:
    """For rows on their way to Spark's own writer: all rows of a task are taken, then the fault strikes."""

    fault: str
    marks: Marks

    def __call__(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        from pyspark import TaskContext  # noqa: PLC0415  only inside a task

        yield from batches
        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == STRUCK:
            self.marks.tell("put")
            strike(self.fault, self.marks)
            if self.fault == "hold put":
                self.marks.hold()
