"""Hypothesis plays orchestrator, workers, store and bad luck. The strong backings hold; ``soft`` must break."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perago_core.values import Backing
from perago_simulation.line import model_of, read_line
from perago_simulation.model import Model
from perago_simulation.schedule import Country, Failure, Node, carry_out
from perago_simulation.settings import Setting, setting
from perago_simulation.strategies import choice_lists, drive, explain, settings_of

#: What is slow or big here is so on purpose.
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
STRONG = (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED)


@cache
def country(of: Setting) -> Country:
    return Country(Model(of), limit=20_000)


@given(settings_of(STRONG), choice_lists())
def test_the_strong_backings_hold_whatever_happens(of: Setting, numbers: list[int]) -> None:
    failure = drive(country(of), numbers)
    if failure is not None:
        raise AssertionError(explain(country(of), failure))


@settings(
    max_examples=4_000,
    database=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=SLOW,
)
@given(choice_lists())
def _soft_holds(numbers: list[int]) -> None:
    of = setting(Backing.SOFT, crashes=0, no_ops=True)
    failure = drive(country(of), numbers)
    if failure is not None:
        raise AssertionError(explain(country(of), failure))


def test_soft_is_broken_and_the_failure_prints_a_line_that_replays_it() -> None:
    """Sensitivity: a harness that cannot break the seed protocol proves nothing about the others."""
    with pytest.raises(AssertionError) as failed:
        _soft_holds()
    message = str(failed.value)
    (text,) = [line for line in message.splitlines() if line.startswith("run ")]
    line = read_line(text)
    node, labels = carry_out(Country(model_of(line)), line.choices)
    assert node.wrong is not None
    assert message.startswith(f"{node.wrong[0]}: ")
    assert len(labels) <= 40


class World(RuleBasedStateMachine):
    """The world, one move at a time: work, or a fault while the budget lasts; then everything is run to rest."""

    node: Node
    country: Country
    choices: list[int]

    @initialize(of=settings_of(STRONG))
    def begin(self, of: Setting) -> None:
        self.country = country(of)
        self.node = self.country.begin()
        self.choices = []

    def _possible(self, *, faults: bool) -> list[int]:
        if not hasattr(self, "node"):
            return []
        if self.node.labels is None:
            self.country.expand(self.node)
        return [index for index, kind in enumerate(self.node.faults) if (kind is not None) is faults]

    def _take(self, possible: list[int], which: int) -> None:
        index = possible[which % len(possible)]
        self.choices.append(index)
        self.node = self.node.children[index]

    @precondition(lambda self: self._possible(faults=False))
    @rule(which=st.integers(0, 11))
    def work(self, which: int) -> None:
        self._take(self._possible(faults=False), which)

    @precondition(lambda self: self._possible(faults=False))
    @rule(turns=st.integers(2, 12))
    def work_for_a_while(self, turns: int) -> None:
        for _ in range(turns):
            possible = self._possible(faults=False)
            if not possible:
                return
            self._take(possible, 0)
            self.nothing_is_wrong()

    @precondition(lambda self: self._possible(faults=True))
    @rule(which=st.integers(0, 11))
    def fault(self, which: int) -> None:
        self._take(self._possible(faults=True), which)

    @rule()
    def nothing_happens(self) -> None:
        """Always possible, so that a world at rest is not an error of the machine."""

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "node") and self.node.wrong is not None:
            labels = carry_out(self.country, self.choices)[1]
            failure = Failure(*self.node.wrong, tuple(self.choices), labels)
            pytest.fail(explain(self.country, failure))

    def teardown(self) -> None:
        """Whatever went wrong, without more of it everything comes to rest (L-01), and the promises hold there."""
        for _ in range(500):
            possible = self._possible(faults=False) or self._possible(faults=True)
            if not possible:
                break
            self._take(possible, 0)
            self.nothing_is_wrong()
        else:
            pytest.fail("still busy after 500 moves")


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=60, stateful_step_count=60, suppress_health_check=SLOW)
