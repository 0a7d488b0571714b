"""The life of a name and of a claim: what the collector may remove, and what comes of it if it is early (N-11)."""

from __future__ import annotations

import pytest

from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.properties.safety import Property, When
from perago_simulation.runs.path import RunPath
from perago_simulation.world.history import chain
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import World

BY_NAME = (Backing.CONDITIONAL, Backing.LOCKED)
STRONG = (Backing.ATOMIC, *BY_NAME)
by_backing = pytest.mark.parametrize("backing", list(Backing), ids=lambda each: each.value)
by_strong = pytest.mark.parametrize("backing", STRONG, ids=lambda each: each.value)
by_name = pytest.mark.parametrize("backing", BY_NAME, ids=lambda each: each.value)


def handed_out(backing: Backing, **bounds: object) -> RunPath:
    return RunPath(Model(setting(backing, crashes=0, collector=True, **bounds))).take("hand out t0 to e0 (changed)")


@by_backing
def test_a_name_is_removed_only_when_its_attempt_has_ended(backing: Backing) -> None:
    """S-33, N-11: a slow attempt keeps its name; once it has been given up, its worker may find it gone."""
    slow = handed_out(backing).until(0, "OpenStaging")
    assert not slow.can("collector")
    late = slow.take("give up t0")
    assert [run for run, _ in late.world.names] == [0]
    swept = late.take("collector drop name e0")
    assert swept.world.names == ()
    assert "notdone" in " ".join(swept.take("e0 Upload").take("e0 CommitStaging").labels[-1]).lower()


@by_name
def test_claims_go_after_the_step_the_names_and_a_barrier(backing: Backing) -> None:
    """Architecture 5, life of a claim: settled, names gone, barrier answered, and only then."""
    reported = handed_out(backing).until(0, "e0 Report")
    assert [claim.execution for claim in reported.world.claims] == ["e0"]
    assert not reported.can("collector barrier")
    cleaned = reported.take("collector drop name e0")
    assert not cleaned.can("collector remove")
    passed = cleaned.take("collector barrier step 0")
    assert passed.take("collector remove claims step 0").world.claims == ()


@by_name
def test_the_claims_of_an_attempt_that_ended_stay_while_its_step_goes_on(backing: Backing) -> None:
    """L-03: without the record the next attempt would take the abandoned publication for a stranger's."""
    lost = handed_out(backing).until(0, "install").take("give up t0").take("collector drop name e0")
    assert not lost.can("collector barrier")
    lost = lost.take("expire") if lost.can("expire") else lost
    assert lost.take("hand out t1 to e1 (changed)").until(1).world.tasks[1].ref == "C1"


def test_the_barrier_of_the_collector_makes_what_had_begun_begin_again() -> None:
    """N-05: it is the same barrier."""
    way = RunPath(Model(setting(Backing.CONDITIONAL, crashes=0, duplicates=1, collector=True)))
    way = way.take("hand out t0 to e0 (changed)").until(0, "begin").take("give up t0").take("hand out t1 to e1")
    way = way.take("give up t1").take("collector drop name e0")
    assert [request.begun for request in way.world.requests] == [True]
    assert [request.begun for request in way.take("collector barrier step 0").world.requests] == [False]


def test_a_dirty_branch_keeps_the_claims() -> None:
    """N-08, N-11: a barrier there does nothing, so the collector does not count it."""
    way = handed_out(Backing.CONDITIONAL, foreign_writes=1).until(0)
    assert way.can("collector barrier")
    assert not way.take("stranger write").can("collector barrier")


def test_where_no_name_can_be_revoked_the_last_claim_stays_for_good() -> None:
    """N-11: on an atomic store it alone refuses a paused duplicate; records of older attempts may go."""
    way = handed_out(Backing.ATOMIC).until(0, "install").take("give up t0").take("hand out t1 to e1 (changed)").until(1)
    assert [claim.execution for claim in way.world.claims] == ["e0", "e1"]
    way = way.take("collector drop name e0").take("collector barrier step 0").take("collector remove claims step 0")
    assert [claim.execution for claim in way.world.claims] == ["e1"]
    assert not way.can("collector")


@by_strong
@pytest.mark.parametrize(
    "bounds", [{"attempts": 1, "duplicates": 1, "no_ops": True}, {"attempts": 2}], ids=["duplicate", "retry"]
)
def test_a_collector_that_waits_breaks_nothing(backing: Backing, bounds: dict[str, object]) -> None:
    """N-11, S-01 to S-04: at every point of every execution, also of those it takes the name from."""
    found = explore(setting(backing, crashes=0, collector=True, **bounds))
    assert (found.complete, found.broken()) == (True, {})


@pytest.mark.parametrize(("backing", "length"), [(Backing.ATOMIC, 27), (Backing.CONDITIONAL, 31)])
def test_a_collector_that_is_early_lets_a_paused_duplicate_publish(backing: Backing, length: int) -> None:
    """N-11, S-02b, S-17: the no-op was accepted, its claim is gone, the duplicate wins a fresh one and publishes."""
    bounds: dict[str, object] = {"crashes": 0, "attempts": 1, "duplicates": 1, "no_ops": True}
    found = explore(setting(backing, early_collector=True, **bounds))
    assert found.broken() == {"S-02b": length}
    (violation,) = found.violations
    assert any(label[:2] == ("collector", "remove claim") for label in violation.trace)
    assert explore(setting(backing, **bounds)).broken() == {}


def test_under_a_lease_the_third_fence_stops_the_duplicate_also_then() -> None:
    """S-08: it is asked after the claim, when the task has long been completed."""
    bounds: dict[str, object] = {"crashes": 0, "attempts": 1, "duplicates": 1, "no_ops": True}
    assert explore(setting(Backing.LOCKED, early_collector=True, **bounds)).broken() == {}


@pytest.mark.parametrize(
    ("backing", "broken"),
    [(Backing.ATOMIC, {}), (Backing.CONDITIONAL, {"S-02b": 34}), (Backing.LOCKED, {"S-02b": 40})],
    ids=lambda value: value.value if isinstance(value, Backing) else "",
)
def test_a_claim_must_outlive_the_possibility_of_a_rerun(backing: Backing, broken: dict[str, int]) -> None:
    """N-07, N-11, S-02b, decision 12: settled, swept and past a barrier is not enough where the task may come back.

    A no-op stalls before its report; the claim is collected; the rerun passes its fences, the late report is accepted,
    and the rerun makes a claim of its own and publishes above it.
    """
    found = explore(setting(backing, crashes=0, attempts=1, reruns=1, collector=True, no_ops=True))
    assert (found.complete, found.broken()) == (True, broken)
    assert explore(setting(backing, crashes=0, attempts=1, reruns=1, no_ops=True)).broken() == {}


# ---------------------------------------------------------------------------------------------------------------------
# Data


def _branch_is_hollow(_setting: Setting, world: World) -> str | None:
    assert world.rare is not None
    hollow = [ref for ref in chain(world.head) if ref in world.rare.hollow]
    return f"{hollow} on the branch have no data" if hollow else None


#: S-34 as a reader of the branch sees it.
READABLE = Property("S-34", "whatever is on the branch has its data", When.ALWAYS, _branch_is_hollow)
WITH_DATA: dict[str, object] = {"crashes": 0, "data_collector": True}


def test_data_goes_after_the_step_the_name_and_a_barrier() -> None:
    """S-34, N-11: a staged commit that was given up, and that its paused worker might still publish."""
    way = RunPath(Model(setting(Backing.CONDITIONAL, attempts=1, **WITH_DATA)))
    way = way.take("hand out t0 to e0 (changed)").until(0, "CommitStaging")
    assert not way.can("collector")
    gone = way.take("give up t0").take("collector drop name e0")
    assert not gone.can("collector empty")
    emptied = gone.take("collector barrier step 0").take("collector empty C0")
    assert emptied.world.rare is not None
    assert emptied.world.rare.hollow == ("C0",)


@pytest.mark.clause("S-34")
def test_data_of_an_open_intent_stays() -> None:
    """S-34, T-O23: recovery may still have to look at it."""
    armed = RunPath(Model(setting(Backing.CONDITIONAL, attempts=1, ledger=True, **WITH_DATA)))
    armed = armed.take("hand out t0 to e0 (changed)").until(0, "ArmIntent").take("give up t0")
    armed = armed.take("collector drop name e0").take("collector barrier step 0")
    assert armed.world.intents == (0,)
    assert not armed.can("collector empty")


@pytest.mark.clause("S-34")
@by_backing
@pytest.mark.parametrize("bounds", [{"attempts": 2}, {"attempts": 1, "reruns": 1}], ids=["retry", "rerun"])
def test_data_that_waits_as_long_as_the_claims_is_never_missed(backing: Backing, bounds: dict[str, object]) -> None:
    """S-34, N-11, T-P11: no delayed merge or relocation ever installs what was collected."""
    found = explore(setting(backing, **WITH_DATA, **bounds), (READABLE,))
    assert (found.complete, found.broken()) == (True, {})


@pytest.mark.parametrize(
    ("backing", "length"),
    [(Backing.SOFT, 13), (Backing.ATOMIC, 15), (Backing.CONDITIONAL, 17), (Backing.LOCKED, 19)],
    ids=lambda value: value.value if isinstance(value, Backing) else "",
)
def test_data_collected_as_soon_as_its_name_is_gone_is_missed_on_every_backing(backing: Backing, length: int) -> None:
    """S-34, N-11: what the store had begun is installed after the data is gone. A name that is gone is no barrier."""
    found = explore(setting(backing, attempts=1, **WITH_DATA, early_collector=True), (READABLE,))
    assert found.broken() == {"S-34": length}
