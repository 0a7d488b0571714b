"""The ladder is what the explorer finds, and the register of known holes is exactly that."""

from __future__ import annotations

import json
from pathlib import Path

from perago_core.values import Backing
from perago_simulation.ladder import holes, standard_ladder

REGISTER = Path(__file__).parents[2] / "specs" / "residuals.json"


def registered() -> set[tuple[str, str, str]]:
    return {
        (entry["backing"], environment, each)
        for entry in json.loads(REGISTER.read_text(encoding="utf-8"))
        for environment in entry["environments"]
        for each in entry["properties"]
    }


def test_the_explorer_finds_exactly_the_registered_holes() -> None:
    """R-26, P-15, P-22: no more, no fewer; every rung was explored completely."""
    found = standard_ladder()
    assert all(rung.exploration.complete for rung in found)
    assert holes(found) == registered()


def test_every_registered_hole_says_why() -> None:
    """L-10: a hole without a reason is a bug somebody has not looked at."""
    assert all(entry["why"] for entry in json.loads(REGISTER.read_text(encoding="utf-8")))


def test_an_atomic_store_has_no_hole_at_all() -> None:
    """Architecture 5: no residual is left where head and claim move in one step."""
    assert not {hole for hole in holes(standard_ladder()) if hole[0] == Backing.ATOMIC.value}


def test_the_ledger_changes_no_verdict() -> None:
    """Architecture 5: it adds evidence, and the explorer must show that it adds nothing else."""
    verdicts: dict[tuple[Backing, str], list[set[str]]] = {}
    for rung in standard_ladder():
        key = (rung.exploration.setting.backing, rung.environment)
        verdicts.setdefault(key, []).append(set(rung.exploration.broken()))
    assert all(without == with_ledger for without, with_ledger in verdicts.values())
