"""The world as one immutable value: target, names, claims, requests, tasks, executions, what may still go wrong.

A world holds names and small numbers, and the production states of the executions. Equal worlds are equal tuples, so an
explorer can keep them in a set.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypedDict, Unpack

from attrs import evolve

from perago_core.answers import Answer
from perago_core.attempt import AttemptState
from perago_core.machine.rows import Command
from perago_core.plan import PublishPlan
from perago_core.values import (
    Attempt,
    Claim,
    CommitRef,
    Maintained,
    OnAbandoned,
    Operation,
    Scope,
    Target,
    TaskSnapshot,
    TaskStatus,
)
from perago_simulation.world.settings import Setting

TARGET = Target("lake", "main")

OPEN, COMPLETED, FAILED, TIMED_OUT, CANCELED = "open", "completed", "failed", "timed out", "canceled"
FAILED_FOR_GOOD = "failed for good"
_STATUS = {
    OPEN: TaskStatus.IN_PROGRESS,
    COMPLETED: TaskStatus.COMPLETED,
    FAILED: TaskStatus.FAILED,
    FAILED_FOR_GOOD: TaskStatus.FAILED_WITH_TERMINAL_ERROR,
    TIMED_OUT: TaskStatus.TIMED_OUT,
    CANCELED: TaskStatus.CANCELED,
}

RUNNING, ENDED, DEAD = "running", "ended", "dead"
NOBODY = -1


class Task(NamedTuple):
    """One attempt as the orchestrator sees it: the step and attempt number, its input, what became of it.

    ``step`` counts on through the workflows: the second workflow of two steps has steps 2 and 3.
    ``polls`` counts how often it was handed out anew. It stands for the pair of start time and poll count, one of which
    changes whenever a task is requeued or rerun under its old id; a duplicate delivery changes neither. ``line``: a
    step that was scheduled twice has two lines of attempts, each with retries of its own.
    """

    step: int
    number: int
    input: str
    status: str = OPEN
    winner: int = NOBODY
    ref: str = ""
    polls: int = 0
    line: int = 0


class Run(NamedTuple):
    """One execution: whose attempt it runs, whether it lives, and its production state while it does."""

    task: int
    fate: str
    state: AttemptState | None


class Request(NamedTuple):
    """A publication on its way.

    ``begun``: the store has looked up source and head and will install what it computed, unless the branch record
    changes first; then it begins again. So ``begun`` is also the rotation token of the branch record: a real store
    compares the token it read when it began with the one there is when it installs. Whatever rotates the token takes
    ``begun`` away (``restarted``), and a number to compare would say no more. ``awaited``: the sender still waits for
    the answer. ``on``: where the store overwrites, the head that was read when it began; it never begins again.
    """

    run: int
    plan: PublishPlan
    begun: bool = False
    awaited: bool = True
    on: str = ""


def by_run(request: Request) -> tuple[int, bool, bool, str]:
    """Order requests; a sender has more than one only if the transport made a copy."""
    return request.run, request.begun, request.awaited, request.on


class Lease(NamedTuple):
    """The lease on the target: whose it is, and whether the one before was given back rather than ran out."""

    holder: int = NOBODY
    clean: bool = True


class Budget(NamedTuple):
    """What may still go wrong."""

    crashes: int
    losses: int
    duplicates: int
    strangers: int


def one_less(budget: Budget, what: str) -> Budget:
    """Give what is left after one of these. Not cached: the budget may be a stand-in (``cells``), good for one look."""
    return budget._replace(**{what: getattr(budget, what) - 1})


class Rarities(NamedTuple):
    """How often what seldom happens may still happen; the names are those of the setting's budgets."""

    requeues: int
    reruns: int
    resends: int
    terminations: int
    foreign_merges: int
    foreign_resets: int
    recreations: int
    foreign_writes: int
    interrupts: int
    refusals: int
    lateness: int
    late_landings: int
    epochs: int
    twins: int
    reverts: int


class Recovering(NamedTuple):
    """A recovery that reverts: its execution, the publication, its task, and the answers so far.

    ``None``: it is over.
    """

    run: int
    ref: str
    task: str
    answers: tuple[Answer[Any], ...] | None = ()


class HeldUp(NamedTuple):
    """A request nobody waits for any more, and which may land at any later time: whose it is, and what it asks for."""

    run: int
    command: Command


CLEAN, DIRTY, MISSING = "clean", "dirty", "missing"


class Rare(NamedTuple):
    """What only a world has in which rare things may happen.

    ``branch``: whether the target carries uncommitted objects, or has been deleted; then ``head`` is where it was.
    ``removed``: what strangers took off the branch, which is no broken promise of ours. ``swept``: the steps for which
    the collector has met a barrier after their last name was gone. ``hollow``: commits whose data is gone. ``held``:
    unanswered requests that have not landed yet. ``epoch``: the epoch of the policy. ``maintained``: what the ledger
    proves to be accepted maintenance. ``recoveries``: those that revert, each with an execution of its own.
    """

    left: Rarities
    terminated: bool = False
    branch: str = CLEAN
    removed: tuple[str, ...] = ()
    swept: tuple[int, ...] = ()
    hollow: tuple[str, ...] = ()
    held: tuple[HeldUp, ...] = ()
    epoch: int = 0
    maintained: tuple[Maintained, ...] = ()
    recoveries: tuple[Recovering, ...] = ()


class World(NamedTuple):
    """Everything there is. ``rare`` is ``None`` where nothing rare may happen: such worlds pay nothing for it."""

    head: str
    names: tuple[tuple[int, str], ...]
    claims: tuple[Claim, ...]
    raised: tuple[int, ...]
    requests: tuple[Request, ...]
    tasks: tuple[Task, ...]
    runs: tuple[Run, ...]
    lease: Lease
    intents: tuple[int, ...]
    strangers: tuple[str, ...]
    budget: Budget
    rare: Rare | None = None


def with_run(world: World, index: int, run: Run) -> World:
    """Return the world with one execution changed.

    Change a world with ``_replace`` and with nothing cleverer. Putting the tuple together by hand is quicker, but reads
    all of it; the explorer asks stand-ins what a move reads (``cells``), looks most moves up, and seldom comes here.
    """
    return world._replace(runs=(*world.runs[:index], run, *world.runs[index + 1 :]))


def with_budget(world: World, budget: Budget) -> World:
    """Return the world with something spent."""
    return world._replace(budget=budget)


def with_task(world: World, index: int, task: Task) -> World:
    """Return the world with one task changed."""
    return world._replace(tasks=(*world.tasks[:index], task, *world.tasks[index + 1 :]))


def with_head(world: World, head: str) -> World:
    """Return the world with the target moved; updates the store had begun start again, since the record has changed."""
    return restarted(world._replace(head=head))


class Changed(TypedDict, total=False):
    """The fields of ``Rare``, for the type checkers."""

    left: Rarities
    terminated: bool
    branch: str
    removed: tuple[str, ...]
    swept: tuple[int, ...]
    hollow: tuple[str, ...]
    held: tuple[HeldUp, ...]
    epoch: int
    maintained: tuple[Maintained, ...]
    recoveries: tuple[Recovering, ...]


def with_rare(world: World, **changes: Unpack[Changed]) -> World:
    """Return the world with something rare changed."""
    assert world.rare is not None
    return world._replace(rare=world.rare._replace(**changes))


def without_name(world: World, index: int) -> World:
    """Return the world without the staging name of an execution."""
    kept = tuple((run, at) for run, at in world.names if run != index)
    return world if kept == world.names else world._replace(names=kept)


def branch_of(world: World) -> str:
    """Return whether the target is clean, carries uncommitted objects, or has been deleted."""
    return CLEAN if world.rare is None else world.rare.branch


def epoch_of(world: World) -> int:
    """Return the epoch of the policy that is stored."""
    return 0 if world.rare is None else world.rare.epoch


def recoverers(world: World) -> frozenset[int]:
    """Name the executions that are recoveries."""
    return frozenset(() if world.rare is None else (each.run for each in world.rare.recoveries))


def maintained_in(world: World) -> tuple[Maintained, ...]:
    """Return what the ledger proves to be accepted maintenance."""
    return () if world.rare is None else world.rare.maintained


def maintains(setting: Setting, task: Task) -> bool:
    """Return whether a task is one that changes the layout and no content."""
    return setting.maintenance and task.step >= setting.steps


@cache
def scope_of(setting: Setting, step: int) -> Scope | None:
    """Return what a step declares to read and to write; ``None``: nothing."""
    scope = _declared(setting, step)
    return scope if scope is None or not stacks(setting, step) else evolve(scope, apart=apart(setting, step))


def apart(setting: Setting, step: int) -> tuple[str, ...]:
    """Return from what unaccepted work has to keep for a step to stack on it: from all that its workflow declares."""
    first = step // setting.steps * setting.steps
    scopes = (_declared(setting, each) for each in range(first, first + setting.steps))
    return tuple(sorted({prefix for scope in scopes if scope is not None for prefix in scope.prefixes}))


def _declared(setting: Setting, step: int) -> Scope | None:
    own = step // setting.steps
    after = (own + 1) % setting.workflows
    match setting.scopes:
        case "disjoint":
            return Scope((f"p{own}/",), (f"p{own}/",))
        case "overlapping":
            return Scope(("p/",), ("p/",))
        case "crossed":
            return Scope((f"p{after}/",), (f"p{own}/",))
        case "paired":
            return Scope((f"p{own % 2}/",), (f"p{own % 2}/",))
        case "handed on":
            is_last = step % setting.steps == setting.steps - 1
            return Scope((f"p{own}/", f"p{after}/") if is_last else (f"p{own}/",), (f"p{own}/",))
        case _:
            return None


def stacks(setting: Setting, step: int) -> bool:
    """Return whether the workflow of a step publishes above work that nobody has accepted."""
    return step // setting.steps < setting.stacking


def removed_by_strangers(world: World) -> tuple[str, ...]:
    """Name the commits strangers took off the branch: that they are gone breaks no promise of ours."""
    return () if world.rare is None else world.rare.removed


def restarted(world: World) -> World:
    """Return the world in which every update the store had begun starts again, but where the store overwrites."""
    if not any(request.begun and not request.on for request in world.requests):
        return world
    return world._replace(requests=tuple(each._replace(begun=bool(each.on)) for each in world.requests))


def _adopts(setting: Setting, task: Task) -> bool:
    return setting.adopts and (task.line > 0 or not setting.mixed)


@cache
def attempt_of(setting: Setting, task: Task, task_index: int, run: int, epoch: int = 0) -> Attempt:
    """Give the pinned attempt of an execution; two deliveries of one task differ in nothing but their execution id."""
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
        on_abandoned=OnAbandoned.ADOPT if _adopts(setting, task) else OnAbandoned.REPLACE,
        poll_count=task.polls,
        ledger=setting.ledger,
        read_only=setting.read_only,
        epoch=epoch,
        operation=Operation.MAINTENANCE if maintains(setting, task) else Operation.LOGICAL,
        over_maintenance=setting.maintenance and setting.ledger and not maintains(setting, task),
        scope=scope_of(setting, task.step),
    )


@cache
def snapshot_of(task: Task, task_index: int) -> TaskSnapshot:
    """Return what a reload of the task shows."""
    return TaskSnapshot(
        workflow_id="wf",
        task_id=f"t{task_index}",
        retry_count=task.number - 1,
        status=_STATUS[task.status],
        poll_count=task.polls,
        workflow_running=task.status is not CANCELED,
        result_execution=None if task.winner == NOBODY else f"e{task.winner}",
        result_ref=CommitRef(task.ref) if task.ref else None,
    )
