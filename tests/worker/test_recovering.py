"""The recovery task of a pipeline: it runs in the worker, settles what is over, and calls a person for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import BaseModel

from perago_core.answers import Done
from perago_core.attempt.messages import BodyDone, BodyEvent, BodyFailed
from perago_core.values import Attempt, Backing, CommitRef, Target
from perago_local.git.store import GitStore
from perago_worker.api.errors import TaskTerminalError
from perago_worker.api.task import TaskDefinition, definition_of, task
from perago_worker.config.load import load
from perago_worker.pipelines.recovery_task import own_tasks, recovery_of
from perago_worker.runtime.internal_tasks import InternalTask
from perago_worker.stack import Stack
from tests.worker.projects import MAIN, Project, create, new_project

ATTEMPT = Attempt("w", "t", 0, "w/t", 1, "run-1", Target("-", "-"), CommitRef("-"), Backing.SOFT, read_only=True)


class Wanted(BaseModel):
    ends: str


def _own() -> TaskDefinition:
    @task(name="own")
    def own(params: Wanted) -> str:
        match params.ends:
            case "well":
                return "fine"
            case "for good":
                raise TaskTerminalError("ask a person")
            case _:
                raise OSError("the ledger is away")

    found = definition_of(own)
    assert found is not None
    return found


def _run(definition: TaskDefinition, params: str) -> BodyEvent:
    answer = InternalTask(definition, params, GitStore(Path("unused"))).run(ATTEMPT)
    assert isinstance(answer, Done)
    return answer.value


@pytest.mark.parametrize(
    ("params", "event"),
    [
        ('{"ends": "well"}', BodyDone("run-1", changed=False, output='"fine"')),
        ('{"ends": "for good"}', BodyFailed("run-1", "TaskTerminalError: ask a person", terminal=True)),
        ('{"ends": "badly"}', BodyFailed("run-1", "OSError: the ledger is away")),
    ],
)
def test_a_task_of_our_own_ends_as_any_body_does(params: str, event: BodyEvent) -> None:
    assert _run(_own(), params) == event


def test_an_input_of_our_own_task_that_cannot_be_read_fails_for_good() -> None:
    event = _run(_own(), '{"other": 1}')
    assert isinstance(event, BodyFailed)
    assert event.terminal


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path) as made:
        yield made


@pytest.fixture
def stack(project: Project) -> Iterator[Stack]:
    with closing(project.stack()) as opened:
        create(opened)
        yield opened


def test_recovery_says_what_it_settled(stack: Stack) -> None:
    event = _run(recovery_of("p-recover", MAIN, stack), '{"workflow": "w-1", "reason": "it failed"}')
    assert event == BodyDone("run-1", changed=False, output='{"target":"lake/main","settled":{}}')


def test_an_orchestrator_that_starts_no_recovery_gets_no_tasks_for_it(project: Project, stack: Stack) -> None:
    assert own_tasks(load(project.folder, {}, {}), stack) == {}
