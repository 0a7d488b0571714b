"""A manifest is what its entries are, however it came about, and a change of it costs what changed."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex

from hypothesis import given, settings
from hypothesis import strategies as st

from perago_bucket import Connection, manifest
from perago_bucket.client import bucket
from perago_bucket.layout import NODES, Place
from perago_core.ports import Stored

paths = st.text("ab/é", min_size=1, max_size=6)
contents = st.dictionaries(paths, st.integers(0, 3), max_size=60)
changes = st.dictionaries(paths, st.none() | st.integers(0, 3), max_size=20)


def place(fan_out: int = 4) -> Place:
    """Give an empty repository whose ranges are short, so that few paths make several levels."""
    return Place(bucket(Connection(f"memory://{token_hex(8)}")), "lake", fan_out)


def stored(path: str, content: int) -> Stored:
    return Stored(path, f"first/{path}={content}", f"checksum of {content}", content)


def entries(of: Mapping[str, int]) -> dict[str, Stored]:
    return {path: stored(path, content) for path, content in of.items()}


def expected(of: Mapping[str, int], prefix: str = "", after: str = "") -> list[Stored]:
    return [stored(path, of[path]) for path in sorted(of) if path.startswith(prefix) and (not after or path > after)]


def cuts(at: Place, root: str) -> set[tuple[str, ...]]:
    """Give the lowest ranges by what they hold: two of equal content have two names."""
    return {addresses for _, addresses in manifest.reached(at, root, set()) if addresses}


@given(contents, st.lists(changes, max_size=4), paths, paths)
@settings(max_examples=200, deadline=None)
def test_whatever_the_order_of_changes_the_manifest_is_what_its_entries_are(
    first: dict[str, int], steps: list[dict[str, int | None]], prefix: str, after: str
) -> None:
    at = place()
    root, now = manifest.root_of(at, entries(first)), dict(first)
    for step in steps:
        before, was = root, dict(now)
        root = manifest.changed(at, root, {path: None if to is None else stored(path, to) for path, to in step.items()})
        now |= {path: to for path, to in step.items() if to is not None}
        now = {path: content for path, content in now.items() if step.get(path, content) is not None}
        assert (root == before) is (now == was), "nothing changed is the same manifest, and only that"
        differing = manifest.differing(at, before, root)
        assert set(differing) == {path for path in {*was, *now} if was.get(path) != now.get(path)}
    assert list(manifest.listed(at, root)) == expected(now)
    assert list(manifest.listed(at, root, prefix)) == expected(now, prefix)
    assert list(manifest.listed(at, root, prefix, after)) == expected(now, prefix, after)
    assert manifest.found(at, root, prefix) == (stored(prefix, now[prefix]) if prefix in now else None)
    assert cuts(at, root) == cuts(at, manifest.root_of(at, entries(now))), "equal entries are cut alike"


@given(contents, changes, changes)
@settings(max_examples=100, deadline=None)
def test_a_merge_takes_both_sides_or_refuses_what_both_changed(
    base: dict[str, int], ours: dict[str, int | None], theirs: dict[str, int | None]
) -> None:
    at = place()
    first = manifest.root_of(at, entries(base))
    mine, other = (
        manifest.changed(at, first, {path: None if to is None else stored(path, to) for path, to in side.items()})
        for side in (ours, {path: to for path, to in theirs.items() if path not in ours})
    )
    merged = manifest.merged(at, first, mine, other)
    both = {**base, **ours, **{path: to for path, to in theirs.items() if path not in ours}}
    assert list(manifest.listed(at, merged)) == expected({path: to for path, to in both.items() if to is not None})


def test_one_edit_among_many_rewrites_a_few_ranges() -> None:
    """A commit costs what changed, not what is there."""
    at = place(fan_out=512)
    many = {f"part={number // 1000:03}/{number:06}.parquet": 1 for number in range(50_000)}
    root = manifest.root_of(at, entries(many))
    before = {each.key for each in at.bucket.list(f"lake/{NODES}")}
    assert len(before) > 50
    edited = manifest.changed(at, root, {"part=017/017123.parquet": stored("part=017/017123.parquet", 2)})
    written = {each.key for each in at.bucket.list(f"lake/{NODES}")} - before
    assert len(written) == 2
    assert list(manifest.differing(at, root, edited)) == ["part=017/017123.parquet"]
