"""The object that decides whether several records change together: open at first, then done or void, for good.

A record that is to change carries the name of the transaction and what it will be, and is what it was until the
transaction is done. So the moment it happens is one swap of one object, whatever number of records it is about.

Whoever wants to change such a record ends the transaction first: void, if it was still open. Nobody waits for anybody,
and what a publication found true of a record is true when it happens, or it does not happen.

One that is gone is void: a done one is removed only once no record names it.
"""

from __future__ import annotations

import json
from enum import Enum
from secrets import token_hex

from attrs import frozen

from perago_bucket.answers import Problem, described
from perago_bucket.client import Bucket
from perago_bucket.layout import TOGETHER, Place


class State(Enum):
    """What has become of a transaction."""

    OPEN = "open"
    DONE = "done"
    VOID = "void"


@frozen
class Transaction:
    """One transaction as it was read. ``records``: the folder and the branch of each."""

    state: State
    records: tuple[tuple[str, str], ...]
    tag: str = ""


def begin(place: Place, records: tuple[tuple[str, str], ...]) -> str:
    """Make an open transaction and give its key."""
    key = place.key(TOGETHER, token_hex(16))
    if place.bucket.create(key, _written(Transaction(State.OPEN, records))) is None:
        message = f"expected that nothing is called {key}, found something: its name was drawn at random"
        raise OSError(message)
    return key


def look(bucket: Bucket, key: str) -> Transaction | None:
    """Read a transaction; ``None``: it is gone."""
    found = bucket.read(key)
    if found is None:
        return None
    try:
        document = json.loads(found.data)
        records = tuple((str(folder), str(branch)) for folder, branch in document["records"])
        return Transaction(State(document["state"]), records, found.tag)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
        message = f"expected a transaction at {key}, found something else: {described(wrong)}"
        raise OSError(message) from None


def is_done(bucket: Bucket, key: str) -> bool | None:
    """Return whether a transaction has happened; ``None``: it is gone."""
    found = look(bucket, key)
    return None if found is None else found.state is State.DONE


def void(bucket: Bucket, key: str) -> bool | None:
    """End a transaction as void unless it has ended; say whether it has happened; ``None``: it is gone."""
    return _end(bucket, key, State.VOID)


def carry_out(bucket: Bucket, key: str) -> bool:
    """End a transaction as done unless it has ended; say whether it has happened. Only who began it may.

    Where no answer came it is made void, and then it cannot happen any more; or nobody knows.
    """
    try:
        return _end(bucket, key, State.DONE) is True
    except Problem:
        return void(bucket, key) is True


def _end(bucket: Bucket, key: str, state: State) -> bool | None:
    while True:
        found = look(bucket, key)
        if found is None:
            return None
        if found.state is not State.OPEN:
            return found.state is State.DONE
        try:
            if bucket.swap(key, found.tag, _written(Transaction(state, found.records))) is not None:
                return state is State.DONE
        except Problem as problem:
            again = look(bucket, key)
            if again is not None and again.state is State.OPEN:
                message = f"no answer came to ending {key}, which may yet be carried out: {described(problem)}"
                raise OSError(message) from problem


def _written(transaction: Transaction) -> bytes:
    return json.dumps({"state": transaction.state.value, "records": transaction.records}).encode()
