"""Several branches of one bucket that move in one step: their records name a transaction, and it decides."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from attrs import evolve

from perago_bucket import record, transaction
from perago_bucket.answers import Problem, described
from perago_bucket.layout import TOGETHER, Place
from perago_bucket.record import Pending, Record
from perago_core.answers import NotDoneError
from perago_core.values import CommitRef

#: Where a branch goes, judged by the record it has in the step in which it goes there. ``NotDoneError``: nowhere.
Judge = Callable[[Record], CommitRef]
#: The branches that move together: where each is, its name, and who judges it.
Moves = Mapping[tuple[Place, str], Judge]

_ROUNDS = 30


def move(lead: Place, moves: Moves) -> tuple[CommitRef, ...]:
    """Move all of these branches or none, and give where each is then.

    Begins again while what is in the way is another change of a record, and not what a judge refuses.
    """
    named = tuple((place.folder, branch) for place, branch in moves)
    for turn in range(_ROUNDS):
        key = transaction.begin(lead, named)
        try:
            arrived = tuple(_promise(place, branch, key, judge) for (place, branch), judge in moves.items())
        except (NotDoneError, *Problem) as problem:
            # Only we could carry it out, and we do not: whatever of it is on its way names a void transaction.
            with suppress(NotDoneError, *Problem):
                finish(lead, key)
            if isinstance(problem, NotDoneError):
                raise
            raise NotDoneError(f"nothing was moved: {described(problem)}") from problem
        happened = transaction.carry_out(lead.bucket, key)
        with suppress(NotDoneError, *Problem):  # whoever needs one of the records does it instead
            finish(lead, key)
        if happened:
            return arrived
        time.sleep(random.uniform(0, 0.005 * 2 ** min(turn, 6)))  # noqa: S311  no secret
    message = (
        f"busy: {_ROUNDS} times somebody else changed one of {_in_words(named)} first. Nothing was done; try again."
    )
    raise NotDoneError(message)


def _promise(place: Place, branch: str, key: str, judge: Judge) -> CommitRef:
    def add(found: Record) -> tuple[Record | None, CommitRef]:
        to = judge(found)
        return evolve(found, pending=Pending(key, to)), to

    return record.change(place, branch, add)


def finish(place: Place, key: str) -> None:
    """Have every record of a transaction say itself what has become of it, and remove the transaction."""
    happened = transaction.void(place.bucket, key)
    found = transaction.look(place.bucket, key)
    if found is None:
        return
    for folder, branch in found.records:
        record.settle(evolve(place, folder=folder), branch, key, happened=happened is True)
    place.bucket.delete((key,))


def collect(place: Place, older_than: float, *, dry_run: bool) -> int:
    """Finish the transactions of the killed that are older than so many seconds; give how many there were."""
    latest = datetime.now(UTC) - timedelta(seconds=older_than)
    old = [each.key for each in place.bucket.list(f"{place.folder}/{TOGETHER}") if each.modified < latest]
    for key in () if dry_run else old:
        finish(place, key)
    return len(old)


def _in_words(named: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{folder}/{branch}" for folder, branch in named)
