"""``perago gc``: removes the staging names of attempts that ended, and what is left of tasks that are long settled.

What may go is decided by ``perago_core.garbage``. The order of the reads is part of it: names, claims and intents
first, then who lives, so that nothing that came into being in between is judged by an older list. The orchestrator is
asked about each name's own task: what it has never heard of may be another orchestrator's, and stays.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar

from attrs import frozen

from perago_core.answers import Answer, Done
from perago_core.driver import run
from perago_core.garbage import Living, abandoned_names, settled_claims, stray_intents, unknown_names
from perago_core.ledger import Intent, forget, list_intents, list_open
from perago_core.names import EVERY, task_id_of
from perago_core.pipelines import Delivery
from perago_core.ports import ManagedStore, ObjectCollector
from perago_core.values import Claim, Target
from perago_worker.logger import log
from perago_worker.ops.run_branches import is_gone
from perago_worker.stack import Stack, pipelines_of

T = TypeVar("T")


class CollectError(Exception):
    """Something could not be read, so nothing was removed; the message says what."""


class Authority(Protocol):
    """What the orchestrator says of its attempts."""

    def delivery(self, task_id: str) -> Delivery | None:
        """Say whose task this is and whether it is open; ``None``: there is none of this id here."""
        ...

    def settled(self, logical_tasks: Collection[str], older_than: float, *, unknown: bool = False) -> frozenset[str]:
        """Return those of these tasks whose workflow has ended so long ago; with ``unknown`` those of none here too."""
        ...


@frozen
class Collected:
    """What was removed, or with a dry run would be; what was kept; and what was tried in vain, with the reason.

    ``kept`` may still be acted by; of ``unknown`` the orchestrator has never heard. ``objects``: how many that nothing
    reaches any more, where the store leaves that to us.
    """

    names: tuple[str, ...]
    claims: tuple[str, ...]
    intents: tuple[str, ...]
    kept: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()
    objects: int = 0


@frozen
class _Ledger:
    """Every intent, and the operations that some target points to."""

    intents: tuple[Intent, ...] = ()
    pointed: frozenset[str] = frozenset()

    def living(self) -> tuple[Living, ...]:
        """Return the attempts that open intents speak of. A pointer without a record is an intent just closed."""
        return tuple(
            Living(each.logical_task, each.number) for each in self.intents if each.operation_id in self.pointed
        )


@frozen
class _Going:
    """What may go, and what stays."""

    names: tuple[str, ...]
    claims: tuple[tuple[Target, str], ...]
    intents: tuple[Intent, ...]
    kept: tuple[str, ...]
    unknown: tuple[str, ...]


def collect(
    stack: Stack,
    authority: Authority,
    target: Target,
    *,
    older_than: float,
    unknown: bool = False,
    dry_run: bool = False,
) -> Collected:
    """Collect one target's repository; with ``unknown`` also what the orchestrator has never heard of."""
    store = stack.store
    going = _judge(stack, authority, target, older_than, unknown=unknown)
    if dry_run:
        tasks = tuple(task for _, task in going.claims)
        objects, stuck = _objects(stack, target, older_than, dry_run=True)
        return Collected(going.names, tasks, _operations(going.intents), going.kept, going.unknown, stuck, objects)
    answers = {name: store.drop(target, name) for name in going.names}
    trouble = [f"{name}: {answer.reason}" for name, answer in answers.items() if not isinstance(answer, Done)]
    removed, stay = _remove_all(store, going.claims if not trouble else ())
    trouble += stay
    forgotten: list[Intent] = []
    for stray in going.intents if not trouble else ():
        gone = run(forget(stray), stack.ports())
        if isinstance(gone, Done):
            forgotten.append(stray)
        else:
            trouble.append(f"intent {stray.operation_id}: {gone.reason}")
    dropped = tuple(name for name, answer in answers.items() if isinstance(answer, Done))
    kept = (*going.kept, *(name for name in going.names if name not in dropped))
    objects, stuck = _objects(stack, target, older_than, dry_run=False)
    every = (*trouble, *stuck)
    return Collected(dropped, removed, _operations(forgotten), kept, going.unknown, every, objects)


def collect_claims(
    stack: Stack, authority: Authority, target: Target, older_than: float, *, most: int
) -> tuple[str, ...]:
    """Remove the claims of at most so many tasks of a repository, drawn at random; give the tasks they were of.

    Names and intents are not touched: a task that still has one keeps its claims.
    """
    going = _judge(stack, authority, target, older_than, unknown=False, most=most)
    removed, stay = _remove_all(stack.store, going.claims)
    if stay:
        raise CollectError(stay[0])
    return removed


def _objects(stack: Stack, target: Target, older_than: float, *, dry_run: bool) -> tuple[int, tuple[str, ...]]:
    """Collect what nothing reaches, after names and claims have gone; what open intents speak of is kept."""
    if not isinstance(stack.store, ObjectCollector):
        return 0, ()
    from perago_worker.ops.failed import kept_commits  # noqa: PLC0415  it says what is collected by this module

    intents = _read_ledger(stack, (target,)).intents
    spoken = {ref for intent in intents for each in intent.targets for ref in (each.parent, each.staged) if ref}
    spoken |= kept_commits(stack)
    answer = stack.store.collect_objects(target.repository, spoken, older_than, dry_run=dry_run)
    if isinstance(answer, Done):
        return answer.value, ()
    return 0, (f"objects that nothing reaches: {answer.reason}",)


def sweep_names(stack: Stack, authority: Authority, target: Target) -> tuple[str, ...]:
    """Drop the staging names of attempts that ended, and nothing else: what a worker does before it begins.

    Claims are not even read. There is one for each task that ever ran, until somebody collects them.
    """
    names = _names(stack, target)
    tasks, living = _attempts(authority, names, _read_ledger(stack, (target,)))
    going = abandoned_names(names, tasks, living)
    return tuple(name for name in going if isinstance(stack.store.drop(target, name), Done))


def sweep_dead_names(stack: Stack, targets: Iterable[Target]) -> None:
    """Drop the staging names of attempts that ended. What is in the way of that is not in the way of working."""
    for target in {each.repository: each for each in targets}.values():
        try:
            swept = sweep_names(stack, pipelines_of(stack), target)
        except Exception as error:  # noqa: BLE001  as above
            log.warning("staging names of ended attempts stay in %s: %s", target.repository, error)
            continue
        if swept:
            log.info("removed %d staging name(s) of ended attempts from %s", len(swept), target.repository)


def _judge(
    stack: Stack, authority: Authority, target: Target, older_than: float, *, unknown: bool, most: int | None = None
) -> _Going:
    """Read everything in the right order and apply the rule; with ``most`` to the claims of so many tasks only."""
    names = _names(stack, target)
    claims = _read(stack.store.all_claims(target.repository), "claims")
    if most is not None:
        tasks_drawn = _drawn({claim.logical_task for claim in claims}, most)
        claims = tuple(claim for claim in claims if claim.logical_task in tasks_drawn)
    ledger = _read_ledger(stack, {target, *(claim.target for claim in claims)})
    seen, living = _attempts(authority, names, ledger)
    tasks_named = {claim.logical_task for claim in claims} | {intent.logical_task for intent in ledger.intents}
    settled = authority.settled(tasks_named, older_than, unknown=unknown)
    known = settled | seen
    going = abandoned_names(names, None if unknown else known, living)
    staying = tuple(name for name in names if name not in going)
    removable = settled_claims(claims, settled, staying, living)
    tasks = sorted({(claim.target, claim.logical_task) for claim in removable}, key=str)
    strays = stray_intents(ledger.intents, ledger.pointed, settled, living)
    strangers = unknown_names(staying, known)
    kept = tuple(name for name in staying if name not in strangers)
    return _Going(going, tuple(tasks), strays, kept, strangers)


def _drawn(tasks: Collection[str], most: int) -> Collection[str]:
    return tasks if len(tasks) <= most else frozenset(random.sample(sorted(tasks), most))


def _names(stack: Stack, target: Target) -> tuple[str, ...]:
    return _read(stack.store.staging_names(target.repository, EVERY), "staging names")


def _attempts(authority: Authority, names: Iterable[str], ledger: _Ledger) -> tuple[frozenset[str], tuple[Living, ...]]:
    """Ask about each name's own task: give the tasks the orchestrator knows, and the attempts that may still act."""
    ids = dict.fromkeys(task_id for name in names if (task_id := task_id_of(name)) is not None)
    seen = [found for task_id in ids if (found := authority.delivery(task_id)) is not None]
    running = (Living(each.logical_task, each.number) for each in seen if each.is_open)
    return frozenset(each.logical_task for each in seen), (*ledger.living(), *running)


def _remove_all(store: ManagedStore, claims: Iterable[tuple[Target, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Remove the claims of these tasks; give those whose are gone, and of the others why they stay."""
    removed: list[str] = []
    trouble: list[str] = []
    for place, task in claims:
        answer = _remove(store, place, task)
        if isinstance(answer, Done):
            removed.append(task)
        else:
            trouble.append(f"claims of {task}: {answer.reason}")
    return tuple(removed), tuple(trouble)


def _remove(store: ManagedStore, target: Target, task: str) -> Answer[tuple[Claim, ...]]:
    """Remove a task's claims once a barrier has answered: nothing that names one of them is on its way any more.

    Nothing is on its way to the branch of a run either once that is gone.
    """
    if not is_gone(store, target):
        barred = store.barrier(target)
        if not isinstance(barred, Done):
            return barred
    return store.remove_claims(target, task)


def _read_ledger(stack: Stack, targets: Iterable[Target]) -> _Ledger:
    """Read the intents, then who points to them: a pointer is made after its record, and goes after it."""
    if stack.coordination is None:
        return _Ledger()
    intents = _read(run(list_intents(), stack.ports()), "intents")
    places = {*targets, *(each.target for intent in intents for each in intent.targets)}
    pointed = [_read(run(list_open(each), stack.ports()), f"open intents of {each}") for each in places]
    return _Ledger(intents, frozenset(operation for found in pointed for operation in found))


def _operations(intents: Iterable[Intent]) -> tuple[str, ...]:
    return tuple(each.operation_id for each in intents)


def _read(answer: Answer[T], what: str) -> T:
    if isinstance(answer, Done):
        return answer.value
    raise CollectError(f"{what} could not be read: {answer.reason}. Nothing was removed")
