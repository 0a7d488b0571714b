"""The ports of the explored world: what one call of an execution does to it, and what the call is answered.

A call is served by name, as the driver serves it from adapters. What the answer means to an execution is not said here:
the production conversation of the command (``perago_core.attempt.run``) makes the calls and the event out of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from attrs import evolve

from perago_core.answers import Answer, Done, NotDone
from perago_core.calls import Call
from perago_core.ledger import records
from perago_core.names import commit_message, recovery_name, revert_message
from perago_core.ports import Entry
from perago_core.results import Completed, FailedTerminally, Result
from perago_core.values import Attempt, Claim, Commit, CommitRef, Head, Landed, StagedRef, Target
from perago_simulation.world.history import absent, chain, commit, maker, staged
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import (
    CLEAN,
    COMPLETED,
    DIRTY,
    FAILED,
    FAILED_FOR_GOOD,
    MISSING,
    NOBODY,
    OPEN,
    TARGET,
    World,
    attempt_of,
    branch_of,
    maintained_in,
    maintains,
    recoverers,
    restarted,
    scope_of,
    snapshot_of,
    with_task,
    without_name,
)

#: The world after a call, and its answer.
Served: TypeAlias = tuple[World, Answer[Any]]
_OK: Done[None] = Done(None)


def subject_of(setting: Setting, world: World, index: int) -> Attempt:
    """Return what was pinned for an execution; for one that has ended, what its name and its task say of it."""
    state = world.runs[index].state
    return _pinned(setting, world, index) if state is None else state.subject


def _pinned(setting: Setting, world: World, index: int) -> Attempt:
    at = world.runs[index].task
    return attempt_of(setting, world.tasks[at]._replace(status=OPEN, winner=NOBODY, ref="", polls=0), at, index)


def _name(setting: Setting, world: World, index: int) -> str:
    if index in recoverers(world):
        at = world.runs[index].task
        task = world.tasks[at]
        return recovery_name(TARGET, f"wf/step{task.step}", task.number, f"t{at}", f"e{index}")
    return _pinned(setting, world, index).staging_name


def serve(setting: Setting, world: World, index: int, asked: Call) -> Served:
    """Carry out a call of an execution."""
    return _METHODS[asked.port, asked.method](setting, world, index, *asked.args)


def _nothing(_setting: Setting, world: World, _index: int, *_args: object) -> Served:
    return world, _OK


def _now(_setting: Setting, world: World, _index: int) -> Served:
    return world, Done(0.0)


# ---------------------------------------------------------------------------------------------------------------------
# The orchestrator


def _reload(_setting: Setting, world: World, _index: int, _workflow: str | None, task_id: str) -> Served:
    at = int(task_id[1:])
    return world, Done(snapshot_of(world.tasks[at], at))


def _report(_setting: Setting, world: World, index: int, _attempt: Attempt, result: Result) -> Served:
    at = world.runs[index].task
    task = world.tasks[at]
    if task.status is not OPEN:
        return world, _OK
    if isinstance(result, Completed):
        return with_task(world, at, task._replace(status=COMPLETED, winner=index, ref=result.ref)), _OK
    failed = FAILED_FOR_GOOD if isinstance(result, FailedTerminally) else FAILED
    return with_task(world, at, task._replace(status=failed)), _OK


# ---------------------------------------------------------------------------------------------------------------------
# The store: names and commits


def _open_staging(setting: Setting, world: World, index: int, _target: Target, name: str, at: CommitRef) -> Served:
    if name != _name(setting, world, index) or index in dict(world.names):
        return world, NotDone("the name exists")
    return world._replace(names=tuple(sorted((*world.names, (index, at))))), _OK


def _commit(setting: Setting, world: World, index: int, _target: Target, name: str, _message: str) -> Served:
    names = dict(world.names)
    if name != _name(setting, world, index) or index not in names:
        return world, NotDone("the staging branch is gone")
    task = world.tasks[world.runs[index].task]
    # All who maintain one commit come to the same layout of it.
    made = _staged(index, task.input, setting.same_tree or maintains(setting, task), name)
    return world._replace(names=tuple(sorted({**names, index: made.commit}.items()))), Done(made)


@cache
def _staged(index: int, base: str, same_tree: bool, name: str) -> StagedRef:  # noqa: FBT001  a cache key
    ref = staged(index, base, same_tree=same_tree)
    return StagedRef(TARGET.repository, name, ref, commit(ref).tree)


def _staging_names(setting: Setting, world: World, _index: int, _repository: str, prefix: str) -> Served:
    names = (_name(setting, world, run) for run, _ in world.names)
    return world, Done(tuple(name for name in names if name.startswith(prefix)))


def _drop(setting: Setting, world: World, _index: int, _target: Target, name: str) -> Served:
    for run, _ in world.names:
        if _name(setting, world, run) == name:
            return without_name(world, run), _OK
    return world, _OK


def _head(setting: Setting, world: World, _index: int, _target: Target) -> Served:
    return world, _seen(world.head, branch_of(world), _message(setting, world, world.head))


@cache
def _seen(head: str, branch: str, message: str) -> Done[Head | None]:
    return Done(None if branch is MISSING else Head(_described(head, message), dirty=branch is DIRTY))


def _look(setting: Setting, world: World, _index: int, _repository: str, ref: CommitRef) -> Served:
    return world, Done(_described(ref, _message(setting, world, ref)))


def _message(setting: Setting, world: World, ref: str) -> str:
    """Return what a commit says of itself: a stranger's nothing, nor any where there is one logical task only."""
    run = maker(ref)
    if run == NOBODY or (setting.steps * setting.workflows == 1 and not setting.reverts):
        return ""
    at = world.runs[run].task
    task = world.tasks[at]
    said = (f"wf/step{task.step}", task.number, f"t{at}")
    return revert_message(ref, *said) if run in recoverers(world) else commit_message(*said)


@cache
def _described(ref: str, message: str) -> Commit:
    """Let a commit say whose it is, and what it says by itself: above which unaccepted ones it was published."""
    known = commit(ref)
    return evolve(known, message=f"{message}{known.message}")


def _since(
    setting: Setting,
    world: World,
    _index: int,
    _repository: str,
    base: CommitRef,
    head: CommitRef,
    prefixes: tuple[str, ...],
) -> Served:
    branch = chain(head)
    if base not in branch:
        return world, Done(None)
    above = branch[: branch.index(base)]
    # Neither a publication that was reverted nor what reverts it changes anything between the two, if both are there.
    changing = [ref for ref in above if ref not in absent(head) or base in absent(head)]
    paths = {ref: touched(setting, world, ref, prefixes) for ref in changing}
    return world, Done(tuple(Landed(commit(ref), paths.get(ref, ())) for ref in above))


def touched(setting: Setting, world: World, ref: str, prefixes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths under these prefixes that a commit changes: a file in each folder that its task declares."""
    run = maker(ref)
    if run == NOBODY:
        return ()
    scope = scope_of(setting, world.tasks[world.runs[run].task].step)
    return () if scope is None else tuple(f"{each}x" for each in scope.writes if each.startswith(prefixes))


def _barrier(setting: Setting, world: World, _index: int, _target: Target) -> Served:
    branch = branch_of(world)
    if branch is not CLEAN:
        # A barrier that did nothing must not be taken for one: on a dirty branch it changes no record, and what the
        # store had begun still lands.
        return world, NotDone(f"the branch is {branch}")
    return (restarted(world) if setting.store.barrier else world), _OK


# ---------------------------------------------------------------------------------------------------------------------
# The store: claims


def _claim(setting: Setting, world: World, index: int, wanted: Claim) -> Served:
    if not setting.store.claim:
        return world, NotDone("this store keeps no claims")
    for claim in world.claims:
        if claim.key == wanted.key:
            return world, Done(claim)
    after = world._replace(claims=(*world.claims, wanted))
    if setting.store.conditional_claim:
        at = world.tasks[world.runs[index].task].step
        holder = world.raised[at]
        standing = [claim for claim in world.claims if claim.execution == f"e{holder}"]
        turn = standing[0].turn if standing else 0
        if holder != NOBODY and (world.tasks[world.runs[holder].task].number, turn) >= wanted.rank:
            # Whose claim was taken away, by a wrong protocol, has raised the task's all the same.
            return world, Done(standing[0]) if standing else NotDone("a newer claim was raised, and is gone")
        # The claim is part of what an update is conditioned on, so raising it makes begun updates start again.
        after = restarted(after._replace(raised=(*world.raised[:at], index, *world.raised[at + 1 :])))
    return after, Done(wanted)


def _read_claim(_setting: Setting, world: World, _index: int, wanted: Claim) -> Served:
    found = [claim for claim in world.claims if claim.key == wanted.key]
    return world, Done(found[0] if found else None)


def _claims(_setting: Setting, world: World, _index: int, _target: Target, logical_task: str) -> Served:
    return world, Done(tuple(claim for claim in world.claims if claim.logical_task == logical_task))


# ---------------------------------------------------------------------------------------------------------------------
# The coordination store: of all it keeps, the accepted maintenance


def _entries(_setting: Setting, world: World, _index: int, prefix: str) -> Served:
    entries = (Entry(records.maintained_key(TARGET, each), records.encode(each)) for each in maintained_in(world))
    return world, Done(tuple(entry for entry in entries if entry.key.startswith(prefix)))


_METHODS: Mapping[tuple[str, str], Callable[..., Served]] = {
    ("clock", "now"): _now,
    ("workspace", "prepare"): _nothing,
    ("workspace", "upload"): _nothing,
    ("workspace", "remove"): _nothing,
    ("orchestrator", "reload"): _reload,
    ("orchestrator", "report"): _report,
    ("store", "open_staging"): _open_staging,
    ("store", "commit"): _commit,
    ("store", "staging_names"): _staging_names,
    ("store", "drop"): _drop,
    ("store", "head"): _head,
    ("store", "look"): _look,
    ("store", "since"): _since,
    ("store", "barrier"): _barrier,
    ("store", "claim"): _claim,
    ("store", "read_claim"): _read_claim,
    ("store", "claims"): _claims,
    ("coordination", "list"): _entries,
}
