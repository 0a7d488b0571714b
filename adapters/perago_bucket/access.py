"""The sink and the source: small values that name a bucket and can be sent to any process on any machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from io import BufferedReader, BytesIO
from secrets import token_hex
from typing import BinaryIO, cast

from attrs import frozen

from perago_bucket import commits, manifest, staging
from perago_bucket.answers import answer
from perago_bucket.client import Connection, Stream, bucket
from perago_bucket.layout import DATA, Place, place_of
from perago_bucket.layout import staging as staging_name
from perago_core.answers import Answer, NotDoneError
from perago_core.names import is_ignored, problem_of
from perago_core.ports import Stored
from perago_core.values import CommitRef, Target

#: What is not larger goes in one request; what is goes in parts of this size, a few at a time.
_PART = 8 << 20
_ADDRESS = re.compile(r"[A-Za-z0-9_-]+/[0-9a-f]{32}")


@frozen
class BucketSink:
    """Writes under one staging name. Bytes go straight to the bucket, each upload under a name of its own."""

    connection: Connection
    target: Target
    name: str

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Store bytes for a path without making them part of the staging branch."""
        return answer(lambda: put(self._place(), staging_name(self.name), path, data))

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        """Make stored bytes visible on the staging branch, and remove paths from it. A path in both is visible."""

        def work() -> None:
            changes: dict[str, Stored | None] = dict.fromkeys(deleted)
            changes |= {_writable(each.path): _linkable(each) for each in stored}
            staging.link(self._place(), self.target, self.name, changes)

        return answer(work)

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List what the staging branch shows under a prefix."""

        def work() -> tuple[Stored, ...]:
            place = self._place()
            return tuple(manifest.listed(place, staging.linked(place, self.target, self.name), prefix))

        return answer(work)

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        """Write a manifest under a name that readers of the data ignore."""

        def work() -> None:
            if not is_ignored(path):
                message = f"readers would take {path!r} for data: give a manifest a name that begins with '_' or '.'"
                raise NotDoneError(message)
            stored = put(self._place(), staging_name(self.name), path, BytesIO(manifest))
            staging.link(self._place(), self.target, self.name, {path: stored})

        return answer(work)

    def _place(self) -> Place:
        return place_of(bucket(self.connection), self.target.repository)


@frozen
class BucketSource:
    """Reads one commit."""

    connection: Connection
    repository: str
    ref: CommitRef

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List the objects of the commit under a prefix."""

        def work() -> tuple[Stored, ...]:
            place = self._place()
            return tuple(manifest.listed(place, commits.needed(place, self.ref).tree, prefix))

        return answer(work)

    def get(self, path: str) -> Answer[BinaryIO]:
        """Open one object of the commit."""

        def work() -> BinaryIO:
            place = self._place()
            found = manifest.found(place, commits.needed(place, self.ref).tree, path)
            if found is None:
                message = f"no file {path!r} in commit {self.ref}"
                raise NotDoneError(message)
            opened = place.bucket.open(place.key(DATA, found.address))
            if opened is None:
                message = f"the bytes of {path!r} in commit {self.ref} are gone: somebody else has deleted them"
                raise NotDoneError(message)
            # A reader with a buffer is a binary file; typeshed does not say so.
            return cast("BinaryIO", BufferedReader(Stream(_checked(opened, found)), 1 << 20))

        return answer(work)

    def _place(self) -> Place:
        return place_of(bucket(self.connection), self.repository)


def _checked(parts: Iterator[bytes], stored: Stored) -> Iterator[bytes]:
    """Pass the bytes of a file on, and fail at their end if they are not those that were put.

    Counterexample: a proxy's page, sent with 200 in place of the file, was the input of this task and, from the cache,
    of all later ones.
    """
    digest, size = hashlib.sha256(), 0
    for part in parts:
        digest.update(part)
        size += len(part)
        yield part
    if (size, digest.hexdigest()) != (stored.size, stored.checksum):
        message = f"expected {stored.size} bytes of {stored.path!r}, found {size} others: something else was answered"
        raise OSError(message)


def put(place: Place, name: str, path: str, data: BinaryIO) -> Stored:
    """Upload bytes once, under a name nobody else has, in the folder of the staging name they are meant for."""
    _writable(path)
    digest, size, address = hashlib.sha256(), 0, f"{name}/{token_hex(16)}"

    def parts(first: bytes, hashing: Executor) -> Iterator[bytes]:
        """Give part by part; each is hashed while it is sent, and the next one waits until it was."""
        nonlocal size
        part = first
        while part:
            hashed = hashing.submit(digest.update, part)
            size += len(part)
            yield part
            part = _part(data)
            hashed.result()

    first = _part(data)
    key = place.key(DATA, address)
    if len(first) < _PART:
        digest.update(first)
        size = len(first)
        place.bucket.write(key, first)
    else:
        with ThreadPoolExecutor(1, thread_name_prefix="hashing") as hashing:
            place.bucket.write(key, parts(first, hashing))
    return Stored(path, address, digest.hexdigest(), size)


def _part(data: BinaryIO) -> bytes:
    """Read a whole part, or what is left: a pipe gives less than it was asked for long before its end."""
    pieces: list[bytes] = []
    left = _PART
    while left and (piece := data.read(left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _writable(path: str) -> str:
    """Return a path back that may be written: it becomes a file on somebody's disk."""
    problem = problem_of(path)
    if problem is not None:
        message = f"the path {path[:80]!r} cannot be stored: {problem}"
        raise NotDoneError(message)
    return path


def _linkable(stored: Stored) -> Stored:
    if _ADDRESS.fullmatch(stored.address) is None:
        message = f"expected what a sink of this store has put, found the address {stored.address[:80]!r}"
        raise NotDoneError(message)
    return stored
