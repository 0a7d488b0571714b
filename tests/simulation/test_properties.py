"""Every clause is looked after, every property can matter and bites, every lesson went somewhere."""

from __future__ import annotations

from collections import Counter

import pytest

from perago_simulation.catalogue.clauses import properties_text
from perago_simulation.explore.first_violation import first_violation
from perago_simulation.mutants.known_bugs import ELSEWHERE, LESSONS, mutants_of
from perago_simulation.mutants.sensitivity import DETECTIONS, model_of
from perago_simulation.properties.call_order import CALL_CLAUSES
from perago_simulation.properties.liveness import LEADS, heal
from perago_simulation.properties.order import CLAUSES
from perago_simulation.properties.register import JUDGED, REGISTER
from perago_simulation.properties.witnesses import WITNESSES, sightings
from tests.core.wrong_drivers import noticed_alone
from tests.specs.clauses import marked

EXPLORED = {*(each.id for each in JUDGED), "L-01", *(each.id for each in LEADS)}


def test_every_clause_is_in_the_register_exactly_once_and_in_order() -> None:
    """S-01 to S-43, L-01 to L-10."""
    safety = [f"S-{number:02}" for number in range(1, 44)]
    liveness = [f"L-{number:02}" for number in range(1, 11)]
    assert [each.id for each in REGISTER] == safety + liveness


def test_every_clause_is_looked_after_by_something_that_exists() -> None:
    """A clause nobody looks after is a wish."""
    tests = marked()
    assert [
        each.id for each in REGISTER if not (each.explored or each.order or each.elsewhere or each.id in tests)
    ] == []


def test_every_property_belongs_to_exactly_one_clause() -> None:
    """No property without a clause, no clause that names one which is not judged."""
    named = Counter(name for each in REGISTER for name in each.explored)
    assert set(named) == EXPLORED
    assert max(named.values()) == 1
    assert Counter(name for each in REGISTER for name in each.order) == Counter(each.id for each in CLAUSES)
    assert Counter(name for each in REGISTER for name in each.calls) == Counter(each.id for each in CALL_CLAUSES)


def test_every_property_has_a_witness_and_every_witness_is_found() -> None:
    """Else it would hold of anything: each property is about to matter in some world."""
    assert sorted(each.id for each in WITNESSES) == sorted(each.id for each in JUDGED)
    assert {each.id for each in WITNESSES} - set(sightings()) == set()


def test_the_mutants_properties_notice_are_named_for_all_of_them() -> None:
    assert set(DETECTIONS) == EXPLORED


@pytest.mark.clause("C8")
@pytest.mark.parametrize("clause", DETECTIONS)
def test_every_property_notices_a_mutant_by_itself(clause: str) -> None:
    """Else it is idle, and a reader would trust it for nothing."""
    model = model_of(DETECTIONS[clause])
    judged = [each for each in JUDGED if each.id == clause]
    if judged:
        found = first_violation(model, judged)
        assert found is not None
        assert found.property == clause
    else:
        assert clause in heal(model).broken()


def test_every_lesson_went_somewhere_and_only_there() -> None:
    """T-O1 to T-O28, T-W1 to T-W17, T-P1 to T-P12, T-F1 to T-F6, C1 to C11."""
    shown = {each for each in LESSONS if mutants_of(each) or each in marked()}
    assert {*LESSONS} - shown == {*ELSEWHERE}


def test_the_page_has_every_clause_property_and_lesson() -> None:
    text = properties_text(marked(), noticed_alone())
    wanted = [*(each.id for each in REGISTER), *EXPLORED, *LESSONS]
    assert [each for each in wanted if f"| {each} |" not in text] == []
