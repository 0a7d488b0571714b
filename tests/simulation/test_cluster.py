"""Several processes over one coordination store: what holds, what does not, and that the figures are the pinned."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from perago_core.answers import Answer, Done
from perago_core.calls import Call
from perago_core.lease import LeaseRequest
from perago_core.lease.run import Keeper
from perago_core.recovery.run import sweep
from perago_core.recovery.state import Mode
from perago_simulation.machines.lake import COMMITS, MAIN, TASKS
from perago_simulation.machines.lease_times import BUDGET, TARGET
from perago_simulation.machines.locks import LockBounds, Locks
from perago_simulation.machines.model import Cluster, ClusterWorld
from perago_simulation.machines.mutants import MUTANTS, MachineMutant
from perago_simulation.machines.recoveries import Recoveries, RecoveryBounds
from perago_simulation.machines.scenes import AGREEMENT, CHANGING, LOCK, SCENES, SWEEPING, Scene
from perago_simulation.machines.witnesses import WITNESSES, Witness

#: Distinct worlds and moves. A changed count is a changed protocol.
COUNTS: dict[str, tuple[int, int]] = {
    "two processes, one lock": (24_680, 86_030),
    "two processes, one dies": (25_850, 130_998),
    "one process, two executions, one fault, death": (44_519, 193_318),
    "five renewals unanswered": (4_929, 20_906),
    "one sends, slowest and fastest clock": (24_351, 86_131),
    "nobody pauses, the holder dies": (1_648, 2_425),
    "nobody pauses, a dead holder's request straggles": (3_241, 5_753),
    "a clock beyond the bound": (44_399, 159_061),
    "no takeover wait": (24_278, 86_847),
    "paused between deciding and sending": (25_909, 97_682),
    "one node, production budgets, storing fails": (15_618, 36_356),
    "one node that requires it, production budgets": (5_050, 11_739),
    "requires it, no coordination store": (50, 49),
    "two nodes, one fault": (8_770, 19_752),
    "two nodes, one dies": (4_076, 11_482),
    "two nodes that fail on silence": (6_244, 14_004),
    "two nodes that require it": (2_404, 5_304),
    "three nodes, any probe": (7_928, 19_497),
    "auto beside enable": (4_102, 9_123),
    "auto beside disable": (209, 324),
    "disable beside soft": (238, 464),
    "a choice, no coordination store": (2, 1),
    "two workers, the policy changes": (54_671, 153_143),
    "one worker, the policy changes, one fault": (8_802, 20_726),
    "one worker, the policy changes, one dies": (2_453, 7_043),
    "two people change the policy": (3_987, 11_950),
    "the policy changes by force": (56_776, 152_937),
    "one sweep of anything, one fault, death": (2_446, 5_426),
    "one exclusive recovery of anything, one fault, death": (2_703, 6_108),
    "confirmed, exclusive, one fault, death": (2_540, 5_680),
    "looking at anything": (798, 903),
    "two sweeps of anything": (8_386, 14_036),
    "two sweeps, one dies": (1_056, 3_098),
    "exclusive beside keeping, one dies": (3_988, 11_560),
    "two exclusive ones": (2_382, 4_046),
    "two targets": (6_716, 11_094),
    "the owner at work, one dies": (1_949, 5_099),
    "the owner at work, one fault": (20_127, 43_388),
    "beside an intent nobody can decide": (44, 42),
    "another target's intent nobody can decide": (264, 482),
}


@pytest.mark.clause(
    "S-20",
    "S-21",
    "S-22",
    "S-23",
    "S-24",
    "S-25",
    "S-26",
    "S-27",
    "S-28",
    "S-29",
    "L-04",
    "L-05",
    "L-06",
    "L-07",
    "L-08",
)
@pytest.mark.parametrize("where", [each for each in SCENES if not each.full], ids=lambda each: each.name)
def test_exactly_the_known_promises_break(where: Scene) -> None:
    """S-19 to S-29, L-04 to L-08; N-06, N-09, N-10; CW-27 to CW-31, CW-33, CW-34: died, delayed and lost anywhere."""
    found = where.explore()
    assert found.complete
    assert set(found.found()) == set(where.breaks)
    assert (found.worlds, found.moves) == COUNTS[where.name]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.id)
def test_every_mutant_is_noticed(mutant: MachineMutant) -> None:
    assert mutant.noticed() is not None


@pytest.mark.parametrize("witness", WITNESSES, ids=lambda each: f"{each.promise}: {each.says}")
def test_every_promise_could_have_failed(witness: Witness) -> None:
    assert witness.sighting() is not None


def test_every_promise_has_a_witness_and_something_it_notices() -> None:
    promised = {each.id for kind in (LOCK, AGREEMENT, CHANGING, SWEEPING) for each in kind.promises}
    noticing = {each.promise for each in MUTANTS} | {name for each in SCENES for name in each.breaks}
    assert promised == {each.promise for each in WITNESSES} == noticing


# ---------------------------------------------------------------------------------------------------------------------
# What is explored is what runs


def talk_through(
    cluster: Cluster, world: ClusterWorld, talk: Generator[Call, Answer[Any], Any]
) -> tuple[list[Call], ClusterWorld]:
    """Carry a production conversation on in a world of the cluster; give its calls but those of the clock."""
    calls: list[Call] = []
    try:
        call = next(talk)
        while True:
            if call.method == "wall":
                call = talk.send(Done(0))
                continue
            ((answer, world),) = cluster.serve(world, 0, call)
            calls += [call] if call.port != "clock" else []
            call = talk.send(answer)
    except StopIteration:
        return calls, world


def own_calls(cluster: Cluster, world: ClusterWorld) -> tuple[list[Call], ClusterWorld]:
    """Let the first process make its calls until it has none; give them but those of the clock."""
    calls: list[Call] = []
    while (call := cluster.call(world, 0)) is not None:
        ((answer, after),) = cluster.serve(world, 0, call)
        world = after.with_process(0, cluster.answered(world, 0, answer))
        calls += [call] if call.port != "clock" else []
    return calls, world


def after(cluster: Cluster, world: ClusterWorld, does: str) -> ClusterWorld:
    """Return the world after the one move that does this."""
    (found,) = [then for label, then in cluster.moves(world) if label.does == does]
    return found


def test_a_keeper_makes_the_calls_that_are_explored() -> None:
    """S-23: acquiring and releasing, ``Keeper`` makes the calls of the explored process, and leaves the same store."""
    locks = Locks(LockBounds(rates=(1.0,), executions=(1,)))
    (world,) = locks.beginnings()
    keeper = Keeper(LeaseRequest(TARGET, "p0-1", BUDGET.lease_ttl, BUDGET.lease_margin))
    kept, theirs = talk_through(locks, world, keeper.acquire())
    explored, ours = own_calls(locks, after(locks, world, "begins"))
    assert explored == kept
    assert ours.shared == theirs.shared
    kept, theirs = talk_through(locks, theirs, keeper.release())
    explored, ours = own_calls(locks, after(locks, ours, "releases"))
    assert explored == kept
    assert ours.shared == theirs.shared


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("head", COMMITS)
@pytest.mark.parametrize("task", TASKS)
def test_a_sweep_makes_the_calls_that_are_explored(task: str, head: str, mode: Mode) -> None:
    """L-07: ``sweep`` makes the explored calls, and then reads the epoch."""
    recoveries = Recoveries(RecoveryBounds(((MAIN, mode),), ((task, (head,)),)))
    (world,) = recoveries.beginnings()
    grounds = "" if mode in {Mode.PROBE, Mode.SETTLE_ONLY} else "a reason"
    swept, theirs = talk_through(recoveries, world, sweep(MAIN, mode, "s0", grounds))
    explored, ours = own_calls(recoveries, world)
    assert explored == swept[:-1]
    assert [call.method for call in swept[-1:]] == ["list"]
    assert (ours.shared, ours.outside) == (theirs.shared, theirs.outside)
