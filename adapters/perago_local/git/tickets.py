"""Compare-and-swap of git refs that survives a writer killed, or stopped for an hour, at any instruction.

Why not a lock file. A ref of git is a small file that is replaced by a rename, and nothing in git or in the file system
makes "the head is what I expect" and that rename one step. Counterexample with a lock that others may break: writer A
locks and reads head 1; A is stopped; B loses patience, breaks the lock, reads 1 and publishes 2; A wakes up behind its
check and renames 1a over 2. B's accepted publication is gone.

So what a writer renames is its *ticket*: a file of its own under ``perago/open``, one for each ref it may move, which
others can delete.

1. make my tickets;
2. revoke: delete the tickets of everybody else;
3. read the refs and check what the plan is conditioned on;
4. write the new value into my ticket and rename it onto the ref.

In the counterexample B's step 2 deletes A's ticket. When A wakes there is nothing to rename: step 4 fails, nothing has
happened, and A begins again at step 1. If A's rename came before B's step 2, B sees 1a in step 3. Two writers cannot
both get through: if neither saw the other's ticket in 2, each listed the folder before the other had made its ticket,
and each made its own before it listed. Neither a clock nor a lock is trusted for that. ADR 13 has what was measured.

Several refs move together by a *journal*: a file that says from where to where each of them goes. Its rename into
``perago/together`` is the moment it happens; the refs follow. Whoever finds a journal, because its writer was killed or
stopped, first carries it out to its end, and only then reads or moves anything. So nobody of ours sees one ref without
the others; git's own commands may, between such a death and our next call.

Two things are courtesy and not safety:

* The kernel lock (``_turn``) makes writers wait for each other instead of revoking each other. The kernel frees it when
  its holder dies, however it dies. A holder that is stopped keeps it, so whoever has seen the same turn for
  ``patience`` seconds removes the lock file and queues at a new one.
* The ``.lock`` files beside the refs keep git's own commands out, as git keeps itself out. Each of ours is a hard link
  to the writer's *list*, so it cannot be mistaken for one of git's, and the list says which locks a dead writer may
  have left. A revoked writer has no list either and cannot lock anything any more. A lock that git made is reported,
  never removed.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pygit2

from perago_core.answers import NotDoneError, UnknownError
from perago_local.git.answers import Problem, described
from perago_local.git.repository import PACKED, durable, target_of, without_packed

T = TypeVar("T")

_LIST = ".list"
#: How a list, and so a lock of ours, begins. Git's locks are empty or begin with an object id.
_OURS = "A writer of perago holds these locks:\n"
#: How long we wait for a lock that git holds; git itself waits up to a second.
_GIT_PATIENCE = 1.0
#: How often a writer that was revoked starts again before it calls the store busy.
_ROUNDS = 5
_LONGEST_NAP = 0.02
_JOURNALS = "perago/together"


class Revoked(Exception):  # noqa: N818  it names what happened, not a mistake
    """Another writer lost patience with this one and deleted its tickets."""


class Moves:
    """The refs of one repository while it is our turn: read them, move them, delete them."""

    def __init__(self, repository: pygit2.Repository, folder: Path, tickets: Mapping[str, Path]) -> None:
        self.repository = repository
        self.moved = 0
        self._folder = folder
        self._tickets = tickets

    def read(self, ref: str) -> pygit2.Oid | None:
        """Return what a ref points at; ``None``: there is no such ref."""
        return target_of(self.repository, ref)

    def move(self, ref: str, to: pygit2.Oid) -> None:
        """Point a ref at an object, whatever it pointed at before. This is the moment it happens."""
        self._replace(ref, f"{to}\n".encode())

    def delete(self, refs: Iterable[str]) -> None:
        """Remove refs. From the packed file first: a loose ref removed first would uncover the old value below it."""
        gone = set(refs)
        with suppress(FileNotFoundError):
            before = (self._folder / PACKED).read_bytes()
            after = without_packed(before, gone)
            if after != before:
                self._replace(PACKED, after)
        for ref in sorted(gone):
            if not self._tickets[ref].exists():
                raise Revoked
            with suppress(FileNotFoundError):
                (self._folder / ref).unlink()
                self.moved += 1

    def move_together(self, journal: str, to: Mapping[str, pygit2.Oid]) -> None:
        """Point several refs at objects, all or none. Once the journal is there, whoever comes next finishes."""
        before = {ref: self.read(ref) for ref in to}
        lines = [f"{ref} {before[ref]} {to[ref]}\n" for ref in to]
        self._replace(journal, "".join(lines).encode())
        with suppress(Revoked):
            for ref, there in to.items():
                self.move(ref, there)
            (self._folder / journal).unlink(missing_ok=True)

    def finish(self, journal: Path) -> None:
        """Carry a journal out to its end. A ref that is not where it was has been moved already."""
        for ref, before, to in _entries(journal):
            if str(self.read(ref)) == before:
                self.move(ref, pygit2.Oid(hex=to))
        journal.unlink(missing_ok=True)

    def _replace(self, name: str, content: bytes) -> None:
        ticket = self._tickets[name]
        try:
            with ticket.open("r+b") as file:
                file.write(content)
                if durable(self.repository):
                    file.flush()
                    os.fsync(file.fileno())
            _into_folder(ticket, lambda: ticket.rename(self._folder / name), self._folder / name)
        except FileNotFoundError as gone:
            raise Revoked from gone
        self.moved += 1


def exclusively(
    repository: pygit2.Repository,
    refs: Iterable[str],
    work: Callable[[Moves], T],
    patience: float,
) -> T:
    """Do the work while nobody else can move these refs. Work that is revoked is begun again, so it must allow that."""
    names = tuple(dict.fromkeys(refs))
    for _ in range(_ROUNDS):
        finish_moves(repository, patience)
        with suppress(Revoked), _moves(repository, names, patience) as moves:
            if _journals(repository):  # its writer was faster than our revocation
                raise Revoked
            return work(moves)
    message = f"busy: {_ROUNDS} times in a row another writer had to revoke this one. Nothing was changed; try again."
    raise NotDoneError(message)


def journal_name() -> str:
    """Name a journal nobody else has, to be given to ``exclusively`` with the refs that move together."""
    return f"{_JOURNALS}/{secrets.token_hex(8)}"


def finish_moves(repository: pygit2.Repository, patience: float) -> None:
    """Carry out what somebody moved together and did not come to the end of; usually there is nothing."""
    for journal in _journals(repository):
        with suppress(Revoked):
            refs = tuple(ref for ref, _, _ in _entries(journal))
            with _moves(repository, refs, patience) as moves:
                moves.finish(journal)


def _journals(repository: pygit2.Repository) -> list[Path]:
    try:
        found = os.listdir(f"{repository.path}{_JOURNALS}")  # noqa: PTH208  before every read of a head
    except FileNotFoundError:
        return []
    return [Path(repository.path) / _JOURNALS / name for name in sorted(found) if not name.endswith(".lock")]


def _entries(journal: Path) -> list[tuple[str, str, str]]:
    """Return what a journal says; nothing once somebody has finished it."""
    try:
        lines = journal.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    fields = (line.rsplit(" ", 2) for line in lines)
    return [(ref, before, to) for ref, before, to in fields]


@contextmanager
def _moves(repository: pygit2.Repository, refs: tuple[str, ...], patience: float) -> Generator[Moves]:
    folder = Path(repository.path)
    registry = folder / "perago" / "open"
    registry.mkdir(parents=True, exist_ok=True)
    with _turn(registry.parent / "turn", patience):
        nonce = secrets.token_hex(8)
        mine = registry / f"{nonce}{_LIST}"
        tickets = {ref: registry / f"{nonce}.{index}" for index, ref in enumerate(refs)}
        moves = Moves(repository, folder, tickets)
        try:
            mine.write_text(_OURS + "".join(f"{ref}.lock\n" for ref in refs), encoding="utf-8")
            for ticket in tickets.values():
                ticket.touch(exist_ok=False)
            _revoke_others(folder, registry, nonce)
            _lock(folder, registry, mine, refs)
            yield moves
        except Problem as problem:
            if moves.moved:
                raise UnknownError(described(problem)) from problem
            raise NotDoneError(described(problem)) from problem
        finally:
            # Nothing that fails here changes what happened, and the next writer clears what stays.
            with suppress(OSError):
                _clear(folder, mine, tickets.values())


def _revoke_others(folder: Path, registry: Path, nonce: str) -> None:
    others = sorted({found.name.partition(".")[0] for found in registry.iterdir()} - {nonce})
    for other in others:
        _clear(
            folder, registry / f"{other}{_LIST}", [each for each in registry.glob(f"{other}.*") if each.suffix != _LIST]
        )


def _clear(folder: Path, its_list: Path, tickets: Iterable[Path]) -> None:
    """Delete a writer's tickets, its locks, its list, and then any lock it took meanwhile."""
    for ticket in tickets:
        ticket.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        with its_list.open("rb") as file:
            lock_of = os.fstat(file.fileno())
            locks = [folder / name for name in file.read().decode().splitlines()[1:]]
        _unlock(locks, lock_of)
        its_list.unlink()
        _unlock(locks, lock_of)


def _unlock(locks: list[Path], lock_of: os.stat_result) -> None:
    for lock in locks:
        with suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(lock.stat(), lock_of):
                lock.unlink()


def _lock(folder: Path, registry: Path, mine: Path, refs: tuple[str, ...]) -> None:
    until = time.monotonic() + _GIT_PATIENCE
    for ref in refs:
        lock = folder / f"{ref}.lock"
        while not _locked(lock, registry, mine):
            if time.monotonic() >= until:
                message = (
                    f"{ref} is locked by git: {lock} exists and is not ours. "
                    "Wait for the git command that made it; if none is running, remove that file."
                )
                raise NotDoneError(message)
            time.sleep(0.005)


def _locked(lock: Path, registry: Path, mine: Path) -> bool:
    try:
        _into_folder(mine, lambda: os.link(mine, lock), lock)
    except FileNotFoundError as gone:
        raise Revoked from gone
    except FileExistsError:
        _remove_if_orphaned(lock, registry)
        return False
    return True


def _remove_if_orphaned(lock: Path, registry: Path) -> None:
    """Remove a lock of ours whose list is gone: somebody died while clearing up after its writer."""
    with suppress(FileNotFoundError):
        if lock.read_text(encoding="utf-8", errors="replace").startswith(_OURS):
            lists = (each for each in registry.iterdir() if each.suffix == _LIST)
            if not any(os.path.samestat(each.stat(), lock.stat()) for each in lists):
                lock.unlink()


def _into_folder(source: Path, place: Callable[[], object], at: Path) -> None:
    """Place a file, making its folder if it is missing: git removes folders of refs that became empty at any time."""
    for _ in range(_ROUNDS):
        with suppress(FileNotFoundError):
            place()
            return
        if not source.exists():
            break
        at.parent.mkdir(parents=True, exist_ok=True)
    raise FileNotFoundError(source)


@contextmanager
def _turn(file: Path, patience: float) -> Generator[None]:
    """Hold the kernel lock for the block, having waited for it."""
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
