"""The messages between a worker and a warm process, over one socket.

The worker's are pickled, because a source and a sink are values of whichever store. The process's are JSON: it runs
other people's code, and unpickling what that code sends would run it in the worker.
"""

from __future__ import annotations

import json
import pickle
import socket
import struct
import threading
from typing import Any, Final, TypeAlias

from attrs import asdict, frozen

from perago_core.ports import Sink
from perago_spark.api.datasets import DatasetScope

_LENGTH: Final = struct.Struct(">Q")
#: Bytes of a message: a result may have megabytes, and JSON may write each of them as six.
LONGEST: Final = 128 << 20


@frozen
class RunTask:
    """Run this task now."""

    body: str
    params: str
    scope: DatasetScope


@frozen
class SinkGranted:
    """Staging is open: write through this."""

    sink: Sink


@frozen
class Stop:
    """End what runs; whatever it writes from now on is for nothing."""

    reason: str


Order: TypeAlias = RunTask | SinkGranted | Stop


@frozen
class SinkWanted:
    """The body wants to write, and waits for a sink."""


@frozen
class Returned:
    """The body returned this, as JSON."""

    output: str


@frozen
class BodyFailure:
    """The body failed. ``terminal``: trying again cannot help."""

    reason: str
    terminal: bool = False


@frozen
class Ended:
    """The body is over. ``changed``: the folders it changed. ``spent``: why its process must not be used again."""

    ending: Returned | BodyFailure
    changed: tuple[str, ...] = ()
    spent: str | None = None


Report: TypeAlias = SinkWanted | Ended


class Channel:
    """One end of the socket. One thread receives; any may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, payload: bytes) -> bool:
        """Send one message; ``False``: the other end is gone."""
        try:
            with self._sending:
                self._connection.sendall(_LENGTH.pack(len(payload)) + payload)
        except OSError:
            return False
        return True

    def receive(self, timeout: float | None = None) -> bytes | None:
        """Take one message; ``None``: the other end is gone. Raises ``TimeoutError``."""
        try:
            self._connection.settimeout(timeout)
            head = self._exactly(_LENGTH.size)
            size = 0 if head is None else _LENGTH.unpack(head)[0]
            # The other end runs somebody else's code: what it says is bounded, or it is as good as gone.
            return None if head is None or size > LONGEST else self._exactly(size)
        except TimeoutError:
            raise
        except OSError:
            return None

    def close(self) -> None:
        """Close this end."""
        self._connection.close()

    def _exactly(self, size: int) -> bytes | None:
        received = bytearray()
        while len(received) < size:
            more = self._connection.recv(min(size - len(received), 1 << 20))
            if not more:
                return None
            received += more
        return bytes(received)


def write_order(order: Order) -> bytes:
    """Encode a message of the worker."""
    return pickle.dumps(order)


def read_order(payload: bytes) -> Order:
    """Decode a message of the worker."""
    order: Order = pickle.loads(payload)  # noqa: S301  from the process that started us, over a socket only it has
    return order


def write_report(report: Report) -> bytes:
    """Encode a message of the process."""
    return json.dumps(asdict(report)).encode("utf-8")


def read_report(payload: bytes) -> Report | None:
    """Decode a message of the process; ``None``: it is malformed."""
    try:
        document: Any = json.loads(payload)
    except ValueError:
        return None
    match document:
        case {"ending": {"output": str(output)}, "changed": [*changed], "spent": str() | None as spent}:
            return Ended(Returned(output), tuple(changed), spent)
        case {"ending": {"reason": str(reason), "terminal": bool(terminal)}, "spent": str() | None as spent}:
            return Ended(BodyFailure(reason, terminal), (), spent)
        case _:
            return SinkWanted() if document == {} else None
