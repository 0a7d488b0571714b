"""What was explored is what runs: the simulated ports and the explored world agree under every schedule tried."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perago_core.attempt import messages as m
from perago_core.machine.rows import Command
from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.properties.safety import PROPERTIES, Judge, Property, When
from perago_simulation.runs.schedule import actor_of, fault_of
from perago_simulation.world.model import Label, Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import COMPLETED, RUNNING, World
from tests.simulation.ports_twin import Twin, moves

SETTINGS = {
    "two attempts": {"attempts": 2, "no_ops": True},
    "lost answers": {"attempts": 2, "losses": 2},
    "duplicates": {"attempts": 2, "duplicates": 1, "no_ops": True},
    "a stranger": {"attempts": 2, "strangers": 1},
    "two steps": {"attempts": 2, "steps": 2, "same_tree": True},
    "with a ledger": {"attempts": 2, "ledger": True, "no_ops": True},
    "resent": {"attempts": 2, "resends": 1},
    "a stranger's merge": {"attempts": 2, "foreign_merges": 1},
    "a stranger's reset": {"attempts": 2, "foreign_resets": 1},
    "a branch made anew": {"attempts": 2, "recreations": 1},
    "uncommitted objects": {"attempts": 2, "foreign_writes": 1, "no_ops": True},
    "terminated": {"attempts": 2, "terminations": 1},
}

every_backing = pytest.mark.parametrize("backing", Backing, ids=lambda backing: backing.value)
every_environment = pytest.mark.parametrize("environment", SETTINGS)


#: Each choice is one move, see ``pick``.
schedules = st.lists(st.integers(0, 99), min_size=40, max_size=120)


def pick(possible: list[tuple[Label, World]], choice: int, last: str) -> tuple[Label, World]:
    """Choose what happens: one time in ten something goes wrong, twice any work is done, else the last one goes on.

    So workers stall for long while others work, which is when the fences matter.
    """
    faults = [move for move in possible if fault_of(move[0]) is not None]
    work = [move for move in possible if fault_of(move[0]) is None]
    same = [move for move in work if actor_of(move[0]) == last]
    due = choice % 10
    pool = faults if due == 9 else same if due < 7 else work
    pool = pool or work or faults
    return pool[choice // 10 % len(pool)]


def follow(chosen: Setting, choices: Sequence[int]) -> tuple[Twin, World]:
    """Let both worlds go the same way, as far as the choices and the worlds go, comparing them after each move."""
    model, twin = Model(chosen), Twin(chosen)
    explored, last = None, ""
    for choice in choices:
        possible = moves(model, explored)
        if not possible:
            break
        label, explored = pick(possible, choice, last)
        last = actor_of(label)
        twin.follow(label)
        try:
            twin.compare(explored)
        except AssertionError as problem:
            problem.add_note(f"after {label}")
            raise
    assert explored is not None
    return twin, explored


#: Small enough for every move of every world: a crash, a second attempt, a lost answer, intents, the lease.
EXHAUSTIVE = {
    "a crash, a ledger": {"attempts": 1, "crashes": 1, "pauses": False, "ledger": True, "no_ops": True},
    "two attempts": {"attempts": 2, "crashes": 1, "pauses": False},
    "a lost answer": {"attempts": 1, "crashes": 0, "losses": 1, "pauses": False, "no_ops": True},
}


@every_backing
@pytest.mark.parametrize("environment", EXHAUSTIVE)
def test_they_agree_on_every_move_of_every_world_within_small_bounds(backing: Backing, environment: str) -> None:
    """What is told in short, intents and the lease, is what the conversations do to the coordination store."""
    chosen = setting(backing, **EXHAUSTIVE[environment])
    model, compared = Model(chosen), 0
    ways: dict[World, tuple[Label, ...]] = {world: (label,) for label, world in moves(model, None)}
    following = list(ways)
    while following:
        explored = following.pop(0)
        for label, after in moves(model, explored):
            way = (*ways[explored], label)
            twin = Twin(chosen)
            for each in way:
                twin.follow(each)
            twin.compare(after)
            compared += 1
            if after not in ways:
                ways[after] = way
                following.append(after)
    assert compared >= len(ways) > len(model.fired)


def verdicts(chosen: Setting, explored: World) -> dict[str, str | None]:
    return {each.id: each.judge(chosen, explored) for each in PROPERTIES}


@every_backing
@every_environment
@given(choices=schedules)
@settings(max_examples=30)
def test_the_ports_and_the_explored_world_agree_after_every_move(
    backing: Backing, environment: str, choices: list[int]
) -> None:
    follow(setting(backing, **SETTINGS[environment]), choices)


@every_backing
def test_undisturbed_both_worlds_complete(backing: Backing) -> None:
    """Always the first move: the execution works, then the store."""
    chosen = setting(backing, attempts=1, crashes=0, steps=2, pauses=False)
    twin, explored = follow(chosen, [0] * 100)
    assert [task.status for task in explored.tasks] == [COMPLETED, COMPLETED]
    assert len(twin.history()) == 3
    assert Model(chosen).at_rest(explored)


# ---------------------------------------------------------------------------------------------------------------------
# Turning points: worlds where two things meet, by the shortest way, and everything that can happen next


def begun_meets(command: type[Command], *, its_own: bool = False) -> Judge:
    """Find a world where the store is half through with one's publication and another, or its sender, asks for this."""

    def judge(_setting: Setting, world: World) -> str | None:
        begun = {request.run for request in world.requests if request.begun}
        asking = {
            index
            for index, run in enumerate(world.runs)
            if run.state is not None and any(isinstance(each, command) for each in run.state.pending)
        }
        return "they meet" if begun and (asking & begun if its_own else asking - begun) else None

    return judge


def two_begun(_setting: Setting, world: World) -> str | None:
    return "two are begun" if sum(request.begun for request in world.requests) > 1 else None


def nobody_waits(_setting: Setting, world: World) -> str | None:
    waiting = any(world.runs[request.run].fate is RUNNING for request in world.requests)
    return "nobody waits" if world.requests and not waiting else None


TURNS: dict[str, tuple[Setting, Judge]] = {
    "a barrier": (setting(Backing.CONDITIONAL), begun_meets(m.PassBarrier)),
    "a barrier under a lease": (setting(Backing.LOCKED, pauses=False), begun_meets(m.PassBarrier)),
    "a revocation": (setting(Backing.CONDITIONAL), begun_meets(m.RevokeOlder)),
    "a claim": (setting(Backing.ATOMIC), begun_meets(m.MakeClaim)),
    "a drop": (setting(Backing.CONDITIONAL, losses=1, attempts=1), begun_meets(m.DropStaging, its_own=True)),
    "two updates": (setting(Backing.SOFT), two_begun),
    "two updates with claims": (setting(Backing.ATOMIC), two_begun),
    "a dead sender": (setting(Backing.CONDITIONAL), nobody_waits),
}
#: What cannot happen: two updates begun on a store that compares claims, since the later claim has restarted the first.
NEVER = ("two updates with claims",)


@pytest.mark.parametrize("turn", TURNS)
def test_they_agree_on_all_that_can_happen_around_a_turning_point(turn: str) -> None:
    chosen, judge = TURNS[turn]
    found = explore(chosen, [Property("turn", turn, When.ALWAYS, judge)]).violations
    assert bool(found) is (turn not in NEVER)
    for violation in found:
        assert go_everywhere(chosen, violation.trace, depth=3) > 1


def go_everywhere(chosen: Setting, trace: tuple[Label, ...], depth: int) -> int:
    """Go on from a trace in every way of so many moves, and count the ways."""
    _, explored = along(chosen, trace)
    if depth == 0:
        return 1
    following = [label for label, _ in moves(Model(chosen), explored)]
    return sum(go_everywhere(chosen, (*trace, label), depth - 1) for label in following) or 1


def along(chosen: Setting, trace: tuple[Label, ...]) -> tuple[Twin, World]:
    """Let both worlds go along a trace, comparing them after each move."""
    model, twin = Model(chosen), Twin(chosen)
    explored: World | None = None
    for label in trace:
        explored = dict(moves(model, explored))[label]
        twin.follow(label)
        twin.compare(explored)
    assert explored is not None
    return twin, explored


BROKEN = {
    "S-01": setting(Backing.SOFT, attempts=2),
    "S-02": setting(Backing.SOFT, attempts=2),
    "S-03": setting(Backing.SOFT, attempts=2),
    "S-15": setting(Backing.CONDITIONAL, attempts=2, strangers=1),
}


@pytest.mark.parametrize("clause", BROKEN)
def test_the_shortest_counterexample_happens_on_the_ports_too(clause: str) -> None:
    """A hole the explorer shows is a hole of the store's semantics, and the bytes are lost too."""
    chosen = BROKEN[clause]
    (violation,) = [each for each in explore(chosen).violations if each.property == clause]
    twin, explored = along(chosen, violation.trace)
    lost = [
        task.ref for task in explored.tasks if task.status is COMPLETED and twin.refs[task.ref] not in twin.history()
    ]
    assert lost or clause != "S-01"
    assert verdicts(chosen, explored)[clause] is not None
