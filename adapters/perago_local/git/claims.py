"""Claims: one record for each attempt, made once, and one highest claim for each task, which only ever rises.

The record is made first. So whoever could have published left a record that the owner rule can find; a writer killed
between the two has raised nothing and publishes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pygit2

from perago_core.machine.codec import dumps, loads
from perago_core.values import Claim, Target
from perago_local.git.repository import CLAIMS, PACKED, raised_ref, record_ref, refs_under, target_of, task_key
from perago_local.git.tickets import Moves, exclusively


def make(repository: pygit2.Repository, claim: Claim, patience: float) -> Claim:
    """Make this claim unless another stands, and raise the task's claim to it; give the claim that stands."""
    blob = repository.create_blob(dumps(claim).encode())
    record, raised = record_ref(claim), raised_ref(claim.target, claim.logical_task)

    def work(moves: Moves) -> Claim:
        made = _read(repository, moves.read(record))
        if made is not None and made != claim:
            return made
        highest = _read(repository, moves.read(raised))
        if highest is not None and highest != claim and highest.rank >= claim.rank:
            return highest
        if made is None:
            moves.move(record, blob)
        if highest != claim:
            moves.move(raised, blob)
        return claim

    return exclusively(repository, (record, raised), work, patience)


def record(repository: pygit2.Repository, claim: Claim) -> Claim | None:
    """Read the record that stands for this claim's attempt."""
    return _read(repository, target_of(repository, record_ref(claim)))


def highest(repository: pygit2.Repository, target: Target, logical_task: str) -> Claim | None:
    """Read the claim a task has been raised to."""
    return _read(repository, target_of(repository, raised_ref(target, logical_task)))


def records(repository: pygit2.Repository, target: Target, logical_task: str) -> tuple[Claim, ...]:
    """List the claim records of one task, oldest attempt first."""
    found = _under(repository, f"{CLAIMS}{task_key(target, logical_task)}/")
    return tuple(sorted(found, key=lambda claim: (claim.rank, claim.task_id)))


def every(repository: pygit2.Repository) -> tuple[Claim, ...]:
    """List the claim records of all tasks."""
    return tuple(_under(repository, CLAIMS))


def remove(repository: pygit2.Repository, target: Target, logical_task: str, patience: float) -> tuple[Claim, ...]:
    """Remove the claims of a task that is settled, whose names are gone and after which a barrier answered (RT-10).

    Earlier would be wrong: a duplicate that was paused before its claim would win a fresh one.
    """
    gone = records(repository, target, logical_task)
    refs = (*(record_ref(claim) for claim in gone), raised_ref(target, logical_task))
    exclusively(repository, (PACKED, *refs), lambda moves: moves.delete(refs), patience)
    return gone


def _under(repository: pygit2.Repository, prefix: str) -> Iterator[Claim]:
    for ref in refs_under(repository, prefix):
        claim = _read(repository, target_of(repository, ref))
        if claim is not None:  # ``None``: it was removed while we listed
            yield claim


def _read(repository: pygit2.Repository, blob: pygit2.Oid | None) -> Claim | None:
    if blob is None:
        return None
    return loads(repository.odb.read(blob)[1].decode(), Claim)
