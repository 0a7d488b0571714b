"""A connection pool whose answers end: in the time that was asked for, all together, and within a size.

A time-out of a socket is one for each read. Counterexample, seen: a server that sends a byte every half second kept a
request of three seconds for 46, and with it a heartbeat and the attempt that waited for it. So the time of an answer
begins when the request is sent and is not renewed by what arrives: headers and body share it.

An object is too long for that. Whoever reads one piece by piece gives each piece the time again, with ``restart``.
"""

from __future__ import annotations

import io
from http.client import HTTPResponse, IncompleteRead
from socket import socket
from typing import Any, Final

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from perago_clock import seconds
from perago_http.head import LONGEST, Head, plain

#: Bytes of an answer that is taken whole. A workflow of forty results of the greatest size has as many.
ANSWER_MAX: Final = 128 << 20
#: Seconds for an answer where nobody says.
_PATIENCE: Final = 30.0


class AnswerTooLong(HTTPError):  # noqa: N818  what became of the answer
    """The server sends more than any answer of its kind has."""


class _TimedReader(io.RawIOBase):
    """What arrives on a socket, until the time it has now is over."""

    def __init__(self, connection: socket) -> None:
        super().__init__()
        self._connection = connection
        self._arriving: Any = connection.makefile("rb", buffering=0)
        given = connection.gettimeout()
        self._allowed = _PATIENCE if given is None else given
        self.has_ended = False
        self.restart()

    def restart(self) -> None:
        """Allow the whole time once more, from now on."""
        self._end = seconds() + self._allowed

    def readable(self) -> bool:
        """Always true: it can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401  whatever can be written to
        """Read what is there, or wait for it while there is time."""
        left = self._end - seconds()
        if left <= 0:
            raise TimeoutError(f"the answer has not ended within {self._allowed:g} s")
        self._connection.settimeout(left)
        found: int | None = self._arriving.readinto(buffer)
        self.has_ended = self.has_ended or found == 0
        return found

    def close(self) -> None:
        """Let go of the socket."""
        if not self.closed:
            self._arriving.close()
        super().close()


class _Door:
    """A socket as an answer asks for it: something to read from."""

    def __init__(self, reader: _TimedReader) -> None:
        self._reader = reader

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return what arrives, with a buffer that a head fits into."""
        return io.BufferedReader(self._reader, LONGEST)


class _TimedResponse(HTTPResponse):
    """An answer whose status, headers and body have one time together."""

    def __init__(self, sock: socket, *given: Any, **named: Any) -> None:  # noqa: ANN401  as the base class
        self._reader = _TimedReader(sock)
        self._asked_for_head = named.get("method") == "HEAD"
        door: Any = _Door(self._reader)
        super().__init__(door, *given, **named)

    def begin(self) -> None:
        """Read status and headers, which the standard library takes for whole also where the connection ends in them.

        Counterexample: of ``204`` and a connection that is lost behind it, nobody knows what else was to be said.
        """
        arrived: Any = self.fp
        begun: Any = self.headers  # none yet, which the base class's types do not say
        head = None if self._asked_for_head or begun is not None else plain(arrived.peek())
        if head is not None:
            arrived.read(head.size)
            self._take(head)
            return
        super().begin()
        length = self.headers.get("Content-Length", "0")
        if self._reader.has_ended or self.headers.defects or not (length.isascii() and length.isdecimal()):
            raise IncompleteRead(b"")

    def _take(self, head: Head) -> None:
        """Be the answer that has this head, as the standard library is it."""
        self.version = 11
        self.code = self.status = head.status
        self.reason = head.reason
        self.headers = self.msg = head.headers
        self.length, self.chunked, self.will_close = head.length, head.length is None, False
        if self.chunked:
            self.chunk_left = None

    def restart(self) -> None:
        """Allow the whole time once more, from now on."""
        self._reader.restart()


class _Connection(HTTPConnection):
    response_class = _TimedResponse


class _SecureConnection(HTTPSConnection):
    response_class = _TimedResponse


class Server(urllib3.HTTPConnectionPool):
    """The connections to one server. Its name is part of what people read when one fails."""

    ConnectionCls: Any = _Connection

    def urlopen(self, *given: Any, preload_content: bool = True, **named: Any) -> urllib3.BaseHTTPResponse:  # noqa: ANN401  as the base class
        """Send a request; an answer that is taken whole is taken within its limit."""
        named["preload_content"] = False
        response = super().urlopen(*given, **named)
        return _taken(response) if preload_content else response


class SecureServer(Server, urllib3.HTTPSConnectionPool):
    """The same, with TLS."""

    ConnectionCls = _SecureConnection


class Pool(urllib3.PoolManager):
    """Connections to one or more servers. Every request is sent once, and its answer ends."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  as the base class
        super().__init__(retries=False, **given)
        self.pool_classes_by_scheme = {"http": Server, "https": SecureServer}


def restart(response: urllib3.BaseHTTPResponse) -> None:
    """Allow what is left of an answer that is read in pieces the whole time once more."""
    answer: Any = getattr(response, "_original_response", None)
    if isinstance(answer, _TimedResponse):
        answer.restart()


def _taken(response: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    """Read all of an answer, or none of it if it is too long."""
    try:
        body = response.read(ANSWER_MAX + 1)
    except BaseException:
        response.close()
        raise
    if len(body) > ANSWER_MAX:
        response.close()
        raise AnswerTooLong(f"expected an answer of at most {ANSWER_MAX >> 20} MiB, found a longer one")
    response.release_conn()
    return urllib3.HTTPResponse(
        body=io.BytesIO(body), headers=response.headers, status=response.status, reason=response.reason
    )
