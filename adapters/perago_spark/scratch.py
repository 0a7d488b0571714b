"""The folder of one Spark process, with a lock in it that the kernel holds for as long as anybody is in.

A sweeper that gets the lock knows that everybody who had it is dead. A process id in the name knows no such thing: in a
container each worker has the same one, and another worker's cannot be seen from there.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

_LOCK: Final = "lock"


def claim(root: Path) -> tuple[Path, int]:
    """Make a folder of a name nobody else has and lock it; whoever inherits the descriptor keeps it locked."""
    while True:
        # The number is for people who look for whose it is.
        folder = root / f"body-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
        lock = _locked(folder)
        if lock is not None:
            return folder, lock


def sweep(root: Path) -> tuple[str, ...]:
    """Remove the folders that nobody has locked; give their names."""
    swept: list[str] = []
    for folder in sorted(root.glob("body-*")):
        with suppress(OSError):  # it resists: next time
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
                swept.append(folder.name)
    return tuple(swept)


def _locked(folder: Path) -> int | None:
    """Lock a folder; ``None``: somebody else has, or has just removed it."""
    place = folder / _LOCK
    try:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, a sweeper may have removed the file. Then the lock is on nothing.
        if os.path.samestat(place.stat(), os.fstat(lock)):
            return lock
    os.close(lock)
    return None
