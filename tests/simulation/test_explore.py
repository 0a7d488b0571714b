"""The explorer finds what is there, no more and no less. Counts are pinned: a changed count is a changed protocol."""

from __future__ import annotations

import pytest

from perago_core.values import Backing
from perago_simulation.explore.exploration import Limits
from perago_simulation.explore.search import explore
from perago_simulation.world.settings import setting

#: The quick configuration: two attempts, a crash, pauses that resume, no-ops. Generated, distinct, depth, broken.
QUICK: dict[Backing, tuple[int, int, int, dict[str, int]]] = {
    Backing.SOFT: (5413, 1840, 25, {"S-01": 18, "S-02": 24, "S-02b": 17, "S-03": 22, "S-04": 22}),
    Backing.ATOMIC: (13111, 4134, 34, {}),
    Backing.CONDITIONAL: (28343, 8662, 39, {}),
    Backing.LOCKED: (83878, 22635, 44, {}),
}


@pytest.mark.parametrize("backing", list(Backing), ids=lambda backing: backing.value)
def test_quick_configuration_has_the_known_size_and_the_known_holes(backing: Backing) -> None:
    """S-01, S-02, S-02b, S-03, S-04: soft breaks where it is known to, the others hold within the bounds."""
    found = explore(setting(backing, crashes=1, no_ops=True))
    assert found.complete
    assert (found.generated, found.distinct, found.depth, found.broken()) == QUICK[backing]


@pytest.mark.parametrize(
    ("backing", "broken"),
    [(Backing.ATOMIC, {}), (Backing.CONDITIONAL, {"S-15": 29}), (Backing.LOCKED, {"S-15": 35})],
    ids=lambda value: value.value if isinstance(value, Backing) else "",
)
def test_a_stranger_is_safe_on_an_atomic_store_and_the_one_residual_elsewhere(
    backing: Backing, broken: dict[str, int]
) -> None:
    """S-15, K-08: the residual is a stranger's commit between observation and relocation, and nothing else."""
    assert explore(setting(backing, crashes=0, strangers=1, no_ops=True)).broken() == broken


def test_an_exploration_that_stops_early_says_so() -> None:
    """Exhaustive within the bounds, or it says that it is not."""
    found = explore(setting(Backing.ATOMIC), limits=Limits(states=50))
    assert not found.complete
    assert not explore(setting(Backing.ATOMIC), limits=Limits(depth=3)).complete


@pytest.mark.parametrize(
    ("backing", "distinct", "broken"),
    [(Backing.SOFT, 46500, {"S-01", "S-02", "S-02b", "S-03", "S-04"}), (Backing.ATOMIC, 141642, set[str]())],
    ids=["soft", "atomic"],
)
def test_a_zombie_of_one_step_acts_during_the_next(backing: Backing, distinct: int, broken: set[str]) -> None:
    """N-15: two steps, the second one's input is the first one's output."""
    found = explore(setting(backing, crashes=0, steps=2))
    assert (found.complete, found.distinct, set(found.broken())) == (True, distinct, broken)
