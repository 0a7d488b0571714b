"""A pipeline with ``every``: a worker starts run after run; of two that start the same one, one is refused (ADR 67)."""

from __future__ import annotations

import time
from pathlib import Path

from tests.worker.isolated import commits, files
from tests.worker.projects import new_project, running_worker

#: Writes down which number comes next, so that a batch that is done twice, or left out, is seen.
TASKS = '''
import uuid
from pathlib import Path

from pydantic import BaseModel

from perago_worker import Workspace, task


class Sum(BaseModel):
    count: int


@task(name="batch", workspace=Workspace(), retries=3, retry_delay=0.1, response_timeout=20)
def batch(workspace: Path) -> Sum:
    """Do the batch that comes after the last."""
    number = len(list(workspace.glob("batch-*")))
    for kind in ("batch", "other"):
        (workspace / f"{kind}-{number}").write_text(uuid.uuid4().hex)
    return Sum(count=number)
'''
KEPT = """
[pipelines.stream]
repository = "lake"
every = 0.05
steps = [{ task = "batch" }]
"""
BATCHES = 4


def test_two_workers_keep_one_stream_and_each_batch_is_there_once(tmp_path: Path) -> None:
    """Both start runs whenever none is under way; of two at one head, the second to publish is refused."""
    with new_project(tmp_path, TASKS) as project:
        settings = project.folder / "perago.toml"
        text = settings.read_text("utf-8")
        settings.write_text(text[: text.index("[pipelines.both]")] + KEPT, encoding="utf-8")
        with running_worker(project.folder), running_worker(project.folder):
            until = time.monotonic() + 300
            while sum(each.succeeded for each in project.views()) < BATCHES:
                assert time.monotonic() < until, (project.folder / "worker.log").read_text("utf-8")
                time.sleep(0.1)
        stack = project.stack()
        found = [files(stack, each.ref) for each in reversed(commits(stack))]
    assert len(found) > BATCHES
    for number, each in enumerate(found):
        for kind in ("batch", "other"):
            numbers = sorted(int(name.partition("-")[2]) for name in each if name.startswith(kind))
            assert numbers == list(range(number)), "each commit has one batch more than the one before"
