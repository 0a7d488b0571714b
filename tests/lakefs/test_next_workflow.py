"""Two workflows one after the other on a real server, and a request of the first that is held until the second is done.

No stranger, no duplicate, no lost answer: a publication that was abandoned, a last attempt that was given up while its
request was on its way, and the next workflow.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import evolve

from perago_core.answers import Done
from perago_core.driver import run
from perago_core.results import Completed
from perago_core.revocation import pin
from perago_core.values import Attempt, Backing, CommitRef, TaskStatus
from tests.lakefs.scene import Scene
from tests.support.servers.faulty_proxy import FaultyProxy, Gate, Handling, Request, when
from tests.support.servers.lakefs import LakeFS

BACKINGS = (Backing.CONDITIONAL, Backing.LOCKED)


@pytest.fixture
def network(lakefs_server: LakeFS) -> Iterator[FaultyProxy]:
    with FaultyProxy(lakefs_server.url) as proxy:
        yield proxy


def is_reset(request: Request) -> bool:
    return request.path.endswith("/hard_reset")


def is_publication(request: Request) -> bool:
    return "/merge/" in request.path and b"perago_expected_head" in request.body


def next_attempt(scene: Scene, backing: Backing, at: CommitRef) -> Attempt:
    """Hand out the first attempt of the next workflow."""
    made = evolve(scene.attempt(1, backing, task="second"), workflow_id="second", input=at)
    scene.orchestrator.assign(made)
    return made


@pytest.mark.parametrize("backing", BACKINGS)
def test_a_late_reset_of_a_failed_workflow_undoes_nothing_of_the_next(
    scene: Scene, network: FaultyProxy, backing: Backing
) -> None:
    """S-01: ``conditional`` in 47 moves, ``locked`` in 57, before revocation reached every name of the target."""
    abandoned = scene.abandon(scene.attempt(1, backing, task="first"), {"data.txt": b"abandoned"})
    last = scene.attempt(2, backing, task="first")
    gate = Gate()
    network.script = when(is_reset, Handling(before=gate), times=1)
    with ThreadPoolExecutor(1) as pool:
        zombie = pool.submit(scene.run, last, {"data.txt": b"late"}, store=scene.through(network.url))
        gate.await_reached()
        scene.orchestrator.end(last.task_id, TaskStatus.TIMED_OUT)
        accepted = scene.run(next_attempt(scene, backing, abandoned), {"data.txt": b"accepted"}).result
        gate.open()
        late = zombie.result()
    assert isinstance(accepted, Completed)
    assert scene.history() == [accepted.ref, abandoned, scene.input], "an accepted result is gone"
    assert scene.file() == b"accepted"
    assert not isinstance(late.result, Completed)


@pytest.mark.parametrize("backing", BACKINGS)
def test_a_late_publication_of_a_failed_workflow_is_no_stranger_for_the_next(
    scene: Scene, network: FaultyProxy, backing: Backing
) -> None:
    """L-02: it would refuse every attempt of the next workflow, for ever; so the head is pinned after a barrier."""
    last = scene.attempt(1, backing, task="first")
    gate = Gate()
    network.script = when(is_publication, Handling(before=gate), times=1)
    with ThreadPoolExecutor(1) as pool:
        zombie = pool.submit(scene.run, last, {"data.txt": b"late"}, store=scene.through(network.url))
        gate.await_reached()
        scene.orchestrator.end(last.task_id, TaskStatus.TIMED_OUT)
        pinned = run(pin(scene.target), scene.ports({}))
        gate.open()
        zombie.result()
    assert isinstance(pinned, Done)
    assert pinned.value is not None
    accepted = scene.run(next_attempt(scene, backing, pinned.value.commit.ref), {"data.txt": b"accepted"}).result
    assert isinstance(accepted, Completed), accepted
    assert scene.history() == [accepted.ref, scene.input]
