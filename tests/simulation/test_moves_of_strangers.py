"""What somebody does to the target who does not take part, and what each backing makes of it (N-08)."""

from __future__ import annotations

import pytest

from perago_core.attempt import Phase
from perago_core.results import Classification
from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.properties.safety import Property, When, accepted
from perago_simulation.runs.path import RunPath
from perago_simulation.world.history import chain, commit
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import CLEAN, DIRTY, MISSING, World, branch_of, removed_by_strangers

BY_NAME = (Backing.CONDITIONAL, Backing.LOCKED)
STRONG = (Backing.ATOMIC, *BY_NAME)
by_backing = pytest.mark.parametrize("backing", list(Backing), ids=lambda each: each.value)
by_strong = pytest.mark.parametrize("backing", STRONG, ids=lambda each: each.value)
by_name = pytest.mark.parametrize("backing", BY_NAME, ids=lambda each: each.value)


def handed_out(backing: Backing, **bounds: object) -> RunPath:
    return RunPath(Model(setting(backing, crashes=0, **bounds))).take("hand out t0 to e0 (changed)")


def about_to_look(backing: Backing, **bounds: object) -> RunPath:
    """An execution that has done everything but look at the head."""
    way = handed_out(backing, **bounds)
    while not way.can("e0 ReadHead"):
        way = way.go_on(0)
    return way


def refused_for(world: World, run: int) -> Classification:
    state = world.runs[run].state
    assert state is not None
    assert state.phase is Phase.REPORT
    assert state.known.refusal is not None
    return state.known.refusal.classification


# ---------------------------------------------------------------------------------------------------------------------
# Merges


@by_backing
def test_a_strangers_merge_has_two_parents_and_is_refused(backing: Backing) -> None:
    """N-08, K-09, P-12: its first parent is the input, and still it is nobody's abandoned publication."""
    before = about_to_look(backing, foreign_merges=1)
    after = before.take("stranger merge FM0@A")
    assert (before.world.head, after.world.head) == ("A", "FM0@A")
    assert commit("FM0@A").parents == ("A", "F0@A")
    assert refused_for(after.take("e0 ReadHead").world, 0) is Classification.HEAD_MERGED


@pytest.mark.parametrize(
    ("backing", "broken"),
    [(Backing.ATOMIC, {}), (Backing.CONDITIONAL, {"S-15": 29}), (Backing.LOCKED, {"S-15": 35})],
    ids=lambda value: value.value if isinstance(value, Backing) else "",
)
def test_a_merge_between_observation_and_relocation_is_the_residual_and_the_only_one(
    backing: Backing, broken: dict[str, int]
) -> None:
    """N-08, S-15: the same length as for a stranger's commit; two parents make no difference there."""
    found = explore(setting(backing, crashes=0, foreign_merges=1, no_ops=True))
    assert (found.complete, found.broken()) == (True, broken)


# ---------------------------------------------------------------------------------------------------------------------
# Resets


def test_a_reset_takes_the_branch_back_and_the_world_remembers_what_was_there() -> None:
    """N-08: a stranger who removes an accepted commit breaks no promise of ours, so it must be possible to tell."""
    before = handed_out(Backing.ATOMIC, foreign_resets=1).until(0)
    after = before.take("stranger reset A")
    assert (before.world.head, removed_by_strangers(before.world)) == ("M0", ())
    assert (after.world.head, removed_by_strangers(after.world)) == ("A", ("M0",))
    assert accepted(after.world) == [("A", "M0")]


def test_a_reset_makes_what_had_begun_begin_again() -> None:
    """N-05, N-08: the branch record has changed; the store computes anew on what it finds."""
    before = handed_out(Backing.SOFT, foreign_resets=1).until(0, "install").take("give up t0")
    before = before.take("hand out t1 to e1 (changed)").until(1, "begin")
    assert [request.begun for request in before.world.requests] == [True]
    after = before.take("stranger reset A")
    assert [request.begun for request in after.world.requests] == [False]


def _lost_by_us(_setting: Setting, world: World) -> str | None:
    gone = {ref for _, ref in accepted(world)} - {*chain(world.head), *removed_by_strangers(world)}
    return f"we lost {sorted(gone)}" if gone else None


LOST_BY_US = Property("lost by us", "what no stranger removed is there", When.ALWAYS, _lost_by_us)


@pytest.mark.parametrize(
    ("backing", "broken"),
    [(Backing.SOFT, {"lost by us": 18}), *((backing, dict[str, int]()) for backing in STRONG)],
    ids=lambda value: value.value if isinstance(value, Backing) else "",
)
def test_a_reset_makes_no_strong_backing_lose_anything_more(backing: Backing, broken: dict[str, int]) -> None:
    """N-08, S-01: with a stranger's reset at any moment, what is missing is exactly what he took."""
    found = explore(setting(backing, crashes=0, foreign_resets=1, no_ops=True), (LOST_BY_US,))
    assert (found.complete, found.broken()) == (True, broken)


# ---------------------------------------------------------------------------------------------------------------------
# A branch that is deleted and made anew


@by_backing
def test_a_missing_branch_is_refused(backing: Backing) -> None:
    """N-08, P-12: as long as it is gone; made anew at the same commit it is as if it had never been away."""
    gone = about_to_look(backing, recreations=1).take("stranger delete A")
    assert branch_of(gone.world) is MISSING
    assert refused_for(gone.take("e0 ReadHead").world, 0) is Classification.TARGET_MISSING
    back = gone.take("stranger recreate A")
    assert branch_of(back.world) is CLEAN
    assert back.until(0).world.head == "M0"


@by_backing
def test_a_publication_meets_the_missing_branch_and_is_refused(backing: Backing) -> None:
    """N-08: what had begun begins again, and there is nothing to begin on."""
    begun = handed_out(backing, recreations=1).until(0, "begin")
    gone = begun.take("stranger delete A")
    assert [request.begun for request in gone.world.requests] == [False]
    refused = gone.take("refuse e0: the branch is missing")
    assert refused_for(refused.world, 0) is Classification.PUBLISH_REFUSED


@by_backing
def test_a_branch_made_anew_at_the_same_commit_is_the_same_branch(backing: Backing) -> None:
    """N-08, T-O21: the head rule asks for a commit, which says all of its history; no name is trusted."""
    begun = handed_out(backing, recreations=1).until(0, "begin")
    again = begun.take("stranger delete A").take("stranger recreate A")
    assert again.until(0).world.tasks[0].ref == "M0"


@by_strong
def test_nothing_breaks_where_a_branch_is_deleted_and_made_anew(backing: Backing) -> None:
    """N-08, S-01 to S-04: at any moment, with the branch away for as long as anybody likes."""
    found = explore(setting(backing, crashes=0, recreations=1, no_ops=backing is not Backing.LOCKED))
    assert (found.complete, found.broken()) == (True, {})


# ---------------------------------------------------------------------------------------------------------------------
# Uncommitted objects


@by_backing
def test_uncommitted_objects_refuse_the_attempt(backing: Backing) -> None:
    """N-08, T-F5: a relocation would mix them into the result."""
    clean = about_to_look(backing, foreign_writes=1)
    dirty = clean.take("stranger write")
    assert (branch_of(clean.world), branch_of(dirty.world)) == (CLEAN, DIRTY)
    assert refused_for(dirty.take("e0 ReadHead").world, 0) is Classification.TARGET_DIRTY
    assert dirty.take("stranger discard").until(0).world.head == "M0"


@by_backing
def test_a_merge_is_refused_on_a_dirty_branch(backing: Backing) -> None:
    """N-08: the store looks for uncommitted objects when it begins."""
    sent = handed_out(backing, foreign_writes=1).until(0, "Publish")
    refused = sent.take("stranger write").take("refuse e0: the branch is dirty")
    assert refused.world.head == "A"


@by_backing
def test_a_relocation_lands_on_a_dirty_branch_and_keeps_the_objects(backing: Backing) -> None:
    """T-F5: a hard reset does not look for them."""
    first = handed_out(backing, foreign_writes=1).until(0, "install")
    first = first.take("expire") if first.can("expire") else first
    second = first.take("give up t0").take("hand out t1 to e1 (changed)").until(1, "Publish replace")
    landed = second.take("stranger write").take("begin e1").take("install e1: C1")
    assert (landed.world.head, branch_of(landed.world)) == ("C1", DIRTY)


@by_name
def test_a_barrier_on_a_dirty_branch_is_none(backing: Backing) -> None:
    """N-08, S-30: it changes no record, so what had begun goes on; taken for a barrier it would let a zombie land."""
    zombie = handed_out(backing, foreign_writes=1).until(0, "begin")
    zombie = zombie.take("expire") if zombie.can("expire") else zombie
    way = zombie.take("give up t0").take("hand out t1 to e1 (changed)").until(1, "RevokeOlder").take("stranger write")
    refused = way.take("e1 PassBarrier")
    assert [request.begun for request in refused.world.requests] == [True]
    assert refused_for(refused.world, 1) is Classification.BARRIER_FAILED


@by_strong
def test_nothing_breaks_where_objects_are_left_on_the_branch(backing: Backing) -> None:
    """N-08, S-01 to S-04: written and discarded at any moment."""
    found = explore(setting(backing, crashes=0, foreign_writes=1, no_ops=backing is not Backing.LOCKED))
    assert (found.complete, found.broken()) == (True, {})


def test_a_strangers_commit_takes_the_uncommitted_objects_along() -> None:
    """N-08: after it the branch is clean, and somebody else's."""
    dirty = handed_out(Backing.SOFT, foreign_writes=1, strangers=1).take("stranger write")
    assert branch_of(dirty.take("stranger commit F0@A").world) is CLEAN
