"""Reverting what nobody accepted on a shared branch, explored call by call, and what each part of it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from perago_core import fence, revert, sharing
from perago_core.answers import Done
from perago_core.calls import Talk, call
from perago_core.plan import Condition, PublishPlan
from perago_core.ports import Store
from perago_core.values import Backing, Claim, Commit, CommitRef
from perago_simulation.explore.search import explore
from perago_simulation.properties.liveness import heal
from perago_simulation.properties.register import JUDGED
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting

#: One workflow whose worker may die after it has published; to the recovery its second attempt is a rerun.
RERUN: dict[str, Any] = {"attempts": 2, "crashes": 1, "pauses": False, "scopes": "disjoint", "reverts": 1}
#: The same, with a worker that lives on after its attempt was given up.
PAUSED: dict[str, Any] = {**RERUN, "crashes": 0, "pauses": True}
#: Two workflows side by side, one of which may die after it has published, and is not tried again.
BESIDE: dict[str, Any] = {
    "attempts": 1,
    "crashes": 1,
    "pauses": False,
    "workflows": 2,
    "abreast": True,
    "scopes": "disjoint",
    "reverts": 1,
}


def of(backing: Backing, given: dict[str, Any], **more: Any) -> Setting:  # noqa: ANN401  bounds of any kind
    return setting(backing, **{**given, **more})


@pytest.mark.parametrize(
    ("backing", "given", "more", "worlds"),
    [
        (Backing.ATOMIC, RERUN, {}, 1133),
        (Backing.CONDITIONAL, RERUN, {}, 2291),
        (Backing.ATOMIC, RERUN, {"strangers": 1}, 3524),
        (Backing.ATOMIC, PAUSED, {}, 26688),
        (Backing.CONDITIONAL, PAUSED, {}, 51849),
        (Backing.ATOMIC, BESIDE, {}, 4781),
        (Backing.CONDITIONAL, BESIDE, {}, 7106),
        (Backing.ATOMIC, BESIDE, {"scopes": "overlapping"}, 4261),
        (Backing.ATOMIC, BESIDE, {"scopes": "crossed"}, 4261),
    ],
)
def test_a_recovery_beside_reruns_and_other_workflows_keeps_every_promise(
    backing: Backing, given: dict[str, Any], more: dict[str, Any], worlds: int
) -> None:
    found = explore(of(backing, given, **more), JUDGED)
    assert (found.complete, found.broken(), found.distinct) == (True, {}, worlds)


def test_there_is_no_dead_end_with_recoveries_either() -> None:
    assert heal(of(Backing.ATOMIC, BESIDE)).broken() == {}


# ---------------------------------------------------------------------------------------------------------------------
# What each part is for


def _without_the_claim(plan: PublishPlan) -> PublishPlan:
    return evolve(plan, condition=Condition.HEAD, claim=None)


def _without_the_name(plan: PublishPlan) -> PublishPlan:
    return evolve(plan, name=None)


def _planning(change: Callable[[PublishPlan], PublishPlan]) -> Callable[..., PublishPlan]:
    plan_of = fence.revert
    return lambda *given: change(plan_of(*given))


def _unobserved(commit: Commit, claim: Claim, name: str) -> Talk[CommitRef]:
    """Publish without having asked again who has claimed, and what became of them."""
    del commit
    seen = yield from call(Store.head, claim.target)
    assert isinstance(seen, Done)
    assert seen.value is not None
    return (yield from call(Store.publish, fence.revert(claim, seen.value, name)))


def _nobody_is_asked(_claim: Claim, _name: str) -> Talk[None]:
    yield from ()
    return Done(None)


def _nothing_is_reverted(_commits: object, _claims: object) -> frozenset[CommitRef]:
    return frozenset()


def _blind(patch: pytest.MonkeyPatch) -> None:
    """Look once, and undo what was seen: no takeover, no second look, no condition but the head."""
    patch.setattr(revert, "_taken_over", _nobody_is_asked)
    patch.setattr(revert, "_observed", _unobserved)
    patch.setattr(fence, "revert", _planning(lambda plan: _without_the_name(_without_the_claim(plan))))


def _unranked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fence, "revert", _planning(_without_the_claim))


def _irrevocable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fence, "revert", _planning(_without_the_name))


def _not_observed_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(revert, "_observed", _unobserved)


def _unknown_to_adoption(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fence, "reverted", _nothing_is_reverted)
    patch.setattr(sharing, "reverted", _nothing_is_reverted)


@pytest.mark.parametrize(
    ("without", "backing", "moves"),
    [
        pytest.param(_blind, Backing.ATOMIC, 38, id="a blind revert"),
        pytest.param(_blind, Backing.CONDITIONAL, 42, id="a blind revert, by name"),
        pytest.param(_unranked, Backing.ATOMIC, 45, id="no rank"),
        pytest.param(_irrevocable, Backing.CONDITIONAL, 49, id="not revocable"),
        pytest.param(_not_observed_again, Backing.CONDITIONAL, 46, id="no second observation"),
        pytest.param(_unknown_to_adoption, Backing.ATOMIC, 45, id="adoption that does not know reverts"),
        pytest.param(_unknown_to_adoption, Backing.CONDITIONAL, 49, id="adoption that does not, by name"),
    ],
)
def test_each_part_is_needed_or_what_a_rerun_was_accepted_with_is_undone(
    without: Callable[[pytest.MonkeyPatch], None], backing: Backing, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch)
    assert explore(Model(of(backing, RERUN)), JUDGED).broken()["S-01"] == moves
