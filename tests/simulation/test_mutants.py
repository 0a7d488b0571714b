"""Every wrong protocol is noticed, or it is written down why nobody has to."""

from __future__ import annotations

import pytest

from perago_core.attempt import ATTEMPT
from perago_core.values import Backing
from perago_simulation.explore.first_violation import STUCK, first_violation
from perago_simulation.explore.known_graph import first_otherwise, known_graph
from perago_simulation.explore.search import explore
from perago_simulation.mutants.kills import ENVIRONMENTS, baseline, mutants, noticed_in, possible_mutants, settings_of
from perago_simulation.mutants.page import MutantOutcome, examine, kills, mutant_table
from perago_simulation.mutants.survivors import REASONS
from perago_simulation.mutants.tables import attempts, objection
from perago_simulation.properties.order import broken_clauses
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import Property, When
from perago_simulation.runs.schedule import WorldCache, follow
from perago_simulation.world.model import Model
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


@pytest.mark.parametrize(
    ("identity", "backing", "name"),
    [
        # Wrong where it leads, in what it learns, in what it asks for; given up; and one that nobody notices.
        ("no REVOCATION", Backing.CONDITIONAL, "crash"),
        ("no owner rule", Backing.ATOMIC, "retry"),
        ("no-ops unseen", Backing.CONDITIONAL, "twins"),
        ("reported first", Backing.ATOMIC, "stranger"),
        ("reads not counted", Backing.ATOMIC, "shared, crossed"),
        ("lease always released", Backing.LOCKED, "crash"),
        # Not only its table is another one.
        ("hollow barrier", Backing.CONDITIONAL, "crash"),
        ("eager collector", Backing.ATOMIC, "alone"),
    ],
)
def test_what_is_found_beside_the_known_graph_is_what_exploring_everything_finds(
    identity: str, backing: Backing, name: str
) -> None:
    mutant, of = possible_mutants()[identity], setting(backing, **ENVIRONMENTS[name])
    whole = explore(mutant.make(of), JUDGED) if identity != "reported first" else None
    beside = first_otherwise(mutant.make(of), of, JUDGED)
    first = first_violation(mutant.make(of), JUDGED)
    if beside is None or first is None:
        assert (beside, first) == (None, None)
        assert whole is not None
        assert whole.violations == ()
        return
    assert (beside.property, len(beside.trace)) == (first.property, len(first.trace))
    assert follow(WorldCache(mutant.make(of), JUDGED), beside.trace) is not None
    if whole is not None:
        assert len(beside.trace) == min(whole.broken().values())


def test_only_what_a_wrong_table_does_otherwise_is_looked_at_anew() -> None:
    """Of the worlds that the right table comes to, none is judged; a table that is the same comes to nothing else."""
    of = setting(Backing.CONDITIONAL, **ENVIRONMENTS["crash"])
    nothing_holds = Property("X", "nothing holds", When.ALWAYS, lambda _setting, _world: "it does not")
    assert first_otherwise(Model(of, attempts()), of, [nothing_holds]) is None
    found = first_otherwise(possible_mutants()["no REVOCATION"].make(of), of, [nothing_holds])
    assert found is not None
    assert not known_graph(of).differences(Model(of, attempts()))
    assert 0 < len(known_graph(of).differences(possible_mutants()["no REVOCATION"].make(of))) < 20


def test_the_table_names_the_noticed_and_the_survivors() -> None:
    outcomes = [examine("no INTENT"), MutantOutcome("T1 as T2", (), refused=False, cells={})]
    text = mutant_table(outcomes)
    assert "2 mutants: 1 are noticed, 1 survive" in text
    assert "| no INTENT | goes on without the durable intent | refused |" in text
    assert REASONS["T1 as T2"] in text
    assert all(f"| {each.id} |" in text for each in JUDGED)
    assert "**no reason written**" in mutant_table([MutantOutcome("no INTENT", (), refused=True, cells={})])
