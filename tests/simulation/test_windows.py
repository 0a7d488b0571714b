"""Every crash window has a run that covers it or a reason why it cannot occur, and none loses an accepted result."""

from __future__ import annotations

import re

import pytest

from perago_core.values import Backing
from perago_simulation.windows import ELSEWHERE, PATHS, PERTURBATIONS, WINDOWS, windows

by_path = pytest.mark.parametrize("path", list(PATHS))
by_ledger = pytest.mark.parametrize("ledger", [False, True], ids=["ledger-off", "ledger-on"])


def named(text: str) -> set[int]:
    """Read `CW-01 to CW-07, CW-20` as numbers."""
    found: set[int] = set()
    for first, last in re.findall(r"CW-(\d+)(?: to CW-(\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_every_window_is_covered_or_explained() -> None:
    """CW-01 to CW-34."""
    covered = set[int]().union(*(named(text) for text in WINDOWS.values()))
    explained = set[int]().union(*(named(name) for name in ELSEWHERE))
    assert covered | explained == set(range(1, 35))
    assert not covered & explained


def test_every_perturbation_is_covered_or_explained() -> None:
    """N-01 to N-16."""
    assert list(PERTURBATIONS) == [f"N-{number:02d}" for number in range(1, 17)]


@by_ledger
@by_path
@pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED], ids=lambda each: each.value)
def test_dying_anywhere_breaks_nothing_on_a_strong_backing(backing: Backing, path: str, ledger: bool) -> None:
    """P-16, L-02, L-03: whatever the dead one still had on its way, a fresh attempt completes or fails closed."""
    found = list(windows(backing, path, ledger=ledger))
    assert len(found) > 5
    assert [window for window in found if window.broken] == []
    expected = {"completes"} if backing is not Backing.LOCKED else {"completes", "fails closed"}
    assert {outcome for window in found for outcome in window.outcomes} <= expected
    assert all("completes" in window.outcomes for window in found)


@by_path
def test_soft_breaks_exactly_where_a_publication_is_on_its_way(path: str) -> None:
    """P-15: dying before the send or after the answer is harmless; a request that outlives its sender is not."""
    for window in windows(Backing.SOFT, path):
        assert bool(window.broken) is ("on its way" in window.residue), window
