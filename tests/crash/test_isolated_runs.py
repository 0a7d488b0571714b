"""Workers of isolated runs die at random, and whoever reads the branch meanwhile never sees a part of a run.

A few by another seed each time; ``PERAGO_CRASH_SEED`` draws the same moments again, ``PERAGO_MATRIX=full`` kills fifty.
"""

from __future__ import annotations

import os
import random
import secrets
from pathlib import Path

from perago_worker.config.load import load
from perago_worker.stack import pipelines_of
from tests.specs.evidence import note_count
from tests.support.crash.dying import SHORT_BUDGET, Reader, finished, killed_worker
from tests.worker.isolated import PIPELINES, TASKS, commits
from tests.worker.projects import create, new_project

IS_FULL = os.environ.get("PERAGO_MATRIX") == "full"
KILLS = 50 if IS_FULL else 3
#: Seconds within which a run of a worker that is up has ended by itself, on an idle machine.
_SPAN = 1.2


def test_a_reader_never_sees_a_part_of_a_run_however_its_workers_die(tmp_path: Path) -> None:
    seed = int(os.environ.get("PERAGO_CRASH_SEED") or secrets.randbelow(2**32))
    draw = random.Random(seed)
    with new_project(tmp_path, TASKS, PIPELINES) as project:
        stack = project.stack()
        ref = create(stack)
        words = pipelines_of(stack)
        assert project.process("register", **SHORT_BUDGET).returncode == 0
        pipeline = load(project.folder, {}, {}).pipelines["daily"]
        reader = Reader(project)
        with reader.reading():
            for number in range(KILLS):
                workflow = words.start("daily", pipeline, ref, {"text": f"run {number}"})
                killed_worker(project, words, workflow, draw.uniform(0, _SPAN))
                finished(project, words, workflow)
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
    note_count(
        "tests/crash/test_isolated_runs.py",
        f"{KILLS} workers of isolated runs killed at random, {reader.looks:,} looks at `main`, one every 50 ms: "
        "0 partial runs seen",
    )
