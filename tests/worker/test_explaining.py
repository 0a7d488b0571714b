"""``perago explain`` on the embedded stack: who says what of an attempt, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Done, Unknown
from perago_core.plan import PublishPlan
from perago_core.results import Completed
from perago_worker.ops.explain import explain
from perago_worker.stack import Stack
from tests.worker.embedded import Died, Embedded, Faulty, always, embedded


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path / "explained") as made:
        yield made


def explained(worker: Embedded, task_id: str, stack: Stack | None = None) -> dict[str, list[str]]:
    """Everything that is said of an attempt, by who says it."""
    place = worker.words.find(task_id)
    assert place is not None
    reloaded = worker.stack.orchestrator.reload(place.workflow_id, task_id)
    assert isinstance(reloaded, Done)
    assert reloaded.value is not None
    said: dict[str, list[str]] = {}
    for finding in explain(stack or worker.stack, reloaded.value, place):
        said.setdefault(finding.source, []).append(finding.says)
    return said


def the_attempts(worker: Embedded, workflow: str) -> list[str]:
    view = worker.words.view(workflow)
    assert view is not None
    return [each.task_id for each in view.attempts]


def die(publish: Callable[[PublishPlan], object], plan: PublishPlan) -> None:
    publish(plan)
    raise Died


def test_an_attempt_that_is_under_way(worker: Embedded) -> None:
    workflow = worker.start("write")
    worker.poll()
    said = explained(worker, the_attempts(worker, workflow)[0])
    assert said["orchestrator"][0].startswith("attempt 1 is IN_PROGRESS of worker tester")
    assert said["so"] == ["it is under way: wait for it, or for the orchestrator to give it up"]


def test_an_attempt_whose_result_was_taken(worker: Embedded) -> None:
    workflow = worker.start("write")
    outcome = worker.run()
    assert isinstance(outcome.result, Completed)
    said = explained(worker, the_attempts(worker, workflow)[0])
    assert said["branch"] == [f"lake/main is at this attempt's result, {worker.head()[:12]}"]
    assert said["ledger"][0].startswith("settled as accepted by ")
    assert said["store"][0].startswith("attempt 1 claimed the right to publish tree ")
    assert said["so"] == ["it is done: its result was accepted and stays"]


def test_an_attempt_whose_task_another_one_has_completed(worker: Embedded) -> None:
    workflow = worker.start("write")
    with pytest.raises(Died):
        worker.run(store=Faulty(worker.stack.store, publish=die))
    worker.run()
    first, second = the_attempts(worker, workflow)
    said = explained(worker, first)
    assert said["so"] == ["it is over: attempt 2 was accepted, with what this one has published or without it"]
    assert len(said["store"]) == 2
    assert explained(worker, second)["so"] == ["it is done: its result was accepted and stays"]


def test_an_attempt_that_ended_with_its_workflow_says_what_to_do(worker: Embedded) -> None:
    """L-10: no dead end without a way out."""
    workflow = worker.start("write")
    with pytest.raises(Died):
        worker.run(store=Faulty(worker.stack.store, publish=die))
    worker.words.stop(workflow, "given up")
    said = explained(worker, the_attempts(worker, workflow)[0])
    assert "`perago recover` says whether it has left anything on the branch" in said["so"][0]


def test_what_cannot_be_read_is_said_and_the_rest_is_told(worker: Embedded) -> None:
    workflow = worker.start("write")
    worker.run()
    store: Any = Faulty(worker.stack.store, claims=always(Unknown("gone")), head=always(Unknown("gone")))
    coordination: Any = Faulty(worker.stack.coordination, list=always(Unknown("gone too")))
    stack = evolve(worker.stack, store=store, coordination=coordination)
    said = explained(worker, the_attempts(worker, workflow)[0], stack)
    assert said["store"] == said["branch"] == ["cannot be read: gone"]
    assert said["ledger"] == ["cannot be read: gone too"]
    assert said["so"] == ["its result was accepted; whether it is still on lake/main cannot be told without the ledger"]


def test_without_a_ledger_nothing_is_said_of_it(worker: Embedded) -> None:
    workflow = worker.start("write")
    worker.run()
    said = explained(worker, the_attempts(worker, workflow)[0], evolve(worker.stack, coordination=None))
    assert "ledger" not in said
    assert said["so"] == ["it is done: its result was accepted; no ledger says whether it is still on lake/main"]
