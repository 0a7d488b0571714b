"""Several workflows on one branch, explored where nothing goes wrong; whatever does is on the ladder.

What each part of the rule is for is in ``test_ablation``.
"""

from __future__ import annotations

from typing import Any

import pytest

from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.properties.register import JUDGED
from perago_simulation.world.settings import Setting, setting

#: Two workflows side by side; nothing goes wrong.
ALONE: dict[str, Any] = {"attempts": 1, "crashes": 0, "pauses": False, "workflows": 2, "abreast": True}


def of(backing: Backing, scopes: str, **more: Any) -> Setting:  # noqa: ANN401  bounds of any kind
    return setting(backing, **{**ALONE, "scopes": scopes, **more})


@pytest.mark.parametrize(
    ("backing", "scopes", "worlds"),
    [
        (Backing.ATOMIC, "disjoint", 746),
        (Backing.ATOMIC, "overlapping", 614),
        (Backing.ATOMIC, "crossed", 614),
        (Backing.CONDITIONAL, "disjoint", 962),
        (Backing.CONDITIONAL, "overlapping", 790),
        (Backing.CONDITIONAL, "crossed", 790),
    ],
)
def test_two_workflows_side_by_side_keep_every_promise(backing: Backing, scopes: str, worlds: int) -> None:
    found = explore(of(backing, scopes), JUDGED)
    assert (found.complete, found.broken(), found.distinct) == (True, {}, worlds)


def test_a_step_scheduled_twice_gives_one_commit_with_a_scope_too() -> None:
    found = explore(of(Backing.ATOMIC, "disjoint", workflows=1, abreast=False, twins=1, no_ops=True), JUDGED)
    assert (found.complete, found.broken()) == (True, {})
