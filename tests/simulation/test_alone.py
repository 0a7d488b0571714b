"""Each clause on safety notices something that no other clause does, or it is written down which one always does too.

What explores tens of thousands of worlds is tried with ``PERAGO_MATRIX=full``, and a few of it in turn otherwise.
"""

from __future__ import annotations

import random

import pytest

from perago_simulation.machines import mutants as machines
from perago_simulation.machines.mutants import MUTANTS, MachineMutant
from perago_simulation.machines.scenes import AGREEMENT, CHANGING, LOCK, SWEEPING
from perago_simulation.mutants.sensitivity import DETECTIONS, IMPLIED, ORDER_IMPLIED, ORDERED, noticing
from perago_simulation.properties.order import CLAUSES
from perago_simulation.properties.register import JUDGED
from tests.support.crash.seeds import FULL

SAFETY = [each.id for each in JUDGED if each.id.startswith("S-")]
#: The worlds of two workflows that run at the same time are many.
LARGE = [each for each in SAFETY if DETECTIONS[each].where == "side by side, crash"]
#: A machine's mutants are all tried by their own promise (``test_cluster``); against all promises, these few are.
SAMPLE = MUTANTS if FULL else tuple(random.Random(45).sample([each for each in MUTANTS if each.scene not in {
    "two processes, one lock", "one sends, slowest and fastest clock", "one node, production budgets, storing fails",
}], 6))  # fmt: skip


@pytest.mark.parametrize("clause", [each for each in SAFETY if FULL or each not in LARGE])
def test_a_clause_notices_a_mutant_alone_or_with_the_one_that_implies_it(clause: str) -> None:
    found = noticing(DETECTIONS[clause])
    if clause in IMPLIED:
        assert clause in found
        assert {each for each in found if each in IMPLIED[clause].replace(":", " ").split()}
    else:
        assert found == {clause}


@pytest.mark.parametrize("clause", ORDERED)
def test_a_clause_on_the_order_of_steps_notices_what_no_world_shows(clause: str) -> None:
    assert noticing(ORDERED[clause]) == {clause}


def test_every_clause_on_the_order_of_steps_is_alone_somewhere_or_has_a_reason() -> None:
    assert {*ORDERED, *ORDER_IMPLIED} == {each.id for each in CLAUSES}
    assert not {*ORDERED} & {*ORDER_IMPLIED}


@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda each: each.id)
def test_a_wrong_machine_is_noticed_by_exactly_those_who_are_named(mutant: MachineMutant) -> None:
    assert mutant.noticing() == {mutant.promise, *mutant.also}


def test_every_promise_on_safety_is_alone_somewhere_or_has_a_reason() -> None:
    promised = {each.id for kind in (LOCK, AGREEMENT, CHANGING, SWEEPING) for each in kind.promises}
    alone = {each.promise for each in MUTANTS if not each.also}
    assert {each for each in promised if each.startswith("S-")} == {
        each for each in alone | {*machines.IMPLIED} if each.startswith("S-")
    }
    assert not alone & {*machines.IMPLIED}
