"""Publishing above what nobody has accepted, explored; and what each part of the rule is for.

What may go wrong with two workflows side by side is on the ladder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from perago_core import sharing
from perago_core.answers import Done
from perago_core.calls import Talk
from perago_core.names import over_in
from perago_core.sharing import Open
from perago_core.values import Backing, Commit, CommitRef, Scope, Target
from perago_simulation.explore.search import explore
from perago_simulation.properties.liveness import heal
from perago_simulation.properties.register import JUDGED, OF_THE_BRANCH
from perago_simulation.properties.safety import Property, When
from perago_simulation.world import state
from perago_simulation.world.history import chain, commit
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import COMPLETED, World

#: Two workflows side by side; nothing goes wrong.
ALONE: dict[str, Any] = {
    "attempts": 1, "crashes": 0, "pauses": False, "workflows": 2, "abreast": True, "scopes": "disjoint",
}  # fmt: skip
#: One of two workflows may die after it has published, is not tried again, and what it left is reverted.
REVERTED: dict[str, Any] = {**ALONE, "crashes": 1, "reverts": 1}
#: Three one after the other, the first and the third in one folder: one of the first two may die once it has published.
PAIRED: dict[str, Any] = {**ALONE, "workflows": 3, "abreast": False, "crashes": 1, "scopes": "paired"}
#: Two of two steps, the last of which reads what the other workflow writes; it may change nothing.
HANDED_ON: dict[str, Any] = {
    **ALONE, "steps": 2, "abreast": False, "crashes": 1, "no_ops": True, "scopes": "handed on",
}  # fmt: skip


def of(backing: Backing, given: dict[str, Any], stacking: int = 2, **more: Any) -> Setting:  # noqa: ANN401  bounds of any kind
    return setting(backing, **{**given, "stacking": stacking, **more})


@pytest.mark.parametrize(
    ("backing", "scopes", "stacking", "worlds"),
    [
        pytest.param(Backing.ATOMIC, "disjoint", 2, 946, id="atomic"),
        pytest.param(Backing.CONDITIONAL, "disjoint", 2, 1162, id="conditional"),
        pytest.param(Backing.ATOMIC, "disjoint", 1, 846, id="one of them waits"),
        pytest.param(Backing.ATOMIC, "overlapping", 2, 614, id="overlapping, as without"),
        pytest.param(Backing.ATOMIC, "crossed", 2, 614, id="crossed, as without"),
    ],
)
def test_two_workflows_side_by_side_keep_every_promise(
    backing: Backing, scopes: str, stacking: int, worlds: int
) -> None:
    found = explore(of(backing, ALONE, stacking, scopes=scopes), JUDGED)
    assert (found.complete, found.broken(), found.distinct) == (True, {}, worlds)


@pytest.mark.parametrize(
    ("backing", "scopes", "stacking", "worlds"),
    [
        (Backing.ATOMIC, "disjoint", 2, 9536),
        (Backing.CONDITIONAL, "disjoint", 2, 13995),
        (Backing.ATOMIC, "disjoint", 1, 6476),
        (Backing.CONDITIONAL, "disjoint", 1, 9856),
        (Backing.ATOMIC, "crossed", 2, 4261),
    ],
)
def test_what_a_dead_writer_left_is_reverted_below_others_and_every_promise_is_kept(
    backing: Backing, scopes: str, stacking: int, worlds: int
) -> None:
    found = explore(of(backing, REVERTED, stacking, scopes=scopes), JUDGED)
    assert (found.complete, found.broken(), found.distinct) == (True, {}, worlds)


def _buried(_setting: Setting, world: World) -> str | None:
    """Find an accepted publication between one that was reverted and what reverts it."""
    refs, branch = {task.ref for task in world.tasks if task.status is COMPLETED}, chain(world.head)
    for at, each in enumerate(branch):
        if each[0] == "N":
            gone = commit(commit(each).parents[1]).parents[0]
            kept = refs.intersection(branch[at : branch.index(gone)])
            if kept:
                return f"{each} has reverted {gone} below {min(kept)}"
    return None


def test_a_buried_publication_is_reverted_and_what_lies_above_it_stays() -> None:
    """Else the counts above would say nothing of it; nobody gets so far where everybody waits."""
    witness = [Property("witness", "no publication is reverted below another one", When.ALWAYS, _buried)]
    assert explore(of(Backing.ATOMIC, REVERTED), witness).broken() == {"witness": 54}
    assert explore(of(Backing.ATOMIC, REVERTED, 0), witness).broken() == {}


def test_a_dead_writer_keeps_only_those_waiting_who_touch_what_it_has_written() -> None:
    """Terminated, it is in nobody's way: without stacking that is a registered hole (L-02b)."""
    ended: dict[str, Any] = {**ALONE, "pauses": True, "no_ops": True, "abreast": False, "terminations": 1}
    assert heal(of(Backing.ATOMIC, ended)).broken() == {}
    assert set(heal(of(Backing.ATOMIC, ended, 0)).broken()) == {"L-02b"}


@pytest.mark.parametrize(
    ("given", "stacking", "worlds"),
    [
        pytest.param(PAIRED, 3, 1044, id="all stack"),
        pytest.param(PAIRED, 2, 1029, id="the third waits"),
        pytest.param({**PAIRED, "strangers": 1}, 3, 6949, id="a stranger"),
        pytest.param(HANDED_ON, 2, 24822, id="handed on"),
    ],
)
def test_whoever_comes_later_knows_what_is_open_below(given: dict[str, Any], stacking: int, worlds: int) -> None:
    found = explore(of(Backing.ATOMIC, given, stacking), OF_THE_BRANCH)
    assert (found.complete, found.broken(), found.distinct) == (True, {}, worlds)


def _later(_setting: Setting, world: World) -> str | None:
    """Find the fourth of four accepted, above the first one's publication, which nobody has accepted."""
    done = {task.step: task.ref for task in world.tasks if task.status is COMPLETED}
    return f"{done[3]}" if 0 not in done and 1 in done and 3 in done and "M0^" in chain(done[3])[1:] else None


LATER = [Property("witness", "nobody who comes later is accepted above a dead writer's work", When.ALWAYS, _later)]


def test_a_pipeline_has_run_after_run_above_a_dead_writers_work() -> None:
    """The second and the fourth share a folder, so the fourth has to begin above the dead one, where the second is."""
    assert explore(of(Backing.ATOMIC, PAIRED, 4, workflows=4), LATER).broken() == {"witness": 60}


# ---------------------------------------------------------------------------------------------------------------------
# What each part is for


def _says_nothing(_message: str) -> tuple[str, ...]:
    return ()


def _unread(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sharing, "over_in", _says_nothing)


def _nobody(_target: Target, _opened: Iterable[Open], _scope: Scope | None) -> Talk[tuple[Open, ...]]:
    yield from ()
    return Done(())


def _above_anything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sharing, "_hindering", _nobody)


def _reads_not_counted(patch: pytest.MonkeyPatch) -> None:
    asked: Callable[..., Talk[tuple[Open, ...]]] = vars(sharing)["_hindering"]

    def only_writes(target: Target, opened: Iterable[Open], scope: Scope | None) -> Talk[tuple[Open, ...]]:
        writes = None if scope is None or not scope.stacks else Scope((), scope.writes, scope.writes)
        return (yield from asked(target, opened, writes or scope))

    patch.setattr(sharing, "_hindering", only_writes)


def _own_only(patch: pytest.MonkeyPatch) -> None:
    def own(of_: Setting, step: int) -> tuple[str, ...]:
        scope = state.declared(of_, step)
        return () if scope is None else scope.prefixes

    patch.setattr(state, "apart", own)


def _begin_at_a_strangers(patch: pytest.MonkeyPatch) -> None:
    """Begin at the head where nothing below it hinders, whoever has made that."""
    asked = sharing.newest_accepted

    def newest(target: Target, head: Commit, scope: Scope | None = None, own_task: str = "") -> Talk[CommitRef]:
        found = yield from asked(target, head, scope, own_task)
        above = isinstance(found, Done) and over_in(commit(found.value).message)
        return Done(head.ref) if above else found

    patch.setattr(sharing, "newest_accepted", newest)


@pytest.fixture
def scopes_anew() -> Iterator[None]:
    """What is declared is looked up, and found changed here."""
    caches: tuple[Any, ...] = (state.scope_of, state.attempt_of)
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


@pytest.mark.usefixtures("scopes_anew")
@pytest.mark.parametrize(
    ("without", "given", "stacking", "broken"),
    [
        pytest.param(_unread, PAIRED, 3, {"S-03": 48, "S-43": 48}, id="a commit that does not say above what it lies"),
        pytest.param(_unread, PAIRED, 2, {"S-43": 48}, id="the same, and one who waits comes later"),
        pytest.param(_above_anything, PAIRED, 3, {"S-03": 48, "S-43": 48}, id="stacking on what it declares"),
        pytest.param(
            _reads_not_counted, HANDED_ON, 2, {"S-03": 32, "S-42": 42, "S-43": 42}, id="what is read not counted"
        ),
        pytest.param(_own_only, HANDED_ON, 2, {"S-42": 42, "S-43": 42}, id="each step for itself"),
        pytest.param(
            _begin_at_a_strangers,
            {**PAIRED, "workflows": 4, "strangers": 1},
            4,
            {"S-03": 61},
            id="begun at a stranger's",
        ),
    ],
)
def test_each_part_is_needed(
    without: Callable[[pytest.MonkeyPatch], None],
    given: dict[str, Any],
    stacking: int,
    broken: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch)
    assert explore(Model(of(Backing.ATOMIC, given, stacking)), OF_THE_BRANCH).broken() == broken


def test_who_may_only_begin_at_what_is_accepted_as_a_whole_is_refused_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = sharing.newest_accepted

    def clean(target: Target, head: Commit, _scope: Scope | None = None, own_task: str = "") -> Talk[CommitRef]:
        return (yield from asked(target, head, None, own_task))

    monkeypatch.setattr(sharing, "newest_accepted", clean)
    assert explore(Model(of(Backing.ATOMIC, PAIRED, 4, workflows=4)), LATER).broken() == {}
