"""Every wrong protocol is noticed, or it is written down why nobody has to."""

from __future__ import annotations

import pytest

from perago_core.attempt import ATTEMPT
from perago_core.values import Backing
from perago_simulation.explore import explore
from perago_simulation.hunt import STUCK
from perago_simulation.more_properties import MORE_PROPERTIES
from perago_simulation.mutant_table import Fate, examine, kills, mutant_table
from perago_simulation.mutants import ENVIRONMENTS, JUDGED, baseline, fate, mutants
from perago_simulation.mutations import attempts, objection
from perago_simulation.settings import setting
from perago_simulation.structure import broken_clauses
from perago_simulation.survivors import REASONS

#: What the production table is known to break with a stranger about; nothing else, anywhere.
RESIDUALS = {
    (Backing.CONDITIONAL, "stranger, crash"): {"S-15"},
    (Backing.LOCKED, "stranger"): {"S-04b"},
    (Backing.LOCKED, "stranger, crash"): {"S-04b", "S-15"},
}


def test_every_mutant_is_noticed_or_has_a_written_reason() -> None:
    """A survivor without a reason fails here: write a property, an environment, or the reason."""
    assert set(REASONS) <= set(mutants())
    assert [identity for identity, noticed in kills().items() if noticed is None] == []


@pytest.mark.parametrize("name", ["alone", "stranger", "crash", "ledger", "equal trees"])
def test_a_mutant_with_a_reason_does_survive(name: str) -> None:
    """A reason that has become wrong goes away again; the whole matrix is tried when the specs are written."""
    noticed = [
        f"{identity}: {found.property} on {backing.value}"
        for identity in REASONS
        for backing in Backing
        if (found := fate(mutants()[identity], setting(backing, **ENVIRONMENTS[name]))) is not None
    ]
    assert noticed == []


@pytest.mark.parametrize("backing", list(Backing), ids=lambda backing: backing.value)
def test_the_production_table_keeps_what_the_mutants_are_judged_by(backing: Backing) -> None:
    if backing is Backing.SOFT:
        assert {"S-01", "S-16", "S-17"} <= baseline(setting(backing, **ENVIRONMENTS["duplicate"])).broken
        return
    for name, more in ENVIRONMENTS.items():
        assert baseline(setting(backing, **more)).broken == RESIDUALS.get((backing, name), set()), name


def test_the_production_table_has_its_steps_in_order_and_passes_validation() -> None:
    assert broken_clauses(ATTEMPT) == ()
    assert objection(attempts()) is None
    assert objection(mutants()["no FENCE_3"].make(setting(Backing.LOCKED)).table) is not None


@pytest.mark.parametrize("judged", MORE_PROPERTIES, ids=lambda judged: judged.id)
def test_every_added_property_notices_some_mutant_by_itself(judged: object) -> None:
    """Else it is idle, and a reader would trust it for nothing."""
    (each,) = [each for each in MORE_PROPERTIES if each is judged]
    identity, backing, name = WITNESS[each.id]
    found = explore(mutants()[identity].make(setting(backing, **ENVIRONMENTS[name])), [each])
    assert list(found.broken()) == [each.id]


#: By property, a mutant it notices, and where.
WITNESS = {
    "S-04b": ("head not checked", Backing.CONDITIONAL, "stranger"),
    "S-05": ("P6 as P3", Backing.CONDITIONAL, "lost answer"),
    "S-06": ("P1 as P5", Backing.SOFT, "equal trees, duplicate"),
    "S-06b": ("always ours", Backing.CONDITIONAL, "lost answer"),
    "S-12": ("SX2 as S1", Backing.CONDITIONAL, "lost answer"),
    "S-16": ("no owner rule", Backing.CONDITIONAL, "stranger"),
    "S-17": ("claim by existence", Backing.CONDITIONAL, "duplicate"),
    "S-18": ("no INTENT", Backing.CONDITIONAL, "ledger"),
    "S-19": ("ZA3 as ZA2", Backing.CONDITIONAL, "ledger, lost answer"),
    "S-24": ("no LEASE", Backing.LOCKED, "alone"),
    "S-33": ("no CLEAN_UP", Backing.CONDITIONAL, "alone"),
    "S-33b": ("lease kept", Backing.LOCKED, "alone"),
    "S-33c": ("no SETTLEMENT", Backing.CONDITIONAL, "ledger"),
    "S-33d": ("forgotten name", Backing.CONDITIONAL, "lost answer"),
    "S-40": ("claim by existence", Backing.CONDITIONAL, "duplicate"),
    "L-02": ("own claim counts", Backing.CONDITIONAL, "equal trees"),
    "C8": ("no OWN_HEAD", Backing.CONDITIONAL, "lost answer"),
}


def test_a_machine_that_gives_up_is_noticed() -> None:
    found = fate(mutants()["reported first"], setting(Backing.SOFT, **ENVIRONMENTS["stranger"]))
    assert found is not None
    assert found.property in {STUCK, "S-01"}


def test_the_table_names_the_noticed_and_the_survivors() -> None:
    fates = [examine("no INTENT"), Fate("T1 as T2", (), refused=False, cells={})]
    text = mutant_table(fates)
    assert "2 mutants: 1 are noticed, 1 survive" in text
    assert "| no INTENT | goes on without the durable intent | refused |" in text
    assert REASONS["T1 as T2"] in text
    assert all(f"| {each.id} |" in text for each in JUDGED)
    assert "**no reason written**" in mutant_table([Fate("no INTENT", (), refused=True, cells={})])
