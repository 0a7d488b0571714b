"""Every crash window has a run that covers it or a reason why it cannot occur, and none loses an accepted result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perago_core.values import Backing
from perago_simulation.catalogue.ladder import ENVIRONMENTS
from perago_simulation.catalogue.windows import (
    ELSEWHERE,
    OUTCOMES,
    PATHS,
    PERTURBATIONS,
    WINDOWS,
    paths,
    windows,
)
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.runs.replay import model_of, read_line, replay

TESTS = Path(__file__).parents[1]
STRONG = (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED)

by_path = pytest.mark.parametrize("path", list(PATHS))
by_ledger = pytest.mark.parametrize("ledger", [False, True], ids=["ledger-off", "ledger-on"])
by_case = pytest.mark.parametrize(
    ("backing", "path"),
    [(backing, path) for backing in Backing for path in paths(backing)],
    ids=lambda each: each.value if isinstance(each, Backing) else each,
)


def named(text: str) -> set[int]:
    """Read `CW-01 to CW-07, CW-20` as numbers."""
    numbers: set[int] = set()
    for first, last in re.findall(r"CW-(\d+)(?: to CW-(\d+))?", text):
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def test_every_window_is_covered_or_explained() -> None:
    """CW-01 to CW-34."""
    covered = set[int]().union(*(named(text) for text in WINDOWS.values()))
    explained = set[int]().union(*(named(name) for name in ELSEWHERE))
    assert covered | explained == set(range(1, 35))
    assert not covered & explained


def test_every_perturbation_is_covered_or_explained() -> None:
    """N-01 to N-16."""
    assert list(PERTURBATIONS) == [f"N-{number:02d}" for number in range(1, 17)]


def test_whatever_is_said_to_cover_something_exists() -> None:
    """A register that names a test nobody has is a promise nobody keeps."""
    for text in (*ELSEWHERE.values(), *PERTURBATIONS.values()):
        for module, _, name in re.findall(r"((?:core|simulation)/test_\w+)(::(test_\w+))?", text):
            source = (TESTS / f"{module}.py").read_text(encoding="utf-8")
            assert f"def {name}" in source, f"{module} has no {name}"
        assert set(re.findall(r"\*([^*]+)\*", text)) <= set(ENVIRONMENTS)


def test_an_execution_is_killed_wherever_a_window_is_named() -> None:
    """CW-01 to CW-34: a window that no run dies in would be covered by its name only."""
    everywhere = [(backing, path) for backing in Backing for path in paths(backing)]
    died = {window.waiting_for for case in everywhere for window in windows(*case, ledger=True)}
    assert died == set(WINDOWS)


@by_case
def test_every_run_replays_and_ends_where_it_says(backing: Backing, path: str) -> None:
    """A window is its list of choices: to the kill, and on to each thing that may come of it."""
    judges = {each.id: each.judge for each in PROPERTIES}
    for window in windows(backing, path, ledger=True):
        run = read_line(window.line())
        steps = replay(model_of(run), run.choices)
        assert steps[-1].label[:2] == ("fault", "crash")
        assert steps[-2].label == window.after
        assert set(window.outcomes) <= set(OUTCOMES)
        for what in window.broken:
            run = read_line(window.line(what))
            longer = replay(model_of(run), run.choices)
            assert longer[: len(steps)] == steps
            assert judges[what](window.setting, longer[-1].after) is not None


@by_ledger
@by_path
@pytest.mark.parametrize("backing", STRONG, ids=lambda each: each.value)
def test_dying_anywhere_breaks_nothing_on_a_strong_backing(backing: Backing, path: str, ledger: bool) -> None:
    """P-16, L-02, L-03: whatever the dead one still had on its way, a fresh attempt completes or fails closed."""
    all_of_them = windows(backing, path, ledger=ledger)
    assert len(all_of_them) > 5
    assert [window for window in all_of_them if window.broken] == []
    expected = {"completes"} if backing is not Backing.LOCKED else {"completes", "fails closed"}
    assert {outcome for window in all_of_them for outcome in window.outcomes} <= expected
    assert all("completes" in window.outcomes for window in all_of_them)


@pytest.mark.parametrize("path", paths(Backing.SOFT))
def test_soft_breaks_exactly_where_a_publication_is_on_its_way(path: str) -> None:
    """P-15: dying before the send or after the answer is harmless; a request that outlives its sender is not."""
    for window in windows(Backing.SOFT, path, ledger=False):
        assert bool(window.broken) is ("on its way" in window.residue), window
