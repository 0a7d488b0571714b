"""A task that publishes to several branches: what is staged for each, and what its intent says of them."""

from __future__ import annotations

import json
from typing import Any

from perago_core.answers import Answer, Done
from perago_core.driver import drive
from perago_core.results import Classification, Completed, Failed
from perago_core.values import Attempt, Backing, Beside, OnAbandoned, StagedRef, Target
from tests.core.world import FILES, INPUT, TARGET, Answering, World, ports_with

OTHER = Target(TARGET.repository, "other")


def attempt_at_both(world: World, **more: Any) -> Attempt:  # noqa: ANN401  fields of an attempt
    beside = (Beside(OTHER, world.store().create(OTHER, FILES)),)
    return world.attempt(1, Backing.ATOMIC, on_abandoned=OnAbandoned.ADOPT, beside=beside, **more)


def test_what_changes_only_a_further_target_is_refused_before_anything_is_claimed() -> None:
    """The first target would have no trace by which a retry could know that the others are published."""
    world = World()

    def only_further(given: Answer[StagedRef | None], target: Target, *_: object) -> Answer[StagedRef | None]:
        return Done(None) if target == TARGET else given

    attempt = attempt_at_both(world)
    outcome = drive(attempt, ports_with(world, store=Answering(world.store(), "commit", only_further)))
    assert isinstance(outcome.result, Failed)
    assert outcome.result.refusal.classification is Classification.STAGING_FAILED
    assert "must say so" in str(outcome.result.refusal)
    assert world.branch_head() == INPUT


def test_what_changes_nothing_anywhere_is_the_input() -> None:
    world = World()
    attempt = attempt_at_both(world)
    store = Answering(world.store(), "commit", lambda *_: Done(None))
    outcome = drive(attempt, ports_with(world, store=store))
    assert isinstance(outcome.result, Completed)
    assert outcome.result.ref == INPUT


def test_an_intent_says_of_each_target_where_it_was_left() -> None:
    """The simulated store moves one branch at a time and so refuses; what is settled then names both as they were."""
    world = World()
    attempt = attempt_at_both(world, ledger=True)
    outcome = drive(attempt, world.ports())
    assert isinstance(outcome.result, Failed)
    settled = world.coordination().get("settled/run-1")
    assert isinstance(settled, Done)
    assert settled.value is not None
    written = json.loads(settled.value.value)
    (other,) = (each.input for each in attempt.parts[1:])
    assert [(each["before"], each["after"]) for each in written["movements"]] == [(INPUT, INPUT), (other, other)]
