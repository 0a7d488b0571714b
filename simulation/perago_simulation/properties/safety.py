"""What must hold, as data: a clause id, when it is judged, and what is wrong with a world (or nothing)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeAlias

from attrs import frozen

from perago_core.names import over_in
from perago_core.value import Value
from perago_simulation.world.history import absent, chain, commit, maker
from perago_simulation.world.ports import touched
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import (
    COMPLETED,
    NOBODY,
    Task,
    World,
    maintains,
    removed_by_strangers,
    scope_of,
    stacks,
)

Judge: TypeAlias = Callable[[Setting, World], str | None]


class When(Enum):
    """When a property is judged: in every world, or where nothing happens any more unless something goes wrong."""

    ALWAYS = "always"
    AT_REST = "at rest"


@frozen(repr=False)
class Property(Value):
    """One clause about a world."""

    id: str
    says: str
    when: When
    judge: Judge


#: The budgets of what somebody else does to the branch: a stranger, or a transport that sends twice.
_DISTURBING = ("foreign_merges", "foreign_resets", "recreations", "foreign_writes", "resends")


def disturbed(setting: Setting, world: World) -> bool:
    """Return whether anybody else has touched the branch: what comes of that is no leftover and no broken promise.

    Workflows side by side may do so to each other at any time.
    """
    if setting.abreast:
        return True
    if world.strangers or world.rare is None:
        return bool(world.strangers)
    return any(getattr(world.rare.left, name) != getattr(setting, name) for name in _DISTURBING)


#: The budgets of what goes wrong with one execution besides a lost answer.
_TROUBLING = ("interrupts", "refusals", "lateness")


def troubled(setting: Setting, world: World) -> bool:
    """Whether an answer was lost, or an execution interrupted, refused or too late: that excuses what it leaves."""
    if world.budget.losses != setting.losses:
        return True
    return world.rare is not None and any(
        getattr(world.rare.left, name) != getattr(setting, name) for name in _TROUBLING
    )


def accepted(world: World) -> list[tuple[str, str]]:
    """Return every accepted result with the input of its task, oldest first."""
    return [(task.input, task.ref) for task in world.tasks if task.status is COMPLETED]


def _accepted_is_reachable(_setting: Setting, world: World) -> str | None:
    for _, ref in accepted(world):
        if ref not in chain(world.head) and ref not in removed_by_strangers(world):
            return f"accepted {ref} is not on the branch any more; the head is {world.head}"
        if ref[0] != "N" and ref in absent(world.head):
            return f"accepted {ref} was reverted; the head is {world.head}"
    return None


def _one_abandoned_tip(setting: Setting, world: World) -> str | None:
    """Judged where the branch is a workflow's own."""
    if _others_write(setting):
        return None
    ours = _above_accepted(setting, world)
    return f"more than one commit above what was accepted: {_list(ours)}" if len(ours) > 1 else None


def _clean_tip(setting: Setting, world: World) -> str | None:
    """Judged once every step has a result: steps are counted, not tasks.

    Counterexample to counting tasks: the first of two steps is scheduled twice and both complete, with one result; the
    second step publishes and its only attempt dies before its report. Two tasks are completed, the workflow is not, and
    what lies above is the one abandoned publication that S-02 allows.
    """
    done = {task.step for task in _newest(setting, world) if task.status is COMPLETED}
    if _others_write(setting) or len(done) < setting.steps:
        return None
    ours = _above_accepted(setting, world)
    return f"the workflow is done, but {_list(ours)} lies above what was accepted" if ours else None


def _others_write(setting: Setting) -> bool:
    """Return whether what lies above what was accepted may be another workflow's, and be there rightly.

    Side by side it may; in sequence where scopes are declared. Counterexample: one publishes and is given up; the next
    starts at the commit below, changes nothing, and is done with its input.
    """
    return setting.abreast or (bool(setting.scopes) and setting.workflows > 1)


def _newest(setting: Setting, world: World) -> list[Task]:
    """Return the tasks of the workflow that started last."""
    first = world.tasks[-1].step // setting.steps * setting.steps
    return [task for task in world.tasks if task.step >= first]


def _above_accepted(setting: Setting, world: World) -> list[str]:
    """Return what lies above the newest workflow's last accepted result, or above what it started from.

    It may have started from what an earlier one abandoned: that is then part of its input, as everything below it is.
    """
    tasks = _newest(setting, world)
    base = next((task.ref for task in reversed(tasks) if task.status is COMPLETED), tasks[0].input)
    branch = chain(world.head)
    if base in removed_by_strangers(world):  # nothing can be above what is not there, and it was not we who took it off
        return []
    above = branch[: branch.index(base)] if base in branch else branch
    return [ref for ref in above if not ref.startswith("F") and ref not in absent(world.head)]


def _clean_history(setting: Setting, world: World) -> str | None:
    refs = {ref for _, ref in accepted(world)}
    for task in world.tasks:
        source, ref = task.input, task.ref
        if task.status is not COMPLETED or ref == source:
            continue
        gone, below = absent(ref), chain(ref)[1:]
        if stacks(setting, task.step):
            strange = [each for each in below if each not in gone and _has_no_place_below(setting, world, task, each)]
        else:
            between = below[: below.index(source)] if source in below else ()
            strange = [each for each in between if not each.startswith("F") and each not in gone]
        strange = [each for each in strange if each not in refs]
        if strange:
            return f"accepted {ref} stands on {_list(strange)}, which nobody accepted"
    return None


def _has_no_place_below(setting: Setting, world: World, task: Task, each: str) -> bool:
    """Return whether a task that stacks must not be above a commit that nobody has accepted.

    It may if that has nothing to do with what the task declares, and if its own commit says so, for others.
    """
    if maker(each) == NOBODY:
        return False
    scope = scope_of(setting, task.step)
    assert scope is not None
    return each not in over_in(commit(task.ref).message) or bool(touched(setting, world, each, scope.kept_apart))


def _not_on_a_stranger(setting: Setting, world: World) -> str | None:
    for source, ref in accepted(world):
        if ref != source and not stands_on(setting, world, ref, source):
            return f"accepted {ref} stands on {_list(commit(ref).parents)}, not on its input {source}"
    return None


def stands_on(setting: Setting, world: World, ref: str, source: str) -> bool:
    """Return whether a commit is directly on this one, or on nothing but accepted maintenance of it.

    Where scopes are declared, above it: what may lie between is judged by what they read (S-42).
    """
    parents = commit(ref).parents
    if setting.scopes:
        return source in chain(ref)
    if not setting.maintenance or parents == (source,):
        return parents == (source,)
    done = {task.ref for task in world.tasks if task.status is COMPLETED and maintains(setting, task)}
    below = chain(ref)[1:]
    return source in below and len(parents) == 1 and done.issuperset(below[: below.index(source)])


def _stranger_survives(_setting: Setting, world: World) -> str | None:
    for ref in world.strangers:
        if ref not in chain(world.head) and ref not in removed_by_strangers(world):
            return f"the stranger's {ref} is not on the branch any more; the head is {world.head}"
    return None


def _one_result(_setting: Setting, world: World) -> str | None:
    """Judged across tasks: a step that is scheduled twice, or tried again after a result, must give one result."""
    results: dict[int, str] = {}
    for task in world.tasks:
        if task.status is COMPLETED and results.setdefault(task.step, task.ref) != task.ref:
            return f"{results[task.step]} and {task.ref} were both accepted for step {task.step}"
    return None


def _list(refs: Iterable[str]) -> str:
    return " and ".join(refs)


PROPERTIES = (
    Property("S-01", "every accepted result stays on the branch", When.ALWAYS, _accepted_is_reachable),
    Property("S-02", "at most one abandoned publication above what was accepted", When.AT_REST, _one_abandoned_tip),
    Property("S-02b", "a finished workflow ends with its own result", When.AT_REST, _clean_tip),
    Property(
        "S-03",
        "no unaccepted commit inside accepted history, but what stacking names and keeps apart from",
        When.ALWAYS,
        _clean_history,
    ),
    Property("S-04", "an accepted publication stands directly on its input", When.ALWAYS, _not_on_a_stranger),
    Property("S-41", "all that is accepted for one task is one result", When.ALWAYS, _one_result),
    Property("S-15", "a stranger's commit stays on the branch", When.ALWAYS, _stranger_survives),
)
