"""Counting what a publication costs, built into the port wrapper so that no call can escape it (H-01 to H-05, H-30).

Two numbers per class, because they are paid differently: ``calls`` are serial hops of the driver, each one round trip
of waiting; ``operations`` are the requests an adapter issued for them, possibly side by side. Wall time is about
(hops + operations / concurrency) x round trip + compute (H-02).
"""

from __future__ import annotations

from collections import Counter

from attrs import Factory, define

from perago_core.answers import Done, NotDone, Unknown
from perago_core.calls import Call
from perago_core.ports import PORT_CALLS


@define
class Meter:
    """Counts by class; a class has exactly one owner, so the sum over classes is the total (H-05)."""

    calls: Counter[str] = Factory(Counter[str])
    operations: Counter[str] = Factory(Counter[str])

    def count(self, call: Call, answer: Done[object] | NotDone | Unknown) -> None:
        """Charge one call and the operations its answer says it took."""
        charge = call.charge or PORT_CALLS[call.port][call.method]
        self.calls[charge] += 1
        self.operations[charge] += answer.operations

    @property
    def hops(self) -> int:
        """Give the number of calls that waited for one another."""
        return self.calls.total()
