"""The workspace folder of one execution, from an empty sandbox to an upload."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from attrs import field, frozen

from perago_core.answers import Done, Unknown
from perago_core.ports import Sink, Source, Stored
from perago_core.values import CommitRef
from perago_worker.folders.cache import Cache, content_key
from perago_worker.folders.errors import TransferUnknownError, WorkspaceError
from perago_worker.folders.keys import Layout, layout_of
from perago_worker.folders.place import Place, collision, naming
from perago_worker.folders.sandboxes import Sandbox
from perago_worker.folders.transfer import Direct, fetch, send, side_by_side
from perago_worker.folders.transfer_progress import MovedListener, Tally, nobody
from perago_worker.folders.tree import Changes, Difference, clock_of, scan

#: Characters of a ref that are shown: as many as a commit's id has anywhere.
_SHOWN = 64


@frozen
class Origin:
    """Where a workspace comes from: one prefix of one commit, and of that what is ``shown``; ``None``: all of it."""

    source: Source
    repository: str
    ref: CommitRef
    prefix: str
    read_only: bool
    shown: tuple[str, ...] | None = None


@frozen
class Folder:
    """A workspace folder that is complete, with what is needed to say later what has changed in it."""

    sandbox: Sandbox
    origin: Origin
    layout: Layout
    difference: Difference
    fetched: int

    @classmethod
    def make(
        cls,
        sandbox: Sandbox,
        origin: Origin,
        cache: Cache,
        *,
        width: int,
        trusts_times: bool,
        moved: MovedListener = nobody,
    ) -> Self:
        """Fill the sandbox's workspace: one listing, then each content once, from the cache if it is there.

        ``moved`` is told how far it is; what the cache has need not move, and is no part of the total.
        """
        layout = layout_of(_listed(origin), origin.prefix)
        _make_folders(sandbox.work, layout)
        contents = _contents_of(origin, layout, str(sandbox.work))
        kept = [cache.take(each.key, each.stored.size, each.places[0]) for each in contents]
        missing = [each for each, digest in zip(contents, kept, strict=True) if digest is None]
        tally = Tally([each.stored.size for each in missing], moved)
        fetched = iter(side_by_side(lambda each: _fetch(origin.source, each, cache, tally), missing, width))
        originals: dict[str, bytes] = {}
        for each, known in zip(contents, kept, strict=True):
            digest = next(fetched) if known is None else known
            for place in each.places[1:]:
                place.copy(each.places[0], each.stored.size)
            originals.update((place.name, digest) for place in each.places)
        before = scan(sandbox.work)
        _refuse_collisions(layout, set(before.files))
        if missing:
            cache.trim_if_due()
        settled = clock_of(sandbox.scratch) if trusts_times else 0
        return cls(sandbox, origin, layout, Difference(before.files, originals, settled), len(missing))

    def changes(self) -> Changes:
        """Say what the body has changed. A folder that is gone takes its marker with it."""
        now = scan(self.sandbox.work)
        found = self.difference.with_now(self.sandbox.work, now)
        markers = tuple(f"{name}/" for name in sorted(self.layout.folders) if name not in now.folders)
        return Changes(found.written, found.deleted + markers)

    def in_words(self, changes: Changes) -> str:
        """Say what changed: how many files, of how many bytes, and how many are gone."""
        work = str(self.sandbox.work)
        written = sum(os.stat(f"{work}/{name}").st_size for name in changes.written)  # noqa: PTH116  thousands
        summary = f"wrote {len(changes.written):,} file(s), {written:,} bytes"
        return f"{summary}; deleted {len(changes.deleted):,}" if changes.deleted else summary

    def upload(
        self, changes: Changes, sink: Sink, *, width: int, moved: MovedListener = nobody, below: str | None = None
    ) -> int:
        """Send what changed, and only that; then make it visible. Give the number of requests.

        ``below``: the changes are of this folder of the workspace, which is a branch of its own.

        A folder has one writer, so a sink that can do both in one request is asked to. What a failure leaves behind
        on the staging name is never committed, because nobody commits after one.
        """
        work = str(self.sandbox.work)

        def key(name: str) -> str:
            return f"{self.origin.prefix}{name}" if below is None else name.removeprefix(below)

        tally = Tally([os.stat(f"{work}/{name}").st_size for name in changes.written], moved)  # noqa: PTH116  thousands
        direct = sink if isinstance(sink, Direct) else None
        store = sink.put if direct is None else direct.write
        sent = side_by_side(lambda name: send(store, key(name), f"{work}/{name}", tally), changes.written, width)
        requests = sum(each.operations for each in sent)
        stored = () if direct is not None else tuple(each.value for each in sent)
        deleted = tuple(map(key, changes.deleted))
        if not stored and not deleted:
            return requests
        answer = sink.link(stored, deleted)
        if isinstance(answer, Done):
            return requests + answer.operations
        if isinstance(answer, Unknown):
            raise TransferUnknownError(f"the changes may or may not be staged: {answer.reason}")
        raise WorkspaceError(f"the changes were not staged: {answer.reason}")


def _listed(origin: Origin) -> Iterator[Stored]:
    for prefix in (origin.prefix,) if origin.shown is None else origin.shown:
        answer = origin.source.list(prefix)
        if not isinstance(answer, Done):
            # A ref may be of any length; what is wrong with it must still be in the line people read.
            raise WorkspaceError(f"the input {origin.ref[:_SHOWN]} could not be listed: {answer.reason}")
        yield from answer.value


@frozen
class _Content:
    """What is read once, and every place of the workspace that has it."""

    key: str
    stored: Stored
    places: list[Place] = field(factory=list[Place])


def _contents_of(origin: Origin, layout: Layout, work: str) -> list[_Content]:
    mode = 0o444 if origin.read_only else 0o644
    found: dict[str, _Content] = {}
    for name, stored in layout.files.items():
        key = content_key(origin.repository, origin.ref, stored)
        found.setdefault(key, _Content(key, stored)).places.append(Place(work, name, mode))
    return list(found.values())


def _fetch(source: Source, content: _Content, cache: Cache, tally: Tally) -> bytes:
    return fetch(source, content.stored, content.places[0], cache.keep(content.key), tally)


def _make_folders(work: Path, layout: Layout) -> None:
    parents = {name.rpartition("/")[0]: name for name in layout.files}
    for folder, name in {**parents, **{each: each for each in layout.folders}}.items():
        with naming(name):
            (work / folder).mkdir(parents=True, exist_ok=True)


def _refuse_collisions(layout: Layout, found: set[str]) -> None:
    """A file system that takes two names for one, or changes a name, would publish deletions nobody made."""
    different = sorted(found.symmetric_difference(layout.files))
    if different:
        raise WorkspaceError(collision(different[0]))
