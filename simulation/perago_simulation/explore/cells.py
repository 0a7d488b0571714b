"""A world as a tuple of small numbers, and stand-ins that show which of them somebody looks at.

A world is cut into cells: each field is one, a record inside it (the budget, an execution) has one for each of its own
fields. Equal values of one type get the same number, so a world is a flat tuple of numbers: quick to hash, small to
keep, cheap to send to another process. Executions come last, because a world gets more of them on the way.

A stand-in looks like the world it stands for and notes every cell that is read. What a function did not read, it does
not depend on; that is all ``memo`` needs to know. Whoever treats a stand-in as a whole (compares it, takes it apart)
reads all of it, which costs time and is still right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, cast

from attrs import frozen

from perago_core.value import Value
from perago_simulation.world.state import Run, World

#: A world, each cell as the number of its value.
Cells: TypeAlias = tuple[int, ...]
#: Cells with the numbers they get.
Changes: TypeAlias = tuple[tuple[int, int], ...]
#: Where something is: in a cell, in the cells of a record, or in those of several records.
Where: TypeAlias = "int | RecordCells | tuple[RecordCells, ...]"


@frozen(repr=False, eq=False, slots=False)
class RecordCells(Value):
    """Where the fields of a record are."""

    kind: Any
    fields: Mapping[str, Where]

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """Give every cell of the record."""
        return tuple(cell for where in self.fields.values() for cell in cells_in(where))


def cells_in(where: Where) -> tuple[int, ...]:
    """Give every cell of a place."""
    if isinstance(where, int):
        return (where,)
    return where.cells if isinstance(where, RecordCells) else tuple(cell for each in where for cell in each.cells)


class Numbers:
    """The numbers of the values met so far, and where each field of a world has its cell."""

    def __init__(self, example: World) -> None:
        self.values: list[Any] = []
        self._numbers: dict[tuple[type, Any], int] = {}
        #: Where the fields are that come before the executions.
        self.fixed: dict[str, Where] = {}
        self._places: dict[int, RecordCells] = {}
        free = 0
        for name, value in zip(example._fields, example, strict=True):
            if name != "runs":
                self.fixed[name] = _place(value, free) if hasattr(value, "_fields") else free
                free += len(cells_in(self.fixed[name]))
        self._first_run = free

    def number(self, value: object) -> int:
        """Give the number of a value.

        ``True == 1``: without its type, a task terminated in one world made the second task of another one ``tTrue``.
        For the same reason a field that mixes both is a record, so that each has a cell of its own.
        """
        typed = (value.__class__, value)
        number = self._numbers.get(typed)
        if number is None:
            number = self._numbers[typed] = len(self.values)
            self.values.append(value)
        return number

    def place(self, size: int) -> RecordCells:
        """Give where everything is in a world of so many cells."""
        place = self._places.get(size)
        if place is None:
            runs = tuple(_run(at) for at in range(self._first_run, size, len(Run._fields)))
            place = self._places[size] = RecordCells(World, {**self.fixed, "runs": runs})
        return place

    def runs(self, size: int) -> int:
        """Say how many executions a world of so many cells has."""
        return (size - self._first_run) // len(Run._fields)

    def cells(self, world: World) -> Cells:
        """Give a world as numbers."""
        size = self._first_run + len(world.runs) * len(Run._fields)
        written = dict(self.written(self.place(size), world))
        return tuple(written[cell] for cell in range(size))

    def world(self, cells: Cells) -> World:
        """Give the world these numbers are."""
        values = [self.values[number] for number in cells]
        fixed = {
            name: values[where] if isinstance(where, int) else _record(where, values)
            for name, where in self.fixed.items()
        }
        width = len(Run._fields)
        runs = tuple(Run(*values[at : at + width]) for at in range(self._first_run, len(values), width))
        return World(**fixed, runs=runs)

    def written(self, where: Where, value: Any) -> Iterator[tuple[int, int]]:  # noqa: ANN401  any field's value
        """Give the cells a value goes to, each with its number; what a stand-in left alone is left out."""
        if isinstance(where, int):
            yield where, self.number(value)
        elif isinstance(where, tuple):
            if len(value) < len(where):
                message = f"a world had {len(where)} executions and now has {len(value)}; mark them as ended instead"
                raise ValueError(message)
            more = (_run(self._first_run + index * len(Run._fields)) for index in range(len(where), len(value)))
            for place, each in zip((*where, *more), value, strict=True):
                yield from self.written(place, each)
        else:
            untouched = isinstance(value, StandIn) and value.stands_at is where
            fields = value.changed if untouched else dict(zip(where.fields, _in_order(where, value), strict=True))
            for name, each in fields.items():
                yield from self.written(where.fields[name], each)


def _place(record: Any, first: int) -> RecordCells:  # noqa: ANN401  any named tuple
    return RecordCells(type(record), {name: first + offset for offset, name in enumerate(record._fields)})


def _record(where: Where, values: Sequence[Any]) -> Any:  # noqa: ANN401  any named tuple
    assert isinstance(where, RecordCells)
    return where.kind(*(values[cell] for cell in where.cells))


_RUNS: dict[int, RecordCells] = {}


def _run(first: int) -> RecordCells:
    """Give where the execution is whose cells begin here; always the same object, so that places can be compared."""
    if first not in _RUNS:
        _RUNS[first] = RecordCells(Run, {name: first + offset for offset, name in enumerate(Run._fields)})
    return _RUNS[first]


def _in_order(where: RecordCells, value: Any) -> Iterator[Any]:  # noqa: ANN401  a named tuple or its stand-in
    return (getattr(value, name) for name in where.fields)


# ---------------------------------------------------------------------------------------------------------------------
# Looking


class Watch:
    """One look at a world: ``reads`` are the cells that were read, in order, each with its number."""

    def __init__(self, numbers: Numbers, cells: Cells) -> None:
        self.reads: dict[int, int] = {}
        self._cells = cells
        self._values = numbers.values
        self.place = numbers.place(len(cells))
        self.world = cast("World", StandIn(self, self.place, {}))

    def read(self, where: Where) -> Any:  # noqa: ANN401  any field's value
        """Give what is there; a record is not read before somebody asks for one of its fields."""
        if isinstance(where, int):
            self.reads[where] = number = self._cells[where]
            return self._values[number]
        if isinstance(where, RecordCells):
            return StandIn(self, where, {})
        return tuple(StandIn(self, each, {}) for each in where)


class StandIn:
    """Stands in for a world or a record: reads a field when it is asked for it, and keeps what is replaced."""

    __slots__ = ("changed", "stands_at", "watch")

    def __init__(self, watch: Watch, stands_at: RecordCells, changed: Mapping[str, Any]) -> None:
        self.watch = watch
        self.stands_at = stands_at
        self.changed = changed

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any field's value
        if name in self.changed:
            return self.changed[name]
        where = self.stands_at.fields.get(name)
        if where is None:
            raise AttributeError(name)
        return self.watch.read(where)

    def _replace(self, **changes: object) -> StandIn:
        return StandIn(self.watch, self.stands_at, {**self.changed, **changes})

    def __iter__(self) -> Iterator[Any]:
        return iter(_plain(self))

    def __eq__(self, other: object) -> bool:
        return bool(_plain(self) == _plain(other))

    def __hash__(self) -> int:
        # A cache that kept a stand-in would give it to somebody who looks at another world.
        message = f"a stand-in for {self.stands_at.kind.__name__} cannot be kept; cache by the fields that matter"
        raise TypeError(message)


def _plain(value: Any) -> Any:  # noqa: ANN401  any field's value
    """Give the value itself for its stand-in."""
    if isinstance(value, StandIn):
        kind = value.stands_at.kind
        return kind(*(_plain(getattr(value, name)) for name in kind._fields))
    return tuple(map(_plain, value)) if value.__class__ is tuple else value
