"""A table under faults: whatever breaks, the target is the input or exactly input -> staged, and reads as a table."""

from __future__ import annotations

import os
import random

import pytest

pytest.importorskip("pyspark")

from tests.spark import scenarios
from tests.tables.rounds import TableHarness

FULL = os.environ.get("PERAGO_MATRIX") == "full"
VIA = "delta"


def lost_task(harness: TableHarness) -> None:
    scenarios.counts_once(harness, "task exception", VIA)


def lost_executor(harness: TableHarness) -> None:
    scenarios.counts_once(harness, "worker exit", VIA)


def zombie(harness: TableHarness) -> None:
    scenarios.lost(harness, "hold link", VIA)


def killed_driver(harness: TableHarness) -> None:
    scenarios.killed(harness, "hold link", VIA)


def killed_before_its_seal(harness: TableHarness) -> None:
    scenarios.killed(harness, "hold seal", VIA)


def half_a_link(harness: TableHarness) -> None:
    scenarios.fails_half_way(harness, "half a link", VIA)


ROUNDS = (lost_task, lost_executor, zombie, killed_driver, killed_before_its_seal, half_a_link)


@pytest.mark.parametrize("seed", range(8) if FULL else [7])
def test_a_table_is_what_one_attempt_wrote_or_what_it_was(harness: TableHarness, seed: int) -> None:
    """In full 200 rounds, 25 to a table, so that its log has checkpoints; else three of different kinds."""
    chance = random.Random(seed)
    kinds = chance.choices(ROUNDS, k=25) if FULL else [lost_task, zombie, killed_driver]
    for kind in kinds:
        harness.next_round()
        kind(harness)
