"""The storm: two workers, many workflows, and a supervisor that kills workers at random and starts others.

Several branches, on each several workflows one after the other, each of several steps. One kill for every five tasks,
at a moment nobody has chosen: 20 %. Some workers are first stopped, until long after their attempts were given up, and
go on (N-03, N-15). Now and then the orchestrator hands out a running task a second time (N-01). What is random comes
from a seed; when exactly a signal arrives does not. So a storm that was over before enough were killed goes on: each
branch gets another workflow.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from contextlib import suppress

from attrs import define, field, frozen

from perago_core.pipelines import OrchestratorError
from perago_core.values import CommitRef, Target, TaskStatus
from tests.support.crash.judging import Line, judge_outputs, judge_rest
from tests.support.crash.project import ENDED_WELL, CrashProject, WorkerProcess, done

TASK = "storm"
WORKERS = 2
#: One kill for so many tasks, and at least one for so many, however long that takes.
ONE_IN = 5
AT_LEAST_ONE_IN = 10
#: Of so many lives that are struck one is stopped first; of so many looks at a branch one hands a task out again.
_ONE_PAUSE_IN = 4
_ONE_DUPLICATE_IN = 300
_LIMIT = 1200.0
#: Seconds a body takes: long enough that many a kill finds one running.
_LASTS = 0.4
#: Seconds of silence after which an attempt is given up, and seconds a stopped worker stands still.
_PATIENCE = 3.0
_PAUSE = 5.0


@frozen
class Size:
    """How big a storm is."""

    branches: int
    workflows: int
    steps: int

    @property
    def tasks(self) -> int:
        """Count the tasks."""
        return self.branches * self.workflows * self.steps


@define
class Report:
    """What a storm came to."""

    size: Size
    seed: int
    tasks: int = 0
    kills: int = 0
    pauses: int = 0
    duplicates: int = 0
    lives: int = 0
    cut_off: int = 0
    accepted: int = 0
    on_branch: int = 0
    seconds: float = 0.0
    broken: list[str] = field(factory=list[str])

    def __str__(self) -> str:
        return (
            f"storm (seed {self.seed}): {self.tasks} tasks on {self.size.branches} branches, {WORKERS} workers, "
            f"{self.kills} of {self.lives} lives killed, {self.pauses} stopped and resumed, {self.duplicates} tasks "
            f"handed out twice, {self.cut_off} attempts given up: {self.accepted} accepted, "
            f"{self.on_branch} on their branch, {len(self.broken)} broken promises, {self.seconds:.0f} s"
        )


@define
class _Branch:
    """A branch, the workflows that ended on it, and the one that runs."""

    target: Target
    first: CommitRef
    left: int
    running: str | None = None
    ended: list[str] = field(factory=list[str])


@define
class _Life:
    """One life of a worker: when it is struck, counted from when it began to poll, and whether to death."""

    worker: WorkerProcess
    struck_after: float | None
    deadly: bool
    polls_since: float | None = None


def storm(project: CrashProject, size: Size, seed: int) -> Report:
    """Let it rage until every workflow has ended, then judge."""
    chance = random.Random(seed)
    report = Report(size, seed)
    project.add_task(TASK, {"RETRIES": 200, "PATIENCE": _PATIENCE})
    project.plan(TASK, "change")
    branches = [_Branch(*project.branch(f"b{number}"), left=size.workflows) for number in range(size.branches)]
    began = time.monotonic()
    lives: list[_Life] = []
    while True:
        assert time.monotonic() - began < _LIMIT, f"{report}: it does not end"
        if not any(branch.left or branch.running for branch in branches):
            if report.kills * AT_LEAST_ONE_IN >= size.tasks:
                break
            for branch in branches:
                branch.left += 1
        for branch in branches:
            report.tasks += _go_on(project, branch, size.steps)
            if chance.randrange(_ONE_DUPLICATE_IN) == 0:
                report.duplicates += _hand_out_again(project, branch)
        lives = [life for life in lives if _lives_on(life, report)]
        while len(lives) < WORKERS:
            struck = chance.uniform(0.0, 1.5) if report.kills + len(lives) < size.tasks / ONE_IN else None
            lives.append(_Life(project.worker(capacity=3), struck, deadly=chance.randrange(_ONE_PAUSE_IN) > 0))
            report.lives += 1
        time.sleep(0.02)
    for life in lives:
        code = life.worker.drain()
        if code not in ENDED_WELL:
            report.broken.append(f"N-13 a worker ended with code {code}: {life.worker.said()[-2000:]}")
    # Rooms of the last dead are swept by the next worker that starts.
    last = project.worker(until_idle=True)
    assert last.wait() == 0, last.said()
    report.seconds = time.monotonic() - began
    _judge(project, branches, report)
    return report


def _go_on(project: CrashProject, branch: _Branch, steps: int) -> int:
    """Start a branch's next workflow where the last one ended; give the number of tasks it has."""
    if branch.running is not None:
        if project.view(branch.running).running:
            return 0
        branch.ended.append(branch.running)
        branch.running = None
    if not branch.left:
        return 0
    branch.left -= 1
    head = done(project.store.head(branch.target))
    assert head is not None
    branch.running = project.start(
        branch.target.branch, (TASK,) * steps, branch.target, head.commit.ref, seconds=_LASTS
    )
    return steps


def _hand_out_again(project: CrashProject, branch: _Branch) -> bool:
    """Have the task that runs on a branch handed out a second time, under the same id."""
    running = [each for each in project.orchestrator.open_tasks() if each.workflow_id == branch.running]
    for each in running:
        if each.status is TaskStatus.IN_PROGRESS:
            with suppress(OrchestratorError):  # it has ended meanwhile
                project.orchestrator.requeue(each.task_id)
                return True
    return False


def _lives_on(life: _Life, report: Report) -> bool:
    """Strike whose time has come. A worker that ends by itself has broken down."""
    now = time.monotonic()
    if life.worker.process.poll() is not None:
        report.broken.append(f"N-13 ended with {life.worker.process.returncode}: {life.worker.said()[-2000:]}")
        return False
    if life.polls_since is None and "backing" in life.worker.said():
        life.polls_since = now
    if life.struck_after is None or life.polls_since is None or now - life.polls_since < life.struck_after:
        return True
    if life.deadly:
        life.worker.signal(signal.SIGKILL)
        life.worker.wait()
        report.kills += 1
        return False
    life.worker.signal(signal.SIGSTOP)
    # By another thread: one that is stopped in a transaction holds the lock that whoever looks on here waits for.
    threading.Timer(_PAUSE, life.worker.signal, (signal.SIGCONT,)).start()
    # It dies later than it wakes, so that some of the dead were zombies first.
    life.struck_after, life.deadly = life.struck_after + _PAUSE + 1.0, True
    report.pauses += 1
    return True


def _judge(project: CrashProject, branches: list[_Branch], report: Report) -> None:
    """A branch is its first commit and every accepted result, in order: nothing lost, nothing twice (S-01 to S-04)."""
    for branch in branches:
        views = [project.view(workflow) for workflow in branch.ended]
        attempts = [each for view in views for each in view.attempts]
        accepted = [each for each in attempts if each.status is TaskStatus.COMPLETED]
        report.broken += [sentence for view in views for sentence in judge_outputs(project, view)]
        report.broken += [
            f"L-01 {view.workflow_id}: {view.status}, {view.reason}" for view in views if not view.succeeded
        ]
        refs = [each.ref for each in accepted]
        history = done(project.store.history(branch.target, limit=100_000))
        found = [commit.ref for commit in reversed(history)]
        report.cut_off += sum(each.status is TaskStatus.TIMED_OUT for each in attempts)
        report.accepted += len(accepted)
        report.on_branch += sum(ref in found for ref in refs)
        if found != [branch.first, *refs]:
            report.broken.append(f"S-01 to S-04 {branch.target}: {found}, not {[branch.first, *refs]}")
        if any(len(commit.parents) > 1 for commit in history):
            report.broken.append(f"S-04 {branch.target} has a commit with two parents")
    lines = [Line(branch.target, branch.first, workflow) for branch in branches for workflow in branch.ended]
    report.broken += judge_rest(project, lines)
