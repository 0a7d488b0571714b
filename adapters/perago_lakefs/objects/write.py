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

from attrs import evolve, frozen

from perago_core.answers import UnknownError
from perago_core.ports import Stored
from perago_lakefs.answers import Problem, described, was_refused
from perago_lakefs.client import CONTENT_TYPE, DELETIONS, Client, Storage, stored_object
from perago_lakefs.objects.transfer import LARGE, Body, Transfer, Window, body_of

_PLAIN: Final = {"Content-Type": CONTENT_TYPE}
#: Bytes of a part, unless that makes too many parts.
PART: Final = 16 << 20
_MOST_PARTS: Final = 10_000
_NAMED: Final = 3


@frozen(eq=False)
class Branch:
    """A branch to write to, and the client that sends the requests."""

    client: Client
    repository: str
    name: str


def upload(branch: Branch, path: str, data: BinaryIO) -> Stored:
    """Store bytes under a path of the branch."""
    body = body_of(data)
    if not isinstance(body, Window):
        return _through(branch, path, body, _PLAIN)
    if body.size >= LARGE:
        storage = branch.client.storage()
        if storage.signs_parts and body.size > PART:
            return _in_parts(branch, path, body)
        if storage.signs:
            return _signed(branch, path, body, storage)
    return _through(branch, path, body, _sized(body))


def _through(branch: Branch, path: str, body: Body, headers: Mapping[str, str]) -> Stored:
    place = f"/repositories/{quote(branch.repository, safe='')}/branches/{quote(branch.name, safe='')}/objects"
    made = Transfer(branch.client).send(place, {"path": path}, body, headers)
    return evolve(stored_object(made), path=path)


def _signed(branch: Branch, path: str, body: Window, storage: Storage) -> Stored:
    client = branch.client
    address = client.sign(branch.repository, branch.name, path)
    digest = _Digest(body)
    kind = {"x-ms-blob-type": "BlockBlob"} if storage.kind == "azure" else {}
    Transfer(client).send_to(address.url, digest, {**_sized(body), **kind})
    stored = Stored(path, address.physical, digest.value, body.size)
    client.link_signed(branch.repository, branch.name, stored, address)
    return stored


def _in_parts(branch: Branch, path: str, body: Window) -> Stored:
    client, place = branch.client, (branch.repository, branch.name, path)
    upload = client.begin_parts(*place)
    try:
        etags: list[str] = []
        for number, part in enumerate(body.parts(max(PART, -(-body.size // _MOST_PARTS))), 1):
            # An address is asked for when it is needed: it may expire before the parts ahead of it are sent.
            url = client.sign_part(*place, upload, number)
            etags.append(Transfer(client).send_to(url, part, _sized(part))["ETag"])
    except BaseException:
        with suppress(*Problem):  # parts nobody completes are paid for until somebody tidies up
            client.abort_parts(*place, upload)
        raise
    return client.complete_parts(*place, upload, etags)


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
        """Return the digest of what was read since the beginning."""
        return self._found.hexdigest()


def _sized(body: Window) -> dict[str, str]:
    return {**_PLAIN, "Content-Length": str(body.size)}


def change(branch: Branch, stored: Sequence[Stored], deleted: Sequence[str]) -> None:
    """Make bytes that are stored anywhere in the repository appear on the branch, and delete other paths from it.

    Each request is sent once. If all of them were refused, nothing has happened; else nobody can say what has.
    """
    client, repository, name = branch.client, branch.repository, branch.name

    def link(each: Stored) -> None:
        client.link(repository, name, each)

    def delete(paths: Sequence[str]) -> None:
        wrong = client.delete_objects(repository, name, paths)
        if wrong:
            raise UnknownError(f"{len(wrong)} of {len(paths)} paths were not deleted: {', '.join(wrong[:_NAMED])}")

    batches = [deleted[start : start + DELETIONS] for start in range(0, len(deleted), DELETIONS)]
    with ThreadPoolExecutor(client.connection.pool, thread_name_prefix="lakefs") as pool:
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
    reason = described(failed[0]) if isinstance(failed[0], Problem) else str(failed[0])
    raise UnknownError(f"{len(ended) - len(failed)} requests were done, and then one was not: {reason}")
