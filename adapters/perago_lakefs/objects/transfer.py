"""Requests that carry objects: streamed past the SDK, which holds a whole object in memory, twice when it sends it.

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
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Final, Protocol, TypeAlias
from urllib.parse import urlencode

import urllib3

from perago_core.answers import NotDoneError
from perago_lakefs.answers import checked, document_of
from perago_lakefs.client import Client

Json: TypeAlias = Any
#: What a request may ask for behind the ``?``.
Query: TypeAlias = Mapping[str, str | int]

#: From here on an object is worth the requests that signing costs. Below, it passes through the server in one.
LARGE: Final = 8 << 20


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
            raise NotDoneError(
                f"expected {self._left} bytes more of a file, found its end: it was cut while it was sent"
            )
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
            raise NotDoneError(
                "expected a file that can be read again, found a stream that was sent in part: try again"
            )


class Transfer:
    """Streams objects to and from lakeFS, and to and from addresses it has signed; its client counts the requests."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._session = client.session

    def send(self, path: str, query: Query, body: Body, headers: Mapping[str, str]) -> Json:
        """Stream a body to lakeFS, more than once if need be, and give the JSON it answers with."""
        return document_of(self._stream(body, lambda: self._request("POST", path, query, body, headers), 201))

    def send_to(self, url: str, body: Body, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Stream a body to a pre-signed address, which must not learn who we are; give the headers of the answer."""
        return self._stream(body, lambda: self._request_signed("PUT", url, body, headers), 200, 201).headers

    def open(self, path: str, query: Query, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Begin to read from lakeFS; whoever reads the answer closes it."""
        return self._client.again(
            lambda: checked(self._request("GET", path, query, None, headers, preload=False), 200, 206)
        )

    def signed(self, path: str, query: Query) -> str:
        """Ask lakeFS for a signed address to read from, which it gives as a redirection; it is not followed."""
        asked = self._client.again(
            lambda: checked(self._request("GET", path, {**query, "presign": "true"}, None, {}), 302, 307)
        )
        return asked.headers["Location"]

    def open_at(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Begin to read from a pre-signed address, which must not learn who we are."""
        return self._client.again(
            lambda: checked(self._request_signed("GET", url, None, headers, preload=False), 200, 206)
        )

    def _stream(
        self, body: Body, send: Callable[[], urllib3.BaseHTTPResponse], *wanted: int
    ) -> urllib3.BaseHTTPResponse:
        def from_the_beginning() -> urllib3.BaseHTTPResponse:
            body.rewind()
            return checked(send(), *wanted)

        return self._client.again(from_the_beginning)

    def _request(
        self,
        method: str,
        path: str,
        query: Query,
        body: Body | None,
        headers: Mapping[str, str],
        *,
        preload: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        self._client.count()
        given: Any = body  # urllib3 reads whatever can be read, and says so only in its documentation
        return self._session.server.urlopen(
            method,
            f"{self._session.path}{path}?{urlencode(query)}",
            given,
            {**self._session.credentials, **headers},
            retries=False,
            redirect=False,
            preload_content=preload,
        )

    def _request_signed(
        self, method: str, url: str, body: Body | None, headers: Mapping[str, str], *, preload: bool = True
    ) -> urllib3.BaseHTTPResponse:
        self._client.count()
        given: Any = body
        return self._session.pool.request(
            method, url, body=given, headers=headers, redirect=False, preload_content=preload
        )


def body_of(data: BinaryIO) -> Window | Once:
    """Say how a stream can be sent: all of it from where it is, again if need be."""
    if not data.seekable():
        return Once(data)
    start = data.tell()
    size = data.seek(0, io.SEEK_END) - start
    data.seek(start)
    return Window(data, start, size)
