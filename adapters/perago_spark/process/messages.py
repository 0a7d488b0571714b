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
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from attrs import asdict, field, frozen

from perago_core.ports import Sink, Source
from perago_spark.api.scope import DatasetScope

_LENGTH: Final = struct.Struct(">Q")
#: Bytes of a message: a result may have megabytes, and JSON may write each of them as six.
LONGEST: Final = 128 << 20


@frozen
class RunTask:
    """Run this task now. ``session``: the id of its session, where Spark is on a server."""

    body: str
    params: str
    scope: DatasetScope
    session: str


@frozen
class SinkGranted:
    """Staging is open: write through this."""

    sink: Sink


@frozen
class Stop:
    """End what runs; whatever it writes from now on is for nothing."""

    reason: str


@frozen
class InputPinned:
    """What the first attempt of this task has read there; or why nobody can tell."""

    identity: str
    trouble: str = ""


@frozen
class CommitsOpened:
    """The commits that were asked for, oldest first; or why they cannot be read."""

    commits: tuple[tuple[str, Source], ...]
    trouble: str = ""


Order: TypeAlias = RunTask | SinkGranted | InputPinned | CommitsOpened | Stop


@frozen
class SinkWanted:
    """The body wants to write, and waits for a sink."""


@frozen
class InputSeen:
    """The body wants to read an input from outside, and waits for what an earlier attempt has read there."""

    path: str
    identity: str


@frozen
class CommitsWanted:
    """The body wants to read an earlier commit of its branch, and waits.

    With a folder: those above it up to the task's input.
    """

    base: str
    folder: str = ""


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
    """The body is over. ``changed``: the folders it changed. ``spent``: why its process must not be used again.

    ``gated``: of folders that passed gates, the digest of what was staged then. ``failed``: folders that did not pass.
    """

    ending: Returned | BodyFailure
    changed: tuple[str, ...] = ()
    spent: str | None = None
    gated: Mapping[str, str] = field(factory=dict[str, str])
    failed: tuple[str, ...] = ()


Report: TypeAlias = SinkWanted | InputSeen | CommitsWanted | Ended


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
        case {
            "ending": {"output": str(output)},
            "changed": [*changed],
            "spent": str() | None as spent,
            "gated": {**gated},
        }:
            return Ended(
                Returned(output), tuple(changed), spent, {str(key): str(value) for key, value in gated.items()}
            )
        case {
            "ending": {"reason": str(reason), "terminal": bool(terminal)},
            "spent": str() | None as spent,
            "failed": [*failed],
        }:
            return Ended(BodyFailure(reason, terminal), (), spent, failed=tuple(map(str, failed)))
        case {"path": str(path), "identity": str(identity)}:
            return InputSeen(path, identity)
        case {"base": str(base), "folder": str(folder)}:
            return CommitsWanted(base, folder)
        case _:
            return SinkWanted() if document == {} else None
