"""A real server on loopback over one data folder: started on a free port, killed, and started again on its data."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import time
from abc import abstractmethod
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Protocol, Self

from attrs import Factory, define, field

from tests.support.servers.processes import Order, listens, spawn

#: Below what the system gives to outgoing connections: else one of those may sit on our port when we restart.
PORTS = range(20_000, 32_000)
TAIL = 30
TRIES = 3


class ServerError(Exception):
    """A server that did not come up; says why, with the end of its log."""


def free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as listening:
            # As servers do: connections of a dead one that linger are no reason not to listen again.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listening.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Described(Protocol):
    """What a kind of server says of itself."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the program and its arguments."""

    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """Return the whole environment: nothing of the user's own settings reaches the server."""

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, str]:
        """Return what a client must set to use the server, by the names its users know."""


@define(kw_only=True)
class Server(Described):
    """One server over one folder. It outlives its process: ``kill`` it and ``start`` it again, on the same port.

    It dies with the process that started it, unless it is ``detached``.
    """

    name: ClassVar[str]
    #: Answers 200 when the server is ready, and not before.
    health: ClassVar[str]
    #: How long a start may take on a busy machine.
    patience: ClassVar[float] = 60.0

    folder: Path
    port: int = field(factory=free_port)
    log: Path = Factory(lambda self: self.folder / f"{self.name}.log", takes_self=True)
    detached: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _came_up: bool = field(default=False, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not running"
        return self.process.pid

    def start(self) -> None:
        """Start it and wait until it is healthy. A port that was lost to somebody else is changed, the first time."""
        assert self.process is None, f"{self.name} runs already"
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(TRIES)):
            try:
                self._start_once()
            except ServerError:
                if self._came_up or not left or not self._port_is_taken():
                    raise
                self.port = free_port()
            else:
                self._came_up = True
                return

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator would; one that was paused is woken for that, one that will not end is killed."""
        self.send(signal.SIGCONT)
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill it, if it still runs, and start it again on the same data and the same port."""
        self.kill()
        self.start()

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def _start_once(self) -> None:
        order = Order(self.command(), self.environment(), self.folder, self.log, self.detached)
        self.process = spawn(order)
        try:
            self._await_healthy(self.process)
        except BaseException:  # whoever is interrupted leaves no server behind
            self.kill()
            raise

    def _await_healthy(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + self.patience
        while not self._is_healthy():
            code = process.poll()
            if code is not None or time.monotonic() > until:
                why = f"did not answer within {self.patience:.0f} s" if code is None else f"ended with {code}"
                raise ServerError(f"{self.name} {why}; the end of {self.log}:\n{self._log_tail()}")
            time.sleep(0.05)

    def _is_healthy(self) -> bool:
        """Ask it, and make sure that it is ours that answered."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5.0)
        try:
            connection.request("GET", self.health)
            return connection.getresponse().status == 200 and listens(self.pid, self.port)
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def _port_is_taken(self) -> bool:
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listening.bind(("127.0.0.1", self.port))
            except OSError:
                return True
            return False

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:])

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(self.patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
