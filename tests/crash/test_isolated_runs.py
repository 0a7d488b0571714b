"""Workers of isolated runs die at random, and whoever reads the branch meanwhile never sees a part of a run.

A few by another seed each time; ``PERAGO_CRASH_SEED`` draws the same moments again, ``PERAGO_MATRIX=full`` kills fifty.
"""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from perago_core.answers import Done
from perago_core.pipelines import Pipelines
from perago_core.values import CommitRef
from perago_worker.config.load import load
from perago_worker.stack import pipelines_of
from tests.worker.isolated import PIPELINES, TASKS, commits, files
from tests.worker.projects import MAIN, Project, create, environment, new_project

IS_FULL = os.environ.get("PERAGO_MATRIX") == "full"
KILLS = 50 if IS_FULL else 3
#: Seconds within which a run of a worker that is up has ended by itself, on an idle machine.
_SPAN = 1.2
#: A short budget, so that nobody waits long for a killed worker.
_BUDGET = {
    "PERAGO_BUDGET__PUBLISH_TIMEOUT": "2",
    "PERAGO_BUDGET__COMPLETION_RESERVE": "0.5",
    "PERAGO_BUDGET__SHUTDOWN_GRACE": "0.2",
}


@define
class Reader:
    """Reads the branch every 50 ms, and keeps every state of its files that it saw."""

    project: Project
    seen: dict[CommitRef, dict[str, bytes]] = field(factory=dict[CommitRef, dict[str, bytes]])
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
            if ref not in self.seen:
                self.seen[ref] = files(stack, ref)


def _finished(project: Project, words: Pipelines, workflow: str) -> None:
    """Let further workers see a run to its end."""
    until = time.monotonic() + 120
    while (view := words.view(workflow)) is not None and view.running:
        assert time.monotonic() < until, view
        ran = project.process("worker", "--until-idle", **_BUDGET)
        assert ran.returncode == 0, ran.stderr
        time.sleep(0.1)
    assert view is not None
    assert view.succeeded, view


def _killed_worker(project: Project, words: Pipelines, workflow: str, after: float) -> None:
    """Start a worker, and kill it so many seconds after it has begun with this run."""
    worker = subprocess.Popen(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", "--project", str(project.folder), "worker"],
        env=environment(**_BUDGET),
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


def test_a_reader_never_sees_a_part_of_a_run_however_its_workers_die(tmp_path: Path) -> None:
    seed = int(os.environ.get("PERAGO_CRASH_SEED") or secrets.randbelow(2**32))
    draw = random.Random(seed)
    with new_project(tmp_path, TASKS, PIPELINES) as project:
        stack = project.stack()
        ref = create(stack)
        words = pipelines_of(stack)
        assert project.process("register", **_BUDGET).returncode == 0
        pipeline = load(project.folder, {}, {}).pipelines["daily"]
        reader = Reader(project)
        with reader.reading():
            for number in range(KILLS):
                workflow = words.start("daily", pipeline, ref, {"text": f"run {number}"})
                _killed_worker(project, words, workflow, draw.uniform(0, _SPAN))
                _finished(project, words, workflow)
                ref = commits(stack)[0].ref
        whole = [
            dict.fromkeys(("data/0.txt", "data/1.txt", "data/2.txt", "label.txt"), b"run %d" % number)
            for number in range(KILLS)
        ]
        torn = [found for found in reader.seen.values() if found and found not in whole]
        assert torn == [], f"seed {seed}"
        assert len(commits(stack)) == KILLS + 1, f"seed {seed}"
        assert len(reader.seen) > 1, "the reader saw nothing happen"
        assert project.perago("verify", "lake/main").code == 0, f"seed {seed}"
