"""An HTTP proxy on loopback that counts, delays, loses and holds back: what a bad network does, at a chosen request.

    with FaultyProxy(server.url) as proxy:
        proxy.script = when(lambda request: request.method == "PUT", LOSE_ANSWER, times=1)
        ...                                   # clients use proxy.url
        assert proxy.counts() == {"PUT /api/v1/...": 2}

A request is read whole before its handling is decided, and an answer before it is passed on, so what is lost is lost
whole and what is held lands even if the client has gone meanwhile. Bodies are therefore in memory.
"""

from __future__ import annotations

import asyncio
import random
import threading
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Final, Self, TypeAlias
from urllib.parse import urlsplit

from attrs import define, field, frozen

from perago_core.failpoints import Edge, Failpoint, Reached

PATIENCE = 30.0
#: Longer than any head that a client or server of ours writes.
LIMIT = 1 << 20


@define(eq=False)
class Gate:
    """Holds what comes to it until it is opened. ``reached`` tells that something has come."""

    reached: threading.Event = field(factory=threading.Event, init=False)
    opened: threading.Event = field(factory=threading.Event, init=False)

    def open(self) -> None:
        self.opened.set()

    def await_reached(self) -> None:
        assert self.reached.wait(PATIENCE), "nothing came to the gate"

    async def hold(self) -> None:
        self.reached.set()
        while not self.opened.is_set():  # noqa: ASYNC110  it is opened by another thread
            await asyncio.sleep(0.002)


@frozen
class Handling:
    """What becomes of one request: delayed, then held before the server, then lost or answered, held again, lost.

    ``lose_request``: the server never sees it. ``lose_answer``: the server did it, and the client is not told.
    ``without``: fields of its head that the server never sees. ``refusal``: answered by the proxy, with this status.
    ``again``: the server gets it a second time once it has answered, and the client hears the first answer.
    """

    delay: float = 0.0
    before: Gate | None = None
    lose_request: bool = False
    after: Gate | None = None
    lose_answer: bool = False
    without: frozenset[str] = frozenset()
    refusal: int | None = None
    again: bool = False


PASS: Final = Handling()
LOSE_REQUEST: Final = Handling(lose_request=True)
LOSE_ANSWER: Final = Handling(lose_answer=True)


@define(eq=False)
class Request:
    """A request as the proxy saw it: the how manyth, its target, and what has become of it."""

    number: int
    method: str
    target: str
    body: bytes = field(repr=False)
    handling: Handling = field(default=PASS, init=False)
    #: The server's answer, whether or not the client was told; ``None``: there is none yet.
    status: int | None = field(default=None, init=False)

    @property
    def path(self) -> str:
        return urlsplit(self.target).path


Predicate: TypeAlias = Callable[[Request], bool]
Script: TypeAlias = Callable[[Request], Handling]


def let_pass(_request: Request) -> Handling:
    return PASS


def always(handling: Handling) -> Script:
    return lambda _request: handling


def when(matches: Predicate, handling: Handling, times: int | None = None) -> Script:
    """Give that handling to the requests that match, to the first so many of them, and let all others pass."""
    left = [times]

    def decide(request: Request) -> Handling:
        if left[0] == 0 or not matches(request):
            return PASS
        if left[0] is not None:
            left[0] -= 1
        return handling

    return decide


def first_of(*scripts: Script) -> Script:
    """Ask one script after the other, until one does something."""
    return lambda request: next((handling for each in scripts if (handling := each(request)) is not PASS), PASS)


def at_random(seed: int, *, lose_request: float = 0.0, lose_answer: float = 0.0, delay: float = 0.0) -> Script:
    """Lose requests and answers with these probabilities, delay each up to so many seconds; one seed, one sequence."""
    chance = random.Random(seed)

    def decide(_request: Request) -> Handling:
        # All three are drawn each time, so that one fault more does not change all that follow.
        slow, lost, unheard = chance.random() * delay, chance.random(), chance.random()
        return Handling(delay=slow, lose_request=lost < lose_request, lose_answer=unheard < lose_answer)

    return decide


class FaultyProxy:
    """Stands before one server. ``script`` may be replaced at any time; it decides on each request as it comes."""

    def __init__(self, upstream: str, script: Script = let_pass) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        assert parts.port is not None
        self._upstream = (parts.hostname, parts.port)
        self.script = script
        #: Every request, in the order in which they came.
        self.seen: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._address: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="faulty proxy", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._address.result(PATIENCE)}"

    def counts(
        self, shape: Callable[[Request], str] = lambda request: f"{request.method} {request.path}"
    ) -> Counter[str]:
        """Say how often each method and path was asked for, or whatever the shape makes of a request."""
        return Counter(shape(request) for request in list(self.seen))

    def per_call(self) -> tuple[Counter[str], Reached]:
        """Return how many requests each call of a port needed, and the hook of the driver that counts them."""
        counted: Counter[str] = Counter()
        before = 0

        def count(point: Failpoint) -> None:
            nonlocal before
            if point.edge is Edge.BEFORE:
                before = len(self.seen)
            else:
                counted[f"{point.port}.{point.method}"] += len(self.seen) - before

        return counted, count

    def forget(self) -> None:
        """Count from nought again."""
        self.seen = []
        self.most_in_flight = self.in_flight

    def __enter__(self) -> Self:
        self._thread.start()
        self._address.result(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(PATIENCE)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._converse, "127.0.0.1", 0, limit=LIMIT)
        self._address.set_result(server.sockets[0].getsockname()[1])
        await self._closing.wait()
        server.close()
        # What is still held ends with the loop, unanswered.

    async def _converse(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Carry the requests of one connection, until one is lost or either side has had enough."""
        try:
            while await self._carry(reader, writer):
                pass
        except (IncompleteReadError, OSError, asyncio.CancelledError):
            pass  # one of the two has had enough, or we are closing
        finally:
            writer.transport.abort()

    async def _carry(self, reader: StreamReader, writer: StreamWriter) -> bool:
        """Carry one request; say whether another may follow."""
        head = await reader.readuntil(b"\r\n\r\n")
        if b"100-continue" in head.lower():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _body(reader, head)
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        request = Request(len(self.seen) + 1, method, target, body)
        self.seen.append(request)
        request.handling = handling = self.script(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(handling.delay)
            await _held(handling.before)
            if handling.lose_request:
                return False
            if handling.refusal is not None:
                writer.write(f"HTTP/1.1 {handling.refusal} Refused\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
                return True
            message = _without(head, handling.without) + body
            answer, more = await self._ask(request, message)
            if handling.again:
                await self._ask(request, message)
            await _held(handling.after)
            if handling.lose_answer:
                return False
        finally:
            self.in_flight -= 1
        writer.write(answer)
        await writer.drain()
        return more

    async def _ask(self, request: Request, message: bytes) -> tuple[bytes, bool]:
        """Ask the server, each time on a new connection: one it has tired of would look like a fault of ours."""
        reader, writer = await asyncio.open_connection(*self._upstream, limit=LIMIT)
        try:
            writer.write(message)
            await writer.drain()
            status = 100
            head = b""
            while status == 100:
                head = await reader.readuntil(b"\r\n\r\n")
                status = int(head.split(b" ", 2)[1])
            bodiless = request.method == "HEAD" or status in {204, 304}
            answer = head if bodiless else head + await _body(reader, head, to_the_end=True)
            request.status = status
            return answer, b"connection: close" not in head.lower()
        finally:
            writer.close()


def _without(head: bytes, fields: frozenset[str]) -> bytes:
    lines = head.split(b"\r\n")
    return b"\r\n".join(each for each in lines if each.partition(b":")[0].decode("latin-1").lower() not in fields)


async def _held(gate: Gate | None) -> None:
    if gate is not None:
        await gate.hold()


async def _body(reader: StreamReader, head: bytes, *, to_the_end: bool = False) -> bytes:
    """Read the body that this head announces, as it is on the wire."""
    fields = _fields(head)
    if "chunked" in fields.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    if "content-length" in fields:
        return await reader.readexactly(int(fields["content-length"]))
    return await reader.read() if to_the_end else b""


async def _chunks(reader: StreamReader) -> bytes:
    parts: list[bytes] = []
    while True:
        size = await reader.readline()
        chunk = await reader.readexactly(int(size.split(b";")[0], 16) + 2)
        parts += [size, chunk]
        if chunk == b"\r\n":
            return b"".join(parts)


def _fields(head: bytes) -> dict[str, str]:
    lines: Sequence[str] = head.decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
