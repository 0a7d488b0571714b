"""The sandbox of one execution: a folder nobody else enters, with the workspace and, beside it, what is ours.

    <root>/<name>.lock       held by the living owner
    <root>/<name>/work       the workspace, which is all the body is given
    <root>/<name>/scratch    temporary files of the body
    <root>/<name>/verdict    how the body ended

The owner holds a kernel lock on the lock file. The kernel lets go of it when the process dies, however it dies, and
never before. So a sweeper that gets the lock knows that nobody is in. Comparing process ids knows no such thing: after
a restart another process has the number (peer study, R5).

The lock file is made before its sandbox and removed after it: a folder without one is no sandbox, whoever put it there.
Counterexample, seen: a worker that started took the folder of another one's Spark for a sandbox and emptied it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from perago_worker.folders.errors import WorkspaceError
from perago_worker.folders.owned import take

_NAME = re.compile(r"[A-Za-z0-9_-]{1,240}")


@frozen
class Sandbox:
    """The places of one execution."""

    folder: Path

    @property
    def work(self) -> Path:
        """The workspace."""
        return self.folder / "work"

    @property
    def scratch(self) -> Path:
        """Where temporary files go."""
        return self.folder / "scratch"

    @property
    def verdict(self) -> Path:
        """Where the body writes how it ended."""
        return self.folder / "verdict"


class Sandboxes:
    """The sandboxes below one folder. Processes share the folder; each sandbox has one owner."""

    def __init__(self, root: Path) -> None:
        self._root = take(root, "worker.root")
        self._held: dict[str, int] = {}
        self._guard = threading.Lock()

    def enter(self, name: str) -> Sandbox:
        """Take an empty sandbox. What a dead owner left in it is thrown away; a root that was removed is made again."""
        take(self._root, "worker.root")
        self._acquire(name)
        sandbox = Sandbox(self._root / name)
        erase(sandbox.folder)
        for folder in (sandbox.folder, sandbox.work, sandbox.scratch):
            folder.mkdir(mode=0o700)
        return sandbox

    def leave(self, name: str) -> None:
        """Remove a sandbox and everything in it; nothing to do if there is none. Not if somebody else is in."""
        if name in self._held or self._exists(name):
            self._acquire(name)
            self._remove(name)

    def sweep(self) -> tuple[str, ...]:
        """Remove the sandboxes whose owners are dead; give their names."""
        swept: list[str] = []
        for name in self.names():
            with suppress(WorkspaceError, OSError):  # somebody is in, or it resists: next time
                if self._acquire(name):
                    self._remove(name)
                    swept.append(name)
        return tuple(swept)

    def names(self) -> tuple[str, ...]:
        """Name the sandboxes there are, whoever owns them."""
        found = (path.stem for path in self._root.glob("*.lock"))
        return tuple(sorted(name for name in found if _NAME.fullmatch(name)))

    def _exists(self, name: str) -> bool:
        return os.path.lexists(self._root / name) or os.path.lexists(self._lock(name))

    def _lock(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise WorkspaceError(f"expected a name of letters, digits, '_' and '-'; found {name!r}")
        return self._root / f"{name}.lock"

    def _acquire(self, name: str) -> bool:
        """Take the lock; ``False`` if this process has it already."""
        path = self._lock(name)
        with self._guard:
            while name not in self._held:
                lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(lock)
                    raise WorkspaceError(f"sandbox {name} is in use by another process") from None
                # Between opening and locking, the last owner may have removed the file. Then the lock is on nothing.
                if _is_still(path, lock):
                    self._held[name] = lock
                    return True
                os.close(lock)
            return False

    def _remove(self, name: str) -> None:
        """Remove a sandbox we hold. The lock goes last, so that nobody enters a sandbox half removed."""
        try:
            erase(self._root / name)
            self._lock(name).unlink(missing_ok=True)
        finally:
            with self._guard:
                os.close(self._held.pop(name))


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def erase(folder: Path) -> None:
    """Remove a folder that may not be there, never following a link, whatever permissions the body took away."""
    if folder.is_symlink():
        folder.unlink()
        return
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (PermissionError, RecursionError):
        # Closed by the body, or nested deeper than Python may call, or both; these neither call themselves nor follow a
        # link. Counterexample, seen by a worker that is not root: a closed folder was never opened, because listing
        # comes before opening, and stayed for ever.
        _run("chmod", "-R", "u+rwx", "--", str(folder))
        said = _run("rm", "-rf", "--", str(folder))
        if os.path.lexists(folder):
            raise WorkspaceError(f"{folder.name} could not be removed: {said.strip()[:200]}") from None


def _run(*command: str) -> str:
    """Run a tool, and give what it complains about."""
    return subprocess.run(command, check=False, capture_output=True, text=True, errors="replace").stderr  # noqa: S603  no shell
