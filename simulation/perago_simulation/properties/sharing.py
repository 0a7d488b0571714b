"""What must hold of workflows that share a branch, over what they declare to read and to write."""

from __future__ import annotations

from perago_simulation.properties.safety import Property, When, accepted
from perago_simulation.world.history import absent, chain, commit, maker
from perago_simulation.world.ports import touched
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import COMPLETED, NOBODY, World, scope_of


def _publications(setting: Setting, world: World) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return every accepted publication of a task with a scope: what it was made from, its ref, what it depends on."""
    found: list[tuple[str, str, tuple[str, ...]]] = []
    if not setting.scopes:
        return found
    for task in world.tasks:
        scope = scope_of(setting, task.step)
        if (
            scope is not None
            and task.status is COMPLETED
            and len(commit(task.ref).parents) > 1
            and task.ref[0] not in "FN"
        ):
            staged = commit(commit(task.ref).parents[1])
            found.append((staged.parents[0], task.ref, scope.prefixes))
    return found


def _last_writer(setting: Setting, world: World, at: str, prefix: str) -> str:
    standing = (ref for ref in chain(at) if ref not in absent(at))
    return next((ref for ref in standing if touched(setting, world, ref, (prefix,))), "")


def _serialisable(setting: Setting, world: World) -> str | None:
    """Judged from what it was made from, also where a later attempt, which began elsewhere, has adopted it."""
    for source, ref, reads in _publications(setting, world):
        for prefix in reads:
            seen = _last_writer(setting, world, source, prefix)
            placed = _last_writer(setting, world, commit(ref).parents[0], prefix)
            if seen != placed:
                return f"{ref} has read {prefix} of {seen or 'the root'}, and stands above {placed}, which changed it"
    return None


def _no_ops(setting: Setting, world: World) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the same of every accepted task that stacks and published nothing: it was made from what it is."""
    found: list[tuple[str, str, tuple[str, ...]]] = []
    for task in world.tasks:
        scope = scope_of(setting, task.step)
        if scope is not None and scope.stacks and task.status is COMPLETED:
            run = maker(task.ref)
            if run == NOBODY or world.tasks[world.runs[run].task].step != task.step:
                found.append((task.ref, task.ref, scope.prefixes))
    return found


def _reads_accepted(setting: Setting, world: World) -> str | None:
    """Who stacks must not have read it either if it changed nothing: its input may lie above unaccepted work."""
    refs = {ref for _, ref in accepted(world)}
    for source, ref, reads in (*_publications(setting, world), *_no_ops(setting, world)):
        for prefix in reads:
            writer = _last_writer(setting, world, source, prefix)
            if writer and writer not in refs:
                return f"accepted {ref} has read {prefix} of {writer}, which nobody accepted"
    return None


SHARING = (
    Property("S-42", "serialisable over declared reads", When.ALWAYS, _serialisable),
    Property("S-43", "nothing unaccepted is read by what is accepted", When.ALWAYS, _reads_accepted),
)
