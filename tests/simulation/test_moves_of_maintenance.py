"""Maintenance beside tasks: what was accepted so is published over, what proves nothing is refused, nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from perago_core import fence
from perago_core.attempt.state import Phase
from perago_core.results import Classification
from perago_core.values import Backing, CommitRef, Maintained
from perago_simulation.explore.exploration import Exploration
from perago_simulation.explore.search import explore
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import PROPERTIES, Property, When
from perago_simulation.runs.path import RunPath
from perago_simulation.world import effects
from perago_simulation.world.history import chain, commit, maker
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import COMPLETED, FAILED, World, maintained_in, maintains

#: One task, and a maintenance that starts at any moment beside it.
BESIDE: Mapping[str, Any] = {"attempts": 1, "crashes": 0, "workflows": 2, "abreast": True, "maintenance": True}
QUIET: Mapping[str, Any] = {**BESIDE, "pauses": False}
STRONG = [backing for backing in Backing if backing is not Backing.SOFT]

every_backing = pytest.mark.parametrize("backing", Backing, ids=lambda backing: backing.value)
every_strong_backing = pytest.mark.parametrize("backing", STRONG, ids=lambda backing: backing.value)


def reached(of: Setting, judge: Property) -> Exploration:
    return explore(of, [judge])


def _over_maintenance(_setting: Setting, world: World) -> str | None:
    task = world.tasks[0]
    if task.status is not COMPLETED or task.ref == task.input or commit(task.ref).parents == (task.input,):
        return None
    return f"{task.ref} was accepted on top of {commit(task.ref).parents}"


OVER = Property("over", "a task is accepted on top of maintenance", When.ALWAYS, _over_maintenance)


@every_backing
def test_a_task_is_accepted_on_top_of_maintenance_the_ledger_proves_and_only_then(backing: Backing) -> None:
    """H-16: this is what the environment is for; without the ledger nothing proves what lies above the input."""
    assert reached(setting(backing, ledger=True, **QUIET), OVER).broken()
    without = reached(setting(backing, ledger=False, **QUIET), OVER)
    assert without.complete
    assert bool(without.broken()) is (backing is Backing.SOFT), "a blind merge lands anywhere"


@every_strong_backing
@pytest.mark.parametrize("ledger", [False, True])
def test_nothing_is_lost_and_nothing_foreign_gets_under_a_result_beside_maintenance(
    backing: Backing, ledger: bool
) -> None:
    """S-01 to S-04 with retries that adopt and nobody paused, and how everybody behaves."""
    found = explore(setting(backing, adopts=True, ledger=ledger, **{**QUIET, "attempts": 2}), JUDGED)
    assert (found.complete, found.broken()) == (True, {})


def _other_content(setting: Setting, world: World, *, refused: bool) -> str | None:
    """Whoever has changed the content says so in its state until it ends."""
    for index, run in enumerate(world.runs):
        if run.state is None or not maintains(setting, world.tasks[run.task]):
            continue
        known = run.state.known
        if not known.changed or known.preserved:
            continue
        if refused and known.refusal and known.refusal.classification is Classification.CONTENT_NOT_PRESERVED:
            return f"e{index} is refused"
        if not refused and (index in map(maker, chain(world.head)) or run.state.phase is Phase.PUBLICATION):
            return f"e{index} changed the content, calls it maintenance, and publishes it"
    return None


@every_backing
def test_a_maintenance_that_changes_the_content_is_refused_and_publishes_nothing(backing: Backing) -> None:
    """H-11, H-15: what it calls itself proves nothing; the workspace compares, and the fence makes no plan."""
    of = setting(backing, ledger=True, **QUIET)
    assert reached(of, Property("", "refused", When.ALWAYS, partial(_other_content, refused=True))).broken()
    published = reached(of, Property("", "published", When.ALWAYS, partial(_other_content, refused=False)))
    assert (published.complete, published.broken()) == (True, {})


@every_strong_backing
def test_a_stranger_s_commit_inside_a_chain_of_maintenance_is_kept_away_twice(
    backing: Backing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-04, S-35: a stranger's F on A, accepted maintenance on F: a task on A must not be published over both.

    The ledger is read from the input on, and the fence follows the chain back to it. Each alone keeps F away.
    """
    of = setting(backing, ledger=True, strangers=1, **QUIET)
    with monkeypatch.context() as only_the_ledger:
        only_the_ledger.setattr(fence, "_only_maintenance", _ends_in_maintenance)
        assert explore(of, PROPERTIES).broken() == {}
    monkeypatch.setattr(effects, "_maintained", _all_maintained)
    assert explore(of, PROPERTIES).broken() == {}, "only the fence"
    monkeypatch.setattr(fence, "_only_maintenance", _ends_in_maintenance)
    assert "S-04" in explore(of, PROPERTIES).broken(), "nobody"


def _ends_in_maintenance(case: fence.Case, head: CommitRef) -> bool:
    return head in {record.ref for record in case.maintained}


def _all_maintained(_setting: Setting, world: World, _index: int, _since: CommitRef) -> tuple[Maintained, ...]:
    return maintained_in(world)


def begun(backing: Backing, **more: Any) -> RunPath:  # noqa: ANN401  the fields of a setting
    path = RunPath(Model(setting(backing, ledger=True, **{**QUIET, **more})))
    return path.take("hand out", "(changed)").take("hand out", "t1 to e1 (changed)")


@every_strong_backing
def test_maintenance_is_on_record_once_its_acceptance_is_settled_and_not_before(backing: Backing) -> None:
    """N-12: a publication that nobody has accepted is no maintenance, whatever it calls itself."""
    published = begun(backing).until(1, "install")
    assert published.world.head == "E1"
    accepted = published.until(1, "Report Reported")
    assert accepted.world.tasks[1].status is COMPLETED
    assert maintained_in(accepted.world) == ()
    settled = accepted.until(1, "SettleIntent Settled")
    assert maintained_in(settled.world) == (Maintained(CommitRef("A"), CommitRef("E1")),)
    assert settled.until(1).until(0).world.tasks[0].ref == "M0@E1"


def test_a_sweep_writes_down_the_maintenance_whose_worker_died_after_its_report() -> None:
    """The record is made by whoever settles the intent, before anybody is told what was maintained."""
    reported = begun(Backing.CONDITIONAL, crashes=1).until(1, "Report Reported").take("crash", "e1")
    assert maintained_in(reported.world) == ()
    over = reported.until(0)
    assert maintained_in(over.world) == (Maintained(CommitRef("A"), CommitRef("E1")),)
    assert over.world.tasks[0].ref == "M0@E1"


def test_a_maintenance_that_nobody_accepted_is_not_published_over() -> None:
    """Its worker died before the report, and the task was given up: for the other it is a stranger's commit."""
    lost = begun(Backing.CONDITIONAL, crashes=1).until(1, "install").take("crash", "e1").take("give up", "t1")
    refused = lost.until(0)
    assert (refused.world.tasks[0].status, refused.world.head) == (FAILED, "E1")


def test_of_two_maintenances_of_one_commit_the_loser_has_nothing_left_to_do() -> None:
    """H-12, H-23, S-35: the head is where and what it wanted, so it reports that and makes no second commit."""
    both = begun(Backing.CONDITIONAL, workflows=3).take("hand out", "t2 to e2 (changed)")
    done = both.until(1).until(2)
    assert [task.ref for task in done.world.tasks[1:]] == ["E1", "E1"]
    assert chain(done.world.head) == ("E1", "A")


def test_a_retry_of_maintenance_begins_where_accepted_maintenance_has_led() -> None:
    """Decision 36: else it would be refused for as long as it is retried."""
    path = begun(Backing.CONDITIONAL, workflows=3, attempts=2, crashes=1).take("hand out", "t2 to e2 (changed)")
    again = path.take("crash", "e2").take("give up", "t2").until(1).take("hand out", "t3 to e3 (changed)")
    assert (again.world.tasks[3].step, again.world.tasks[3].input) == (again.world.tasks[2].step, "E1")
    assert chain(again.until(3).world.head) == ("E3(E1)", "E1", "A")
