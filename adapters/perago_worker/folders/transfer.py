"""Moving contents between a store and a sandbox: side by side, streamed, memory flat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from perago_core.answers import Answer, Done, Unknown
from perago_core.ports import Source, Stored
from perago_worker.folders.cache import Keeping
from perago_worker.folders.errors import TransferUnknownError, WorkspaceError, shown
from perago_worker.folders.place import Place
from perago_worker.folders.transfer_progress import Tally, Watched
from perago_worker.folders.tree import open_plain

T = TypeVar("T")
R = TypeVar("R")
#: Stores bytes under a path.
Store: TypeAlias = Callable[[str, BinaryIO], Answer[Stored]]

_CHUNK = 1 << 20


def side_by_side(work: Callable[[T], R], items: Sequence[T], width: int) -> list[R]:
    """Do the work for each item, ``width`` at a time; the first failure ends it, once those under way are done."""
    if len(items) <= 1:  # a thread for one file costs more than the file
        return [work(each) for each in items]
    with ThreadPoolExecutor(width, thread_name_prefix="transfer") as pool:
        return list(pool.map(work, items))


@runtime_checkable
class Direct(Protocol):
    """A sink that can also put and link one object in a single request.

    Only for whoever writes each path once and has no rivals, as the one process that uploads a folder. Where two may
    write one path, as Spark's speculative tasks do, the loser would be published.
    """

    def write(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Store bytes and make them visible on the staging branch."""
        ...


def fetch(source: Source, stored: Stored, to: Place, keeping: Keeping, tally: Tally) -> bytes:
    """Read one object to where it is needed, and into the cache with it; give its digest."""
    answer = source.get(stored.path)
    if not isinstance(answer, Done):
        raise WorkspaceError(f"{shown(stored.path)} could not be read: {answer.reason}")
    size = 0
    with keeping:
        with answer.value as data, to.create() as file:
            while chunk := data.read(_CHUNK):
                file.write(chunk)
                keeping.write(chunk)
                size += len(chunk)
                tally.add(len(chunk))
        if size != stored.size:
            raise WorkspaceError(f"expected {stored.size} bytes of {shown(stored.path)}; found {size}. Try again")
    tally.add(0, files=1)
    return keeping.digest


def send(store: Store, path: str, file: str, tally: Tally) -> Done[Stored]:
    """Store the bytes of one file: ``put`` of a sink, or ``write`` of one that makes them visible at once."""
    with open_plain(file) as plain:
        answer = store(path, cast("BinaryIO", Watched(plain, tally)))
    if isinstance(answer, Done):
        tally.add(0, files=1)
        return answer
    if isinstance(answer, Unknown):
        raise TransferUnknownError(f"{shown(path)} may or may not be stored: {answer.reason}")
    raise WorkspaceError(f"{shown(path)} was not stored: {answer.reason}")
