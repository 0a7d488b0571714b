"""The world as one immutable value: target, names, claims, requests, tasks, executions, what may still go wrong.

A world holds names and small numbers, and the production states of the executions. Equal worlds are equal tuples, so an
explorer can keep them in a set.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from perago_core.attempt import AttemptState
from perago_core.plan import PublishPlan
from perago_core.values import Attempt, Claim, CommitRef, Target, TaskSnapshot, TaskStatus
from perago_simulation.settings import Setting

TARGET = Target("lake", "main")

OPEN, COMPLETED, FAILED, TIMED_OUT = "open", "completed", "failed", "timed out"
_STATUS = {
    OPEN: TaskStatus.IN_PROGRESS,
    COMPLETED: TaskStatus.COMPLETED,
    FAILED: TaskStatus.FAILED,
    TIMED_OUT: TaskStatus.TIMED_OUT,
}

RUNNING, ENDED, DEAD = "running", "ended", "dead"
NOBODY = -1


class Task(NamedTuple):
    """One attempt as the orchestrator sees it: the step and attempt number, its input, what became of it."""

    step: int
    number: int
    input: str
    status: str = OPEN
    winner: int = NOBODY
    ref: str = ""


class Run(NamedTuple):
    """One execution: whose attempt it runs, whether it lives, and its production state while it does."""

    task: int
    fate: str
    state: AttemptState | None


class Request(NamedTuple):
    """A publication on its way.

    ``begun``: the store has looked up source and head and will install what it computed, unless the branch record
    changes first; then it begins again. ``awaited``: the sender still waits for the answer.
    """

    run: int
    plan: PublishPlan
    begun: bool = False
    awaited: bool = True


class Budget(NamedTuple):
    """What may still go wrong."""

    crashes: int
    losses: int
    duplicates: int
    strangers: int


class World(NamedTuple):
    """Everything there is."""

    head: str
    names: tuple[tuple[int, str], ...]
    claims: tuple[Claim, ...]
    raised: tuple[int, ...]
    requests: tuple[Request, ...]
    tasks: tuple[Task, ...]
    runs: tuple[Run, ...]
    lease: tuple[int, bool]
    intents: tuple[int, ...]
    strangers: tuple[str, ...]
    budget: Budget


def with_run(world: World, index: int, run: Run) -> World:
    """Give the world with one execution changed."""
    return world._replace(runs=(*world.runs[:index], run, *world.runs[index + 1 :]))


def with_task(world: World, index: int, task: Task) -> World:
    """Give the world with one task changed."""
    return world._replace(tasks=(*world.tasks[:index], task, *world.tasks[index + 1 :]))


def with_head(world: World, head: str) -> World:
    """Give the world with the target moved; updates the store had begun start again, since the record has changed."""
    return restarted(world._replace(head=head))


def restarted(world: World) -> World:
    """Give the world in which every update the store had begun starts again."""
    if not any(request.begun for request in world.requests):
        return world
    return world._replace(requests=tuple(request._replace(begun=False) for request in world.requests))


@cache
def attempt_of(setting: Setting, task: Task, task_index: int, run: int) -> Attempt:
    """Give the pinned attempt of an execution; two executions of one task differ in nothing but their execution id."""
    return Attempt(
        workflow_id="wf",
        task_id=f"t{task_index}",
        retry_count=task.number - 1,
        logical_task=f"wf/step{task.step}",
        number=task.number,
        execution=f"e{run}",
        target=TARGET,
        input=CommitRef(task.input),
        backing=setting.backing,
        ledger=setting.ledger,
    )


@cache
def snapshot_of(task: Task, task_index: int) -> TaskSnapshot:
    """Give what a reload of the task shows."""
    return TaskSnapshot(
        workflow_id="wf",
        task_id=f"t{task_index}",
        retry_count=task.number - 1,
        status=_STATUS[task.status],
        result_execution=None if task.winner == NOBODY else f"e{task.winner}",
        result_ref=CommitRef(task.ref) if task.ref else None,
    )
