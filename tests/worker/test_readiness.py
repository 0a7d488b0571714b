"""A worker that cannot publish takes no task, so that the retries of all the tasks are left for those who can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Unknown
from perago_core.values import TaskStatus
from perago_worker.config.load import load
from perago_worker.runtime import bootstrap, readiness
from perago_worker.runtime.assembly import assemble
from perago_worker.runtime.readiness import COORDINATION_ANSWER, Readiness
from tests.worker.clocks import Wall
from tests.worker.embedded import Faulty, embedded
from tests.worker.projects import MAIN

LIMIT = 60.0
COORDINATION = ("get", "create_if_absent", "swap", "list", "grant", "keep_alive", "revoke")
STORE = ("head", "claims", "claim", "open_staging", "staging_names", "barrier")


class Cut:
    """A port that can be cut off: every call of it then goes unanswered."""

    def __init__(self, port: object, calls: tuple[str, ...]) -> None:
        self.off = False
        self.port: Any = Faulty(port, **dict.fromkeys(calls, self._call))

    def _call(self, real: Callable[..., object], *words: object) -> object:
        return Unknown("the network is gone") if self.off else real(*words)


def eventually(ready: Callable[[], object]) -> None:
    until = time.monotonic() + LIMIT
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("part", ["coordination", "store"])
def test_a_worker_cut_off_takes_nothing_and_uses_nobodys_retries_up(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers, one of them cut off: what is started then completes at its first attempt, on the other one."""
    monkeypatch.setattr(readiness, "STORE_ANSWER", COORDINATION_ANSWER)
    with embedded(tmp_path) as healthy:
        stack = healthy.project.stack()
        cut = Cut(getattr(stack, part), COORDINATION if part == "coordination" else STORE)
        polls: list[object] = []
        real: Any = stack.orchestrator.poll

        def noted(*words: object) -> object:
            answer: Any = real(*words)
            polls.append(answer.value)
            return answer

        monkeypatch.setattr(stack.orchestrator, "poll", noted)
        settings = load(healthy.project.folder, {}, {})
        with assemble(settings, evolve(stack, **{part: cut.port}), healthy.tasks) as other:
            running = threading.Thread(target=other.worker.run, daemon=True)
            running.start()
            eventually(lambda: polls)
            cut.off = True
            time.sleep(0.1 + COORDINATION_ANSWER)
            before = len(polls)
            workflow = healthy.start("write")
            time.sleep(1.0)  # enough for several polls of a worker that looks at nothing but the orchestrator
            assert len(polls) == before
            assert healthy.made.worker.run(until_idle=True) == 0
            cut.off = False
            other.worker.drain()
            running.join(LIMIT)
        stack.close()
        assert not any(polls)
        view = healthy.words.view(workflow)
        assert view is not None
        assert [each.status for each in view.attempts] == [TaskStatus.COMPLETED]


def test_an_answer_stands_for_a_while_and_a_refusal_is_one(tmp_path: Path) -> None:
    with embedded(tmp_path) as worker:
        clock = Wall()
        asked: list[str] = []

        def noted(name: str) -> Callable[..., object]:
            def call(real: Callable[..., object], *words: object) -> object:
                asked.append(name)
                return real(*words)

            return call

        coordination: Any = Faulty(worker.stack.coordination, get=noted("coordination"))
        store: Any = Faulty(worker.stack.store, head=noted("store"))
        looking = Readiness(evolve(worker.stack, coordination=coordination, store=store, clock=clock), [MAIN])
        assert [looking.trouble() for _ in range(3)] == [None] * 3
        assert asked == ["coordination", "store"]
        clock.ahead += COORDINATION_ANSWER
        assert looking.trouble() is None
        assert asked == ["coordination", "store", "coordination"]


def test_whoever_raises_has_not_answered_and_is_named(tmp_path: Path) -> None:
    def burst(*_: object) -> None:
        raise ConnectionError("refused")

    with embedded(tmp_path) as worker:
        coordination: Any = Faulty(worker.stack.coordination, get=burst)
        found = Readiness(evolve(worker.stack, coordination=coordination), []).trouble()
        assert found == "the coordination store does not answer: ConnectionError: refused"
        assert Readiness(evolve(worker.stack, coordination=None), []).trouble() is None


@pytest.mark.parametrize("unanswered", [3, 1000], ids=["a hiccup", "for good"])
def test_a_start_outlives_a_coordination_store_that_does_not_answer_for_a_moment(
    tmp_path: Path, unanswered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be electing a leader. One that stays away is an error of the start, in one line, after a bounded time."""
    left = iter(range(unanswered))

    def silent_at_first(real: Callable[..., object], *words: object) -> object:
        return real(*words) if next(left, None) is None else Unknown("no leader")

    monkeypatch.setattr(bootstrap, "UNANSWERED_START", 2.0)
    with embedded(tmp_path) as worker:
        port: Any = Faulty(worker.stack.coordination, list=silent_at_first)
        settings = load(worker.project.folder, {}, {})
        stack = evolve(worker.stack, coordination=port)
        if unanswered == 3:
            assert bootstrap.settle_policy(stack, settings, "me").epoch == worker.runtime.node.epoch
            return
        began = time.monotonic()
        with pytest.raises(bootstrap.StartError, match="no leader"):
            bootstrap.settle_policy(stack, settings, "me")
        assert 1 < time.monotonic() - began < LIMIT / 2
