"""Writing on one branch: each object by the way that suits its size, and many of them linked or removed.

===========================  ==============================================  =====================
an object that is            goes                                            with requests
===========================  ==============================================  =====================
small, or cannot be signed   through the server                              1
large                        to a signed address, and is linked              3
larger than a part           in parts to signed addresses, and is completed  2, and 2 for each part
===========================  ==============================================  =====================

The content type is always the same and there are no other attributes: both are part of what lakeFS takes for a change,
and equal bytes must be no change (S-12).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import BinaryIO, Final, TypeVar
from urllib.parse import quote

from attrs import frozen

from perago_core.ports import Stored
from perago_lakefs.answers import Problem, Uncertain, described, was_refused
from perago_lakefs.transfer import Body, Courier, Json, Window, body_of
from perago_lakefs.transfer_storage import LARGE, Storage, storage_of

T = TypeVar("T")

CONTENT_TYPE: Final = "application/octet-stream"
_PLAIN: Final = {"Content-Type": CONTENT_TYPE}
#: Bytes of a part, unless that makes too many parts.
PART: Final = 64 << 20
_MOST_PARTS: Final = 10_000
#: The most paths that are deleted in one request.
_BATCH: Final = 1000
_NAMED: Final = 3


@frozen(eq=False)
class Branch:
    """A branch to write to, and who sends the requests."""

    courier: Courier
    repository: str
    name: str

    @property
    def place(self) -> str:
        """Give the branch's path in the API."""
        return f"/repositories/{quote(self.repository, safe='')}/branches/{quote(self.name, safe='')}"


def upload(branch: Branch, path: str, data: BinaryIO) -> Stored:
    """Store bytes under a path of the branch."""
    body = body_of(data)
    if not isinstance(body, Window):
        return _through(branch, path, body, _PLAIN)
    if body.size >= LARGE:
        storage = storage_of(branch.courier)
        if storage.signs_parts and body.size > PART:
            return _in_parts(branch, path, body)
        if storage.signs:
            return _signed(branch, path, body, storage)
    return _through(branch, path, body, _sized(body))


def _through(branch: Branch, path: str, body: Body, headers: Mapping[str, str]) -> Stored:
    said = branch.courier.send("POST", f"{branch.place}/objects", {"path": path}, body, headers)
    return Stored(path, said["physical_address"], said["checksum"], said["size_bytes"])


def _signed(branch: Branch, path: str, body: Window, storage: Storage) -> Stored:
    place, query = f"{branch.place}/staging/backing", {"path": path}
    # A branch that is gone is noticed only by the link, after the bytes were sent.
    address = branch.courier.ask("GET", place, {**query, "presign": "true"}, repeat=True)
    digest = _Digest(body)
    kind = {"x-ms-blob-type": "BlockBlob"} if storage.kind == "azure" else {}
    branch.courier.send_to(address["presigned_url"], digest, {**_sized(body), **kind})
    stored = Stored(path, address["physical_address"], digest.value, body.size)
    branch.courier.ask("PUT", place, query, {"staging": address, **_attributes(stored)})
    return stored


def _in_parts(branch: Branch, path: str, body: Window) -> Stored:
    place, query = f"{branch.place}/staging/pmpu", {"path": path}
    begun = branch.courier.ask("POST", place, query)
    place, address = f"{place}/{quote(begun['upload_id'], safe='')}", {"physical_address": begun["physical_address"]}
    try:
        parts: list[Json] = []
        for number, part in enumerate(body.parts(max(PART, -(-body.size // _MOST_PARTS))), 1):
            # An address is asked for when it is needed: it may expire before the parts ahead of it are sent.
            signed = branch.courier.ask("PUT", f"{place}/parts/{number}", query, address, repeat=True)
            told = branch.courier.send_to(signed["presigned_url"], part, _sized(part))
            parts.append({"part_number": number, "etag": told["ETag"]})
    except BaseException:
        with suppress(*Problem):  # parts nobody completes are paid for until somebody tidies up
            branch.courier.ask("DELETE", place, query, address)
        raise
    completed = {**address, "parts": parts, "content_type": CONTENT_TYPE}
    said = branch.courier.ask("PUT", place, query, completed)
    # What comes back here is only the end of the address, which cannot be linked elsewhere.
    return Stored(path, begun["physical_address"], said["checksum"], said["size_bytes"])


class _Digest:
    """Reads a body and learns its MD5, which is what lakeFS takes of an object that passes through it."""

    def __init__(self, body: Window) -> None:
        self._body = body
        self._found = hashlib.md5(usedforsecurity=False)

    def read(self, size: int = -1, /) -> bytes:
        """Read on."""
        chunk = self._body.read(size)
        self._found.update(chunk)
        return chunk

    def rewind(self) -> None:
        """Begin again."""
        self._body.rewind()
        self._found = hashlib.md5(usedforsecurity=False)

    @property
    def value(self) -> str:
        """Give the digest of what was read since the beginning."""
        return self._found.hexdigest()


def _sized(body: Window) -> dict[str, str]:
    return {**_PLAIN, "Content-Length": str(body.size)}


def _attributes(stored: Stored) -> Json:
    return {"checksum": stored.checksum, "size_bytes": stored.size, "content_type": CONTENT_TYPE}


def link(branch: Branch, stored: Sequence[Stored]) -> None:
    """Make bytes that are stored anywhere in the repository appear on the branch, side by side."""

    def one(each: Stored) -> None:
        about = {"physical_address": each.address, **_attributes(each)}
        branch.courier.ask("PUT", f"{branch.place}/objects", {"path": each.path}, about)

    _side_by_side(one, stored, branch.courier.connection.pool)


def remove(branch: Branch, paths: Sequence[str]) -> None:
    """Delete paths; those that are not there are no problem. The server says 200 also if it deleted nothing."""
    batches = [paths[start : start + _BATCH] for start in range(0, len(paths), _BATCH)]
    for batch in batches:
        said = branch.courier.ask("POST", f"{branch.place}/objects/delete", body={"paths": list(batch)})
        wrong = [f"{each.get('path')!r}: {each['message']}" for each in said["errors"]]
        if wrong:
            raise Uncertain(f"{len(wrong)} of {len(batch)} paths were not deleted: {', '.join(wrong[:_NAMED])}")


def _side_by_side(work: Callable[[T], object], items: Iterable[T], width: int) -> None:
    """Do the work for each; if some of it fails, only a failure of all is a refusal."""
    done = 0

    def one(item: T) -> None:
        nonlocal done
        work(item)
        done += 1

    with ThreadPoolExecutor(width, thread_name_prefix="lakefs") as pool:
        running = [pool.submit(one, item) for item in items]
        try:
            for each in running:
                each.result()
        except Problem as problem:
            pool.shutdown(cancel_futures=True)
            if done or not was_refused(problem):
                raise Uncertain(f"{done} of {len(running)} were linked, then: {described(problem)}") from None
            raise
