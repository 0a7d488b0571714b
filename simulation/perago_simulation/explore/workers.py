"""Several processes explore one configuration, and find exactly what one process finds.

An exploration begins alone. Once a level is large, the process forks, and from then on each process owns the worlds
whose tasks, claims and head hash to it. To hand a world over costs about as much as to find two, so what counts is that
few moves lead to another owner: in five settings 5 to 12 % did with two processes, and the busier one had on average 13
to 23 % more than half of the worlds. With names and budget instead of the head the shares are nearly even, but a fifth
to a third of the moves lead to the other process, and together the two took longer.

After each level everybody sends everybody else a letter: a report, the worlds that are theirs, and the values that have
got a number since the last letter, because each process numbers values for itself. A world travels as a row of numbers.
Level by level, so a world is found on the same level as by one process, and traces are as short.

Why forks: a model may hold functions that cannot be sent anywhere; equal values must have equal hashes everywhere,
which holds among copies of one process only; and the copies know already what the first has learnt. A fork copies one
thread. The copy computes and talks to its pipes, so it needs no lock that another thread may have held.
"""

from __future__ import annotations

import io
import pickle
import signal
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from multiprocessing import Pipe, get_context
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

from attrs import frozen

from perago_core.value import Value
from perago_core.values import Commit
from perago_simulation.explore.memo import Cells, Numbers, cells_in
from perago_simulation.world import history
from perago_simulation.world import state as world
from perago_simulation.world.strangers import Label


class Mark(NamedTuple):
    """A broken property: on which level it was found, by whom, in which of his worlds, and what is wrong there."""

    level: int
    rank: int
    at: int
    problem: str


@frozen(repr=False)
class Report(Value):
    """How far one of them is: how many worlds he began the level with, his figures, what he knows to be broken."""

    frontier: int
    generated: int
    distinct: int
    stopped: str
    found: Mapping[str, Mark]


#: A world somebody else came upon, in the numbers of its owner: its cells, its parent, its label.
Arrival: TypeAlias = tuple[Cells, int, int]


class Ancestry(NamedTuple):
    """How one of them reached his worlds. A parent is its index times the number of processes plus its owner."""

    parents: Sequence[int]
    labels: Sequence[Label]


class Peers:
    """Nobody: one process owns every world. ``parallel`` has the others."""

    rank = 0
    count = 1

    def owner(self, _cells: Cells) -> int:
        """Return the rank of whoever owns a world."""
        return self.rank

    def hand_over(self, _owner: int, _cells: Cells, _parent: int, _label: int) -> None:
        """Keep a world for its owner until the level is done."""
        raise AssertionError("everything is our own")

    def exchange(self, report: Report) -> tuple[Sequence[Report], Iterable[Arrival]]:
        """Tell the others, and give everybody's report, in order of rank, with the worlds that were handed over."""
        return (report,), ()

    def gather(self, way: Ancestry) -> Sequence[Ancestry]:
        """Give everybody's way, in order of rank, to the first of them; the others get nothing of it."""
        return (way,)


ALONE = Peers()


#: Worlds of one size for one owner, each with its parent and its label. Once is enough, by whichever way.
Outbox: TypeAlias = dict[Cells, tuple[int, int]]


class Parcel(NamedTuple):
    """The worlds of an outbox: their cells in a row, and how each was reached."""

    cells: array[int]
    parents: array[int]
    labels: array[int]


def packed(outbox: Outbox) -> Parcel:
    """Make an outbox ready to be sent."""
    parents, labels = zip(*outbox.values(), strict=True)
    return Parcel(array("L", chain.from_iterable(outbox)), array("q", parents), array("L", labels))


class Letter(NamedTuple):
    """What one process tells another after a level. ``values`` are pickled: those it has numbered since the last."""

    report: Report
    values: bytes
    commits: tuple[Commit, ...]
    parcels: dict[int, Parcel]


def unpacked(ours: Sequence[int], size: int, parcel: Parcel) -> Iterator[Arrival]:
    """Unpack a parcel: each world's cells are the next so many numbers."""
    numbers = map(ours.__getitem__, parcel.cells)
    return zip(zip(*[numbers] * size, strict=True), parcel.parents, map(ours.__getitem__, parcel.labels), strict=True)


# ---------------------------------------------------------------------------------------------------------------------
# Values on their way

#: The model compares these with ``is``, so a copy would not do.
_CONSTANTS = {value: value for name, value in vars(world).items() if name.isupper() and isinstance(value, str)}


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: object) -> str | None:
        return value if type(value) is str and value in _CONSTANTS else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, value: str) -> str:
        return _CONSTANTS[value]


def pickled(values: Sequence[Any]) -> bytes:
    """Make values ready to be sent."""
    into = io.BytesIO()
    _Pickler(into, pickle.HIGHEST_PROTOCOL).dump(values)
    return into.getvalue()


def unpickled(values: bytes) -> Sequence[Any]:
    """Take values out again; a copy of this very process has put them in."""
    taken: Sequence[Any] = _Unpickler(io.BytesIO(values)).load()
    return taken


SHARED_OUT_BY = ("tasks", "claims", "head")


class Wire(Protocol):
    """One end of a pipe."""

    def send(self, obj: Any, /) -> None:  # noqa: ANN401  whatever can be pickled
        """Send something."""
        ...

    def recv(self) -> Any:  # noqa: ANN401  whatever was sent
        """Wait for something."""
        ...

    def close(self) -> None:
        """Close this end."""
        ...


def sharing(numbers: Numbers) -> tuple[int, ...]:
    """Return the cells by which worlds are shared out."""
    return tuple(cell for name in SHARED_OUT_BY for cell in cells_in(numbers.fixed[name]))


class Crew(Peers):
    """The others, each at the end of a pipe."""

    def __init__(self, rank: int, pipes: Sequence[Wire | None], numbers: Numbers) -> None:
        self.rank = rank
        self.count = len(pipes)
        self._pipes = pipes
        self._numbers = numbers
        self._key: Callable[[Cells], tuple[int, ...]] = itemgetter(*sharing(numbers))
        self._owners: dict[Any, int] = {}
        self._values_told = len(numbers.values)
        self._commits_told = len(history.made())
        # For each of the others, our number for each of his. So far everybody has the same.
        self._ours = [list(range(len(numbers.values))) for _ in pipes]
        self._outboxes: list[dict[int, Outbox]] = [{} for _ in pipes]

    def owner(self, cells: Cells) -> int:
        """Return the rank of whoever owns a world."""
        key = self._key(cells)
        owner = self._owners.get(key)
        if owner is None:
            values = self._numbers.values
            owner = self._owners[key] = hash(tuple(values[number] for number in key)) % self.count
        return owner

    def hand_over(self, owner: int, cells: Cells, parent: int, label: int) -> None:
        """Keep a world for its owner until the level is done; once is enough."""
        outbox = self._outboxes[owner].get(len(cells))
        if outbox is None:
            outbox = self._outboxes[owner][len(cells)] = {}
        outbox.setdefault(cells, (parent, label))

    def exchange(self, report: Report) -> tuple[Sequence[Report], Iterable[Arrival]]:
        """Write to everybody and read everybody's letter."""
        values, commits = pickled(self._numbers.values[self._values_told :]), history.made(self._commits_told)
        self._values_told, self._commits_told = len(self._numbers.values), self._commits_told + len(commits)
        reports, arrivals = list[Report](), list[Iterator[Arrival]]()
        for rank, pipe in enumerate(self._pipes):
            if pipe is None:
                reports.append(report)
                continue
            letter: Letter = self._swapped(rank, pipe, Letter(report, values, commits, _parcels(self._outboxes[rank])))
            reports.append(letter.report)
            history.take_over(letter.commits)
            self._ours[rank] += map(self._numbers.number, unpickled(letter.values))
            arrivals += (unpacked(self._ours[rank], size, parcel) for size, parcel in letter.parcels.items())
        self._outboxes = [{} for _ in self._pipes]
        return reports, (each for some in arrivals for each in some)

    def gather(self, way: Ancestry) -> Sequence[Ancestry]:
        """Send the way to the first of us, who gets everybody's."""
        if self.rank == 0:
            return [way if pipe is None else pipe.recv() for pipe in self._pipes]
        first = self._pipes[0]
        assert first is not None
        first.send(way)
        return ()

    def _swapped(self, rank: int, pipe: Wire, letter: Letter) -> Letter:
        """Send a letter and get one. The lower rank sends first: two who both send may both wait for the other."""
        if self.rank < rank:
            pipe.send(letter)
            return _received(pipe)
        received = _received(pipe)
        pipe.send(letter)
        return received


def _parcels(outboxes: Mapping[int, Outbox]) -> dict[int, Parcel]:
    return {size: packed(outbox) for size, outbox in outboxes.items()}


def _received(pipe: Wire) -> Letter:
    letter: Letter = pipe.recv()
    return letter


# ---------------------------------------------------------------------------------------------------------------------
# Processes


@contextmanager
def crew(processes: int, numbers: Numbers, take_part: Callable[[Peers], object]) -> Generator[Peers]:
    """Fork, let the others take part, and give us the others."""
    try:
        context = get_context("fork")
    except ValueError:
        message = "several processes need fork, which this system does not have; explore with one process"
        raise OSError(message) from None
    pipes = _pipes(processes)

    def other(rank: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first of us decides what to do about it
        _keep_only(rank, pipes)
        with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the first of us has ended, and says why
            take_part(Crew(rank, pipes[rank], numbers))

    others = [context.Process(target=other, args=(rank,), daemon=True) for rank in range(1, processes)]
    for each in others:
        each.start()
    _keep_only(0, pipes)
    try:
        yield Crew(0, pipes[0], numbers)
    except (EOFError, BrokenPipeError, ConnectionResetError) as gone:
        message = (
            "a process that explored with us has ended; what it said is above. One process alone would say it here"
        )
        raise ChildProcessError(message) from gone
    finally:
        for pipe in pipes[0]:
            if pipe is not None:
                pipe.close()
        for each in others:
            each.join(_PATIENCE)
            each.kill()
            each.join()
            each.close()


#: Seconds the others get to notice that we have ended.
_PATIENCE = 10.0


def _pipes(processes: int) -> list[list[Wire | None]]:
    """Make a pipe for every two: the entry [a][b] is the end of a, who talks to b."""
    ends: list[list[Wire | None]] = [[None] * processes for _ in range(processes)]
    for one in range(processes):
        for other in range(one):
            ends[one][other], ends[other][one] = Pipe()
    return ends


def _keep_only(rank: int, pipes: Sequence[Sequence[Wire | None]]) -> None:
    """Close everybody else's ends: a pipe ends only when nobody holds the other end any more."""
    for one, ends in enumerate(pipes):
        for end in ends:
            if one != rank and end is not None:
                end.close()
