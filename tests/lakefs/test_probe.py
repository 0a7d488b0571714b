"""Only behaviour is a disproof (N-09, T-W1): whatever goes wrong while it is tried, a cluster must not settle for less.

The trial runs on a real server, and each of its requests in turn meets some trouble. None of it may be taken for a
server that does not fence; and one that does not is found out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from perago_conformance.support import done, refused
from perago_core.answers import Answer, Done, Unknown
from perago_core.policy.messages import Capability
from perago_lakefs import hook
from tests.lakefs.gateway import Gateway
from tests.lakefs.scene import Scene
from tests.support.servers.faulty_proxy import (
    LOSE_ANSWER,
    LOSE_REQUEST,
    PASS,
    FaultyProxy,
    Gate,
    Handling,
    Predicate,
    Request,
    Script,
    when,
)
from tests.support.servers.lakefs import LAKEFS, LakeFS
from tests.support.servers.sharing import demand

#: What a gateway says when it does not let a request through.
STATUSES = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS)


class WithoutHooks(LakeFS):
    """A server that was told to run no hooks."""

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "LAKEFS_ACTIONS_ENABLED": "false"}


def merges(request: Request) -> bool:
    return "/merge/" in request.path


def onto_no_head(request: Request) -> bool:
    """Say whether this is the trial's merge onto a head that never was; the barrier's has another message."""
    said: dict[str, Any] = json.loads(request.body) if merges(request) else {}
    return said.get("message") == "probe" and set(said["metadata"].get(hook.EXPECTED, "")) == {"0"}


def the(number: int) -> Predicate:
    """Match the how manyth request of a trial."""
    return lambda request: request.number == number


def probed(scene: Scene, script: Script) -> Answer[Capability]:
    with FaultyProxy(scene.stranger.connection.url, script) as proxy:
        return scene.through(proxy.url).probe()


def requests_of(scene: Scene) -> int:
    """Count the requests of a trial that nothing disturbs, when the server has been seen before."""
    done(scene.store.probe())
    with FaultyProxy(scene.stranger.connection.url) as proxy:
        done(scene.through(proxy.url).probe())
        return len(proxy.seen)


def clear(scene: Scene) -> None:
    """Remove every staging name, then every claim, as a collector does that takes the trial for garbage."""
    repository = scene.target.repository
    for each in done(scene.store.staging_names(repository)):
        done(scene.store.drop(scene.target, each))
    for claim in done(scene.store.all_claims(repository)):
        done(scene.store.remove_claims(claim.target, claim.logical_task))


def judge(answers: list[Answer[Capability]]) -> None:
    """Demand that nothing was disproved, and that the trouble was met."""
    disproved = [(number, each) for number, each in enumerate(answers, 1) if not isinstance(each, Done | Unknown)]
    assert not disproved
    assert any(isinstance(each, Unknown) for each in answers)


def test_a_merge_that_must_be_refused_is_refused_by_the_hook_and_nothing_else(scene: Scene) -> None:
    """Counterexample: two merges that write one path are a conflict, which a server without hooks refuses as well."""
    with FaultyProxy(scene.stranger.connection.url) as proxy:
        assert done(scene.through(proxy.url).probe()) is Capability.CONDITIONAL
    no_changes, fenced = 400, 412
    assert [each.status for each in proxy.seen if merges(each)] == [no_changes, fenced, 200, fenced, fenced]


def test_a_merge_onto_no_head_without_an_answer_disproves_nothing(scene: Scene) -> None:
    answer = probed(scene, when(onto_no_head, LOSE_ANSWER, times=1))
    assert isinstance(answer, Unknown), answer
    assert done(scene.store.probe()) is Capability.CONDITIONAL


@pytest.mark.parametrize("handling", [LOSE_REQUEST, LOSE_ANSWER], ids=["request", "answer"])
def test_whatever_is_lost_disproves_nothing(scene: Scene, handling: Handling) -> None:
    numbers = range(1, requests_of(scene) + 1)
    judge([probed(scene, when(the(number), handling)) for number in numbers])


def test_whatever_a_gateway_says_disproves_nothing(scene: Scene) -> None:
    """Once, in the middle of it: a moment later the head can be read again."""
    answers: list[Answer[Capability]] = []
    for number, status in zip(range(1, requests_of(scene) + 1), cycle(STATUSES)):
        with Gateway(scene.stranger.connection.url, status, the(number)) as proxy:
            answers.append(scene.through(proxy.url).probe())
    judge(answers)


@pytest.mark.parametrize("status", STATUSES)
def test_a_gateway_that_lets_no_merge_through_neither_proves_nor_disproves(scene: Scene, status: HTTPStatus) -> None:
    """Refused is not enough: only the hook's own refusal shows that it is at work."""
    with Gateway(scene.stranger.connection.url, status, onto_no_head) as proxy:
        assert isinstance(scene.through(proxy.url).probe(), Unknown)


@pytest.mark.parametrize("number", [3, 12, 30])
def test_a_server_that_goes_away_disproves_nothing(scene: Scene, number: int) -> None:
    """From the look for the hook on, or in the middle of the trial, nobody listens any more."""
    assert number <= requests_of(scene)
    gate = Gate()
    with ThreadPoolExecutor(1) as pool:
        with FaultyProxy(scene.stranger.connection.url, when(the(number), Handling(before=gate))) as proxy:
            probing = pool.submit(scene.through(proxy.url).probe)
            gate.await_reached()
        answer = probing.result()
    assert isinstance(answer, Unknown), answer


def test_a_collector_that_takes_the_trial_for_garbage_disproves_nothing(scene: Scene) -> None:
    """Names and claims of the trial are gone at any moment of it."""

    def clearing(number: int) -> Script:
        def decide(request: Request) -> Handling:
            if request.number == number:
                clear(scene)
            return PASS

        return decide

    judge([probed(scene, clearing(number)) for number in range(1, requests_of(scene) + 1)])
    assert done(scene.store.probe()) is Capability.CONDITIONAL


@pytest.fixture(scope="module")
def hookless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    demand(LAKEFS)
    folder: Path = tmp_path_factory.mktemp("lakefs")
    with WithoutHooks(folder=folder) as server:
        yield Scene.on(server)


def test_a_server_that_runs_no_hooks_is_disproved(hookless: Scene) -> None:
    """N-09: the hook is there, and nobody runs it."""
    assert "actions.enabled" in refused(hookless.store.probe())
    assert hookless.stranger.branches(hookless.target.repository) == {"main"}
