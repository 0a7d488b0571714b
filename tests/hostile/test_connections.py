"""Servers that are none: nobody accepts, nobody answers a handshake, or it comes in drops; and one that packs bombs.

What no request has reached is not done or unknown, and known soon.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from unittest.mock import patch

import pytest

from perago_core.answers import Done
from perago_http.pool import ANSWER_MAX
from tests.support.hostile.page import PROTOCOLS
from tests.worker.projects import environment

#: A record of TLS that announces 16 KiB of a handshake, and is never complete.
_RECORD = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03"
#: Each call may ask a few times, and some ask for several things; what hangs takes for ever.
_SOON = 60.0
#: What is said to whoever connects: at once, and then again and again.
SAID = {
    "nothing": (b"", b""),
    "an answer in clear text": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b""),
    "an alert": (b"\x15\x03\x03\x00\x02\x02\x28", b""),
    "a handshake in drops": (_RECORD, b"\x00"),
}


@contextmanager
def saying(first: bytes, then: bytes) -> Generator[str]:
    """Listen, say this to whoever connects, and keep the connection."""
    over = threading.Event()

    def babble(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.sendall(first)
            while not over.wait(0.03):
                connection.sendall(then)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=babble, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        over.set()
        listening.shutdown(socket.SHUT_RDWR)


@contextmanager
def full() -> Generator[str]:
    """Listen, and accept nobody, with as many who wait as there is room for."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, ExitStack() as waiting:
        for _ in range(4):
            who = waiting.enter_context(socket.socket())
            who.settimeout(0)
            who.connect_ex(listening.getsockname())
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def judge(protocol: str, url: str) -> None:
    """Make every call of a port, and see that each has its answer soon, and that none is done."""
    _, open_calls = PROTOCOLS[protocol]
    with ExitStack() as within:
        within.enter_context(patch("perago_lakefs.client._PAUSES", ()))
        within.enter_context(patch("perago_conductor.orchestrator._PAUSES", ()))
        calls = open_calls(url, within)
        with ThreadPoolExecutor(len(calls)) as pool:
            running = {name: pool.submit(call) for name, call in calls.items()}
            found = {name: each.result(_SOON) for name, each in running.items()}
    assert [name for name, each in found.items() if isinstance(each, Done)] == []


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_handshake_that_does_not_end_well_is_known_soon(protocol: str, said: str) -> None:
    with saying(*SAID[said]) as address:
        judge(protocol, f"https://{address}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_accepts_nobody_is_known_soon(protocol: str) -> None:
    with full() as address:
        judge(protocol, f"http://{address}")


BOMBED = """
import resource, sys
from perago_http.pool import AnswerTooLong, Pool
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Pool().request("GET", sys.argv[1], timeout=60)
except AnswerTooLong as long:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def _nothing(size: int) -> Iterator[bytes]:
    """Pack so many bytes of nothing, without having them."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    for _ in range(size >> 20):
        yield packer.compress(bytes(1 << 20))
    yield packer.flush()


def test_what_is_packed_small_is_not_unpacked_whole() -> None:
    """A gibibyte in a few kibibytes; whoever reads it has no more of it than of any answer."""
    packed = zlib.compress(b"".join(_nothing(1 << 30)), 9, 31)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    with saying(head.encode() + packed, b"") as address:
        ran = subprocess.run(  # noqa: S603  ourselves
            [sys.executable, "-c", BOMBED, f"http://{address}"],
            check=True,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=300,
        )
    assert len(packed) < 1 << 20
    assert int(ran.stdout) * 1024 < 4 * ANSWER_MAX, "kibibytes that it grew"
