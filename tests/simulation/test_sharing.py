"""Several workflows on one branch, explored: what holds over what they declare, and what the rule is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from perago_core.attempt import AttemptState
from perago_core.attempt import messages as m
from perago_core.values import Attempt, Backing, Between, Landed
from perago_simulation.explore.search import explore
from perago_simulation.mutants.tables import attempts
from perago_simulation.mutants.wrong_learning import head_seen
from perago_simulation.properties.liveness import heal
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.sharing import SHARING
from perago_simulation.world import model
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import World

#: Two workflows side by side; nothing goes wrong.
ALONE: dict[str, Any] = {"attempts": 1, "crashes": 0, "pauses": False, "workflows": 2, "abreast": True}
ALL = (*JUDGED, *SHARING)


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
    found = explore(of(backing, scopes), ALL)
    assert (found.complete, found.broken(), found.distinct) == (True, {}, worlds)


@pytest.mark.parametrize(
    ("scopes", "more", "worlds"),
    [
        ("disjoint", {"attempts": 2, "crashes": 1}, 48124),
        ("crossed", {"no_ops": True}, 1326),
        ("disjoint", {"losses": 1}, 6593),
        ("crossed", {"losses": 1}, 5297),
        ("crossed", {"strangers": 1}, 3497),
    ],
)
def test_they_keep_them_whatever_goes_wrong_within_bounds(scopes: str, more: dict[str, Any], worlds: int) -> None:
    found = explore(of(Backing.ATOMIC, scopes, **more), ALL)
    assert (found.complete, found.broken(), found.distinct) == (True, {}, worlds)


def test_a_head_that_moved_is_looked_at_again_in_explored_worlds_too() -> None:
    """The row that no world of the ladder fires, because nobody shares a branch there."""
    shared = Model(of(Backing.ATOMIC, "disjoint"))
    explore(shared, ALL)
    assert "PR4" in shared.fired


@pytest.mark.parametrize("scopes", ["disjoint", "overlapping", "crossed"])
def test_there_is_no_dead_end(scopes: str) -> None:
    """L-01: from every world rest can be reached without anything more going wrong."""
    assert heal(of(Backing.ATOMIC, scopes, crashes=1)).broken() == {}


def test_a_step_scheduled_twice_gives_one_commit_with_a_scope_too() -> None:
    found = explore(of(Backing.ATOMIC, "disjoint", workflows=1, abreast=False, twins=1, no_ops=True), ALL)
    assert (found.complete, found.broken()) == (True, {})


# ---------------------------------------------------------------------------------------------------------------------
# What each part of the rule is for


def _deciding_on(change: Callable[[Attempt, Between], Between], of_setting: Setting) -> Model:
    """Let attempts decide on something else than what lies between."""

    def before(state: AttemptState, event: m.HeadSeen) -> tuple[AttemptState, m.HeadSeen]:
        if event.between is None:
            return state, event
        return state, evolve(event, between=change(state.subject, event.between))

    return Model(of_setting, attempts(remember={m.HeadSeen: head_seen(before)}))


def _only(between: Between, kept: tuple[str, ...]) -> Between:
    commits = between.commits or ()
    paths = [tuple(path for path in each.touched if kept and path.startswith(kept)) for each in commits]
    return evolve(between, commits=tuple(Landed(each.commit, left) for each, left in zip(commits, paths, strict=True)))


def _writes_only(attempt: Attempt, between: Between) -> Between:
    assert attempt.scope is not None
    return _only(between, attempt.scope.writes)


def _nothing_counts(_attempt: Attempt, between: Between) -> Between:
    return _only(between, ())


def _accepted_or_not(_attempt: Attempt, between: Between) -> Between:
    return evolve(between, unaccepted=None)


def _anywhere(_attempt: Attempt, between: Between) -> Between:
    return between if between.commits is not None else evolve(between, commits=())


#: One workflow of two steps, and a stranger who takes its first step's commit off the branch.
RESET: dict[str, Any] = {"workflows": 1, "foreign_resets": 1, "steps": 2}


@pytest.mark.parametrize(
    ("change", "scopes", "more", "broken"),
    [
        pytest.param(_writes_only, "crossed", {}, {"S-42": 32}, id="reads not counted"),
        pytest.param(_nothing_counts, "overlapping", {}, {"S-42": 32}, id="nothing counted"),
        pytest.param(_accepted_or_not, "disjoint", {"pauses": True}, {"S-03": 30}, id="stacked on the unaccepted"),
        pytest.param(_anywhere, "disjoint", RESET, {"S-04": 33}, id="no ancestor"),
    ],
)
def test_each_part_of_the_rule_is_needed(
    change: Callable[[Attempt, Between], Between], scopes: str, more: dict[str, Any], broken: dict[str, int]
) -> None:
    where = of(Backing.ATOMIC, scopes, **more)
    assert explore(where, ALL).broken() == {}
    found = explore(_deciding_on(change, where), ALL).broken()
    assert {clause: found.get(clause) for clause in broken} == broken


def test_a_workflow_that_starts_at_the_head_reads_what_nobody_has_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """S-43: one starts from what another has published; that one is given up, and what it published never accepted."""
    where = of(Backing.ATOMIC, "overlapping", pauses=True)
    assert explore(where, ALL).broken() == {}

    def head(_setting: Setting, world: World) -> str:
        return world.head

    monkeypatch.setattr(model, "accepted_head", head)
    assert explore(where, ALL).broken()["S-43"] == 30
