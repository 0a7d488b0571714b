"""The few requests everything is made of: read, create if absent, swap by entity tag, write once, list, delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from io import RawIOBase
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from attrs import evolve, field, frozen

#: Where objects live that vanish with the process: for tests, and to try a task.
MEMORY = "memory://"
#: Objects in a folder of a file system.
DISK = "file:///"
#: What a bucket may be.
SCHEMES = ("s3://", "az://", "abfs://", "gs://", DISK, MEMORY)

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
    ``AWS_ACCESS_KEY_ID`` and ``AWS_ENDPOINT_URL``. ``timeout``: seconds for the answer to a request. A folder has one
    option, ``durable``: with ``false`` nothing waits for the disk.
    """

    url: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: float = 30.0

    def __attrs_post_init__(self) -> None:
        if not self.url.startswith(SCHEMES):
            message = f"expected an address such as s3://bucket/prefix, found {self.url!r}: use {', '.join(SCHEMES)}"
            raise ValueError(message)

    @property
    def folder(self) -> Path | None:
        """Return the folder that the bucket is, if it is one."""
        return Path("/", unquote(self.url.removeprefix(DISK))) if self.url.startswith(DISK) else None

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


class Bucket(Protocol):
    """The requests to one bucket, on object storage (``objects``) or in a folder (``disk``)."""

    def read(self, key: str) -> Read | None:
        """Read a small object; ``None``: there is none."""
        ...

    def create(self, key: str, data: bytes) -> str | None:
        """Write the object unless there is one; give its tag, ``None``: there is one."""
        ...

    def swap(self, key: str, tag: str, data: bytes) -> str | None:
        """Write the object if it still has this tag; give the new one, ``None``: it has another, or is gone."""
        ...

    def write(self, key: str, data: bytes | Iterator[bytes]) -> None:
        """Write an object that is never swapped, under a name that nobody else writes, or all with the same bytes."""
        ...

    def open(self, key: str) -> Iterator[bytes] | None:
        """Open an object, whose bytes come part by part; ``None``: there is none."""
        ...

    def list(self, prefix: str) -> Iterator[Listed]:
        """List the objects below a folder, in whatever order; the prefix ends where a name does."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is no problem."""
        ...

    def sweep(self, older_than: float) -> None:
        """Remove what the killed have left half made more than so many seconds ago, and is no object."""
        ...


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
    if connection.folder is not None:
        from perago_bucket.disk import Disk  # noqa: PLC0415  it is made of what is here

        return Disk(connection.folder, dict(connection.options))
    from perago_bucket.objects import Objects  # noqa: PLC0415  likewise

    return Objects(connection)
