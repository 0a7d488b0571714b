"""``progress``: how a body says how far it is. Ordinary ``logging`` and ``print`` reach the task's log as well.

Outside a worker, as in a unit test, it writes a log record, so that a task remains an ordinary function.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

#: Takes a fraction of the work (``None``: unknown) and a message.
Listener: TypeAlias = Callable[[float | None, str], None]

_LOG = logging.getLogger("perago.progress")


def _to_log(fraction: float | None, message: str) -> None:
    share = "" if fraction is None else f"{fraction:.0%} "
    _LOG.info("%s%s", share, message)


_listener: Listener = _to_log


def progress(done: float, total: float = 1.0, message: str = "") -> None:
    """Say that so much is done: ``progress(0.4)``, or ``progress(30, 75, "files read")``."""
    if not 0 <= done <= total or total <= 0:
        raise ValueError(f"progress wants 0 <= done <= total; found done={done!r}, total={total!r}")
    _listener(done / total, message)


def listen(listener: Listener = _to_log) -> None:
    """Send progress elsewhere, or to the log again. The process a body runs in does so; a body has no reason to."""
    global _listener  # noqa: PLW0603  one body per process, and authors call a plain function
    _listener = listener
