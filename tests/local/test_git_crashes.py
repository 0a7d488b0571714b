"""Writers of one repository: killed or stopped at any step they spoil nothing, and of eight at once one wins."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from perago_conformance.support import done
from perago_core.answers import Done, NotDone
from perago_core.names import task_prefix
from perago_core.values import claim_of
from tests.conformance.implementations.git import git
from tests.local.git_victims import Victim, victim
from tests.local.git_world import ACTIONS, Case, GitWorld

#: Fewer than this, and the hook does not see what it should.
FEWEST = {"open": 12, "link": 12, "commit": 10, "claim": 12, "publish": 10, "drop": 14}


def each_step(world: GitWorld, action: str, by: signal.Signals) -> Iterator[tuple[Case, Victim]]:
    """Begin the action anew for each of its steps, until one survives because it has no such step."""
    step = 0
    while True:
        step += 1
        case = world.case()
        child = victim(ACTIONS[action](case), step, by)
        if child.wait() == "survived":
            assert isinstance(child.answer(), Done)
            break
        yield case, child
    print(f"{action}: {step - 1} steps, {by.name} before each, all survived by the next writer")  # noqa: T201  the figure
    assert step > FEWEST[action], f"only {step} steps seen: is the audit hook blind?"


@pytest.mark.parametrize("action", ACTIONS)
def test_whoever_comes_after_a_killed_writer_publishes(tmp_path: Path, action: str) -> None:
    """SIGKILL before each step: the branch is readable, and the next attempt replaces whatever was published."""
    world = GitWorld(tmp_path)
    for case, _dead in each_step(world, action, signal.SIGKILL):
        assert len(case.history()) <= 2
        second = case.publish(2)
        assert case.history() == [second, case.first]
        done(world.store.drop(case.target, case.attempt(1).staging_name))
        assert done(world.store.staging_names("lake", task_prefix(case.target, case.attempt(1).logical_task))) == ()
        world.check_locks()
    world.check_rest()


@pytest.mark.parametrize("action", ACTIONS)
def test_whoever_comes_after_a_stopped_writer_publishes_and_the_stopped_one_does_no_harm(
    tmp_path: Path, action: str
) -> None:
    """SIGSTOP before each step, a successor, SIGCONT: a publication of the first never lands on the successor's."""
    world = GitWorld(tmp_path)
    for case, stopped in each_step(world, action, signal.SIGSTOP):
        before = case.history()
        second = case.publish(2)
        answer = stopped.resume()
        assert isinstance(answer, Done | NotDone), answer
        assert case.history() == [second, case.first]
        if action == "publish":
            # It says what it did, however long ago that was.
            assert isinstance(answer, Done) == (len(before) == 2)
        if action == "claim":
            claims = done(world.store.claims(case.target, case.attempt(1).logical_task))
            assert answer in (Done(claims[0]), Done(claims[-1]))
            assert world.store.claim(claim_of(case.attempt(1), None)) != Done(claim_of(case.attempt(1), None))
        done(world.store.drop(case.target, case.attempt(1).staging_name))
        world.check_locks()
    world.check_rest()


def test_a_writer_stopped_for_good_costs_the_others_their_patience_once(tmp_path: Path) -> None:
    """Whoever loses patience takes the queue away; those who come later do not wait for the stopped one again."""
    world = GitWorld(tmp_path)
    case, other = world.case(), world.case()
    turn = world.folder / "perago" / "turn"
    child = victim(ACTIONS["publish"](case), 9, signal.SIGSTOP)
    assert child.wait() == "stopped"
    waited_for = turn.stat().st_ino
    other.publish(1)
    taken = turn.stat().st_ino
    other.publish(2)
    assert waited_for != taken == turn.stat().st_ino
    assert isinstance(child.resume(), Done)
    world.check_rest()


# ---- Eight processes at once: one winner in every round, and a line of history (ST-2, ST-3, S-01).


RACERS = 8
ROUNDS = 6
NEVER = 0


def test_one_of_eight_equal_plans_is_carried_out(tmp_path: Path) -> None:
    """The head is checked in the step that moves it: the seven others find it moved."""
    world = GitWorld(tmp_path)
    for _ in range(ROUNDS):
        case = world.case()
        attempt = case.attempt(1)
        staged = case.stage(attempt)
        done(world.store.claim(claim_of(attempt, staged)))
        plan = case.plan(attempt, staged)
        racers = [victim(partial(world.store.publish, plan), NEVER, signal.SIGKILL) for _ in range(RACERS)]
        assert [racer.wait() for racer in racers] == ["survived"] * RACERS
        answers = [racer.answer() for racer in racers]
        assert answers.count(Done(staged.commit)) == 1
        assert sum(isinstance(answer, NotDone) for answer in answers) == RACERS - 1
        assert case.history() == [staged.commit, case.first]
    world.check_rest()


def test_every_writer_of_a_name_of_its_own_gets_its_turn(tmp_path: Path) -> None:
    """Nothing conflicts, so nobody is refused: queueing is fair enough for a full cycle of each."""
    world = GitWorld(tmp_path)
    for _ in range(ROUNDS):
        cases = [world.case() for _ in range(RACERS)]
        racers = [victim(partial(case.publish, 1), NEVER, signal.SIGKILL) for case in cases]
        assert [racer.wait() for racer in racers] == ["survived"] * RACERS
        for case, racer in zip(cases, racers, strict=True):
            assert case.history() == [racer.answer(), case.first]
    world.check_rest()


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGSTOP])
def test_attempts_killed_and_stopped_at_random_leave_one_line_of_history(tmp_path: Path, by: signal.Signals) -> None:
    """Attempts of one task one after the other, most of them hit somewhere; the stopped ones all wake at the end."""
    chance = Random(7)
    world = GitWorld(tmp_path)
    case = world.case()
    asleep: list[int] = []
    for number in range(1, 25):
        child = victim(partial(case.publish, number), chance.randrange(1, 140), by)
        if child.wait() == "stopped":
            asleep.append(child.pid)
        assert len(case.history()) <= 2
    for pid in asleep:
        os.kill(pid, signal.SIGCONT)
        os.waitpid(pid, 0)
    last = case.publish(100)
    assert case.history() == [last, case.first]
    for left in done(world.store.staging_names("lake")):
        done(world.store.drop(case.target, left))
    assert git(world.folder, "for-each-ref", "--format=%(refname)", "refs/perago/staged") == b""
    world.check_rest()
