"""The manifest of a commit: every path with where its bytes are, in ranges, so that a commit costs what changed.

Paths are sorted and cut into ranges after every path whose digest says so, one in some hundred; the list of ranges is
cut the same way, and so on, up to one root. Where the cuts are depends on the paths alone, never on the order in which
they came: equal entries are cut alike. One edited file among a million rewrites its range, the range above it and
the root. What is small enough for one range is never cut.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeAlias, TypeVar

from attrs import frozen

from perago_bucket import immutable
from perago_bucket.layout import NODES, Place, digest_of
from perago_core.answers import NotDoneError
from perago_core.ports import Stored

T = TypeVar("T")

#: How much of a name is the digest.
_DIGEST = 64

#: How many ranges are read at once.
_SIDE_BY_SIDE = 8

#: Paths, each with what it shall hold, or ``None`` where it shall not be.
Changes: TypeAlias = Mapping[str, Stored | None]


#: Names of ranges that exist, by their digest.
_Known: TypeAlias = dict[str, str]


@frozen
class _Range:
    """One range as the range above it knows it: the last of its paths, its name, how many paths are in it."""

    last: str
    name: str
    count: int


@frozen
class _Node:
    """A stored range: entries at the bottom, on level 0, ranges above."""

    level: int = 0
    entries: tuple[Stored, ...] = ()
    ranges: tuple[_Range, ...] = ()


def root_of(place: Place, entries: Mapping[str, Stored]) -> str:
    """Write the manifest of these files."""
    return _written(place, [[entries[path] for path in sorted(entries)]], {})


def changed(place: Place, root: str, changes: Changes, base: str | None = None) -> str:
    """Return the root that these changes lead to. Bytes that are there already, by their checksum, change nothing.

    Ranges that were in this manifest, or in that of ``base``, are not written again.
    """
    ranges, names = _index(place, root)
    known = {name[:_DIGEST]: name for name in (*names, *(() if base is None else _index(place, base)[1]))}
    pieces: list[_Range | list[Stored]] = []
    waiting = sorted(changes)
    rest: list[Stored] = []  # of a range that lost the path it was cut after: it goes on into the next
    for each in ranges[:-1]:
        here = _until(waiting, each.last)
        if not here and not rest:
            pieces.append(each)
            continue
        entries = [*rest, *_edited(_entries(place, each), {path: changes[path] for path in waiting[:here]})]
        waiting = waiting[here:]
        is_whole = bool(entries) and _cuts(entries[-1].path, 0, place.fan_out)
        rest = [] if is_whole else entries
        pieces += [entries] if is_whole else []
    final = ranges[-1:]
    if final and not waiting and not rest:
        pieces += final
    else:
        last = _entries(place, final[0]) if final else ()
        pieces.append([*rest, *_edited(last, {path: changes[path] for path in waiting})])
    return _written(place, pieces, known)


def listed(place: Place, root: str, prefix: str = "", after: str = "") -> Iterator[Stored]:
    """List the files whose path begins like this, in order, those after a path. Other ranges are not even read."""
    ranges, _ = _index(place, root)
    begin = max(prefix, after)
    matching = ranges[bisect_left(ranges, begin, key=lambda one: one.last) :]
    # A range begins after the last path of the one before it: past the prefix, nothing in it can match.
    before = ["", *(each.last for each in matching)]
    wanted = [each for each, last in zip(matching, before, strict=False) if last <= prefix or last.startswith(prefix)]
    for node in _together(place, wanted):
        for entry in node.entries:
            if entry.path.startswith(prefix) and (not after or entry.path > after):
                yield entry


def found(place: Place, root: str, path: str) -> Stored | None:
    """Return the file at a path; ``None``: there is none."""
    ranges, _ = _index(place, root)
    at = bisect_left(ranges, path, key=lambda one: one.last)
    entries = _entries(place, ranges[at]) if at < len(ranges) else ()
    return next((entry for entry in entries if entry.path == path), None)


def differing(place: Place, one: str, other: str) -> dict[str, tuple[Stored | None, Stored | None]]:
    """Return the paths that differ, with both sides. Ranges that both share are not read."""
    shared = {each.name for each in _index(place, one)[0]} & {each.name for each in _index(place, other)[0]}
    left, right = (_outside(place, root, shared) for root in (one, other))
    paths = sorted(left.keys() | right.keys())
    return {path: (left.get(path), right.get(path)) for path in paths if left.get(path) != right.get(path)}


def merged(place: Place, base: str, ours: str, theirs: str) -> str:
    """Merge three ways, whole file by whole file: lines of data are never mixed."""
    mine = differing(place, base, ours)
    changes: dict[str, Stored | None] = {}
    for path, (_, wanted) in differing(place, base, theirs).items():
        if path in mine and not _same(mine[path][1], wanted):
            message = f"{path!r} was changed on the target and in the staged commit: start again from the current head"
            raise NotDoneError(message)
        changes[path] = wanted
    return changed(place, ours, changes)


def reached(place: Place, root: str, seen: set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """List every range of a manifest by its name, each with the addresses of the bytes it names.

    ``seen`` are ranges that need no second look; what is found is added to it.
    """
    ranges, names = _index(place, root)
    fresh = [each for each in ranges if each.name not in seen]
    for name in names - seen - {each.name for each in fresh}:
        yield name, ()
    seen |= names
    for each, node in zip(fresh, _together(place, fresh), strict=True):
        yield each.name, tuple(entry.address for entry in node.entries)


def _same(one: Stored | None, other: Stored | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.checksum, one.size) == (other.checksum, other.size)


def _until(waiting: Sequence[str], last: str) -> int:
    """Return how many of the sorted paths are not after the last one."""
    at = bisect_left(waiting, last)
    return at + (at < len(waiting) and waiting[at] == last)


def _edited(entries: Iterable[Stored], changes: Changes) -> list[Stored]:
    by_path = {entry.path: entry for entry in entries}
    for path, wanted in changes.items():
        if wanted is None:
            by_path.pop(path, None)
        elif not _same(by_path.get(path), wanted):
            by_path[path] = wanted
    return [by_path[path] for path in sorted(by_path)]


def _outside(place: Place, root: str, shared: set[str]) -> dict[str, Stored]:
    ranges = (each for each in _index(place, root)[0] if each.name not in shared)
    return {entry.path: entry for node in _together(place, ranges) for entry in node.entries}


# ---- Cutting and storing


def _cuts(path: str, level: int, fan_out: int) -> bool:
    """Return whether a range ends after this path. A path that ends a range of ranges ends one below it too."""
    digest = int.from_bytes(hashlib.blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    return bool(digest % fan_out ** (level + 1) == 0)


def _written(place: Place, pieces: Sequence[_Range | list[Stored]], known: _Known) -> str:
    """Write what is new of a sequence of ranges and of entries to be cut into ranges; give its root."""
    total = sum(piece.count if isinstance(piece, _Range) else len(piece) for piece in pieces)
    if total <= place.fan_out:
        every = [each for piece in pieces for each in (_entries(place, piece) if isinstance(piece, _Range) else piece)]
        return _stored(place, _Node(entries=tuple(every)), known)
    leaves: list[_Range] = []
    for piece in pieces:
        if isinstance(piece, _Range):
            leaves.append(piece)
            continue
        leaves += [
            _Range(part[-1].path, _stored(place, _Node(entries=tuple(part)), known), len(part))
            for part in _cut(piece, [each.path for each in piece], 0, place.fan_out)
        ]
    return _rooted(place, leaves, known)


def _cut(items: Sequence[T], paths: Sequence[str], level: int, fan_out: int) -> list[Sequence[T]]:
    parts: list[Sequence[T]] = []
    begin = 0
    for at, path in enumerate(paths, 1):
        if at == len(paths) or _cuts(path, level, fan_out):
            parts.append(items[begin:at])
            begin = at
    return parts


def _rooted(place: Place, ranges: Sequence[_Range], known: _Known) -> str:
    """Write ranges of ranges until there is one."""
    level = 1
    while len(ranges) > 1:
        whole = len(ranges) <= place.fan_out
        parts = [ranges] if whole else _cut(ranges, [each.last for each in ranges], level, place.fan_out)
        ranges = [
            _Range(
                part[-1].last, _stored(place, _Node(level, (), tuple(part)), known), sum(each.count for each in part)
            )
            for part in parts
        ]
        level += 1
    return ranges[0].name


def _stored(place: Place, node: _Node, known: _Known) -> str:
    """Write a range, unless the manifest before had it."""
    rows: list[list[str | int]]
    if node.level:
        rows = [[each.last, each.name, each.count] for each in node.ranges]
    else:
        rows = [[each.path, each.address, each.checksum, each.size] for each in node.entries]
    data = json.dumps([node.level, rows], ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    digest = digest_of(data)
    if digest not in known:
        known[digest] = immutable.keep(place, NODES, data, node)
    return known[digest]


# ---- Reading


def _parsed(data: bytes) -> _Node:
    level, rows = json.loads(data.decode("utf-8", "surrogatepass"))
    if level:
        return _Node(level, (), tuple(_Range(*row) for row in rows))
    return _Node(0, tuple(Stored(*row) for row in rows))


def _node(place: Place, name: str) -> _Node:
    node = immutable.fetch(place, NODES, name, _parsed)
    if node is None:
        message = f"range {name} of a manifest in {place.folder} is gone: somebody else has deleted it"
        raise NotDoneError(message)
    return node


def _index(place: Place, root: str) -> tuple[list[_Range], set[str]]:
    """Return the lowest ranges in order, and the names of all: few, beside what is in them."""
    node = _node(place, root)
    known = {root}
    if not node.level:
        return ([_Range(node.entries[-1].path, root, len(node.entries))] if node.entries else []), known
    level, ranges = node.level, list(node.ranges)
    while level > 1:
        known |= {each.name for each in ranges}
        below = _together(place, ranges)
        ranges = [each for one in below for each in one.ranges]
        level -= 1
    return ranges, known | {each.name for each in ranges}


def _entries(place: Place, each: _Range) -> tuple[Stored, ...]:
    return _node(place, each.name).entries


def _together(place: Place, ranges: Iterable[_Range]) -> Iterator[_Node]:
    """Read ranges side by side, a few ahead of who uses them."""
    waiting = iter(ranges)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        while batch := list(islice(waiting, 4 * _SIDE_BY_SIDE)):
            yield from pool.map(partial(_node, place), [each.name for each in batch])
