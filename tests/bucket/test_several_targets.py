"""Several targets on a bucket: every death of an attempt, of its retry, of a recovery, at every request it makes."""

from __future__ import annotations

from functools import partial, partialmethod
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from perago_bucket import BucketStore, Connection
from perago_bucket.client import bucket
from perago_bucket.disk import Disk
from perago_bucket.layout import TOGETHER
from perago_bucket.objects import Objects
from perago_conformance.suites.several_targets import SEVERAL, joint_attempt, joint_plan
from perago_conformance.support import FIRST, done
from perago_core.recovery import Mode
from perago_simulation.ports import Fault
from tests.support.bucket.harness import BucketHarness
from tests.support.several.scene import TARGETS, Deaths, Scene, every_death

_CHANGES = ("create", "swap", "write", "delete")
#: No report of an attempt arrives.
_LOST = (Fault.DROPPED,) * 5


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Deaths:
    """Let every request that changes something be one at which its sender may die."""
    made = Deaths()

    def mortal(_name: str, real: Any, self: Any, *words: Any) -> Any:  # noqa: ANN401  any request of the client
        return made(partial(real, self, *words))

    for kind in (Objects, Disk):
        for name in _CHANGES:
            monkeypatch.setattr(kind, name, partialmethod(_through, name, getattr(kind, name), mortal))
    return made


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name where buckets are that need no server."""
    return "memory://" if request.param == "memory" else f"file://{tmp_path}/"


def scene(deaths: Deaths, place: str = "memory://", *, alone: bool = False) -> Scene:
    options = (("durable", "false"),) if place.startswith("file:") else ()
    return Scene(BucketStore(Connection(f"{place}{token_hex(8)}", options)), deaths, alone=alone).begin()


def requests_of_an_attempt(deaths: Deaths, place: str = "memory://", *, alone: bool = False) -> int:
    """Count what an attempt that nothing happens to asks the bucket to change."""
    whole = scene(deaths, place, alone=alone)
    with deaths.dying(None):
        whole.see_it_through()
        count = deaths.count
    whole.check_end()
    return count


@pytest.mark.parametrize("alone", [True, False], ids=["one target", "two targets"])
def test_whoever_dies_at_any_request_leaves_everything_or_nothing(deaths: Deaths, place: str, alone: bool) -> None:
    for at, before in every_death(requests_of_an_attempt(deaths, place, alone=alone)):
        one = scene(deaths, place, alone=alone)
        assignment = one.poll()
        assert assignment is not None
        with deaths.dying(at, before=before):
            one.attempt(assignment)
        one.check()
        one.give_up(assignment)
        one.see_it_through()
        one.check_end()


@pytest.mark.parametrize("alone", [True, False], ids=["one target", "two targets"])
def test_a_request_of_the_dead_that_lands_while_the_retry_works_changes_no_target_alone(
    deaths: Deaths, alone: bool
) -> None:
    """Each request of the second half of an attempt, held back until the retry has made every second of its own."""
    count = requests_of_an_attempt(deaths, alone=alone)
    for at in range(count // 2, count + 1):
        for lands_at in range(1, count + 1, 2):
            one = scene(deaths, alone=alone)
            assignment = one.poll()
            assert assignment is not None
            with deaths.dying(at, late=True):
                one.attempt(assignment)
            deaths.lands_at = lands_at
            one.give_up(assignment)
            with deaths.dying(None):
                one.see_it_through()
            deaths.held = None
            one.check_end()


def test_a_failed_run_is_taken_back_from_both_targets_whoever_dies_meanwhile(deaths: Deaths) -> None:
    def left_behind() -> Scene:
        """Publish, and be gone before the report."""
        one = scene(deaths)
        assignment = one.poll()
        assert assignment is not None
        one.world.fail("orchestrator.report", *_LOST)
        one.attempt(assignment)
        one.world.orchestrator().terminate(assignment.snapshot.workflow_id)
        assert "e1" in one.written_by()
        return one

    whole = left_behind()
    with deaths.dying(None):
        assert whole.recover(Mode.ROLL_BACK_FAILED) == ()
        count = deaths.count
    assert tuple(each.ref for each in whole.heads()) == whole.inputs
    for at, before in every_death(count):
        one = left_behind()
        with deaths.dying(at, before=before):
            one.recover(Mode.ROLL_BACK_FAILED)
        one.check()
        assert one.recover(Mode.ROLL_BACK_FAILED) == ()
        assert tuple(each.ref for each in one.heads()) == one.inputs


def test_what_the_dead_have_left_of_a_publication_to_several_targets_is_collected(deaths: Deaths, place: str) -> None:
    for at, before in every_death(requests_of_an_attempt(deaths, place)):
        one = scene(deaths, place)
        assignment = one.poll()
        assert assignment is not None
        with deaths.dying(at, before=before):
            one.attempt(assignment)
        one.give_up(assignment)
        one.see_it_through()
        done(one.store.collect_objects("lake", (), 0.0))
        raw = bucket(one.store._connection)
        assert [each.key for each in raw.list(f"lake/{TOGETHER}")] == []
        one.check_end()
        assert {each.repository for each in TARGETS} == {"lake"}


def test_several_targets_cost_six_requests_and_two_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    store = BucketHarness(Connection(f"memory://{token_hex(8)}"))
    for each in SEVERAL:
        store.create(each, FIRST)
    plan = joint_plan(store, joint_attempt(store))
    made: list[str] = []

    def counted(name: str, real: Any, *words: Any) -> Any:  # noqa: ANN401  any request of the client
        made.append(name)
        return real(*words)

    for name in (*_CHANGES, "read"):
        monkeypatch.setattr(Objects, name, partialmethod(_through, name, getattr(Objects, name), counted))
    done(store.port.publish(plan))
    assert len(made) == 6 + 2 * len(SEVERAL), made


def _through(self: Any, name: str, real: Any, watch: Any, *words: Any) -> Any:  # noqa: ANN401  any request
    return watch(name, real, self, *words)
