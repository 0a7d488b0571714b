"""The wider bounds hold what their page says; the large cells only where there is time for them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from perago_core.values import Backing
from perago_simulation.catalogue.wide import ENVIRONMENTS, cell, places
from perago_simulation.explore.reductions import Reduction
from perago_simulation.explore.search import explore
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.world.settings import setting

PAGE = Path(__file__).parents[2] / "specs" / "wide.md"
FULL = os.environ.get("PERAGO_MATRIX") == "full"
#: Cells of more worlds than this are explored by `make test-full` only.
LARGE = 80_000


def pinned() -> dict[tuple[str, Backing], str]:
    lines = [[cell.strip() for cell in line.split("|")] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {
        (line[1], backing): text
        for line in lines
        if line[1:2] and line[1] in ENVIRONMENTS
        for backing, text in zip(Backing, line[2:-1], strict=True)
        if text
    }


def worlds(text: str) -> int:
    return int(re.sub(r"\D", "", text.partition(" (")[0]))


def test_every_cell_is_on_the_page() -> None:
    assert set(pinned()) == set(places())


@pytest.mark.parametrize(
    ("environment", "backing"),
    [cell for cell, text in pinned().items() if FULL or worlds(text) <= LARGE],
    ids=lambda value: value.value if isinstance(value, Backing) else value,
)
def test_a_cell_is_what_the_page_says(environment: str, backing: Backing) -> None:
    """S-01 to S-04, S-42 and S-43 with more of everything at once; the strong backings hold in every cell."""
    found = cell(environment, backing)
    assert found.text() == pinned()[environment, backing]
    assert backing is Backing.SOFT or not found.exploration.violations


@pytest.mark.skipif(not FULL, reason="make test-full explores it")
@pytest.mark.parametrize(
    ("backing", "expected"),
    [(Backing.SOFT, 22_016), (Backing.ATOMIC, 81_376), (Backing.CONDITIONAL, 208_836), (Backing.LOCKED, 3_100_609)],
    ids=lambda value: value.value if isinstance(value, Backing) else "",
)
def test_three_workflows_side_by_side_may_pause(backing: Backing, expected: int) -> None:
    """S-01 to S-04 with pauses that resume, where the page has one crash and no pauses (ADR 55)."""
    of = setting(backing, attempts=1, crashes=0, workflows=3, abreast=True)
    found = explore(of, PROPERTIES, reductions=[Reduction.END])
    assert (found.complete, found.distinct) == (True, expected)
    assert set(found.broken()) == ({"S-01", "S-03", "S-04"} if backing is Backing.SOFT else set())
