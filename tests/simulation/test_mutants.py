"""Every wrong protocol is noticed, or it is written down why nobody has to."""

from __future__ import annotations

import pytest

from perago_core.attempt import ATTEMPT
from perago_core.values import Backing
from perago_simulation.explore.first_violation import STUCK
from perago_simulation.mutants.kills import ENVIRONMENTS, baseline, mutants, noticed_in, settings_of
from perago_simulation.mutants.page import MutantOutcome, examine, kills, mutant_table
from perago_simulation.mutants.survivors import REASONS
from perago_simulation.mutants.tables import attempts, objection
from perago_simulation.properties.order import broken_clauses
from perago_simulation.properties.register import JUDGED
from perago_simulation.world.settings import setting

#: What the production table is known to break in these small worlds; nothing else, anywhere. See specs/residuals.json.
RESIDUALS = {
    (Backing.CONDITIONAL, "stranger, crash"): {"S-15"},
    (Backing.CONDITIONAL, "collector"): {"S-17"},
    (Backing.LOCKED, "stranger"): {"S-04b"},
    (Backing.LOCKED, "stranger, crash"): {"S-04b", "S-15"},
    (Backing.LOCKED, "foreign merge"): {"S-04b"},
    (Backing.LOCKED, "re-sent"): {"S-02", "S-02b", "S-04b"},
    (Backing.LOCKED, "adopting, stranger, crash"): {"S-04b"},
}


def test_every_mutant_is_noticed_or_has_a_written_reason() -> None:
    """A survivor without a reason fails here: write a property, an environment, or the reason."""
    assert set(REASONS) <= set(mutants())
    assert [identity for identity, noticed in kills().items() if noticed is None] == []


@pytest.mark.parametrize(
    "name",
    [
        "alone", "stranger", "crash", "ledger", "equal trees", "foreign merge", "requeue", "rerun", "re-sent",
        "shared, reset", "shared, crossed",
    ],
)  # fmt: skip
def test_a_mutant_with_a_reason_does_survive(name: str) -> None:
    """A reason that has become wrong goes away again; the whole matrix is tried when the specs are written."""
    noticed = [
        f"{identity}: {found.property} on {backing.value}"
        for identity in REASONS
        for backing in Backing
        if (found := noticed_in(mutants()[identity], setting(backing, **ENVIRONMENTS[name]))) is not None
    ]
    assert noticed == []


@pytest.mark.parametrize("backing", list(Backing), ids=lambda backing: backing.value)
def test_the_production_table_keeps_what_the_mutants_are_judged_by(backing: Backing) -> None:
    if backing is Backing.SOFT:
        assert {"S-01", "S-16", "S-17"} <= baseline(setting(backing, **ENVIRONMENTS["duplicate"])).broken
        return
    for name, of in settings_of(backing):
        assert baseline(of).broken == RESIDUALS.get((backing, name), set()), name


def test_the_production_table_has_its_steps_in_order_and_passes_validation() -> None:
    assert broken_clauses(ATTEMPT) == ()
    assert objection(attempts()) is None
    assert objection(mutants()["no FENCE_3"].make(setting(Backing.LOCKED)).table) is not None


def test_a_machine_that_gives_up_is_noticed() -> None:
    found = noticed_in(mutants()["reported first"], setting(Backing.SOFT, **ENVIRONMENTS["stranger"]))
    assert found is not None
    assert found.property in {STUCK, "S-01"}


def test_the_table_names_the_noticed_and_the_survivors() -> None:
    outcomes = [examine("no INTENT"), MutantOutcome("T1 as T2", (), refused=False, cells={})]
    text = mutant_table(outcomes)
    assert "2 mutants: 1 are noticed, 1 survive" in text
    assert "| no INTENT | goes on without the durable intent | refused |" in text
    assert REASONS["T1 as T2"] in text
    assert all(f"| {each.id} |" in text for each in JUDGED)
    assert "**no reason written**" in mutant_table([MutantOutcome("no INTENT", (), refused=True, cells={})])
