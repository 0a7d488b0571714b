"""One publication on lakeFS from input to result: fetched, one file edited, staged, fenced, published, tidied up."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from attrs import define, field

from perago_clock import MachineClock
from perago_core import Attempt, Completed, Ports, TaskSnapshot, TaskStatus, drive
from perago_core.answers import Answer, Done, NotDone
from perago_core.attempt.messages import BodyDone, BodyEvent
from perago_core.ports import Sink
from perago_core.results import Result
from perago_core.values import Backing, CommitRef, Target
from perago_lakefs.store import LakeFSStore
from perago_worker.folders.cache import Cache
from perago_worker.folders.folder import Folder, Origin
from perago_worker.folders.sandboxes import Sandboxes
from tests.support.lakefs.lake import WIDTH, Lake

EDITED = "d/00000.bin"


@define
class OneTask:
    """The orchestrator of one task, which is ours until it is reported."""

    status: TaskStatus = TaskStatus.IN_PROGRESS

    def reload(self, workflow_id: str, task_id: str) -> Answer[TaskSnapshot | None]:
        return Done(TaskSnapshot(workflow_id, task_id, 0, self.status))

    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        del attempt
        assert isinstance(result, Completed), result
        self.status = TaskStatus.COMPLETED
        return Done(None)


@define
class Editing:
    """A workspace whose body edits one file, without a process of its own: the others measured here have none."""

    lake: Lake
    root: Path
    cache: Cache
    prefix: str
    folder: Folder | None = field(default=None, init=False)

    def prepare(self, attempt: Attempt) -> Answer[None]:
        room = Sandboxes(self.root).enter(attempt.staging_name)
        origin = Origin(self.lake.source(attempt.input), self.lake.repository, attempt.input, self.prefix, False)  # noqa: FBT003
        self.folder = Folder.make(room, origin, self.cache, width=WIDTH, trusts_times=True)
        return Done(None)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        assert self.folder is not None
        edited = self.folder.sandbox.work / EDITED
        edited.write_bytes(os.urandom(edited.stat().st_size))
        return Done(BodyDone(attempt.execution, changed=True, output="{}"))

    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:
        return NotDone(f"{attempt.execution} never asked for {sink}")

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        del attempt
        assert self.folder is not None
        self.folder.upload(self.folder.changes(), sink, width=WIDTH)
        return Done(None)

    def remove(self, attempt: Attempt) -> Answer[None]:
        Sandboxes(self.root).leave(attempt.staging_name)
        return Done(None)


def publish(lake: Lake, store: LakeFSStore, ref: CommitRef, backing: Backing, workspace: Editing) -> float:
    """Publish, and give the seconds it took."""
    execution = os.urandom(8).hex()
    target = Target(lake.repository, "main")
    attempt = Attempt("wf", "t1", 0, f"wf/{execution}", 1, execution, target, ref, backing)
    orchestrator: Any = OneTask()
    ports = Ports(orchestrator=orchestrator, store=store, workspace=workspace, clock=MachineClock())
    begun = time.perf_counter()
    outcome = drive(attempt, ports)
    took = time.perf_counter() - begun
    assert isinstance(outcome.result, Completed), outcome
    return took
