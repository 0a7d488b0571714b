"""A worker's parts on the embedded stack, in this process: tasks are polled and run one at a time, as a test wants."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from perago_core.answers import Answer, Done
from perago_core.pipelines import Pipelines
from perago_core.ports import Assignment
from perago_core.results import Outcome
from perago_core.values import CommitRef
from perago_worker.api.registry import Registry, load_tasks
from perago_worker.config.load import load
from perago_worker.config.settings import PipelineSettings, StepSettings
from perago_worker.runtime.assembly import Assembled, assemble
from perago_worker.runtime.attempt import Runtime
from perago_worker.stack import Stack, pipelines_of
from tests.worker.projects import IMPATIENT, MAIN, Project, create, new_project

_WAIT = 60.0


@frozen
class Embedded:
    """A project with an empty branch, and a worker that does nothing by itself."""

    project: Project
    stack: Stack
    tasks: Registry
    made: Assembled
    first: CommitRef

    @property
    def words(self) -> Pipelines:
        """Give the orchestrator's words for people."""
        return pipelines_of(self.stack)

    @property
    def orchestrator(self) -> Any:  # noqa: ANN401  the embedded one, with all it can do beyond its port
        """Give the orchestrator."""
        return self.stack.orchestrator

    @property
    def runtime(self) -> Runtime:
        """Give what runs attempts."""
        return self.made.runtime

    def start(self, task: str, ref: CommitRef | None = None, **params: object) -> str:
        """Start a workflow of one task at a commit, the first one if not told."""
        pipeline = PipelineSettings(
            repository=MAIN.repository, branch=MAIN.branch, steps=(StepSettings(task=task, params=params),)
        )
        return self.words.start(task, pipeline, ref or self.first)

    def poll(self, names: tuple[str, ...] = ()) -> Assignment:
        """Take the next task, waiting for one that is due only later; any of the project's if not told."""
        until = time.monotonic() + _WAIT
        while time.monotonic() < until:
            polled: Answer[tuple[Assignment, ...]] = self.orchestrator.poll("tester", names or tuple(self.tasks), 1)
            assert isinstance(polled, Done), polled
            if polled.value:
                return polled.value[0]
            time.sleep(0.05)
        raise AssertionError("no task came")

    def run(self, assignment: Assignment | None = None, **parts: Any) -> Outcome:  # noqa: ANN401  parts of a runtime
        """Run one task to its end, with some parts of the runtime replaced."""
        taken = assignment or self.poll()
        return evolve(self.runtime, **parts).run(taken, self.stack.clock.now())

    def head(self) -> CommitRef:
        """Give the branch's head."""
        found = self.stack.store.head(MAIN)
        assert isinstance(found, Done)
        assert found.value is not None
        return found.value.commit.ref

    def names(self) -> list[str]:
        """Give the staging names that exist."""
        store: Any = self.stack.store
        return list(store.staging_names(MAIN.repository).value)


@contextmanager
def embedded(folder: Path, tasks: str = IMPATIENT, more: str = "") -> Generator[Embedded]:
    """Make one."""
    with new_project(folder, tasks, more) as project:
        settings = load(project.folder, {}, {})
        registry = load_tasks(settings, project.folder)
        stack = project.stack()
        pipelines_of(stack).register(registry.values())
        first = create(stack)
        with assemble(settings, stack, registry) as made:
            yield Embedded(project, stack, registry, made, first)


class Died(BaseException):
    """What a test raises where a worker is to be gone at once: nothing catches it on the way."""


def always(answer: object) -> Callable[..., object]:
    """Give a call that does nothing and always answers this."""

    def call(*_words: object) -> object:
        return answer

    return call


class Faulty:
    """A real port of which one call goes wrong; all others are the port's own.

    The call gets the real method and its arguments, so that it can be carried out before its answer is lost.
    """

    def __init__(self, port: object, **calls: Any) -> None:  # noqa: ANN401  any method of any port
        self._port = port
        self._calls = calls

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  as above
        real = getattr(self._port, name)
        if name not in self._calls:
            return real
        return partial(self._calls[name], real)
