"""What is measured: buckets that add up, quantiles that are never too low, and the budget that fits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from perago_core import Ports, adrive, drive
from perago_core.budget import PublishBudget
from perago_core.calls import Call
from perago_core.driver import Timed
from perago_core.machine import codec
from perago_core.measured import (
    BOUNDS,
    COMPLETION,
    PUBLISH,
    SAFEGUARDS,
    CallTimes,
    Measured,
    fitted,
    safeguards,
    summed,
)
from perago_core.ports import Clock
from perago_core.results import Completed
from perago_core.values import Backing
from perago_simulation.ports import Asynchronous
from tests.core.world import Answering, World

SECONDS = st.floats(min_value=0, max_value=1e6)


def times(*took: float, call: str = PUBLISH) -> CallTimes:
    found = CallTimes(call)
    for each in took:
        found = found.with_call(each)
    return found


@given(st.lists(SECONDS, min_size=1, max_size=200), st.floats(min_value=0.01, max_value=1))
def test_a_quantile_is_never_too_low_and_at_most_half_as_much_again(took: list[float], share: float) -> None:
    """What a budget rests on may be too careful, and never too bold."""
    exact = sorted(took)[max(0, -int(-share * len(took) // 1) - 1)]
    found = times(*took).quantile(share)
    assert exact <= found <= max(took)
    assert found <= max(exact * 1.67, BOUNDS[0]) or exact > BOUNDS[-2]


@given(st.lists(SECONDS, max_size=50), st.lists(SECONDS, max_size=50))
def test_any_two_measurements_add_up(one: list[float], other: list[float]) -> None:
    assert times(*one) + times(*other) == times(*one, *other)
    assert times(*one, *other).calls == len(one) + len(other)
    assert len(times(*one, *other).buckets) <= len(BOUNDS)


def test_buckets_grow_by_half_and_the_last_has_no_end() -> None:
    assert all(1.3 < higher / lower < 1.67 for lower, higher in pairwise(BOUNDS[:-1]))
    assert (BOUNDS[0], BOUNDS[-2], BOUNDS[-1]) == (0.001, 700, float("inf"))
    assert times(5000.0).quantile(0.5) == 5000.0
    assert times().quantile(0.99) == 0.0


@pytest.mark.parametrize("buckets", [((0.0012, 1),), ((0.002, 1), (0.001, 1)), ((0.001, 0),)])
def test_buckets_of_another_program_are_refused(buckets: tuple[tuple[float, int], ...]) -> None:
    with pytest.raises(ValueError, match="known ends in order"):
        CallTimes(PUBLISH, buckets)


def test_what_was_measured_is_stored_as_text() -> None:
    measured = Measured((times(0.01, 5000.0),), (("target", 2),), 1.5)
    assert codec.loads(codec.dumps(measured), Measured) == measured


# ---------------------------------------------------------------------------------------------------------------------
# The driver measures


def test_the_driver_measures_every_call_and_tells_whoever_watches() -> None:
    """H-30: by the clock that was handed in; a watcher that raises is not heard."""
    told: list[tuple[str, float]] = []

    def timed(call: Call, took: float) -> None:
        told.append((f"{call.port}.{call.method}", took))
        raise RuntimeError("nobody looks at this")

    world = World()
    ports = slow_ports(world, timed=timed)
    assert isinstance(drive(world.attempt(1, Backing.ATOMIC, ledger=True), ports).result, Completed)
    check_measured(ports)
    assert len(told) == ports.meter.calls.total()
    assert [took for call, took in told if call == PUBLISH] == [2.5]


def test_the_asynchronous_driver_measures_the_same() -> None:
    world = World()
    ports = slow_ports(world, wrap=Asynchronous)
    assert isinstance(asyncio.run(adrive(world.attempt(1, Backing.ATOMIC, ledger=True), ports)).result, Completed)
    check_measured(ports)


def test_a_clock_that_goes_back_measures_nothing_and_breaks_nothing() -> None:
    """The measure is for people; no attempt ends because of it."""
    world = World()
    backwards = iter(range(1000, 0, -1))

    def back(_now: object) -> float:
        return float(next(backwards))

    clock = Answering(world.clock(), "now", back)
    ports = Ports(
        orchestrator=world.orchestrator(),
        store=world.store(),
        workspace=world.workspace(),
        clock=cast("Clock", clock),
    )
    assert isinstance(drive(world.attempt(1), ports).result, Completed)
    assert ports.meter.times[PUBLISH] == times(0.0)


def slow_ports(world: World, wrap: Callable[[Any], Any] = lambda port: port, timed: Timed | None = None) -> Ports:
    """Return ports whose publication takes two and a half seconds, and nothing else any time."""

    def slowly(answer: object, *_plan: object) -> object:
        world.clock().sleep(2.5)
        return answer

    return Ports(
        orchestrator=wrap(world.orchestrator()),
        store=wrap(Answering(world.store(), "publish", slowly)),
        workspace=wrap(world.workspace()),
        coordination=wrap(world.coordination()),
        clock=wrap(world.clock()),
        timed=timed,
    )


def check_measured(ports: Ports) -> None:
    measured = ports.meter.times
    assert measured[PUBLISH] == times(2.5)
    assert sum(each.calls for each in measured.values()) == ports.meter.calls.total()
    assert {each.longest for name, each in measured.items() if name != PUBLISH} == {0.0}


# ---------------------------------------------------------------------------------------------------------------------
# The budget that fits


def test_a_budget_that_fits_what_was_observed_stays_as_it_is() -> None:
    """And nothing observed, or a quiet day, asks for nothing."""
    budget = PublishBudget()
    assert fitted(budget, {}) == budget
    assert fitted(budget, summed([times(0.2, 0.3)])) == budget


@pytest.mark.parametrize("p99", [1.2, 4.5, 60.0])
def test_what_is_too_short_is_raised_and_the_rest_follows(p99: float) -> None:
    """P-35, K-14: the budget that is proposed contradicts itself nowhere, and warns of nothing the old one did not."""
    budget = PublishBudget()
    proposed = fitted(budget, summed([times(*[0.1] * 50), times(*[p99] * 50)]))
    assert proposed.publish_p99 == p99
    assert proposed.publish_timeout == max(budget.publish_timeout, p99 + budget.margin)
    assert proposed.takeover_wait >= proposed.publish_timeout + proposed.margin
    assert proposed.warnings(float("inf")) == ()
    assert fitted(proposed, summed([times(p99)])) == proposed


def test_the_reserve_holds_what_comes_after_a_publication() -> None:
    observed = summed(times(5.0, call=call) for call in COMPLETION)
    assert fitted(PublishBudget(), observed) == evolve(PublishBudget(), completion_reserve=15.0)


def test_a_lease_outlives_what_is_asked_under_it_although_it_is_renewed_beside_that() -> None:
    """Reading the head and the request after it, an unanswered tenth of its life, and the renewal itself."""
    observed = summed([times(2.0, call="store.head"), times(3.0, call="coordination.keep_alive")])
    assert fitted(PublishBudget(), observed).lease_ttl == 14.5
    assert safeguards(summed(times(3.0, call=call) for call in SAFEGUARDS)) == 12.0
    assert fitted(PublishBudget(), summed([times(9.0, call="store.barrier")])) == PublishBudget()
