"""Once nothing more goes wrong everything ends, and as it should; who hangs is told for whom it waits."""

from __future__ import annotations

import pytest
from attrs import evolve

from perago_core.attempt import ATTEMPT, table
from perago_core.attempt.state import Phase
from perago_core.machine.rows import Row, when
from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.mutants.known_bugs import BUGS
from perago_simulation.mutants.tables import attempts
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


def _claims_listed_after_the_barrier() -> tuple[Row, ...]:
    """``conditional`` without ledger: claim, revoke, barrier, and only then list the claims and ask of the owners."""
    rows: list[Row] = []
    others = ("atomic", "locked", "soft")
    for each in ATTEMPT.definition.rows:
        if each.id in {"K1", "Q1"}:
            first = when(claim="ours", backing="conditional")
            rows += [
                evolve(each, when=when(claim="ours", backing=others)),
                evolve(each, id=f"{each.id}-first", when=first, next=Phase.REVOCATION, ask=table.revoke_older),
            ]
        elif each.id == "A2":
            then = when(ledger="off", backing="conditional")
            rows += [
                evolve(each, when=when(ledger="off", backing=others)),
                evolve(each, id="A2-then", when=then, next=Phase.CLAIMS, ask=table.list_claims),
            ]
        elif each.id in {"LG2", "NG2"}:
            rows.append(evolve(each, next=Phase.HEAD, ask=table.read_head))
        else:
            rows.append(each)
    return tuple(rows)


def test_a_zombie_that_claims_late_costs_an_attempt_and_need_not() -> None:
    """L-02 on ``conditional``: it claims and publishes between the list and the revocation, and nobody can prove whose.

    The attempt fails closed, and the next one, which finds the record, replaces. With the claims listed after the
    barrier the record is there: the same promises hold in fewer worlds, and the attempt completes.
    """
    of = setting(Backing.CONDITIONAL, crashes=0, no_ops=True)
    assert heal(of).broken() == {"L-02b": 8}
    other = Model(of, attempts(_claims_listed_after_the_barrier()))
    assert heal(other).broken() == {}
    assert explore(other, JUDGED).broken() == explore(of, JUDGED).broken() == {}


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
