"""One assignment from poll to outcome on the embedded stack, with bodies in their own processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve

from perago_core.answers import Unknown
from perago_core.pipelines import PipelineView
from perago_core.results import Classification, Completed, Failed, FailedTerminally, Outcome
from perago_core.values import Attempt, TaskStatus
from perago_worker.config.settings import PipelineSettings, StepSettings
from perago_worker.runtime.attempt import Stop
from tests.worker.embedded import Embedded, Faulty, embedded
from tests.worker.projects import MAIN

LIMIT = 60.0


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded(tmp_path_factory.mktemp("running")) as made:
        yield made


def view(worker: Embedded, workflow: str) -> PipelineView:
    found = worker.words.view(workflow)
    assert found is not None
    return found


def wait_for(ready: Callable[[], object]) -> None:
    until = time.monotonic() + LIMIT
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_attempt_that_is_given_up_stops_its_body_at_once_and_says_nothing(worker: Embedded, tmp_path: Path) -> None:
    """The heart reads that the attempt is lost; the body, which would sleep for an hour, ends; nothing is published."""
    before = worker.head()
    told = tmp_path / "pid"
    workflow = worker.start("sleep", before, text=str(told))
    assignment = worker.poll()
    outcomes: list[Outcome] = []
    runner = threading.Thread(target=lambda: outcomes.append(worker.run(assignment)), daemon=True)
    runner.start()
    wait_for(lambda: told.exists() and told.read_text(encoding="utf-8"))
    pid = int(told.read_text(encoding="utf-8"))
    assert is_alive(pid)
    worker.words.stop(workflow, "nobody wants it any more")
    runner.join(LIMIT)
    assert not runner.is_alive()
    wait_for(lambda: not is_alive(pid))
    (outcome,) = outcomes
    assert outcome.result is None
    assert outcome.silence is not None
    assert worker.head() == before
    assert [each.status for each in view(worker, workflow).attempts] == [TaskStatus.CANCELED]
    assert not list((worker.project.folder / ".perago" / "work").glob("*/*"))


def test_a_worker_that_is_told_to_stop_fails_what_has_not_begun_to_publish(worker: Embedded) -> None:
    """Its time is over, not its attempt: FAILED, so that somebody else can start at once. No body has to be running."""
    before = worker.head()
    workflow = worker.start("write", before)
    outcome = worker.run(stopped=Stop("the drain limit of 5 s is over"))
    assert isinstance(outcome.result, Failed)
    assert outcome.result.refusal.classification is Classification.DEADLINE_EXCEEDED
    assert "the drain limit of 5 s is over" in outcome.result.refusal.actual
    assert worker.head() == before
    worker.words.stop(workflow, "the test is over")


def test_a_mistake_in_a_port_is_logged_with_its_traceback_and_told_with_the_outcome(
    worker: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    """Else whoever writes a store reads that the claim is somebody else's, and there is nothing to do."""

    stop = Stop()

    def broken(*_: object) -> object:
        stop.why = "it is not asked for as long as the heart beats"
        raise KeyError("oops")

    workflow = worker.start("write", worker.head())
    store: Any = Faulty(worker.stack.store, claims=broken)
    with caplog.at_level("INFO"):
        worker.run(store=store, stopped=stop)
    (logged,) = [each for each in caplog.records if each.exc_info]
    assert logged.getMessage() == "store.claims did not answer, which is taken for unknown"
    assert logged.exc_info is not None
    assert isinstance(logged.exc_info[1], KeyError)
    assert "On the way store.claims raised KeyError: 'oops'; see the worker's log." in caplog.text
    worker.words.stop(workflow, "the test is over")


def test_a_worker_that_is_told_to_stop_asks_nobody_again(worker: Embedded) -> None:
    """The store's claims stay unanswered: without the order it would ask for them as long as its heart beats."""
    workflow = worker.start("write", worker.head())
    stop = Stop()

    def silence(*_: object) -> object:
        stop.why = "the worker was told to stop at once"
        return Unknown("no answer")

    store: Any = Faulty(worker.stack.store, claims=silence)
    outcome = worker.run(store=store, stopped=stop)
    assert isinstance(outcome.result, Failed)
    worker.words.stop(workflow, "the test is over")


def test_an_input_that_cannot_be_read_fails_for_good_without_a_body(worker: Embedded) -> None:
    """S-36: trying again cannot mend it, so nobody does; nothing is staged."""
    before = worker.head()
    workflow = worker.start("write", before, count="many")
    outcome = worker.run()
    assert isinstance(outcome.result, FailedTerminally)
    assert "count" in outcome.result.refusal.actual
    ended = view(worker, workflow)
    assert [each.status for each in ended.attempts] == [TaskStatus.FAILED_WITH_TERMINAL_ERROR]
    assert not ended.running
    assert (worker.head(), worker.names()) == (before, [])


def test_a_task_without_workspace_hands_the_ref_on(worker: Embedded) -> None:
    """write, add, total: what write published is what total starts from, though add knows no workspace."""
    steps = tuple(StepSettings(task=name) for name in ("write", "add", "total"))
    pipeline = PipelineSettings(repository=MAIN.repository, branch=MAIN.branch, steps=steps)
    workflow = worker.words.start("three", pipeline, worker.head())
    for _ in steps:
        assert isinstance(worker.run().result, Completed)
    ended = view(worker, workflow)
    assert ended.succeeded
    write, add, total = ended.attempts
    assert add.ref == write.ref
    assert total.ref == worker.head()
    assert ended.output["add"]["result"] == {"count": 2}


def test_what_became_of_an_attempt_is_in_the_log_of_its_task(worker: Embedded) -> None:
    workflow = worker.start("write", worker.head(), text="logged")
    worker.run()
    (attempt,) = view(worker, workflow).attempts
    lines = worker.words.log(attempt.task_id)
    assert lines[0] == "progress 100% files written"
    assert lines[-1].endswith(f"completed with {attempt.ref}, accepted [atomic]")


@define
class Deadline:
    """Stands where signs of life are shown, and keeps until when the attempt was ours at first."""

    until: float = 0.0

    @contextmanager
    def showing(self, attempt: Attempt, until: Callable[[], float]) -> Generator[None]:  # noqa: ARG002  as it is called
        self.until = until()
        yield


@pytest.mark.parametrize(("registered", "ours"), [(1.5, 1.5), (600.0, 3.0)])
def test_an_attempt_is_ours_for_no_longer_than_it_was_handed_out_with(
    worker: Embedded, registered: float, ours: float
) -> None:
    """Registered with less than the task declares, it is given to somebody else that much sooner."""
    declared = worker.tasks["write"]
    worker.words.register([evolve(declared, response_timeout=registered)])
    workflow = worker.start("write", worker.head(), text=str(registered))
    worker.words.register([declared])
    polled_at = worker.stack.clock.now()
    deadline: Any = Deadline()
    evolve(worker.runtime, lookout=deadline).run(worker.poll(), polled_at)
    worker.words.stop(workflow, "the test is over")
    assert (declared.response_timeout, deadline.until - polled_at) == (3.0, pytest.approx(ours))


def test_a_second_execution_of_one_attempt_publishes_nothing(worker: Embedded) -> None:
    """P-40: a task handed out twice has two executions, and one result."""
    before = worker.head()
    workflow = worker.start("write", before, text="twice")
    first = worker.poll()
    worker.orchestrator.requeue(first.snapshot.task_id)
    second = worker.poll()
    assert first.snapshot.task_id == second.snapshot.task_id
    assert isinstance(worker.run(second).result, Completed)
    after = worker.head()
    late = worker.run(first)
    assert late.result is None
    assert worker.head() == after
    assert [each.status for each in view(worker, workflow).attempts] == [TaskStatus.COMPLETED]
