"""Requests that carry objects: streamed, which the SDK cannot, and repeated where that is safe.

=====================  =========  =====================================================================================
request                repeated?  why
=====================  =========  =====================================================================================
list, get              yes        they change nothing, and a commit never changes
upload of an object    yes        it is idempotent by content: whichever of two sends lands last leaves the same bytes
                                  under the same path, and one that lands after the staged commit changes no commit
link, delete           no         one that lands late could undo what came after it
=====================  =========  =====================================================================================
"""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, BinaryIO, Final, Protocol, TypeAlias
from urllib.parse import urlencode, urlsplit

import urllib3
from attrs import frozen

from perago_lakefs.answers import Problem, Refused, checked, status_of
from perago_lakefs.connection import Connection

Json: TypeAlias = Any
#: What a request may ask for behind the ``?``.
Query: TypeAlias = Mapping[str, str | int]

#: Seconds to wait before each further send of a request that may be repeated.
_PAUSES: Final = (0.1, 0.3, 1.0)
#: Refusals that pass: a branch that others change, a server that is busy, restarting or behind a gateway.
_PASSING: Final = frozenset({408, 423, 429, 499, 500, 502, 503, 504})
#: Bytes that go from a file to a socket at once.
_BLOCK: Final = 1 << 17


class Body(Protocol):
    """What a request carries: something to read, which can be gone back to."""

    def read(self, size: int = -1, /) -> bytes:
        """Read some of it."""
        ...

    def rewind(self) -> None:
        """Go back to where it begins, to send it again."""
        ...


class Window:
    """A part of a file: exactly ``size`` bytes, so that what was announced is what is sent, or nothing.

    Counterexample: a file that shrinks while it is sent leaves the server waiting for the rest until the time-out.
    """

    def __init__(self, data: BinaryIO, start: int, size: int) -> None:
        self._data = data
        self._start = start
        self._left = self.size = size

    def read(self, size: int = -1, /) -> bytes:
        """Read on, up to the end of the part."""
        wanted = self._left if size < 0 else min(size, self._left)
        chunk = self._data.read(wanted) if wanted else b""
        if wanted and not chunk:
            raise Refused(f"expected {self._left} bytes more of a file, found its end: it was cut while it was sent")
        self._left -= len(chunk)
        return chunk

    def rewind(self) -> None:
        """Go back to the beginning of the part."""
        self._data.seek(self._start)
        self._left = self.size

    def parts(self, size: int) -> Iterator[Window]:
        """Cut it into parts of this size; the last may be smaller."""
        for offset in range(0, self.size, size):
            yield Window(self._data, self._start + offset, min(size, self.size - offset))


class Once:
    """A stream that cannot be gone back to, of a length nobody knows."""

    def __init__(self, data: BinaryIO) -> None:
        self._data = data
        self._begun = False

    def read(self, size: int = -1, /) -> bytes:
        """Read on."""
        self._begun = True
        return self._data.read(size)

    def rewind(self) -> None:
        """Let it be sent once, and refuse to begin again."""
        if self._begun:
            raise Refused("expected a file that can be read again, found a stream that was sent in part: try again")


class Courier:
    """Sends the requests of one call, from whichever thread, and counts them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._pools = _pools(connection, os.getpid())
        self._who = connection.clients().headers
        self._sent = 0
        self._lock = threading.Lock()

    @property
    def sent(self) -> int:
        """Say how many requests were sent so far."""
        return self._sent

    def ask(
        self, method: str, path: str, query: Query | None = None, body: Json | None = None, *, repeat: bool = False
    ) -> Json:
        """Ask the server and give the JSON it answers with, if it does."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        response = self._try(lambda: self._send(method, self._target(path, query), data, self._ours(headers)), repeat)
        return json.loads(response.data) if "json" in response.headers.get("Content-Type", "") else None

    def send(self, method: str, path: str, query: Query, body: Body, headers: Mapping[str, str]) -> Json:
        """Stream a body to the server, more than once if need be, and give the JSON it answers with."""
        target, ours = self._target(path, query), self._ours(headers)
        return json.loads(self._stream(body, lambda: self._send(method, target, body, ours)).data)

    def send_to(self, url: str, body: Body, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Stream a body to a pre-signed address, which must not learn who we are; give the headers of the answer."""
        return self._stream(body, lambda: self._send_anywhere("PUT", url, body, headers)).headers

    def open(self, path: str, query: Query, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Begin to read from the server; whoever reads the answer closes it. A redirection is given, not followed."""
        target, ours = self._target(path, query), self._ours(headers)
        return self._try(lambda: self._send("GET", target, None, ours, preload=False), repeat=True)

    def open_at(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Begin to read from a pre-signed address, which must not learn who we are."""
        return self._try(lambda: self._send_anywhere("GET", url, None, headers, preload=False), repeat=True)

    def _stream(self, body: Body, send: Callable[[], urllib3.BaseHTTPResponse]) -> urllib3.BaseHTTPResponse:
        def from_the_beginning() -> urllib3.BaseHTTPResponse:
            body.rewind()
            return send()

        return self._try(from_the_beginning, repeat=True)

    def _try(
        self,
        send: Callable[[], urllib3.BaseHTTPResponse],
        repeat: bool,  # noqa: FBT001
    ) -> urllib3.BaseHTTPResponse:
        for pause in _PAUSES if repeat else ():
            try:
                return checked(send())
            except Problem as problem:
                if status_of(problem) not in {None, *_PASSING}:
                    raise
            time.sleep(pause)
        return checked(send())

    def _send(
        self, method: str, target: str, body: Body | bytes | None, headers: Mapping[str, str], *, preload: bool = True
    ) -> urllib3.BaseHTTPResponse:
        """Send to the server past the manager of pools, which takes each address apart for a tenth of the time."""
        self._count()
        given: Any = body  # urllib3 reads whatever can be read, and says so only in words
        return self._pools.server.urlopen(
            method, target, given, headers, retries=False, redirect=False, preload_content=preload
        )

    def _send_anywhere(
        self, method: str, url: str, body: Body | None, headers: Mapping[str, str], *, preload: bool = True
    ) -> urllib3.BaseHTTPResponse:
        self._count()
        given: Any = body
        return self._pools.anywhere.request(
            method, url, body=given, headers=headers, redirect=False, preload_content=preload
        )

    def _count(self) -> None:
        with self._lock:
            self._sent += 1

    def _target(self, path: str, query: Query | None) -> str:
        place = f"{self._pools.path}{path}"
        return f"{place}?{urlencode(query)}" if query else place

    def _ours(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**self._who, **headers}


def body_of(data: BinaryIO) -> Window | Once:
    """Say how a stream can be sent: all of it from where it is, again if need be."""
    if not data.seekable():
        return Once(data)
    start = data.tell()
    size = data.seek(0, io.SEEK_END) - start
    data.seek(start)
    return Window(data, start, size)


@frozen(eq=False)
class _Pools:
    """Connections that are kept open, to the server and to wherever it signs addresses of."""

    server: urllib3.HTTPConnectionPool
    path: str
    anywhere: urllib3.PoolManager


@lru_cache(maxsize=8)
def _pools(connection: Connection, process: int) -> _Pools:
    """Keep connections open for this process; one that a fork shares with its parent would mix up their answers."""
    del process
    anywhere = urllib3.PoolManager(
        maxsize=connection.pool,
        retries=False,
        timeout=connection.timeout,
        ca_certs=None if connection.ca is None else str(connection.ca),
        blocksize=_BLOCK,
    )
    return _Pools(anywhere.connection_from_url(connection.api), urlsplit(connection.api).path, anywhere)
