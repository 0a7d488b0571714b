"""Claims: written first, then entered into the branch's record, which decides who stands.

A claim that no record names was never made. Its number counts for its task as soon as it is entered, in the very object
a publication swaps: so a plan whose claim has been overtaken cannot land.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import evolve

from perago_bucket import immutable, record
from perago_bucket.layout import CLAIMS, Place, digest_of, key_of, task_key
from perago_bucket.record import Claimed, Record
from perago_core.answers import NotDoneError
from perago_core.machine.codec import dumps, loads
from perago_core.values import Claim, Target


def make(place: Place, claim: Claim) -> Claim:
    """Make this claim unless another stands, and raise the task's claim to it; give the claim that stands."""
    data = dumps(claim).encode()
    digest = digest_of(data)
    task, attempt = task_key(claim.target, claim.logical_task), _attempt_key(claim)

    def enter(found: Record) -> tuple[Record | None, Claimed]:
        entered = found.claims.get(task, {})
        standing = entered.get(attempt)
        if standing is not None and not immutable.is_of(standing.name, digest):
            return None, standing
        highest = _highest(entered.values())
        if highest is not None and highest != standing and highest.rank >= claim.rank:
            return None, highest
        if standing is not None:
            return None, standing
        mine = Claimed(claim.number, immutable.keep(place, CLAIMS, data, claim), claim.turn)
        return evolve(found, claims={**found.claims, task: {**entered, attempt: mine}}), mine

    return read(place, record.change(place, claim.target.branch, enter))


def standing(place: Place, claim: Claim) -> Claim | None:
    """Read the claim that stands for this claim's attempt."""
    found = _entered(place, claim.target, claim.logical_task).get(_attempt_key(claim))
    return None if found is None else read(place, found)


def of_task(place: Place, target: Target, logical_task: str) -> tuple[Claim, ...]:
    """List the claims of one task, oldest attempt first."""
    found = (read(place, each) for each in _entered(place, target, logical_task).values())
    return tuple(sorted(found, key=lambda claim: (claim.rank, claim.task_id)))


def every(place: Place) -> Iterator[Claim]:
    """List the claims of all tasks on all branches."""
    for branch in place.branches():
        found = record.read(place, branch)
        if found is not None:
            yield from (read(place, each) for attempts in found.claims.values() for each in attempts.values())


def remove(place: Place, target: Target, logical_task: str) -> tuple[Claim, ...]:
    """Remove the claims of a task that is settled, whose names are gone and after which a barrier answered (RT-10).

    Earlier would be wrong: a duplicate that was paused before its claim would win a fresh one.
    """
    task = task_key(target, logical_task)

    def forget(found: Record) -> tuple[Record | None, tuple[Claimed, ...]]:
        gone = found.claims.get(task)
        if gone is None:
            return None, ()
        left = {each: attempts for each, attempts in found.claims.items() if each != task}
        return evolve(found, claims=left), tuple(gone.values())

    return tuple(read(place, each) for each in record.change(place, target.branch, forget))


def is_highest(found: Record, claim: Claim) -> bool:
    """Return whether this claim, to the letter, is the one its task has been raised to."""
    highest = _highest_of(found, claim)
    return highest is not None and immutable.is_of(highest.name, digest_of(dumps(claim).encode()))


def highest(place: Place, found: Record, claim: Claim) -> Claim | None:
    """Read the claim this claim's task has been raised to."""
    made = _highest_of(found, claim)
    return None if made is None else read(place, made)


def _highest_of(found: Record, claim: Claim) -> Claimed | None:
    return _highest(found.claims.get(task_key(claim.target, claim.logical_task), {}).values())


def _highest(made: Iterable[Claimed]) -> Claimed | None:
    return max(made, key=lambda each: each.rank, default=None)


def _entered(place: Place, target: Target, logical_task: str) -> dict[str, Claimed]:
    found = record.read(place, target.branch)
    return {} if found is None else dict(found.claims.get(task_key(target, logical_task), {}))


def _attempt_key(claim: Claim) -> str:
    """Every delivery of an attempt shares it: one of them publishes."""
    return key_of(*claim.key)


def read(place: Place, made: Claimed) -> Claim:
    """Read a claim that a record names."""
    found = immutable.fetch(place, CLAIMS, made.name, lambda data: loads(data.decode(), Claim))
    if found is None:
        message = f"claim {made.name} in {place.folder} is gone: somebody else has deleted it"
        raise NotDoneError(message)
    return found
