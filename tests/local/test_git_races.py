"""Eight processes at once: one winner in every round, and a line of history (ST-2, ST-3, S-01)."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from random import Random

import pytest

from perago_core.answers import Done, NotDone
from perago_core.values import claim_of
from tests.conformance.implementations.git import git
from tests.conformance.support import done
from tests.local.git_victims import victim
from tests.local.git_world import GitWorld

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
