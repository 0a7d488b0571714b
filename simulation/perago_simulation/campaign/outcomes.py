"""Making schedules: one row for each, in columns, as the bytes of a Parquet file.

seed        the number of the schedule
outcome     what it came to: one of ``windows.OUTCOMES``, "violation", or "cut off" after too many moves
violation   the property that broke, if one did
steps       how many moves were made
faults      each kind of fault that happened, and where: "crash at PUBLICATION", "dropped at Report", "give up"
digest      of the choices and what they came to: equal on any machine, in any order, in any company
line        what ``perago replay`` takes, if a property broke
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from attrs import frozen

from perago_core.value import Value
from perago_simulation.campaign.plan import Campaign, Range
from perago_simulation.catalogue.windows import outcome_of
from perago_simulation.runs.replay import line_of
from perago_simulation.runs.schedule import CachedWorld, WorldCache, walk

VIOLATION: Final = "violation"
CUT_OFF: Final = "cut off"
#: pyarrow, which comes without types, and only campaigns need.
Arrow: TypeAlias = Any


def arrow(part: str = "pyarrow") -> Arrow:
    """Import pyarrow, or a part of it."""
    return import_module(part)


@frozen(repr=False)
class Piece(Value):
    """The outcomes of a range of schedules, as a Parquet file."""

    start: int
    stop: int
    parquet: bytes


def make(work: tuple[Campaign, Range]) -> Piece:
    """Make the schedules of one range. Runs in any process: it needs nothing but what it is given."""
    campaign, (start, stop) = work
    worlds = worlds_of(campaign)
    chooser = campaign.chooser()
    rows = [_row(worlds, number, *walk(worlds, chooser.run(number), campaign.moves)) for number in range(start, stop)]
    return Piece(start, stop, _parquet(rows))


@lru_cache(maxsize=1)
def worlds_of(campaign: Campaign) -> WorldCache:
    """Remember the worlds from one range to the next: a run through known worlds is quick."""
    return campaign.worlds()


_Row: TypeAlias = tuple[int, str, str | None, int, list[str], int, str | None]


def _row(worlds: WorldCache, number: int, node: CachedWorld, choices: list[int]) -> _Row:
    outcome, violation, line = _came_to(worlds, node), None, None
    if node.wrong is not None:
        outcome, violation, line = VIOLATION, node.wrong[0], line_of(worlds.model, choices)
    said = f"{'.'.join(map(str, choices))} {outcome} {violation}"
    digest = int.from_bytes(hashlib.blake2b(said.encode(), digest_size=8).digest(), signed=True)
    return number, outcome, violation, len(choices), _faults(worlds.root, choices), digest, line


def _came_to(worlds: WorldCache, node: CachedWorld) -> str:
    if node.world is None or node.wrong is not None or not worlds.model.at_rest(node.world):
        return CUT_OFF
    return outcome_of(node.world)


def _faults(node: CachedWorld, choices: Sequence[int]) -> list[str]:
    found: dict[str, None] = {}
    for index in choices:
        if node.faults[index] is not None:
            found[_place(node, index)] = None
        node = node.children[index]
    return list(found)


def _place(node: CachedWorld, index: int) -> str:
    """Say what went wrong, and what whoever it happened to was waiting for."""
    kind = node.faults[index]
    assert node.labels is not None
    who, what, about = node.labels[index]
    if kind == "crash":
        assert node.world is not None
        state = node.world.runs[int(about.removeprefix("e"))].state
        return "crash" if state is None else f"crash at {state.phase.name}"
    return f"{kind} at {what}" if who.startswith("e") and who[1:].isdigit() else str(kind)


def schema() -> Arrow:
    """Return the columns of the data set, in types that every reader of Parquet knows."""
    pa = arrow()
    return pa.schema(
        [
            pa.field("seed", pa.int64(), nullable=False),
            pa.field("outcome", pa.string(), nullable=False),
            pa.field("violation", pa.string()),
            pa.field("steps", pa.int32(), nullable=False),
            pa.field("faults", pa.list_(pa.string()), nullable=False),
            pa.field("digest", pa.int64(), nullable=False),
            pa.field("line", pa.string()),
        ]
    )


def _parquet(rows: Sequence[_Row]) -> bytes:
    pa, pq = arrow(), arrow("pyarrow.parquet")
    kinds = schema()
    columns = [pa.array(column, each.type) for column, each in zip(zip(*rows, strict=True), kinds, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=kinds), sink, compression="zstd")
    written: bytes = sink.getvalue().to_pybytes()
    return written
