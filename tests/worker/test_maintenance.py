"""Maintenance at a worker: proven by content or refused, and begun from where earlier maintenance has led."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Done, Unknown
from perago_core.ledger.records import encode, maintained_key
from perago_core.results import Classification, Completed, Failed
from perago_core.values import CommitRef, Maintained, Operation
from perago_worker import TaskDefinitionError, Workspace, task
from perago_worker.api.task import TaskDefinition
from tests.worker.embedded import Embedded, Faulty, always, embedded
from tests.worker.projects import MAIN


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path / "maintained") as made:
        yield made


def posing(worker: Embedded) -> dict[str, TaskDefinition]:
    """Give the tasks as a worker would have them whose folder task calls itself maintenance."""
    return {**worker.tasks, "write": evolve(worker.tasks["write"], operation=Operation.MAINTENANCE)}


def publish(worker: Embedded, text: str) -> CommitRef:
    worker.start("write", worker.head(), text=text)
    assert isinstance(worker.run().result, Completed)
    return worker.head()


def give_up(worker: Embedded) -> None:
    for each in worker.words.running():
        worker.words.stop(each.workflow_id, "seen enough")


def test_a_folder_task_cannot_be_declared_as_maintenance() -> None:
    """H-15: what is in its files is its content, so nothing could ever be proven of it."""

    def body(workspace: Path) -> None: ...

    with pytest.raises(TaskDefinitionError, match="a workspace that can tell content from layout"):
        task(name="posing", workspace=Workspace(), operation="maintenance")(body)

    def nowhere() -> None: ...

    with pytest.raises(TaskDefinitionError, match="Leave operation out, or change its workspace"):
        task(name="nowhere", operation="maintenance")(nowhere)


def test_a_file_task_that_rewrites_its_content_is_not_recorded_as_maintenance(worker: Embedded) -> None:
    """H-15: it was, by declaration alone, and logical tasks were then merged on top of it."""
    before = worker.head()
    worker.start("write", before, text="other content")
    result = worker.run(tasks=posing(worker)).result
    assert isinstance(result, Failed)
    assert result.refusal.classification is Classification.CONTENT_NOT_PRESERVED
    assert worker.head() == before
    assert worker.stack.coordination is not None
    assert worker.stack.coordination.list("maintained/") == Done(())
    give_up(worker)


def test_maintenance_that_lost_a_race_begins_again_from_the_winner(worker: Embedded) -> None:
    """H-12: its input is where the winner began; nothing is left to do, and that is success and not a refusal."""
    began = publish(worker, "same")
    won = publish(worker, "laid out anew")
    worker.start("write", began, text="laid out anew")
    assert isinstance(worker.run(tasks=posing(worker)).result, Failed), "nothing proves what is on top"
    give_up(worker)
    record = Maintained(began, won)
    assert worker.stack.coordination is not None
    worker.stack.coordination.create_if_absent(maintained_key(MAIN, record), encode(record))
    worker.start("write", began, text="laid out anew")
    result = worker.run(tasks=posing(worker)).result
    assert isinstance(result, Completed)
    assert result.ref == worker.head() == won


def test_maintenance_refused_over_a_logical_change_goes_on_from_the_head_when_it_is_started_again(
    worker: Embedded,
) -> None:
    """It never begins from somebody else's change by itself: its step would hand that on as its own (ADR 36)."""
    began = publish(worker, "before")
    changed = publish(worker, "a logical change")
    worker.start("write", began, text="before")
    for _ in range(2):
        refused = worker.run(tasks=posing(worker)).result
        assert isinstance(refused, Failed)
        assert refused.refusal.classification is Classification.HEAD_ADVANCED
        assert worker.head() == changed
    give_up(worker)
    worker.start("write", worker.head(), text="a logical change")
    again = worker.run(tasks=posing(worker)).result
    assert isinstance(again, Completed)
    assert again.ref == worker.head() == changed


def test_a_ledger_that_does_not_answer_lets_it_begin_as_told(worker: Embedded) -> None:
    began = publish(worker, "as told")
    deaf: Any = Faulty(worker.stack.coordination, list=always(Unknown("silence")))
    worker.start("write", began, text="as told")
    result = worker.run(tasks=posing(worker), coordination=deaf).result
    assert isinstance(result, Failed)
    assert "silence" in str(result.refusal)
    give_up(worker)
