"""Named places to fail: before and after every port call, generated from the port definitions (R-30).

A failpoint is a value from the catalogue, so a misspelt one cannot be armed and then never fire (T-O19). What happens
there is the runtime's business: a test kills the process, a simulator stops the worker.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from attrs import field, frozen

from perago_core.ports import PORT_CALLS
from perago_core.value import Value, a, text


class Edge(Enum):
    """Which side of the call."""

    BEFORE = "before"
    AFTER = "after"


@frozen(repr=False)
class Failpoint(Value):
    """One side of one call of one port. Only calls that exist have failpoints."""

    port: str = field(validator=text)
    method: str = field(validator=text)
    edge: Edge = field(validator=a(Edge))

    def __attrs_post_init__(self) -> None:
        if self.method not in PORT_CALLS.get(self.port, {}):
            message = f"no such port call: {self.port}.{self.method}"
            raise ValueError(message)

    def __str__(self) -> str:
        return f"{self.port}.{self.method}.{self.edge.value}"

    @classmethod
    def parse(cls, name: str) -> Failpoint:
        """Read a failpoint from its printed name, for command lines and environment variables."""
        for point in CATALOGUE:
            if str(point) == name:
                return point
        message = f"no such failpoint: {name!r}; names look like {CATALOGUE[0]}"
        raise ValueError(message)


CATALOGUE: tuple[Failpoint, ...] = tuple(
    Failpoint(port, method, edge) for port, methods in PORT_CALLS.items() for method in methods for edge in Edge
)

Reached: TypeAlias = Callable[[Failpoint], None]
