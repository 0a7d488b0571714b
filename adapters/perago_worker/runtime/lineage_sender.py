"""Sends OpenLineage events from a thread of its own, in the order they were told.

It fails open: what cannot be sent in time, or does not fit into the queue, is dropped, counted and said now and then.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from attrs import define, field

from perago_worker.config.settings import TelemetrySettings
from perago_worker.logger import log
from perago_worker.runtime.telemetry import Instruments

#: Events that wait at most; what comes then is dropped, for the newest tell no more than the oldest.
WAITING: Final = 1000
#: Where servers of OpenLineage take events, unless the address says where.
_PATH: Final = "/api/v1/lineage"
#: Seconds for one event, for the last ones at the end, and between two complaints.
_REQUEST, _LAST, _QUIET = 3.0, 5.0, 60.0


@define
class LineageSender:
    """A queue with a bound, and a thread that empties it."""

    _send: Callable[[str], object]
    _instruments: Instruments
    _queue: deque[str] = field(factory=deque[str], init=False)
    _changed: threading.Condition = field(factory=threading.Condition, init=False)
    _closing: bool = field(default=False, init=False)
    _complained: float = field(default=float("-inf"), init=False)

    def tell(self, event: Mapping[str, Any]) -> None:
        """Put an event into the queue. It never waits and never raises."""
        try:
            line = json.dumps(event, ensure_ascii=False)
            with self._changed:
                full = len(self._queue) >= WAITING
                if not full:
                    self._queue.append(line)
                    self._changed.notify()
            if full:
                self._drop(f"{WAITING} wait already")
        except Exception as error:  # noqa: BLE001  whatever its trouble is, it is not the attempt's
            log.warning("an OpenLineage event was not told: %s", type(error).__name__)

    @contextmanager
    def open(self) -> Generator[LineageSender]:
        """Send until this is left, and then for some seconds what still waits."""
        thread = threading.Thread(target=self._work, name="lineage", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            with self._changed:
                self._closing = True
                self._changed.notify()
            thread.join(_LAST)

    def _work(self) -> None:
        while (line := self._next()) is not None:
            try:
                self._send(line)
            except Exception as error:  # noqa: BLE001  as above
                self._drop(f"{type(error).__name__}: {error}")

    def _next(self) -> str | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            return self._queue.popleft() if self._queue else None

    def _drop(self, why: str) -> None:
        with suppress(Exception):  # as above
            self._instruments.count("undelivered", {})
        if time.monotonic() >= self._complained + _QUIET:
            self._complained = time.monotonic()
            log.warning("OpenLineage events are dropped: %s", why)


@contextmanager
def lineage_sender(settings: TelemetrySettings, instruments: Instruments) -> Generator[LineageSender | None]:
    """Send events to where the settings say; ``None`` if they say nothing."""
    if not settings.openlineage:
        yield None
        return
    send = _to_file(settings) if settings.openlineage.startswith("file:") else _to_server(settings)
    with LineageSender(send, instruments).open() as sender:
        yield sender


def _to_file(settings: TelemetrySettings) -> Callable[[str], object]:
    path = Path(settings.openlineage.removeprefix("file:"))

    def send(line: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # One write to a file that is only appended to, so that lines of several workers do not mix.
        with path.open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())

    return send


def _to_server(settings: TelemetrySettings) -> Callable[[str], object]:
    opener = OpenerDirector()
    # Without the one that follows redirections: the key is for the server that was named.
    for each in (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor):
        opener.add_handler(each())
    has_path = urlsplit(settings.openlineage).path.strip("/")
    address = settings.openlineage if has_path else f"{settings.openlineage.rstrip('/')}{_PATH}"
    key = settings.openlineage_key.get_secret_value()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}

    def send(line: str) -> None:
        with opener.open(Request(address, line.encode(), headers, method="POST"), timeout=_REQUEST):  # noqa: S310  checked
            pass

    return send
