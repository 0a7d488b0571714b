"""The requests on object storage, by obstore: S3 and what speaks it, Azure, Google, and objects in memory.

The client repeats what failed, as the usual clients do: 5xx answers, broken connections. For a conditional write that
would be a lie. Counterexample: the first try lands, its answer is lost, the second finds the tag changed, by ourselves,
and says that the condition did not hold. So conditional writes are sent once, by a client that never repeats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal, cast

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import MemoryStore, from_url

from perago_bucket.client import MEMORY, Connection, Listed, Read
from perago_bucket.documented import absent_is_said, shows_content, tag_of, whole
from perago_core.answers import NotDoneError

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutResult, UpdateVersion
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

#: Variables that say where a server is, if not where its cloud has it.
_ADDRESSES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")


class Objects:
    """The requests to one bucket. A client that repeats for reads and for writes that may be repeated, one that not."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._patient, self._once = _stores(connection)
        self._here = connection.url.startswith(MEMORY)
        # Google compares generations, and takes no entity tag: asked to, the client refuses before it sends anything.
        self._named: Literal["e_tag", "version"] = "version" if connection.url.startswith("gs://") else "e_tag"

    def read(self, key: str) -> Read | None:
        """Read a small object; ``None``: there is none."""
        try:
            with absent_is_said():
                found = obstore.get(self._patient, key)
            tag = tag_of(found.meta[self._named], key)
            return Read(whole(found.stream(min_chunk_size=1 << 20), key), tag)
        except FileNotFoundError:
            return None

    def create(self, key: str, data: bytes) -> str | None:
        """Write the object unless there is one; give its tag, ``None``: there is one."""
        try:
            return self._landed(key, data, obstore.put(self._once, key, data, mode="create", use_multipart=False))
        except (AlreadyExistsError, PreconditionError):
            return None

    def swap(self, key: str, tag: str, data: bytes) -> str | None:
        """Write the object if it still has this tag; give the new one, ``None``: it has another, or is gone."""
        try:
            mode: UpdateVersion = {"version": tag} if self._named == "version" else {"e_tag": tag}
            with absent_is_said():
                made = obstore.put(self._once, key, data, mode=mode, use_multipart=False)
        except (PreconditionError, AlreadyExistsError, FileNotFoundError):
            return None
        return self._landed(key, data, made)

    def write(self, key: str, data: bytes | Iterator[bytes]) -> None:
        """Write an object under a name that nobody else writes, or everybody with the same bytes."""
        made = obstore.put(self._patient, key, data, chunk_size=8 << 20, max_concurrency=4)
        self._landed(key, data, made)

    def _landed(self, key: str, data: bytes | Iterator[bytes], made: PutResult) -> str:
        """Return the tag of what was written, having seen that the bucket has it.

        A tag that is the digest of the bytes shows it. Any other may be that of a page which somebody was led to, so
        the bucket is asked for the tag of what it has. If that is another one by now, nobody knows. Nobody stands
        between this process and its own memory: asked there, a rival's swap would make an answer that is known unknown.
        """
        told = tag_of(made[self._named], key)
        if not self._here and not shows_content(told, made["version"], data):
            try:
                has = obstore.head(self._patient, key)[self._named]
            except FileNotFoundError:
                has = None
            if has != told:
                message = f"a write of {key} was answered with the tag {told}, and the bucket has {has or 'nothing'}"
                raise OSError(message)
        return told

    def open(self, key: str) -> Iterator[bytes] | None:
        """Open an object, whose bytes come part by part; ``None``: there is none."""
        try:
            with absent_is_said():
                found = obstore.get(self._patient, key)
        except FileNotFoundError:
            return None
        return (bytes(part) for part in found.stream(min_chunk_size=1 << 20))

    def list(self, prefix: str) -> Iterator[Listed]:
        """List the objects below a folder, in whatever order; the prefix ends where a name does.

        To the client every page is a listing without objects. So where there are none, it is first made sure that a
        bucket answers: whoever answers with a page has an object of any name. Then it is asked again. Counterexample to
        asking once: a page of a proxy that restarts, and the bucket's own word that there is no object of that name.
        """
        found = False
        for each in self._listed(prefix):
            found = True
            yield each
        if not found:
            if self.read(f"{prefix}/{token_hex(8)}") is not None:
                message = f"the bucket lists nothing below {prefix} and has whatever it is asked for: it is no bucket"
                raise OSError(message)
            yield from self._listed(prefix)

    def _listed(self, prefix: str) -> Iterator[Listed]:
        # One of its overloads is declared with a package that is not here.
        pages: Iterable[Sequence[ObjectMeta]] = obstore.list(self._patient, prefix)  # pyright: ignore[reportUnknownMemberType]
        for page in pages:
            for each in page:
                yield Listed(each["path"], each["size"], each["last_modified"])

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is no problem."""
        wanted = list(keys)
        if wanted:
            with suppress(FileNotFoundError), absent_is_said():
                obstore.delete(self._patient, wanted)

    def sweep(self, older_than: float) -> None:
        """Remove nothing: an upload that was not finished is the server's, whose own rules say when it goes."""


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
