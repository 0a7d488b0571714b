"""Tasks on Spark data sets: which tasks they are, how one is called in a warm process, one workspace for both kinds.

The only place that knows ``perago_spark``; nothing of it is imported for a worker that has file tasks only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from perago_core.answers import Answer, NotDone, Unknown
from perago_core.attempt.events import BodyEvent
from perago_core.ports import Sink
from perago_core.values import Attempt
from perago_worker.body.stages import objection_of, run_body
from perago_worker.body.verdict import Succeeded
from perago_worker.errors import one_line
from perago_worker.registry import Registry
from perago_worker.runtime import TaskWorkspace
from perago_worker.task import TaskDefinition
from perago_worker.workspace import Limits

if TYPE_CHECKING:
    from perago_spark import Failed, Returned, SparkDatasets, SparkTask

SPARK: Final = "spark"
#: What a warm process is told to run tasks with.
ENTRY: Final = f"{__name__}:call"


def spark_tasks(tasks: Mapping[str, TaskDefinition]) -> dict[str, SparkTask]:
    """Give the tasks that work on Spark data sets, as a Spark workspace wants them."""
    from perago_spark import SparkTask  # noqa: PLC0415  only who has such tasks needs it

    return {
        name: SparkTask(f"{each.module}:{name}", each.workspace.prefix, each.timeout, each.read_only)
        for name, each in tasks.items()
        if each.signature.kind == SPARK and each.workspace is not None
    }


def call(body: str, datasets: SparkDatasets, params: str) -> Returned | Failed:
    """Run one task in this process: parameters, pre-checks, the function, post-checks."""
    from perago_spark import Failed, Returned  # noqa: PLC0415  as above

    module, _, name = body.partition(":")
    definition = Registry.of_modules(module)[name]
    verdict = run_body(definition, datasets, params, Limits().output)
    if not isinstance(verdict, Succeeded):
        return Failed(verdict.reason, verdict.terminal)
    assert definition.workspace is not None
    objection = objection_of(definition.workspace.post, datasets)
    return Returned(verdict.output) if objection is None else Failed(one_line(f"post-check: {objection}"))


class Workspaces:
    """Gives each attempt to the workspace of its task's kind: Spark tasks to one, all others to the other."""

    def __init__(self, files: TaskWorkspace, spark: TaskWorkspace, tasks: Mapping[str, TaskDefinition]) -> None:
        self._files = files
        self._spark = spark
        self._tasks = tasks
        self._chosen: dict[str, TaskWorkspace] = {}

    def accept(self, attempt: Attempt, task_name: str, params: str) -> None:
        """Choose by the task, and let the chosen one take note."""
        chosen = self._spark if self._tasks[task_name].signature.kind == SPARK else self._files
        chosen.accept(attempt, task_name, params)
        self._chosen[attempt.execution] = chosen

    def prepare(self, attempt: Attempt) -> Answer[None]:
        """Make the input available to the body."""
        chosen = self._chosen.get(attempt.execution)
        return NotDone(_unknown(attempt)) if chosen is None else chosen.prepare(attempt)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Run the body until it ends or asks for staging."""
        chosen = self._chosen.get(attempt.execution)
        return Unknown(_unknown(attempt)) if chosen is None else chosen.run(attempt)

    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:
        """Go on with a body that asked for staging."""
        chosen = self._chosen.get(attempt.execution)
        return Unknown(_unknown(attempt)) if chosen is None else chosen.resume(attempt, sink)

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        """Write what changed through the sink."""
        chosen = self._chosen.get(attempt.execution)
        return NotDone(_unknown(attempt)) if chosen is None else chosen.upload(attempt, sink)

    def remove(self, attempt: Attempt) -> Answer[None]:
        """Remove what is left; of an execution nobody here knows, only files can be (P-25)."""
        return self._chosen.pop(attempt.execution, self._files).remove(attempt)

    def cancel(self, attempt: Attempt, reason: str) -> None:
        """Stop the body at once."""
        chosen = self._chosen.get(attempt.execution)
        if chosen is not None:
            chosen.cancel(attempt, reason)


def _unknown(attempt: Attempt) -> str:
    return f"execution {attempt.execution} was never accepted here"
