"""A server that answers rightly until it is told not to. It writes bytes to sockets, so that it can write any."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from attrs import define, field, frozen

from tests.support.hostile.answers import Right, Wrong, right, wrong


@frozen
class Asked:
    """A request as it came."""

    method: str
    path: str
    body: bytes


@define(eq=False)
class Hostile:
    """``answers``: what is right. From request ``turns_at`` of a call on, what is sent is drawn from the grammar."""

    answers: Callable[[Asked], Right]
    chance: random.Random = field(factory=random.Random)
    turns_at: int | None = None
    asked: int = 0
    sent: list[Wrong] = field(factory=list[Wrong])
    _listening: socket.socket = field(init=False)
    _over: threading.Event = field(factory=threading.Event)
    _lock: threading.Lock = field(factory=threading.Lock)

    def __attrs_post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def turns(self, at: int | None) -> None:
        """Begin a call: from its request ``at`` on the answers are wrong; ``None``: all are right."""
        with self._lock:
            self.turns_at, self.asked, self.sent = at, 0, []

    @contextmanager
    def running(self) -> Generator[None]:
        accepting = threading.Thread(target=self._accept, daemon=True)
        accepting.start()
        try:
            yield
        finally:
            self.stop()
            accepting.join()

    def stop(self) -> None:
        """End every answer that has no end, and answer no more."""
        self._over.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError), connection.makefile("rb") as arriving:
            while True:
                line = arriving.readline().split()
                if len(line) < 2:
                    return
                length = 0
                while header := arriving.readline().strip():
                    name, _, value = header.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                asked = Asked(line[0].decode(), line[1].decode(), arriving.read(length))
                if not self._answer(connection, self.answers(asked)):
                    return

    def _answer(self, connection: socket.socket, good: Right) -> bool:
        """Send an answer; say whether the connection goes on."""
        with self._lock:
            turned = self.turns_at is not None and self.asked >= self.turns_at
            self.asked += 1
            bad = wrong(self.chance, good) if turned else None
            if bad is not None:
                self.sent.append(bad)
        if bad is None:
            connection.sendall(right(good))
            return True
        connection.sendall(bad.sent)
        while bad.endless and not self._over.wait(bad.pause):
            connection.sendall(bad.endless)
        return bad.keeps_open
