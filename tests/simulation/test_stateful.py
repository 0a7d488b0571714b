"""Hypothesis plays orchestrator, workers, store and bad luck. The strong backings hold; ``soft`` must break."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import Phase, given, settings

from perago_core.values import Backing
from perago_simulation.runs.replay import model_of, read_line
from perago_simulation.runs.schedule import WorldCache, carry_out
from perago_simulation.testing import profiles, strategies
from perago_simulation.testing.detection import EXAMPLES, RULES
from perago_simulation.testing.state_machine import WorldMachine
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting


@cache
def worlds(of: Setting) -> WorldCache:
    return WorldCache(Model(of), strategies.judged(of), limit=20_000)


@given(strategies.settings(), strategies.choices())
def test_the_strong_backings_hold_whatever_happens(of: Setting, numbers: list[int]) -> None:
    """S-01 to S-40, as far as worlds can show them."""
    strategies.hold(worlds(of), numbers)


@settings(profiles.CI, max_examples=4_000, database=None, derandomize=True, phases=[Phase.generate, Phase.shrink])
@given(strategies.choices())
def _soft_holds(numbers: list[int]) -> None:
    strategies.hold(WorldCache(Model(setting(Backing.SOFT, crashes=0, no_ops=True))), numbers)


def test_soft_is_broken_and_the_failure_prints_a_line_that_replays_it() -> None:
    """Sensitivity: a harness that cannot break the seed protocol proves nothing about the others."""
    with pytest.raises(AssertionError) as failed:
        _soft_holds()
    message = str(failed.value)
    (text,) = re.findall(r"perago replay '(.*)'", message)
    line = read_line(text)
    node, labels = carry_out(WorldCache(model_of(line)), line.choices)
    assert node.wrong is not None
    assert message.startswith(f"{node.wrong[0]}: ")
    assert len(labels) <= 40


def sized() -> settings:
    """Give how hard the machine tries under the profile that is loaded: as hard as any other test.

    Few rules in each: a run is mostly its troubles and the way to rest, and each example is many runs.
    """
    return settings(profiles.CI, stateful_step_count=RULES, max_examples=settings().max_examples)


def test_the_machine_tries_as_hard_as_the_profile_says() -> None:
    """``--hypothesis-profile=nightly`` must do something here too; bugs are looked for in the size of every change."""
    assert TestWorld.settings.max_examples == sized().max_examples
    loaded = settings.get_current_profile_name()
    try:
        settings.load_profile("nightly")
        assert sized().max_examples == 5_000
        settings.load_profile("ci")
        assert sized().max_examples == EXAMPLES
    finally:
        settings.load_profile(loaded)


TestWorld = WorldMachine.TestCase
TestWorld.settings = sized()
