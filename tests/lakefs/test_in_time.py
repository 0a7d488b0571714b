"""A publication is over when its time is: whatever is checked first, nothing is sent late (S-06, S-24).

Under a lease the time is what the fence has seen to be left of it. The network holds the check for longer than that,
and meanwhile somebody else goes on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from perago_conformance.support import done, refused
from perago_core import fence
from perago_core.answers import Unknown
from perago_core.plan import PublishPlan
from perago_core.values import Backing
from tests.lakefs.scene import Scene
from tests.lakefs.test_fence import planned, staged_by
from tests.support.servers.faulty_proxy import (
    LOSE_ANSWER,
    FaultyProxy,
    Gate,
    Handling,
    Request,
    first_of,
    let_pass,
    when,
)

#: Seconds a publication has.
TIME = 0.5


def moves(request: Request) -> bool:
    return "/merge/" in request.path or request.path.endswith("/hard_reset")


def checks(request: Request) -> bool:
    return request.method == "GET"


def merge_by_the_hook(scene: Scene) -> PublishPlan:
    attempt = scene.attempt()
    return planned(scene, attempt, staged_by(scene, attempt))


def merge_under_a_lease(scene: Scene) -> PublishPlan:
    attempt = scene.attempt(backing=Backing.LOCKED)
    return planned(scene, attempt, staged_by(scene, attempt), token=7)


def relocation(scene: Scene) -> PublishPlan:
    """Return the target to the input by a staging name, as a no-op does after an abandoned publication."""
    name = scene.attempt().staging_name
    done(scene.store.open_staging(scene.target, name, scene.input))
    scene.stranger.commits(scene.target, {"data.txt": b"abandoned"})
    head = done(scene.store.head(scene.target))
    assert head is not None
    return fence.compensate(scene.target, scene.input, head, name)


PLANS = [merge_by_the_hook, merge_under_a_lease, relocation]


@pytest.fixture
def unfenced(bare: Scene, scene: Scene, plan_of: Callable[[Scene], PublishPlan]) -> Scene:
    """Give a repository without the hook, which would stop a late merge, unless the plan relies on it."""
    return scene if plan_of is merge_by_the_hook else bare


@pytest.mark.parametrize("plan_of", PLANS)
def test_what_was_checked_too_late_is_not_sent(unfenced: Scene, plan_of: Callable[[Scene], PublishPlan]) -> None:
    """S-24b: somebody who holds the next lease has published meanwhile; a late reset would undo it."""
    scene, gate = unfenced, Gate()
    plan = plan_of(scene)
    with (
        ThreadPoolExecutor(1) as pool,
        FaultyProxy(scene.stranger.connection.url, when(checks, Handling(after=gate))) as proxy,
    ):
        publishing = pool.submit(scene.through(proxy.url, TIME).publish, plan)
        gate.await_reached()
        theirs = scene.stranger.commits(scene.target, {"theirs.txt": b"of the next holder"})
        time.sleep(2 * TIME)
        gate.open()
        reason = refused(publishing.result())
        assert [request.method for request in proxy.seen] == ["GET"], "checked once, and nothing sent"
    assert f"whether {scene.target} may be moved" in reason
    assert "Nothing was moved: try again" in reason
    assert scene.head() == theirs


@pytest.mark.parametrize("plan_of", PLANS)
def test_a_check_without_an_answer_is_not_repeated_and_nothing_is_sent(
    unfenced: Scene, plan_of: Callable[[Scene], PublishPlan]
) -> None:
    """It proves that nothing was done, so it is not unknown."""
    scene = unfenced
    plan = plan_of(scene)
    before = scene.head()
    with FaultyProxy(scene.stranger.connection.url, when(checks, LOSE_ANSWER, times=1)) as proxy:
        assert "Nothing was moved" in refused(scene.through(proxy.url).publish(plan))
        assert len(proxy.seen) == 1
        assert scene.head() == before
        done(scene.through(proxy.url).publish(plan))


def test_check_and_movement_share_their_time(scene: Scene) -> None:
    """What the check has used, the answer to the merge is not waited for."""
    plan, gate = merge_by_the_hook(scene), Gate()
    slow = first_of(when(checks, Handling(delay=1.0)), when(moves, Handling(before=gate)))
    with FaultyProxy(scene.stranger.connection.url, slow) as proxy:
        answer = scene.through(proxy.url, 4.0).publish(plan)
        proxy.script = let_pass
        gate.open()
    assert isinstance(answer, Unknown)
    waited = re.search(r"read timeout=([0-9.]+)", answer.reason)
    assert waited is not None, answer
    assert float(waited[1]) <= 3.0
