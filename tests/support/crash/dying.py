"""Workers that die in the middle of a run, others that see it to its end, and a reader who looks on all the while."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from attrs import define, field

from perago_core.answers import Done
from perago_core.pipelines import Pipelines
from perago_core.values import CommitRef
from tests.worker.isolated import files
from tests.worker.projects import MAIN, Project, environment

#: A short budget, so that nobody waits long for a killed worker.
SHORT_BUDGET = {
    "PERAGO_BUDGET__PUBLISH_TIMEOUT": "2",
    "PERAGO_BUDGET__COMPLETION_RESERVE": "0.5",
    "PERAGO_BUDGET__SHUTDOWN_GRACE": "0.2",
}


@define
class Reader:
    """Reads the branch every 50 ms, and keeps every state of its files that it saw."""

    project: Project
    seen: dict[CommitRef, dict[str, bytes]] = field(factory=dict[CommitRef, dict[str, bytes]])
    looks: int = 0
    _ended: threading.Event = field(factory=threading.Event)

    @contextmanager
    def reading(self) -> Generator[None]:
        """Read for the block."""
        helper = threading.Thread(target=self._read, name="reader")
        helper.start()
        try:
            yield
        finally:
            self._ended.set()
            helper.join()

    def _read(self) -> None:
        stack = self.project.stack()
        while not self._ended.wait(0.05):
            head = stack.store.head(MAIN)
            assert isinstance(head, Done)
            assert head.value is not None
            ref = head.value.commit.ref
            self.looks += 1
            if ref not in self.seen:
                self.seen[ref] = files(stack, ref)


def finished(project: Project, words: Pipelines, workflow: str, within: float = 120) -> None:
    """Let further workers see a run to its end."""
    until = time.monotonic() + within
    while (view := words.view(workflow)) is not None and view.running:
        assert time.monotonic() < until, view
        ran = project.process("worker", "--until-idle", **SHORT_BUDGET)
        assert ran.returncode == 0, ran.stderr
        time.sleep(0.1)
    assert view is not None
    assert view.succeeded, view


def killed_worker(project: Project, words: Pipelines, workflow: str, after: float) -> None:
    """Start a worker, and kill it so many seconds after it has begun with this run."""
    worker = subprocess.Popen(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", "--project", str(project.folder), "worker"],
        env=environment(**SHORT_BUDGET),
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while (view := words.view(workflow)) is not None and not any(each.worker_id for each in view.attempts):
            assert time.monotonic() < until, view
            time.sleep(0.01)
        time.sleep(after)
    finally:
        worker.kill()
        worker.wait()
