"""Tasks on Spark data sets: which tasks they are, how one is called in a warm process, one workspace for both kinds.

What a Spark body says, it says as any other body: notes, one to a line, here among the lines that it prints.

The only place that knows ``perago_spark``; nothing of it is imported for a worker that has file tasks only.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from perago_core.answers import Answer, NotDone, Unknown
from perago_core.attempt.messages import BodyEvent
from perago_core.errors import one_line
from perago_core.ports import Sink, TaskWorkspace
from perago_core.values import Attempt
from perago_worker.api.errors import UserError
from perago_worker.api.progress import listen
from perago_worker.api.registry import Registry
from perago_worker.api.task import TaskDefinition
from perago_worker.bodies.notes import NoteHandler, NoteWriter, Printed, decode
from perago_worker.bodies.stages import objection_of, run_body
from perago_worker.bodies.verdict import Succeeded
from perago_worker.config.settings import SparkSection
from perago_worker.folders.workspace import Limits, NoteListener
from perago_worker.logger import log

if TYPE_CHECKING:
    from perago_spark import BodyFailure, Returned, SparkDatasets, SparkSettings, SparkTask
    from perago_worker.stack import Stack

SPARK: Final = "spark"
#: What a warm process is told to run tasks with.
ENTRY: Final = f"{__name__}:call"


@contextmanager
def with_spark(
    files: TaskWorkspace,
    stack: Stack,
    tasks: Mapping[str, TaskDefinition],
    settings: SparkSection,
    *,
    environment: Mapping[str, str],
    root: Path,
    keep: int,
    listener: NoteListener,
) -> Generator[TaskWorkspace]:
    """Return a workspace for tasks of both kinds; that for files itself, if no task is on Spark.

    ``stack``: where inputs from outside are recorded, and what did not pass its gates. On leaving, no process of a
    Spark body runs any more.
    """
    if all(each.signature.kind != SPARK for each in tasks.values()):
        yield files
        return
    from perago_spark import Launch, SparkWorkspace, WarmBodies  # noqa: PLC0415  only who has such tasks

    own = spark_settings(settings)
    warm = WarmBodies(Launch(ENTRY, own.text(), environment, root), keep if settings.keep is None else settings.keep)

    def heard(attempt: Attempt, line: str) -> None:
        listener(attempt, decode(line.encode("utf-8")) or Printed(line))

    from perago_worker.ops.failed import keep_with  # noqa: PLC0415  a body's process imports this module, too
    from perago_worker.ops.inputs import pin_with  # noqa: PLC0415  as above

    spark = SparkWorkspace(
        stack.store,
        spark_tasks(tasks),
        warm,
        listener=heard,
        pin=pin_with(stack.coordination),
        keep=keep_with(stack, settings.keep_failed_days),
    )
    swept = spark.sweep()
    if swept:
        log.info("removed the folders of %d dead Spark process(es)", len(swept))
    try:
        yield Workspaces(files, spark, tasks)
    finally:
        warm.close()


def spark_settings(section: SparkSection) -> SparkSettings:
    """Return the settings as Spark's side wants them; a key that would have no effect is an error of the user's."""
    from perago_spark import SparkSettings, SparkUnavailableError  # noqa: PLC0415  only who has such tasks needs it

    try:
        return SparkSettings(section.master, section.conf, section.remote.get_secret_value())
    except SparkUnavailableError as error:
        raise UserError(str(error)) from None


def spark_tasks(tasks: Mapping[str, TaskDefinition]) -> dict[str, SparkTask]:
    """Return the tasks that work on Spark data sets, as a Spark workspace wants them."""
    from perago_spark import SparkTask  # noqa: PLC0415  only who has such tasks needs it

    return {
        name: SparkTask(f"{each.module}:{name}", each.workspace.prefix, each.timeout, each.read_only)
        for name, each in tasks.items()
        if each.signature.kind == SPARK and each.workspace is not None
    }


def call(body: str, datasets: SparkDatasets, params: str) -> Returned | BodyFailure:
    """Run one task in this process: parameters, pre-checks, the function, post-checks."""
    from perago_spark import BodyFailure, Returned  # noqa: PLC0415  as above
    from perago_spark.diagnosis.progress import following  # noqa: PLC0415  as above

    module, _, name = body.partition(":")
    definition = Registry.of_modules(module)[name]
    in_one_line = evolve(definition, function=_explaining(definition.function))
    with _noted() as notes, following(datasets.spark, notes.progress):
        verdict = run_body(in_one_line, datasets, params, Limits().output)
    if not isinstance(verdict, Succeeded):
        return BodyFailure(verdict.reason, verdict.terminal)
    assert definition.workspace is not None
    objection = objection_of(definition.workspace.post, datasets)
    return Returned(verdict.output) if objection is None else BodyFailure(one_line(f"post-check: {objection}"))


@contextmanager
def _noted() -> Generator[NoteWriter]:
    """Let what the body logs, and how far it says it is, be lines among those that it prints."""
    sys.stdout.flush()
    notes = NoteWriter(sys.stdout.fileno())
    handler, root = NoteHandler(notes), logging.getLogger()
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every connection to Java
    level, handlers = root.level, root.handlers[:]
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    listen(notes.progress)
    try:
        yield notes
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
        listen()


def _explaining(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a body fail with the cause, and not with a page of Java around it."""
    from perago_spark.diagnosis.failures import explained  # noqa: PLC0415  as above

    @wraps(function)
    def explains(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  whatever the body takes and gives
        try:
            return function(*args, **kwargs)
        except Exception as error:
            meant = explained(error)
            if meant is error:
                raise
            raise meant from error

    return explains


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

    def cancel_all(self, reason: str) -> None:
        """Stop every body of both kinds."""
        self._files.cancel_all(reason)
        self._spark.cancel_all(reason)


def _unknown(attempt: Attempt) -> str:
    return f"execution {attempt.execution} was never accepted here"
