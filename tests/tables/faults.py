"""What breaks while a table is written, drawn from a seed. Afterwards the target is the input or input -> staged."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from tests.spark import scenarios
from tests.support.crash.seeds import FULL
from tests.tables.rounds import TableHarness

ROUNDS = 200


def lost_task(harness: TableHarness) -> None:
    scenarios.counts_once(harness, "task exception", harness.kind)


def lost_executor(harness: TableHarness) -> None:
    scenarios.counts_once(harness, "worker exit", harness.kind)


def zombie(harness: TableHarness) -> None:
    scenarios.lost(harness, "hold link", harness.kind)


def killed_driver(harness: TableHarness) -> None:
    scenarios.killed(harness, "hold link", harness.kind)


def killed_before_its_seal(harness: TableHarness) -> None:
    scenarios.killed(harness, "hold seal", harness.kind)


def half_a_link(harness: TableHarness) -> None:
    scenarios.fails_half_way(harness, "half a link", harness.kind)


KINDS: tuple[Callable[[TableHarness], None], ...] = (
    lost_task,
    lost_executor,
    zombie,
    killed_driver,
    killed_before_its_seal,
    half_a_link,
)


def play(harness: TableHarness, seed: int) -> str:
    """Play three rounds of different kinds, in full 200, on one table whose log grows; say what was played."""
    chance = random.Random(seed)
    kinds = chance.choices(KINDS, k=ROUNDS) if FULL else [lost_task, zombie, killed_driver]
    for kind in kinds:
        harness.next_round()
        kind(harness)
    told = Counter(each.__name__.replace("_", " ") for each in kinds)
    shown = ", ".join(f"{name} {number}" for name, number in sorted(told.items()))
    return (
        f"{len(kinds)} rounds on one {harness.kind} table ({shown}): the input, or each row once, read at every commit"
    )
