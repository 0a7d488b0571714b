"""``perago gc``: removes the staging names of attempts that ended, and the claims of tasks that are long settled.

What may go is decided by ``perago_core.garbage``. The order of the reads is part of it: names and claims first, then
who lives, so that nothing that came into being in between is judged by an older list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol, TypeVar, cast

from attrs import frozen

from perago_core.answers import Answer, Done
from perago_core.driver import run
from perago_core.garbage import Living, abandoned_names, settled_claims
from perago_core.ledger import Intent, list_open
from perago_core.ledger.calls import read_record
from perago_core.ledger.keys import intent_key
from perago_core.ports import Store
from perago_core.values import Claim, Target
from perago_worker.stack import Stack
from perago_worker.starting import ports

T = TypeVar("T")


class CollectError(Exception):
    """Something could not be read, so nothing was removed; the message says what."""


class Named(Protocol):
    """A staging name as a store lists it."""

    @property
    def name(self) -> str:
        """Give the name."""
        ...


class CollectableStore(Store, Protocol):
    """A store that can list what we left in it."""

    def staging_names(self, repository: str) -> Answer[tuple[Named, ...]]:
        """List the staging names that exist."""
        ...

    def all_claims(self, repository: str) -> Answer[tuple[Claim, ...]]:
        """List the claim records of all tasks."""
        ...

    def remove_claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """Remove the claims of one settled task."""
        ...


class Authority(Protocol):
    """What the orchestrator says of all its attempts."""

    def living(self) -> tuple[Living, ...]:
        """Give every attempt that is open."""
        ...

    def settled(self, logical_tasks: Collection[str], older_than: float) -> frozenset[str]:
        """Give those of these tasks whose workflow has ended, and so many seconds ago."""
        ...


@frozen
class Collected:
    """What was removed, or with a dry run would be; what was kept; and what was tried in vain, with the reason."""

    names: tuple[str, ...]
    claims: tuple[str, ...]
    kept: tuple[str, ...]
    trouble: tuple[str, ...] = ()


def collect(
    stack: Stack,
    authority: Authority,
    target: Target,
    *,
    older_than: float,
    dry_run: bool = False,
) -> Collected:
    """Collect one target's repository."""
    store = cast("CollectableStore", stack.store)  # every store we ship can be collected
    names = tuple(each.name for each in _read(store.staging_names(target.repository), "staging names"))
    claims = _read(store.all_claims(target.repository), "claims")
    living = (*authority.living(), *_in_intents(stack, {target, *(claim.target for claim in claims)}))
    going = abandoned_names(names, living)
    staying = tuple(name for name in names if name not in going)
    settled = authority.settled({claim.logical_task for claim in claims}, older_than)
    removable = settled_claims(claims, settled, staying, living)
    tasks = sorted({(claim.target, claim.logical_task) for claim in removable}, key=str)
    if dry_run:
        return Collected(going, tuple(task for _, task in tasks), staying)
    answers = {name: store.drop(target, name) for name in going}
    trouble = [f"{name}: {answer.reason}" for name, answer in answers.items() if not isinstance(answer, Done)]
    removed: list[str] = []
    for place, task in tasks if not trouble else ():
        answer = _remove(store, place, task)
        if isinstance(answer, Done):
            removed.append(task)
        else:
            trouble.append(f"claims of {task}: {answer.reason}")
    dropped = tuple(name for name, answer in answers.items() if isinstance(answer, Done))
    kept = (*staying, *(name for name in going if name not in dropped))
    return Collected(dropped, tuple(removed), kept, tuple(trouble))


def _remove(store: CollectableStore, target: Target, task: str) -> Answer[tuple[Claim, ...]]:
    """Remove a task's claims once a barrier has answered: nothing that names one of them is on its way any more."""
    barred = store.barrier(target)
    if not isinstance(barred, Done):
        return barred
    return store.remove_claims(target, task)


def _in_intents(stack: Stack, targets: Iterable[Target]) -> tuple[Living, ...]:
    """Give the attempts that open intents speak of."""
    if stack.coordination is None:
        return ()
    found: list[Living] = []
    for target in targets:
        for operation in _read(run(list_open(target), ports(stack)), f"open intents of {target}"):
            intent: Any = _read(run(read_record(Intent, intent_key(operation)), ports(stack)), f"intent {operation}")
            if isinstance(intent, Intent):
                found.append(Living(intent.logical_task, intent.number))
            elif intent is not None:
                raise CollectError(f"intent {operation} cannot be read: {intent}. Nothing was removed")
    return tuple(found)


def _read(answer: Answer[T], what: str) -> T:
    if isinstance(answer, Done):
        return answer.value
    raise CollectError(f"{what} could not be read: {answer.reason}. Nothing was removed")
