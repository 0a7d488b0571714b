"""Several processes on one coordination file: one winner, no lost update, one decision, one holder; and they die."""

from __future__ import annotations

import signal
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from perago_local.coordination import SqliteCoordination
from tests.local.coordinating import (
    Recipe,
    count_up,
    done,
    race_to_create,
    resolve_policy,
    take_over,
    together,
)

TTL = 3.0
MARGIN = 0.5
WAIT = 1.0


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Nobody has opened the file yet: all processes are its first openers."""
    return partial(SqliteCoordination, tmp_path / "c.db", busy_timeout=30.0)


def test_twenty_processes_create_one_key_and_one_wins_each_of_fifty_rounds(recipe: Recipe) -> None:
    """CO-1."""
    rounds = list(zip(*together(20, race_to_create, recipe, 50), strict=True))
    assert len(rounds) == 50
    for each in rounds:
        assert sum(won for won, _ in each) == 1
        assert len({standing for _, standing in each}) == 1


def test_no_update_is_lost_when_four_processes_swap(recipe: Recipe) -> None:
    """CO-2."""
    refused = together(4, count_up, recipe, 50)
    with closing(recipe()) as coordination:
        entry = done(coordination.get("counter"))
    assert entry is not None
    assert entry.value == "200", f"refused swaps: {refused}"


def test_no_update_is_lost_of_a_process_that_opened_the_file_twice(recipe: Recipe) -> None:
    """CO-2: the second opening may not give back the locks of the first, else whoever leaves deletes its log."""
    with closing(recipe()) as twice, closing(recipe()):
        together(1, count_up, recipe, 1)
        assert done(twice.swap("counter", "1", "2"))
        together(1, count_up, recipe, 1)
        entry = done(twice.get("counter"))
    assert entry is not None
    assert entry.value == "3"


def test_eight_nodes_that_start_at_once_and_see_different_stores_follow_one_decision(recipe: Recipe) -> None:
    """W-08, S-27."""
    found = together(8, resolve_policy, recipe)
    assert len({(each.decision, each.backing, each.epoch) for each in found}) == 1
    assert sum(each.own for each in found) == 1
    with closing(recipe()) as coordination:
        assert len(done(coordination.list("decision/"))) == 1


@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lock_is_taken_over_only_after_its_holder_has_stopped_acting(
    recipe: Recipe,
    fatal: signal.Signals,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """CO-3, W-22: the heir's lock begins after the holder's own deadline, and it knows of the unclean end."""
    found = take_over(recipe, TTL, MARGIN, WAIT, fatal)
    assert found.taken_at > found.deadline
    assert not found.clean
    assert found.token == 2
    with capsys.disabled():
        print(f"\nsqlite: {fatal.name} of the holder: {found} (TTL {TTL:g} + wait {WAIT:g} s)")  # noqa: T201  asked for
