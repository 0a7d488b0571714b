"""What was measured: how long the calls of each port took, and which budget fits that.

Times are counted in buckets that never change, so that a measurement takes a bounded number of bytes however long it
goes on, and any two of them add up: those of one attempt in its trace, those of a worker, those of all traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

from attrs import evolve, field, frozen

from perago_core.budget import PublishBudget
from perago_core.value import Value, a, many, maybe, seconds, text

#: Upper ends of the buckets in seconds, from a millisecond to some twelve minutes; what took longer is in a last one.
BOUNDS: tuple[float, ...] = (
    *(step * 10**power / 1000 for power in range(6) for step in (1, 1.5, 2, 3, 5, 7)),
    float("inf"),
)

#: The call that moves a branch, and those between its answer and the end of the reserve for completion.
PUBLISH = "store.publish"
COMPLETION = ("store.look", "orchestrator.report", "orchestrator.reload")
#: What is done under a lease before the head is read: fence 3, revocation, barrier; and what is done for the lease.
SAFEGUARDS = ("orchestrator.reload", "store.staging_names", "store.drop", "store.barrier")
GRANT, RENEWAL = "coordination.grant", "coordination.keep_alive"
_HEAD = "store.head"
#: How many publications must be measured before their p99 says anything about a budget.
ENOUGH = 20


@frozen(cache_hash=True, repr=False)
class CallTimes(Value):
    """How long the calls of one method took: pairs of a bucket's upper end and how many calls, and the longest."""

    call: str = field(validator=text)
    buckets: tuple[tuple[float, int], ...] = ()
    longest: float = field(default=0.0, validator=seconds)

    def __attrs_post_init__(self) -> None:
        ends = [end for end, _ in self.buckets]
        if ends != sorted(set(ends) & set(BOUNDS)) or any(many <= 0 for _, many in self.buckets):
            message = f"CallTimes.buckets must be known ends in order, each with one call or more, not {self.buckets}"
            raise ValueError(message)

    def with_call(self, took: float) -> CallTimes:
        """Count one more call."""
        counts = dict(self.buckets)
        end = next(end for end in BOUNDS if took <= end)
        counts[end] = counts.get(end, 0) + 1
        return CallTimes(self.call, tuple(sorted(counts.items())), max(self.longest, took))

    def __add__(self, other: CallTimes) -> CallTimes:
        """Count what both counted."""
        counts = dict(self.buckets)
        for end, calls in other.buckets:
            counts[end] = counts.get(end, 0) + calls
        return CallTimes(self.call, tuple(sorted(counts.items())), max(self.longest, other.longest))

    @property
    def calls(self) -> int:
        """Count the calls."""
        return sum(calls for _, calls in self.buckets)

    def quantile(self, share: float) -> float:
        """Return the seconds within which this share of the calls had answered: never too few, and 0 for no calls."""
        wanted = share * self.calls
        for end, calls in self.buckets:
            wanted -= calls
            if wanted <= 0:
                return min(end, self.longest)
        return 0.0


@frozen(cache_hash=True, repr=False)
class Measured(Value):
    """What one execution measured: the last line of its trace.

    ``operations``: requests of outside systems by class, as in the cost table. ``publication``: seconds from the
    attempt fence before publishing to the answer to the report; ``None`` where nothing was published.
    """

    calls: tuple[CallTimes, ...] = field(validator=many(a(CallTimes)))
    operations: tuple[tuple[str, int], ...] = ()
    publication: float | None = field(default=None, validator=maybe(seconds))


def summed(measured: Iterable[CallTimes]) -> Mapping[str, CallTimes]:
    """Add up what was measured, call by call."""
    total: dict[str, CallTimes] = {}
    for each in measured:
        total[each.call] = total.get(each.call, CallTimes(each.call)) + each
    return total


def fitted(budget: PublishBudget, observed: Mapping[str, CallTimes]) -> PublishBudget:
    """Return the budget that what was observed asks for: the same one if it fits, else with what is too short raised.

    In tenths of a second. Nothing is ever lowered: a quiet day proves nothing about the others.
    """
    publish_p99 = max(budget.publish_p99, _p99(observed, PUBLISH))
    publish_timeout = max(budget.publish_timeout, publish_p99 + budget.margin)
    completion = sum(_p99(observed, call) for call in COMPLETION)
    # Beside the attempt a lease is looked after ten times in its life, so a tenth may have passed before a renewal.
    leased = publish_timeout + budget.margin + budget.lease_margin + _p99(observed, _HEAD) + _p99(observed, RENEWAL)
    return evolve(
        budget,
        publish_p99=publish_p99,
        publish_timeout=publish_timeout,
        completion_reserve=max(budget.completion_reserve, completion),
        lease_ttl=max(budget.lease_ttl, ceil(leased / 0.9 * 10) / 10),
        takeover_wait=max(budget.takeover_wait, publish_timeout + budget.margin),
    )


def safeguards(observed: Mapping[str, CallTimes]) -> float:
    """Return how long the safeguards under a lease take together, each by its p99."""
    return sum(_p99(observed, call) for call in SAFEGUARDS)


def _p99(observed: Mapping[str, CallTimes], call: str) -> float:
    times = observed.get(call)
    return 0.0 if times is None else ceil(times.quantile(0.99) * 10) / 10
