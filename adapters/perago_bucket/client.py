"""The few requests everything is made of: read, create if absent, swap by entity tag, write once, list, delete.

The client repeats what failed, as the usual clients do: 5xx answers, broken connections. For a conditional write that
would be a lie. Counterexample: the first try lands, its answer is lost, the second finds the tag changed, by ourselves,
and says that the condition did not hold. So conditional writes are sent once, by a client that never repeats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from io import RawIOBase
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal, cast

import obstore
from attrs import evolve, field, frozen
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import MemoryStore, from_url

from perago_bucket.documented import absent_is_said, shows_content, tag_of, whole
from perago_core.answers import NotDoneError

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutResult, UpdateVersion
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

#: Where objects live that vanish with the process: for tests, and to try a task.
MEMORY = "memory://"
#: What a bucket may be.
SCHEMES = ("s3://", "az://", "abfs://", "gs://", MEMORY)


#: Variables that say where a server is, if not where its cloud has it.
_ADDRESSES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")

#: What else a client must be told, as obstore names it, with the variables that say it to users of each cloud. What is
#: in a file of this machine, or asked of the machine itself, is not here: another machine has its own.
_VARIABLES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "s3": {
        "endpoint": ("AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "access_key_id": ("AWS_ACCESS_KEY_ID",),
        "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
        "session_token": ("AWS_SESSION_TOKEN",),
    },
    "az": {
        "endpoint": ("AZURE_STORAGE_ENDPOINT",),
        "account_name": ("AZURE_STORAGE_ACCOUNT_NAME",),
        "account_key": ("AZURE_STORAGE_ACCOUNT_KEY",),
    },
    "gs": {"service_account_key": ("GOOGLE_SERVICE_ACCOUNT_KEY",)},
}


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
        if self.url.startswith("file:"):
            message = (
                f"expected a bucket such as s3://bucket/prefix, found {self.url!r}: a disk cannot replace a file under "
                "a condition. The store on a disk is the local one, on git: use store.kind = 'local' with store.path"
            )
            raise ValueError(message)
        if not self.url.startswith(SCHEMES):
            message = f"expected an address such as s3://bucket/prefix, found {self.url!r}: use {', '.join(SCHEMES)}"
            raise ValueError(message)

    def carrying(self, environment: Mapping[str, str]) -> Connection:
        """Return the connection with what these variables say in it, for whoever does not have them.

        Executors of Spark are processes of other machines, which a cluster's manager has started: the variables of the
        worker are not theirs. What was given stays; keys that were given are not mixed with a token from a variable.
        """
        given = {name for name, _ in self.options}
        if "access_key_id" in given:
            given |= {"secret_access_key", "session_token"}
        known = _VARIABLES.get(self.url.partition(":")[0], {})
        said = {
            name: next((environment[each] for each in variables if environment.get(each)), "")
            for name, variables in known.items()
            if name not in given
        }
        return evolve(self, options=(*self.options, *((name, value) for name, value in said.items() if value)))


@frozen
class Read:
    """One object as it was read: its bytes, and the tag that a swap of it needs, which on Google is its generation."""

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
        the bucket is asked for the tag of what it has. If that is another one by now, nobody knows.
        """
        told = tag_of(made[self._named], key)
        if not shows_content(told, made["version"], data):
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

        Whether there are none is asked twice, in two ways: whoever answers with a page has an object of any name.
        """
        # One of its overloads is declared with a package that is not here.
        pages: Iterable[Sequence[ObjectMeta]] = obstore.list(self._patient, prefix)  # pyright: ignore[reportUnknownMemberType]
        empty = True
        for page in pages:
            for each in page:
                empty = False
                yield Listed(each["path"], each["size"], each["last_modified"])
        if empty and self.read(f"{prefix}/{token_hex(8)}") is not None:
            message = f"the bucket lists nothing below {prefix} and has whatever it is asked for: it is no bucket"
            raise OSError(message)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is no problem."""
        wanted = list(keys)
        if wanted:
            with suppress(FileNotFoundError), absent_is_said():
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
