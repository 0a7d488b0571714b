"""A proxy in a process of its own that counts requests and makes each one late, as a network would.

Kept apart from the clients it measures: in their process it would take their time. It is told what to do on its
standard input, a line each: ``delay SECONDS``, or ``count`` to hear the figures since the last one.

python -m tests.bench.lakefs_proxy http://127.0.0.1:8000
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import Generator
from contextlib import contextmanager
from subprocess import PIPE
from typing import IO
from urllib.parse import urlsplit

from attrs import define, frozen

_LIMIT = 1 << 20


@frozen
class Counted:
    """What went through: requests, the most at the same time, and the seconds they were really held up."""

    requests: int
    most_in_flight: int
    held: float


@define
class Proxy:
    """A running proxy, from outside."""

    url: str
    _told: IO[str]
    _heard: IO[str]

    def delay(self, seconds: float) -> None:
        """Hold each request up for so long from now on."""
        self._say(f"delay {seconds}")
        self.count()

    def count(self) -> Counted:
        """Return what went through since the last time, and begin again."""
        self._say("count")
        return Counted(**json.loads(self._heard.readline()))

    def _say(self, line: str) -> None:
        self._told.write(f"{line}\n")
        self._told.flush()


@contextmanager
def proxy_for(upstream: str) -> Generator[Proxy]:
    """Run a proxy for a server."""
    command = [sys.executable, "-m", "tests.bench.lakefs_proxy", upstream]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=where) as process:  # noqa: S603  ourselves
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Proxy(process.stdout.readline().strip(), process.stdin, process.stdout)
        finally:
            process.stdin.close()


class _Relay:
    """The proxy itself."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname, parts.port)
        self._delay = 0.0
        self._in_flight = 0
        self._begin()

    def _begin(self) -> None:
        self._requests, self._most, self._held = 0, self._in_flight, 0.0

    async def serve(self) -> None:
        server = await asyncio.start_server(self._converse, "127.0.0.1", 0, limit=_LIMIT)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        loop, told = asyncio.get_running_loop(), asyncio.Queue[str]()

        def listen() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(told.put_nowait, line)
            loop.call_soon_threadsafe(told.put_nowait, "end")

        threading.Thread(target=listen, daemon=True).start()
        while (line := (await told.get()).split()) != ["end"]:
            if line[0] == "delay":
                self._delay = float(line[1])
            else:
                figures = {"requests": self._requests, "most_in_flight": self._most, "held": self._held}
                print(json.dumps(figures), flush=True)
                self._begin()

    async def _converse(self, client: StreamReader, to_client: StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(*self._upstream, limit=_LIMIT)
        try:
            while True:
                head = await client.readuntil(b"\r\n\r\n")
                self._requests += 1
                self._in_flight += 1
                self._most = max(self._most, self._in_flight)
                try:
                    await self._hold()
                    await _relay_request(client, to_client, head, to_server)
                    await _relay_answer(server, head, to_client)
                finally:
                    self._in_flight -= 1
        except (IncompleteReadError, OSError, asyncio.CancelledError):
            pass  # either side has had enough, or we have
        finally:
            to_client.close()
            to_server.close()

    async def _hold(self) -> None:
        if self._delay:
            begun = asyncio.get_running_loop().time()
            await asyncio.sleep(self._delay)
            self._held += asyncio.get_running_loop().time() - begun


async def _relay_request(client: StreamReader, to_client: StreamWriter, head: bytes, to_server: StreamWriter) -> None:
    fields = _fields(head)
    if "expect" in fields:
        to_client.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    to_server.write(head)
    await _relay_body(client, fields, to_server)


async def _relay_answer(server: StreamReader, asked: bytes, to_client: StreamWriter) -> None:
    status = 100
    answer = b""
    while status == 100:
        answer = await server.readuntil(b"\r\n\r\n")
        status = int(answer.split(b" ", 2)[1])
    to_client.write(answer)
    if not asked.startswith(b"HEAD ") and status not in {204, 304}:
        await _relay_body(server, _fields(answer), to_client)


async def _relay_body(reader: StreamReader, fields: dict[str, str], writer: StreamWriter) -> None:
    if "chunked" in fields.get("transfer-encoding", ""):
        size = -1
        while size:
            line = await reader.readline()
            size = int(line.split(b";")[0], 16)
            writer.write(line)
            await _relay_bytes(reader, size + 2, writer)
    else:
        await _relay_bytes(reader, int(fields.get("content-length", "0")), writer)
    await writer.drain()


async def _relay_bytes(reader: StreamReader, left: int, writer: StreamWriter) -> None:
    while left:
        chunk = await reader.read(min(left, _LIMIT))
        if not chunk:
            raise IncompleteReadError(chunk, left)
        writer.write(chunk)
        await writer.drain()
        left -= len(chunk)


def _fields(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").lower().split("\r\n")[1:]
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


if __name__ == "__main__":
    asyncio.run(_Relay(sys.argv[1]).serve())
