"""The few requests everything is made of: read, create if absent, swap by entity tag, write once, list, delete.

The client repeats what failed, as the usual clients do: 5xx answers, broken connections. For a conditional write that
would be a lie. Counterexample: the first try lands, its answer is lost, the second finds the tag changed, by ourselves,
and says that the condition did not hold. So conditional writes are sent once, by a client that never repeats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from io import RawIOBase
from typing import TYPE_CHECKING, Any, cast

import obstore
from attrs import field, frozen
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import MemoryStore, from_url

from perago_core.answers import NotDoneError

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

#: Where objects live that vanish with the process: for tests, and to try a task.
MEMORY = "memory://"
#: What a bucket may be.
SCHEMES = ("s3://", "az://", "abfs://", "gs://", MEMORY)


#: Variables that say where a server is, if not where its cloud has it.
_ADDRESSES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")


@frozen
class Connection:
    """Where the bucket is and how it is reached; picklable, because executors on other machines need it too.

    ``options`` are obstore's. What is not among them comes from the variables that users of each cloud know, such as
    ``AWS_ACCESS_KEY_ID`` and ``AWS_ENDPOINT_URL``. ``timeout``: seconds for the answer to a request.
    """

    url: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 30.0

    def __attrs_post_init__(self) -> None:
        if not self.url.startswith(SCHEMES):
            message = f"expected an address such as s3://bucket/prefix, found {self.url!r}: use {', '.join(SCHEMES)}"
            raise ValueError(message)


@frozen
class Read:
    """One object as it was read: its bytes, and the tag that a swap of it needs."""

    data: bytes
    tag: str


@frozen
class Listed:
    """One object of a listing. ``key`` is relative to the bucket's prefix."""

    key: str
    size: int
    modified: datetime


class Bucket:
    """The requests to one bucket. A client that repeats for reads and for writes that may be repeated, one that not."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._patient, self._once = _stores(connection)

    def read(self, key: str) -> Read | None:
        """Read a small object; ``None``: there is none."""
        try:
            found = obstore.get(self._patient, key)
            tag = found.meta["e_tag"]
            return Read(bytes(found.bytes()), tag or "")
        except FileNotFoundError:
            return None

    def create(self, key: str, data: bytes) -> str | None:
        """Write the object unless there is one; give its tag, ``None``: there is one."""
        try:
            return obstore.put(self._once, key, data, mode="create", use_multipart=False)["e_tag"] or ""
        except (AlreadyExistsError, PreconditionError):
            return None

    def swap(self, key: str, tag: str, data: bytes) -> str | None:
        """Write the object if it still has this tag; give the new one, ``None``: it has another, or is gone."""
        try:
            return obstore.put(self._once, key, data, mode={"e_tag": tag}, use_multipart=False)["e_tag"] or ""
        except (PreconditionError, AlreadyExistsError, FileNotFoundError):
            return None

    def write(self, key: str, data: bytes | Iterator[bytes]) -> None:
        """Write an object under a name that nobody else writes, or everybody with the same bytes."""
        obstore.put(self._patient, key, data, chunk_size=8 << 20, max_concurrency=4)

    def open(self, key: str) -> Iterator[bytes] | None:
        """Open an object, whose bytes come part by part; ``None``: there is none."""
        try:
            found = obstore.get(self._patient, key)
        except FileNotFoundError:
            return None
        return (bytes(part) for part in found.stream(min_chunk_size=1 << 20))

    def list(self, prefix: str) -> Iterator[Listed]:
        """List the objects below a folder, in whatever order; the prefix ends where a name does."""
        # One of its overloads is declared with a package that is not here.
        pages: Iterable[Sequence[ObjectMeta]] = obstore.list(self._patient, prefix)  # pyright: ignore[reportUnknownMemberType]
        for page in pages:
            for each in page:
                yield Listed(each["path"], each["size"], each["last_modified"])

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is no problem."""
        wanted = list(keys)
        if wanted:
            with suppress(FileNotFoundError):
                obstore.delete(self._patient, wanted)


class Stream(RawIOBase):
    """The parts of an object as a file, read once from begin to end."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        super().__init__()
        self._parts = parts
        self._left = b""

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  whatever the buffered reader brings
        """Fill the buffer with what there is; 0 at the end."""
        while not self._left:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._left = part
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)


@cache
def bucket(connection: Connection) -> Bucket:
    """Return the one client of this process for a connection: it keeps connections open."""
    return Bucket(connection)


@cache
def _stores(connection: Connection) -> tuple[ObjectStore, ObjectStore]:
    if connection.url.startswith(MEMORY):
        return _kept(connection.url), _kept(connection.url)
    return _opened(connection, 10), _opened(connection, 0)


@cache
def _kept(_url: str) -> MemoryStore:
    return MemoryStore()


def _opened(connection: Connection, retries: int) -> ObjectStore:
    options: dict[str, Any] = dict(connection.options)
    waiting = timedelta(seconds=connection.timeout)
    client: ClientConfig = {"timeout": waiting, "connect_timeout": min(waiting, timedelta(seconds=5))}
    # An address without TLS is meant, be it given here or by a variable: what is given here is all obstore looks at.
    named = (os.environ.get(name, "") for name in _ADDRESSES)
    if any(str(value).startswith("http://") for value in (*options.values(), *named)):
        client["allow_http"] = True
    repeated: RetryConfig = {"max_retries": retries, "retry_timeout": waiting}
    # Each cloud has options of its own; obstore refuses what it does not know, with the name.
    opened = cast("Callable[..., ObjectStore]", from_url)
    try:
        return opened(connection.url, client_options=client, retry_config=repeated, **options)
    except Exception as error:  # noqa: BLE001  of a kind for each cloud, all of them mistakes in what was given
        message = f"{connection.url} cannot be opened: {str(error).partition(chr(10))[0]}"
        raise NotDoneError(message) from None
