"""What nothing reaches any more: ranges, commits, claims and bytes that losers, the replaced and the killed have left.

The order is what makes it safe, not how old something is:

1. everything is listed. What is written later is not judged.
2. every record is swapped for its successor. Whoever was about to point at something that is in the list finds the
   record changed, and begins again by writing it anew, under another name.
3. what the new records reach is kept: heads with their history, names, claims, and the uploads of names that stand, be
   they linked or not.

So an object goes only if no record can come to name it. The grace period is for what no record knows: a reader at work
on a commit that has been replaced, a branch that is being made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from perago_bucket import claims, commits, manifest, record
from perago_bucket.client import Listed
from perago_bucket.layout import BRANCHES, CLAIMS, COMMITS, DATA, FIRST, NODES, TOGETHER, VALUES, Place
from perago_bucket.record import Record
from perago_core.names import unescape
from perago_core.values import CommitRef


def unreached(place: Place, kept: Collection[CommitRef], older_than: float) -> tuple[str, ...]:
    """Return the keys of what may go from a repository. ``kept``: commits that open intents speak of."""
    return _judged(place, older_than, lambda records: _reached(place, records, kept))


def unreached_values(place: Place, older_than: float) -> tuple[str, ...]:
    """Return the keys of what may go where the records are of keys and values, as ``coordination`` has them."""
    return _judged(place, older_than, lambda records: _held(place, (found.head for found in records), VALUES))


def _judged(place: Place, older_than: float, reach: Callable[[list[Record]], Iterator[str]]) -> tuple[str, ...]:
    every = list(place.bucket.list(place.folder))
    # Of one listing: a second one that came back empty would have let everything go.
    branches = [unescape(each.key.rpartition("/")[2]) for each in every if _shelf(place, each) == BRANCHES]
    if not branches:
        return ()
    listed = [each for each in every if _shelf(place, each) not in {BRANCHES, TOGETHER}]
    latest = datetime.now(UTC) - timedelta(seconds=older_than)
    records = [record.change(place, branch, lambda found: (found, found)) for branch in branches]
    reached = set(reach(records))
    standing = {FIRST, *(name for found in records for name in found.names)}
    return tuple(
        each.key
        for each in listed
        if each.modified < latest and each.key not in reached and _staging_name(place, each) not in standing
    )


def _reached(place: Place, records: Collection[Record], kept: Collection[CommitRef]) -> Iterator[str]:
    made = [each for found in records for attempts in found.claims.values() for each in attempts.values()]
    claimed = [claims.read(place, each) for each in made]
    yield from (place.key(CLAIMS, each.name) for each in made)
    at = {found.head for found in records} | {name.at for found in records for name in found.names.values()}
    history = set(_history(place, {*at, *kept, *(claim.parent for claim in claimed)}))
    yield from (place.key(COMMITS, ref) for ref in history)
    trees = {commits.needed(place, ref).tree for ref in history}
    trees |= {name.tree for found in records for name in found.names.values()}
    yield from _held(place, trees, DATA)


def _held(place: Place, trees: Iterable[str], shelf: str) -> Iterator[str]:
    """Return the keys of the ranges of these manifests, and of what they name."""
    seen: set[str] = set()
    for tree in trees:
        for name, addresses in manifest.reached(place, tree, seen):
            yield place.key(NODES, name)
            yield from (place.key(shelf, address) for address in addresses)


def _history(place: Place, begin: Collection[CommitRef]) -> Iterator[CommitRef]:
    """Return these commits and all before them; one that is gone already has nothing to keep."""
    waiting, seen = list(begin), set(begin)
    while waiting:
        ref = waiting.pop()
        found = commits.look(place, ref)
        if found is not None:
            yield ref
            waiting += [each for each in found.parents if each not in seen]
            seen |= set(found.parents)


def _shelf(place: Place, each: Listed) -> str:
    return each.key.removeprefix(f"{place.folder}/").partition("/")[0]


def _staging_name(place: Place, each: Listed) -> str | None:
    """Return the staging name for which bytes were uploaded; ``None``: these are not bytes of a file."""
    inside = each.key.removeprefix(f"{place.folder}/")
    return inside.split("/")[1] if inside.startswith(f"{DATA}/") else None
