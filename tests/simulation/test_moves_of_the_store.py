"""A transport that sends a publication twice: what each backing makes of the copy (N-02)."""

from __future__ import annotations

import pytest

from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.runs.path import RunPath
from perago_simulation.world.model import Model
from perago_simulation.world.settings import setting

by_backing = pytest.mark.parametrize("backing", list(Backing), ids=lambda each: each.value)


def resent(backing: Backing) -> RunPath:
    """An execution has sent its merge, and the transport has sent it again."""
    model = Model(setting(backing, crashes=0, attempts=1, resends=1))
    return RunPath(model).take("hand out").until(0, "Publish").take("resend publication of e0")


@by_backing
def test_the_sender_waits_for_the_copy_and_the_first_is_still_on_its_way(backing: Backing) -> None:
    """N-02: two requests where one was sent, and one answer."""
    way = resent(backing)
    assert [(request.run, request.awaited) for request in way.world.requests] == [(0, False), (0, True)]
    assert len({request.plan for request in way.world.requests}) == 1


@by_backing
def test_a_resent_publication_stacks_a_second_commit_where_nothing_refuses_it(backing: Backing) -> None:
    """N-02, RT-4: a repeated squash merge answers 200 and adds a commit, unless the store checks the head."""
    first = resent(backing).take("begin e0").take("install e0: M0")
    if backing in {Backing.ATOMIC, Backing.CONDITIONAL}:
        assert first.take("refuse e0: unexpected head").world.head == "M0"
    else:
        assert first.take("begin e0").take("install e0: M0@M0").world.head == "M0@M0"


@pytest.mark.parametrize("backing", [Backing.CONDITIONAL, Backing.LOCKED], ids=lambda each: each.value)
def test_what_comes_after_the_clean_up_finds_no_name(backing: Backing) -> None:
    """N-02, S-30: the name is gone once the outcome is known, and whatever is still on its way names it."""
    way = resent(backing).take("begin e0 (copy)").take("install e0 (copy): M0")
    while way.can("e0 "):
        way = way.take("e0 ")
    assert way.world.tasks[0].ref == "M0"
    assert way.take("refuse e0: no such name").world.head == "M0"


@by_backing
def test_a_sent_and_a_copied_publication_have_different_labels(backing: Backing) -> None:
    """A run is its list of choices, and also its list of labels."""
    labels = [label for label, _ in resent(backing).moves()]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize(
    ("backing", "broken"),
    [
        (Backing.SOFT, {"S-01", "S-02", "S-02b", "S-03", "S-04"}),
        (Backing.ATOMIC, set[str]()),
        (Backing.CONDITIONAL, set[str]()),
        (Backing.LOCKED, {"S-02", "S-02b"}),
    ],
    ids=lambda value: value.value if isinstance(value, Backing) else "",
)
def test_what_a_resent_publication_costs_each_backing(backing: Backing, broken: set[str]) -> None:
    """N-02, RT-4: without a checked head the copy lands between the answer and the clean-up, as long as the name is."""
    found = explore(setting(backing, crashes=0, resends=1, no_ops=True))
    assert (found.complete, set(found.broken())) == (True, broken)


def test_a_resent_relocation_does_not_outlive_its_step() -> None:
    """N-02, S-01: the next step revokes the names of every task that has ended, so the copy has none to act by.

    When it revoked those of its own task only: e0 dies after its publication, e1 replaces it and is accepted, its
    relocation was sent twice; step 2 publishes and is accepted before e1 has cleaned up; the copy takes the branch back
    to e1's commit (52 moves).
    """
    bounds: dict[str, object] = {"steps": 2, "resends": 1, "pauses": False}
    assert explore(setting(Backing.CONDITIONAL, **bounds)).broken() == {}
    assert explore(setting(Backing.ATOMIC, **bounds)).broken() == {}
