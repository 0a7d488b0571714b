"""Suites of other libraries as gates: schemas of pandera, suites of Great Expectations.

A suite is read and not run: each of its checks becomes a figure of the one pass that writes the rows (``api.gates``),
or the write is refused by the check's name, before anything is staged. A check that was left out in silence would be
a promise that nobody keeps. Neither library is imported here; whoever passes a suite has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from perago_spark.api.gates import Gate
from perago_spark.errors import DatasetError
from perago_spark.suites.expectations import expectation_gates
from perago_spark.suites.pandera_schema import pandera_gates

#: A gate, a schema or a model of pandera, a suite of Great Expectations or one expectation.
Demand: TypeAlias = Gate | Any


def gates_of(demands: Sequence[Demand], columns: Mapping[str, str]) -> tuple[Gate, ...]:
    """Return the gates that are demanded of a frame with these columns, each with Spark's name of its type."""
    if not isinstance(demands, list | tuple):
        raise DatasetError("a list of gates", f"a {type(demands).__name__}", "Put it into brackets: gates=[...]")
    return tuple(gate for each in demands for gate in _gates(each, columns))


def _gates(demand: Demand, columns: Mapping[str, str]) -> Iterator[Gate]:
    if isinstance(demand, Gate):
        yield demand
        return
    kind: type = demand if isinstance(demand, type) else type(demand)
    libraries = {each.__module__.partition(".")[0] for each in kind.__mro__}
    if "pandera" in libraries:
        yield from pandera_gates(demand, columns)
    elif "great_expectations" in libraries:
        yield from expectation_gates(demand, columns)
    else:
        raise DatasetError(
            "gates of perago_spark, a schema of pandera, or a suite of Great Expectations",
            f"a {kind.__name__}",
            "Pass one of these",
        )
