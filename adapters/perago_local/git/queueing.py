"""Waiting one's turn: a kernel lock on a file, with a limit to how long one writer may keep the others.

This is courtesy, not safety; safety is ``tickets``. The kernel frees the lock when its holder dies, however it dies. A
holder that is stopped keeps it, so whoever has seen the very same turn for ``patience`` seconds takes the lock file
away and queues at a new one. The stopped writer then finds its ticket revoked when it wakes.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_LONGEST_NAP = 0.02


@contextmanager
def turn(file: Path, patience: float) -> Generator[None]:
    """Wait for our turn and keep it for the block."""
    lock = _acquired(file, patience)
    try:
        yield
    finally:
        os.close(lock)


def _acquired(file: Path, patience: float) -> int:
    nap = 0.0005
    seen: tuple[int, int] | None = None
    since = 0.0
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _still_there(file, lock):
                # The time says which turn this is: many short turns must not look like one long one.
                now = time.time_ns()
                os.utime(lock, ns=(now, now))
                return lock
            os.close(lock)  # somebody took this file away while we queued at it
            continue
        found = os.fstat(lock)
        stamp = (found.st_ino, found.st_mtime_ns)
        if stamp != seen:
            seen, since = stamp, time.monotonic()
        elif time.monotonic() - since >= patience and _still_there(file, lock):
            file.unlink(missing_ok=True)
        os.close(lock)
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)


def _still_there(file: Path, lock: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(file.stat(), os.fstat(lock))
    return False
