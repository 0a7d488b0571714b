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
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import BinaryIO, Final
from urllib.parse import quote

from attrs import frozen

from perago_core.ports import Stored
from perago_lakefs.answers import Problem, Uncertain, described, was_refused
from perago_lakefs.objects.storage import LARGE, Storage, storage_of
from perago_lakefs.objects.transfer import Body, Courier, Json, Window, body_of

CONTENT_TYPE: Final = "application/octet-stream"
_PLAIN: Final = {"Content-Type": CONTENT_TYPE}
#: Bytes of a part, unless that makes too many parts.
PART: Final = 16 << 20
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


def change(branch: Branch, stored: Sequence[Stored], deleted: Sequence[str]) -> None:
    """Make bytes that are stored anywhere in the repository appear on the branch, and delete other paths from it.

    Each request is sent once. If all of them were refused, nothing has happened; else nobody can say what has.
    """

    def link(each: Stored) -> None:
        about = {"physical_address": each.address, **_attributes(each)}
        branch.courier.ask("PUT", f"{branch.place}/objects", {"path": each.path}, about)

    def delete(paths: Sequence[str]) -> None:
        said = branch.courier.ask("POST", f"{branch.place}/objects/delete", body={"paths": paths})
        wrong = [f"{each.get('path')!r}: {each['message']}" for each in said["errors"]]
        if wrong:  # the server says 200 all the same
            raise Uncertain(f"{len(wrong)} of {len(paths)} paths were not deleted: {', '.join(wrong[:_NAMED])}")

    batches = [deleted[start : start + _BATCH] for start in range(0, len(deleted), _BATCH)]
    with ThreadPoolExecutor(branch.courier.connection.pool, thread_name_prefix="lakefs") as pool:
        running = [pool.submit(link, each) for each in stored] + [pool.submit(delete, each) for each in batches]
        wait(running, return_when=FIRST_EXCEPTION)
        for each in running:
            each.cancel()
    _judge([each for each in running if not each.cancelled()])


def _judge(ended: Sequence[Future[None]]) -> None:
    """Raise what went wrong: as it is if nothing at all has happened, else as something nobody can tell."""
    failed = [problem for each in ended if (problem := each.exception()) is not None]
    if not failed:
        return
    if len(failed) == len(ended) and all(isinstance(each, Problem) and was_refused(each) for each in failed):
        raise failed[0]
    words = described(failed[0]) if isinstance(failed[0], Problem) else str(failed[0])
    raise Uncertain(f"{len(ended) - len(failed)} requests were done, and then one was not: {words}")
