"""The record of a branch: all that changes about it, in one object that is swapped by its entity tag.

It holds the head, the staging names by which somebody may move it, and which claims were made for which task. So
whatever a publication is conditioned on changes the tag that the publication is conditioned on, and is either seen by
it or makes its swap fail.

A record that is to change together with others names the ``transaction`` that decides it, and what its head will be.

An entity tag is a digest of the content on most servers: equal bytes bring an old tag back, and a writer that slept
meanwhile would find its condition true again. So each record carries a serial number and a nonce, and no two are equal.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any, TypeVar

from attrs import evolve, field, frozen

from perago_bucket import transaction
from perago_bucket.answers import Problem, described
from perago_bucket.client import Bucket
from perago_bucket.layout import Place
from perago_core.answers import NotDoneError
from perago_core.contract import is_list
from perago_core.values import CommitRef

T = TypeVar("T")

#: How often a swap begins again because another came first, and how long it waits at most in between, in seconds.
_ROUNDS = 60
_LONGEST_WAIT = 0.25


@frozen
class Name:
    """A staging name: the commit it stands at, and the manifest that has been linked so far."""

    at: CommitRef
    tree: str


@frozen
class Claimed:
    """A claim that was made: the number of its attempt, the name under which it lies, and a recovery's turn."""

    number: int
    name: str
    turn: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """Return what orders the claims of a task."""
        return self.number, self.turn

    def written(self) -> list[object]:
        """Return it as it is kept; an attempt's is what it has always been."""
        return [self.number, self.name, *([self.turn] if self.turn else ())]


@frozen
class Pending:
    """A head that others change together with: where it will be if that transaction is done."""

    transaction: str
    to: CommitRef


@frozen
class Record:
    """One state of a branch. ``claims``: by task, then by attempt."""

    head: CommitRef
    names: Mapping[str, Name] = field(factory=dict[str, Name])
    claims: Mapping[str, Mapping[str, Claimed]] = field(factory=dict[str, Mapping[str, Claimed]])
    serial: int = 0
    nonce: str = ""
    pending: Pending | None = None

    def settled(self, *, happened: bool) -> Record:
        """Return the record once what it waits for is done, or void."""
        moved = self if self.pending is None or not happened else evolve(self, head=self.pending.to)
        return evolve(moved, pending=None)

    def successor(self) -> Record:
        """Return the same state as the next record, unlike any other."""
        return evolve(self, serial=self.serial + 1, nonce=token_hex(16))

    def with_name(self, name: str, at: Name | None) -> Record:
        """Return the record with a staging name there, or with ``None`` without it."""
        names = {each: found for each, found in self.names.items() if each != name}
        return evolve(self, names=names if at is None else {**names, name: at})


@frozen
class _Seen:
    record: Record
    tag: str


#: What a change says: the record it wants, or ``None`` if there is nothing to change; and what it gives.
Change = Callable[[Record], tuple[Record | None, T]]


class _Memory:
    """The last record this process saw of each branch. It may be old, and then the swap fails: nothing rests on it."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Bucket, str], _Seen] = {}
        self._lock = threading.Lock()

    def get(self, bucket: Bucket, key: str) -> _Seen | None:
        with self._lock:
            return self._seen.get((bucket, key))

    def put(self, bucket: Bucket, key: str, seen: _Seen | None) -> None:
        with self._lock:
            if seen is None:
                self._seen.pop((bucket, key), None)
            else:
                self._seen[bucket, key] = seen


_memory = _Memory()


def read(place: Place, branch: str) -> Record | None:
    """Read the record of a branch as it is now; ``None``: there is no such branch."""
    seen = _settled(place, branch, _read(place, branch), transaction.is_done)
    return None if seen is None else seen.record


def settle(place: Place, branch: str, key: str, *, happened: bool) -> None:
    """Write down what has become of a transaction that the record of a branch names; of another's it says nothing."""
    seen = _memory.get(place.bucket, place.branch(branch)) or _read(place, branch)
    for _ in range(_ROUNDS):
        if seen is None or seen.record.pending is None or seen.record.pending.transaction != key:
            fresh = _read(place, branch)
            if fresh is None or fresh.record.pending is None or fresh.record.pending.transaction != key:
                return
            seen = fresh
        if _swapped(place, place.branch(branch), seen.tag, seen.record.settled(happened=happened).successor()):
            return
        seen = None


def _settled(place: Place, branch: str, seen: _Seen | None, ask: Callable[[Bucket, str], bool | None]) -> _Seen | None:
    """Return the record as it is once its transaction has been asked about.

    One that is gone has been settled on record since we read it, or it was void: then the record is still the same.
    """
    while seen is not None and seen.record.pending is not None:
        happened = ask(place.bucket, seen.record.pending.transaction)
        if happened is None:
            again = _read(place, branch)
            if again is None or again.record.nonce != seen.record.nonce:
                seen = again
                continue
        return evolve(seen, record=seen.record.settled(happened=happened is True))
    return seen


def is_known(place: Place, branch: str) -> bool:
    """Return whether the branch exists; asks only where this process has not seen it yet."""
    return _memory.get(place.bucket, place.branch(branch)) is not None or read(place, branch) is not None


def ensure(place: Place, branch: str, head: CommitRef) -> bool:
    """Make the branch unless there is one; say whether it was made."""
    return place.bucket.create(place.branch(branch), _written(Record(head).successor())) is not None


def create(place: Place, branch: str, head: CommitRef) -> None:
    """Make the branch, or refuse because there is one."""
    if not ensure(place, branch, head):
        message = f"branch {place.folder}/{branch} exists already: use it, or take another name"
        raise NotDoneError(message)


def remove(place: Place, branch: str) -> None:
    """Remove the branch: whoever is about to change it finds none."""
    place.bucket.delete((place.branch(branch),))
    _memory.put(place.bucket, place.branch(branch), None)


def change(place: Place, branch: str, wanted: Change[T]) -> T:
    """Change the record in one step, beginning again from what is there whenever somebody else was faster.

    The record that was seen last is tried first, which saves a read. Only a swap that lands proves it was current: what
    is refused, or found done already, is judged again on a fresh one.
    """
    key = place.branch(branch)
    seen = _memory.get(place.bucket, key)
    for turn in range(_ROUNDS):
        is_fresh = seen is None
        seen = _settled(place, branch, _read(place, branch) if seen is None else seen, transaction.void)
        if seen is None:
            message = f"expected branch {place.folder}/{branch}, found none: create it, or correct the target"
            raise NotDoneError(message)
        try:
            after, value = wanted(seen.record)
        except NotDoneError:
            if is_fresh:
                raise
            after = None
        else:
            if after is None and is_fresh:
                return value
            if after is not None and _swapped(place, key, seen.tag, after.successor()):
                return value
        seen = None
        if is_fresh:  # somebody is at work here: do not meet again
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.005 * 2 ** min(turn, 10))))  # noqa: S311  no secret
    message = f"busy: {_ROUNDS} times somebody else changed {place.folder}/{branch} first. Nothing was done; try again."
    raise NotDoneError(message)


def _swapped(place: Place, key: str, tag: str, record: Record) -> bool:
    """Swap the record; ``False``: another one is there. Where no answer came, look once whether ours landed."""
    try:
        new = place.bucket.swap(key, tag, _written(record))
    except Problem as problem:
        _memory.put(place.bucket, key, None)
        found = place.bucket.read(key)
        if found is None or _parsed(found.data).nonce != record.nonce:
            message = f"no answer came to a change of {key}, which may yet be carried out: {described(problem)}"
            raise OSError(message) from problem
        new = found.tag
    _memory.put(place.bucket, key, None if new is None else _Seen(record, new))
    return new is not None


def _read(place: Place, branch: str) -> _Seen | None:
    key = place.branch(branch)
    found = place.bucket.read(key)
    seen = None if found is None else _Seen(_parsed(found.data), found.tag)
    _memory.put(place.bucket, key, seen)
    return seen


def _written(record: Record) -> bytes:
    document: dict[str, object] = {
        "serial": record.serial,
        "nonce": record.nonce,
        "head": record.head,
        "names": {name: [at.at, at.tree] for name, at in record.names.items()},
        "claims": {
            task: {attempt: made.written() for attempt, made in attempts.items()}
            for task, attempts in record.claims.items()
        },
    }
    if record.pending is not None:
        document["pending"] = [record.pending.transaction, record.pending.to]
    return json.dumps(document, separators=(",", ":")).encode()


def _claimed(number: object, name: object, turn: object = 0) -> Claimed:
    return Claimed(_count(number), _text(name), _count(turn))


def _parsed(data: bytes) -> Record:
    """Read a record; what has another shape was not written here, whoever answers with it."""
    try:
        document = json.loads(data)
        return Record(
            CommitRef(_text(document["head"])),
            {name: Name(CommitRef(_text(at)), _text(tree)) for name, (at, tree) in document["names"].items()},
            {
                task: {attempt: _claimed(*made) for attempt, made in attempts.items()}
                for task, attempts in document["claims"].items()
            },
            _count(document["serial"]),
            _text(document["nonce"]),
            None if "pending" not in document else Pending(*map(_text, _pair(document["pending"]))),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
        message = f"expected the record of a branch, found something else: {described(wrong)}"
        raise OSError(message) from None


def _text(value: object) -> Any:  # noqa: ANN401  a text, of whichever meaning
    if not isinstance(value, str):
        message = f"expected a text, found {type(value).__name__}"
        raise TypeError(message)
    return value


def _count(value: object) -> int:
    if type(value) is not int:
        message = f"expected a number, found {type(value).__name__}"
        raise TypeError(message)
    return value


def _pair(value: object) -> list[object]:
    if not is_list(value) or len(value) != 2:  # noqa: PLR2004  a pair
        message = "expected a transaction and a commit"
        raise TypeError(message)
    return value
