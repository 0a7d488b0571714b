"""A body in namespaces of its own: the worker's files are not there for it, and the worker's memory cannot be read.

A body runs as the worker's user, so file modes keep nothing from it. Counterexample, seen: a body read the secret in
``/proc/<worker>/environ``, ``.env`` and the orchestrator's database, and could write to the store's refs.

So its process enters a user namespace and a mount namespace before the author's code runs, and covers what is ours:
folders by an empty one, files by nothing. Its own sandbox is put back. Then it enters a second pair, which makes the
covers immovable: what was mounted by somebody with more rights cannot be unmounted. From a user namespace below,
the kernel lets nobody trace the worker either, which is what reading its memory or environment takes.

It can still signal processes of the same user, use the network, and read and write whatever else that user can.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

_NEW_USER: Final = 0x10000000
_NEW_MOUNTS: Final = 0x00020000
_BIND: Final = 0x1000
_RECURSIVE: Final = 0x4000
_PRIVATE: Final = 1 << 18
_REMOUNT: Final = 0x20
_READ_ONLY: Final = 1
_SET_DUMPABLE: Final = 4
#: Seconds for the trial.
_TRIAL: Final = 30.0


class IsolationError(Exception):
    """This system does not let a process have namespaces of its own."""


def isolate(hidden: Sequence[str], shown: str) -> None:
    """Hide folders and files from this process and all it will start, but for what lies below ``shown``.

    Only for a process with one thread. Raises ``IsolationError`` if the system refuses; then nothing is hidden.
    """
    _enter()
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    kept = os.open(shown, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # before it is covered, and of this namespace
    try:
        for each in hidden:
            if os.path.isdir(each):  # noqa: PTH112  a word of a message
                _cover_folder(each, shown, kept)
            elif os.path.exists(each):  # noqa: PTH110  as above
                _mount("/dev/null", each, None, _BIND)
    finally:
        os.close(kept)
    _enter()
    # Else nobody could look into this process, its own children included.
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 1, 0, 0, 0)


def _cover_folder(folder: str, shown: str, kept: int) -> None:
    _mount("perago", folder, "tmpfs", 0, "size=1m,mode=0755")
    if os.path.commonpath((folder, shown)) == folder:
        os.makedirs(shown, exist_ok=True)  # noqa: PTH103  a word of a message
        _mount(f"/proc/self/fd/{kept}", shown, None, _BIND)
    _mount("perago", folder, "tmpfs", _REMOUNT | _READ_ONLY, "size=1m,mode=0755")


def _enter() -> None:
    """Enter a new pair of namespaces as the same user."""
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_USER | _NEW_MOUNTS):
        raise IsolationError(f"no namespaces: {os.strerror(ctypes.get_errno())}")
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{name}").write_text(text, "ascii")
    except OSError as error:
        raise IsolationError(f"no user in the namespace: {error}") from None


def _mount(source: str | None, to: str, kind: str | None, flags: int, data: str | None = None) -> None:
    given = [None if each is None else os.fsencode(each) for each in (source, to, kind, data)]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(given[0], given[1], given[2], ctypes.c_ulong(flags), given[3]):
        raise IsolationError(f"{to} cannot be hidden: {os.strerror(ctypes.get_errno())}")


def hideable(paths: Iterable[Path]) -> tuple[str, ...]:
    """Say what to hide for these files and folders of ours: all of a folder named ``.perago`` they are in (ADR 26)."""
    found: set[str] = set()
    for path in (each.absolute() for each in paths):
        ours = next((parent for parent in (path, *path.parents) if parent.name == ".perago"), path)
        found |= {str(ours), f"{ours}-wal", f"{ours}-shm"}
    return tuple(sorted(found))


def trouble() -> str | None:
    """Try it, in a process of its own; say what is in the way, or ``None``."""
    if sys.platform != "linux":
        return "only Linux has namespaces"
    with tempfile.TemporaryDirectory(prefix="perago-isolation-") as folder:
        (Path(folder) / "hidden" / "shown").mkdir(parents=True)
        (Path(folder) / "hidden" / "secret").touch()
        tried = subprocess.run(  # noqa: S603  ourselves
            [sys.executable, "-c", _TRIAL_CODE, folder], check=False, capture_output=True, text=True, timeout=_TRIAL
        )
    return None if tried.returncode == 0 else tried.stderr.strip().rpartition("\n")[2] or "it does not work"


_TRIAL_CODE: Final = """
import os, sys
from perago_worker.bodies.isolation import isolate
hidden = sys.argv[1] + "/hidden"
isolate([hidden], hidden + "/shown")
sys.exit(os.listdir(hidden) != ["shown"])
"""
