"""The heart of an attempt on the embedded orchestrator: loss is read, time counts from sending, nothing beats late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define, evolve, field

from perago_core.answers import Answer, Done, Unknown
from perago_core.ports import Orchestrator
from perago_core.results import Completed
from perago_core.values import Attempt, Backing
from perago_worker.runtime.assignment import attempt_input
from perago_worker.runtime.attempt import pin
from perago_worker.runtime.heartbeat import Heartbeat
from tests.worker.embedded import Embedded, Faulty, always, embedded
from tests.worker.projects import TASKS

PATIENCE = 10.0
#: Who dawdles beats meanwhile, so its orchestrator is impatient; with everybody else it has time, whatever the load.
DAWDLING = TASKS.replace(
    '"dawdle", workspace=Workspace(), response_timeout=20', '"dawdle", workspace=Workspace(), response_timeout=3'
)


@define
class Watch:
    """A clock that stands still until it is set."""

    at: float = 100.0

    def now(self) -> float:
        return self.at

    def wall(self) -> int:
        return round(self.at * 1000)

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@define
class Bench:
    """A heart that beats when it is told to, of an attempt that really was handed out."""

    worker: Embedded
    attempt: Attempt
    workflow: str
    clock: Watch = field(factory=Watch)
    losses: list[str] = field(factory=list[str])

    def heart(self, orchestrator: object = None, interval: float = 3600.0) -> Heartbeat:
        port: Any = orchestrator or self.worker.orchestrator
        return Heartbeat(
            self.attempt,
            port,
            self.clock,
            interval=interval,
            patience=PATIENCE,
            since=self.clock.now(),
            on_loss=self.losses.append,
        )


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded(tmp_path_factory.mktemp("beating"), DAWDLING) as made:
        yield made


@pytest.fixture
def bench(worker: Embedded) -> Iterator[Bench]:
    workflow = worker.start("write")
    assignment = worker.poll()
    place = attempt_input(assignment, worker.tasks["write"])
    yield Bench(worker, pin(assignment, place, worker.runtime.node), workflow)
    worker.words.stop(workflow, "the test is over")


def test_loss_is_found_by_the_read_and_never_by_the_beat(bench: Bench) -> None:
    """A heartbeat of an attempt that was given up is answered like any other; only the task itself tells."""
    heart = bench.heart()
    bench.worker.words.stop(bench.workflow, "given up")
    assert isinstance(bench.worker.orchestrator.extend(bench.attempt), Done)
    assert heart.loss() is None
    heart.beat()
    lost = heart.loss()
    assert lost is not None
    assert "CANCELED" in lost.reason
    assert bench.losses == [lost.reason]


def test_a_lost_attempt_is_not_extended(bench: Bench) -> None:
    beats: list[str] = []

    def extend(real: Callable[[Attempt], Answer[None]], attempt: Attempt) -> Answer[None]:
        beats.append(attempt.task_id)
        return real(attempt)

    heart = bench.heart(Faulty(bench.worker.orchestrator, extend=extend))
    heart.beat()
    assert len(beats) == 1
    bench.worker.words.stop(bench.workflow, "given up")
    heart.beat()
    assert len(beats) == 1


def test_the_deadline_counts_from_when_a_good_beat_was_sent(bench: Bench) -> None:
    """A slow answer buys no time: the orchestrator's clock may have started right after the sending."""

    def slowly(real: Callable[..., object], *words: str) -> object:
        bench.clock.sleep(4)
        return real(*words)

    heart = bench.heart(Faulty(bench.worker.orchestrator, reload=slowly))
    assert heart.until() == 110
    bench.clock.at = 105
    heart.beat()
    assert bench.clock.at == 109
    assert heart.until() == 115


@pytest.mark.parametrize("answers", [True, False], ids=["the read answers", "nothing answers"])
def test_a_deadline_that_has_passed_is_never_moved_again_and_stops_the_body(bench: Bench, *, answers: bool) -> None:
    """A worker that slept too long reads its task as before, because nobody has looked for it yet."""
    silent = Faulty(bench.worker.orchestrator, reload=always(Unknown("no answer")))
    heart = bench.heart(None if answers else silent)
    bench.clock.at = 110.5
    heart.beat()
    lost = heart.loss()
    assert lost is not None
    assert "its deadline passed 0.5 s ago: for 10 s no heartbeat was answered" in lost.reason
    assert bench.losses == [lost.reason]
    assert heart.until() == 110


@pytest.mark.parametrize("changed", [{"read_only": True}, {"backing": Backing.SOFT}], ids=["read only", "soft"])
def test_who_has_no_deadline_for_publishing_goes_on_past_it(bench: Bench, changed: dict[str, Any]) -> None:
    heart = evolve(bench, attempt=evolve(bench.attempt, **changed)).heart()
    bench.clock.at = 110.5
    heart.beat()
    assert heart.loss() is None
    assert heart.until() == 110


@pytest.mark.parametrize("call", ["reload", "extend"])
def test_a_beat_without_an_answer_changes_nothing_and_time_runs_on(bench: Bench, call: str) -> None:
    heart = bench.heart(Faulty(bench.worker.orchestrator, **{call: always(Unknown("no answer"))}))
    bench.clock.at = 105
    heart.beat()
    assert heart.until() == 110
    assert heart.loss() is None


def test_a_beat_that_raises_is_a_missing_answer_and_not_the_end_of_the_heart(bench: Bench) -> None:
    def burst(*_: object) -> None:
        raise ConnectionError("the network is gone")

    heart = bench.heart(Faulty(bench.worker.orchestrator, reload=burst))
    heart.beat()
    assert heart.loss() is None
    assert heart.until() == 110


def test_stopping_waits_for_the_beat_that_is_on_its_way(bench: Bench) -> None:
    """A beat that overlaps the result can undo it: none is on its way once the heart has been stopped."""
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def hang(real: Callable[[Attempt], Answer[None]], attempt: Attempt) -> Answer[None]:
        begun.set()
        assert go_on.wait(60)
        answer = real(attempt)
        done.append("beat")
        return answer

    heart = bench.heart(Faulty(bench.worker.orchestrator, extend=hang), interval=0.01)
    heart.start()
    assert begun.wait(60)

    def stop() -> None:
        heart.stop()
        done.append("stopped")

    stopper = threading.Thread(target=stop, daemon=True)
    stopper.start()
    stopper.join(0.2)
    assert done == []
    go_on.set()
    stopper.join(60)
    assert done == ["beat", "stopped"]


def test_no_heartbeat_comes_after_the_report_of_a_real_run(worker: Embedded) -> None:
    """Heartbeats are drained before the result is sent."""
    calls: list[str] = []

    def noted(name: str) -> Callable[..., object]:
        def call(real: Callable[..., object], *words: object) -> object:
            calls.append(name)
            return real(*words)

        return call

    port: Any = Faulty(worker.orchestrator, extend=noted("extend"), report=noted("report"))
    orchestrator: Orchestrator = port
    worker.start("dawdle", worker.head())
    outcome = worker.run(orchestrator=orchestrator)
    assert isinstance(outcome.result, Completed)
    assert calls[-1] == "report"
    assert calls.count("extend") >= 1
