"""Once nothing more goes wrong everything ends, and as it should; who hangs is told for whom it waits."""

from __future__ import annotations

import pytest
from attrs import evolve

from perago_core.attempt import table
from perago_core.attempt.state import Phase
from perago_core.machine.rows import Row, when
from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.mutants.known_bugs import BUGS
from perago_simulation.mutants.tables import attempts, leads, with_rows
from perago_simulation.properties.liveness import heal
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import Property, When
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import COMPLETED, DEAD, World

STRONG = [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED]


def _bug(name: str, of: Setting) -> Model:
    (bug,) = [each for each in BUGS if each.id == name]
    return bug.make(of)


@pytest.mark.parametrize("backing", STRONG, ids=lambda backing: backing.value)
@pytest.mark.parametrize("ledger", [False, True], ids=["without-ledger", "with-ledger"])
def test_everything_heals_after_crashes(backing: Backing, *, ledger: bool) -> None:
    """L-01, L-02, L-03: three attempts, two crashes; from every world rest is a counted number of moves away."""
    found = heal(setting(backing, attempts=3, crashes=2, pauses=False, ledger=ledger))
    assert found.broken() == {}
    assert 0 < found.bound < 40


def test_two_stacked_publications_block_the_seed_protocol_and_one_does_not() -> None:
    """L-02, L-03: ``soft`` fails closed over two, which a late merge may stack; over one it goes on."""
    found = heal(setting(Backing.SOFT, attempts=3, crashes=2, pauses=False, no_ops=True))
    assert set(found.broken()) == {"L-02b"}


def test_a_row_that_asks_for_ever_is_noticed() -> None:
    """L-01: the attempt was given up, and its worker asks until it is current again."""
    (found,) = heal(_bug("asks for ever", setting(Backing.CONDITIONAL, crashes=0, attempts=1))).violations
    assert found.property == "L-01"
    assert found.problem == "e0 waits for ReloadTask, whose task is timed out"


def test_a_wake_that_never_comes_is_noticed_and_says_who_waits_for_whom() -> None:
    """L-01, L-04: the holder is dead, its lease does not expire, and the next attempt waits for it."""
    found = heal(_bug("waits for ever", setting(Backing.LOCKED, crashes=1, pauses=False)))
    problems = {each.property: each.problem for each in found.violations}
    assert problems["L-01"] == "e1 waits for AcquireLease, and the lease belongs to e0, which is dead"


def test_an_exploration_that_is_too_large_is_refused_not_judged_in_part() -> None:
    """A world that was not reached cannot be said to heal."""
    with pytest.raises(ValueError, match="take smaller bounds"):
        heal(setting(Backing.ATOMIC), limit=100)


def _claims_listed_before_the_revocation() -> tuple[Row, ...]:
    """``conditional`` without ledger, as it once was: claim, list the claims, ask of the owners, revoke, barrier."""
    first = [leads(each, Phase.CLAIMS, table.list_claims) for each in ("K4", "Q4")]
    rows: list[Row] = []
    for each in with_rows(*first, leads("A3", Phase.HEAD, table.read_head)):
        rows.append(each)
        if each.id in {"LG3", "NG3"}:
            guard = {fact: wanted for fact, wanted in each.when.items() if fact != "backing"}
            rows[-1] = evolve(each, when=when(**guard, backing=("soft", "atomic")))
            revokes = when(**guard, backing="conditional")
            rows.append(evolve(each, id=f"{each.id}-then", when=revokes, next=Phase.REVOCATION, ask=table.revoke_older))
    return tuple(rows)


def test_a_zombie_that_claims_late_costs_no_attempt_because_claims_are_listed_after_the_barrier() -> None:
    """L-02 on ``conditional``: a zombie claims and publishes between a list of claims and the revocation.

    Listed before, nobody can prove whose that publication is: the attempt fails closed, and costs one more. Listed
    after the barrier, the record is there, and whoever is left alone completes.
    """
    of = setting(Backing.CONDITIONAL, crashes=0, no_ops=True)
    assert heal(of).broken() == explore(of, JUDGED).broken() == {}
    earlier = Model(of, attempts(_claims_listed_before_the_revocation()))
    assert explore(earlier, JUDGED).broken() == {}
    assert heal(earlier).broken() == {"L-02b": 8}


def _a_claimant_died_and_its_step_is_done(_setting: Setting, world: World) -> str | None:
    claimed = any(claim.execution == "e0" for claim in world.claims) and world.runs[0].fate is DEAD
    return "found" if claimed and world.tasks[-1].status is COMPLETED and world.tasks[-1].winner > 0 else None


@pytest.mark.parametrize("backing", STRONG, ids=lambda backing: backing.value)
def test_a_rerun_under_the_same_id_is_silent_and_its_next_attempt_publishes(backing: Backing) -> None:
    """C7, S-17, L-02: the claim of an execution that died stands, so the rerun of its task stays silent."""
    done = Property("done", "never", When.ALWAYS, _a_claimant_died_and_its_step_is_done)
    once = setting(backing, attempts=1, crashes=1, reruns=1, pauses=False)
    assert not explore(once, [done]).violations
    assert explore(evolve(once, attempts=2), [done]).violations
