"""Races on a real server, through a network that delays, loses requests and loses answers.

``PERAGO_MATRIX=full`` runs two hundred rounds; otherwise a sample of their seeds.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import chain
from typing import Any, TypeAlias

import pytest
from attrs import evolve, frozen

from perago_conformance.support import done
from perago_core import fence
from perago_core.answers import Answer, Done, NotDone
from perago_core.driver import run
from perago_core.names import staging_name
from perago_core.results import Result
from perago_core.revocation import revoke
from perago_core.values import Attempt, Backing, CommitRef, Target, TaskStatus
from tests.lakefs.scene import Scene, ToldOrchestrator, doing
from tests.support.crash.seeds import FULL
from tests.support.servers.faulty_proxy import FaultyProxy, Gate, Handling, Request, at_random, when
from tests.support.servers.lakefs import LakeFS

SEEDS = range(200) if FULL else range(0, 200, 8)


class FairOrchestrator(ToldOrchestrator):
    """Answers one at a time, as a real one does."""

    turn = threading.Lock()

    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        with self.turn:
            return super().report(attempt, result)

    def end(self, task_id: str, status: TaskStatus) -> None:
        with self.turn:
            if self.tasks[task_id].status.is_open:
                super().end(task_id, status)


#: A network for each of the two attempts.
Networks: TypeAlias = tuple[FaultyProxy, FaultyProxy]


@frozen
class Round:
    """What one round came to.

    ``seen``: the requests of each attempt. ``heard``: how many of them had come when the stranger was through.
    """

    accepted: list[CommitRef]
    stranger: CommitRef
    history: list[dict[str, Any]]
    seen: tuple[list[Request], ...]
    heard: tuple[int, ...]

    @property
    def refs(self) -> list[str]:
        return [each["id"] for each in self.history]

    def is_relocated(self) -> bool:
        """Say whether an attempt relocated the branch."""
        return any(map(_relocates, chain(*self.seen)))

    def is_the_residual(self) -> bool:
        """Say whether an attempt relocated the branch that had observed it before the stranger was through."""
        return any(
            _observed_before(seen, reset) <= heard
            for seen, heard in zip(self.seen, self.heard, strict=True)
            for reset in filter(_relocates, seen)
        )


def _relocates(request: Request) -> bool:
    return request.path.endswith("/hard_reset") and request.status == 204


def _observed_before(seen: list[Request], reset: Request) -> int:
    """Give the number of the request by which an attempt observed the head, before it sent this reset."""
    return max(each.number for each in seen if each.number < reset.number and each.path.endswith("/commits"))


def await_requests(count: int, networks: Sequence[FaultyProxy], *senders: Future[Any]) -> None:
    """Wait until so many requests have come, or no more will: a moment that does not depend on the machine."""
    while sum(len(network.seen) for network in networks) < count and not all(each.done() for each in senders):
        time.sleep(0.001)


def race(scene: Scene, networks: Networks, seed: int) -> Round:
    """Let an attempt be given up while it lives, its successor start, and a stranger commit, all at once."""
    chance = random.Random(seed)
    target = Target(scene.target.repository, f"round-{seed}")
    scene.stranger.create_branch(target, scene.input)
    mine = evolve(scene, target=target, orchestrator=FairOrchestrator())
    for number, network in enumerate(networks):
        network.forget()
        network.script = at_random(2 * seed + number, lose_request=0.01, lose_answer=0.04, delay=0.02)
    stores = [scene.through(network.url) for network in networks]
    task = f"race/{seed}"
    first = mine.attempt(1, task=task)
    # A publication has some 18 requests. It is given up in its second half, and the stranger may come after everybody.
    after, amid = chance.randrange(6, 18), chance.randrange(12, 60)

    def successor() -> None:
        await_requests(after, networks[:1], publishing)
        mine.run(mine.attempt(2, task=task), {"data.txt": b"second"}, store=stores[1])

    def stranger() -> tuple[CommitRef, tuple[int, ...]]:
        await_requests(amid, networks, publishing, following)
        made = scene.stranger.commits(target, {"stranger.txt": b"%d" % seed})
        return made, tuple(len(network.seen) for network in networks)

    with ThreadPoolExecutor(3) as pool:
        publishing = pool.submit(mine.run, first, {"data.txt": b"first"}, None, stores[0])
        following = pool.submit(successor)
        foreign, heard = pool.submit(stranger).result()
        publishing.result()
        following.result()
    log = scene.stranger.log(target)
    until = [each["id"] for each in log].index(scene.input)
    seen = tuple(network.seen for network in networks)
    return Round(mine.orchestrator.accepted(), foreign, log[:until], seen, heard)


@pytest.fixture(scope="module")
def racing(lakefs_server: LakeFS) -> Iterator[tuple[Scene, Networks]]:
    with FaultyProxy(lakefs_server.url) as one, FaultyProxy(lakefs_server.url) as two:
        yield Scene.on(lakefs_server), (one, two)


@pytest.fixture(scope="module")
def raced(racing: tuple[Scene, Networks]) -> Callable[[int], Round]:
    """Give what each seed came to; it is raced once."""

    @cache
    def raced(seed: int) -> Round:
        return race(*racing, seed)

    return raced


@pytest.mark.parametrize("seed", SEEDS)
def test_two_publishers_and_a_stranger_lose_nothing_that_was_accepted(
    racing: tuple[Scene, Networks], raced: Callable[[int], Round], seed: int
) -> None:
    """S-01, S-03, S-05: accepted results stay, the history is clean, and a stranger loses in the one known way."""
    scene, _ = racing
    came = raced(seed)
    assert len(came.accepted) <= 1
    assert set(came.accepted) <= set(came.refs), "an accepted result is gone"
    assert came.stranger in came.refs or came.is_the_residual(), "a stranger's commit is gone that was to be seen"
    ours = [each for each in came.history if each["id"] != came.stranger]
    assert len(ours) <= 1, f"the history shows more than one publication: {came.refs}"
    for each in ours:
        assert len(each["parents"]) == 1, "a publication has one parent, the head it was decided on"
        assert each["parents"] == [scene.input], "a publication stands on its input, whoever came in between"


def test_the_rounds_accept_and_relocate(raced: Callable[[int], Round]) -> None:
    """Where nobody publishes nothing is lost, and where nobody is replaced nothing could be."""
    came = [raced(seed) for seed in SEEDS]
    accepted, relocated = sum(bool(each.accepted) for each in came), sum(each.is_relocated() for each in came)
    print(f"{len(came)} rounds: {accepted} were accepted, {relocated} relocated")  # noqa: T201  the figure
    assert accepted
    assert relocated


def late_reset(scene: Scene, proxy: FaultyProxy, number: int, *, revoked: bool) -> tuple[Answer[CommitRef], bool]:
    """Hold a relocation by name on its way, revoke the name or not, and let it go on; say whether the head stayed."""
    task = f"zombie/{number}"
    target = Target(scene.target.repository, f"zombie-{number}-{revoked}")
    scene.stranger.create_branch(target, scene.input)
    scene.stranger.commits(target, {"data.txt": b"%d" % number})
    head = done(scene.store.head(target))
    assert head is not None
    name = staging_name(target, task, 1, 0, "task", "zombie")
    done(scene.store.open_staging(target, name, scene.input))
    plan = fence.compensate(target, scene.input, head, name)
    gate = Gate()
    proxy.script = when(lambda request: request.path.endswith("/hard_reset"), Handling(before=gate), times=1)
    with ThreadPoolExecutor(1) as pool:
        zombie = pool.submit(scene.through(proxy.url).publish, plan)
        gate.await_reached()
        if revoked:
            assert done(run(revoke(target, task, 2), scene.ports({}))).dropped == (name,)
            done(scene.store.barrier(target))
        gate.open()
        answer = zombie.result()
    done(scene.store.drop(target, name))
    return answer, scene.stranger.head(target) == head.commit.ref


def test_a_hard_reset_that_is_late_is_refused_after_revocation_two_hundred_of_two_hundred(
    racing: tuple[Scene, Networks],
) -> None:
    """S-06, F-06: and not because it would not have landed, which is seen first."""
    scene, (network, _) = racing
    landed, stayed = late_reset(scene, network, 0, revoked=False)
    assert isinstance(landed, Done)
    assert not stayed
    came = [late_reset(scene, network, number, revoked=True) for number in range(200)]
    assert sum(isinstance(answer, NotDone) and stayed for answer, stayed in came) == 200


def test_a_race_under_soft_does_lose(racing: tuple[Scene, Networks]) -> None:
    """The rounds above could fail: with the head check alone, a paused attempt takes an accepted result away."""
    scene, _ = racing
    target = Target(scene.target.repository, "soft")
    scene.stranger.create_branch(target, scene.input)
    mine = evolve(scene, target=target, orchestrator=ToldOrchestrator())
    zombie = mine.attempt(1, Backing.SOFT)
    retried = doing("store.head.before", lambda: mine.run(mine.attempt(2, Backing.SOFT), {"data.txt": b"accepted"}))
    mine.run(zombie, {"data.txt": b"zombie"}, retried)
    (accepted,) = mine.orchestrator.accepted()
    assert accepted not in mine.history()
