"""Finding out by behaviour whether a bucket honours conditions (ST-7), and not by what its server says of itself.

What must happen is seen to happen, and what must not happen is tried: a store that ignores the condition answers 200
and overwrites, so only the negative cases tell it from one that does not.

Only what happened and must not have, or a server that says it has no such thing, is a disproof, because a disproof is
final (T-W1). A request that brought no answer is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from secrets import token_hex

from obstore.exceptions import NotSupportedError

from perago_bucket.answers import Problem, described
from perago_bucket.client import Bucket
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.policy.messages import Capability

FOLDER = ".probe"
#: How many race for one object, and how often.
RACERS = 8
ROUNDS = 3


def probe(bucket: Bucket) -> Answer[Capability]:
    """Try the conditions on objects of our own, which are removed afterwards."""
    place = f"{FOLDER}/{token_hex(8)}"
    try:
        found = next(_surprises(bucket, place), None)
    except Problem as problem:
        if isinstance(problem, NotImplementedError | NotSupportedError) or "501 Not Implemented" in str(problem):
            return NotDone(f"the bucket has no conditional writes: {described(problem)}")
        return Unknown(f"the bucket could not be tried: {described(problem)}")
    finally:
        _swept(bucket, place)
    return Done(Capability.ATOMIC) if found is None else NotDone(f"the bucket did not behave: {found}")


def _surprises(bucket: Bucket, place: str) -> Iterator[str]:
    """Yield each way in which the bucket misbehaved. After the first one the rest proves nothing."""
    key = f"{place}/record"
    if bucket.swap(key, '"0"', b"nothing to swap") is not None:
        yield "a swap made an object that was not there"
    first = bucket.create(key, _unique())
    if first is None:
        yield "an object that was not there could not be created"
    if bucket.create(key, b"created twice") is not None or _holds(bucket, key, b"created twice"):
        yield "an object was created although there was one"
    now = bucket.read(key)
    if now is None or not now.tag or now.tag != first:
        yield "what was just written could not be read back with its entity tag"
        return
    mine = _unique()
    if bucket.swap(key, now.tag, mine) is None or not _holds(bucket, key, mine):
        yield "a swap by the tag that was just read did not happen"
    if bucket.swap(key, now.tag, b"swapped by an old tag") is not None or not _holds(bucket, key, mine):
        yield "a swap by an old tag overwrote what was there"
    if key not in {each.key for each in bucket.list(place)}:
        yield "an object that had been written was not in the listing"
    for turn in range(ROUNDS):
        yield from _lost_races(bucket, f"{place}/{turn}")


def _lost_races(bucket: Bucket, key: str) -> Iterator[str]:
    """Yield what several won at once: a store that checks and then writes, in two steps, lets them."""
    if _winners(lambda: bucket.create(key, _unique())) != 1:
        yield f"of {RACERS} who created one object at once, not exactly one did"
    now = bucket.read(key)
    tag = "" if now is None else now.tag
    if _winners(lambda: bucket.swap(key, tag, _unique())) != 1:
        yield f"of {RACERS} who swapped one object at once, not exactly one did"


def _winners(act: Callable[[], str | None]) -> int:
    with ThreadPoolExecutor(RACERS) as pool:
        return sum(each.result() is not None for each in [pool.submit(act) for _ in range(RACERS)])


def _unique() -> bytes:
    """Bytes unlike any others: equal ones would bring an old tag back, and prove a good store bad."""
    return token_hex(32).encode()


def _holds(bucket: Bucket, key: str, data: bytes) -> bool:
    found = bucket.read(key)
    return found is not None and found.data == data


def _swept(bucket: Bucket, place: str) -> None:
    """Remove what this probe made, and what one that was killed more than an hour ago has left."""
    latest = datetime.now(UTC) - timedelta(hours=1)
    try:
        found = list(bucket.list(FOLDER))
        bucket.delete(each.key for each in found if each.key.startswith(f"{place}/") or each.modified < latest)
    except Problem:
        return  # the next probe tries again
