"""Workspaces without a folder: of tasks that run in the worker itself, and of attempts whose input cannot be read.

Only our own tasks run in the worker, because they need its keys. Bodies of users have processes of their own.
"""

from __future__ import annotations

from pydantic import ValidationError

from perago_core.answers import Answer, Done, NotDone
from perago_core.attempt.messages import BodyDone, BodyEvent, BodyFailed
from perago_core.errors import one_line
from perago_core.ports import Sink
from perago_core.values import Attempt
from perago_worker.api.errors import TaskTerminalError, said
from perago_worker.api.task import TaskDefinition


class _NoFolder:
    """Nothing to prepare, to upload or to remove."""

    def prepare(self, attempt: Attempt) -> Answer[None]:  # noqa: ARG002  there is nothing to prepare
        """Do nothing."""
        return Done(None, operations=0)

    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:  # noqa: ARG002  nobody asked for staging
        """Refuse: no body waits for a staging branch."""
        return NotDone("no body runs here")

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:  # noqa: ARG002  there is nothing to upload
        """Refuse: nothing was changed."""
        return NotDone("no body ran here")

    def remove(self, attempt: Attempt) -> Answer[None]:  # noqa: ARG002  there is nothing to remove
        """Do nothing."""
        return Done(None, operations=0)


class UnreadableInput(_NoFolder):
    """The workspace of an attempt whose input cannot be read: it fails terminally, without a body (S-36)."""

    def __init__(self, trouble: str) -> None:
        self._trouble = trouble

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Fail with what is wrong with the input."""
        return Done(BodyFailed(attempt.execution, self._trouble, terminal=True), operations=0)


class InternalTask(_NoFolder):
    """The workspace of a task that runs in the worker itself: there is no folder, and the function is just called."""

    def __init__(self, definition: TaskDefinition, params: str) -> None:
        self._definition = definition
        self._params = params

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Call the function. What it raises fails the attempt, for good if it says so or cannot read its input."""
        signature = self._definition.signature
        assert signature.params is not None
        try:
            result = self._definition.function(signature.params.validate_json(self._params))
        except (TaskTerminalError, ValidationError) as error:
            return Done(BodyFailed(attempt.execution, one_line(said(error)), terminal=True), operations=0)
        except Exception as error:  # noqa: BLE001  as for any body: whatever it raises is its failure
            return Done(BodyFailed(attempt.execution, one_line(said(error))), operations=0)
        output = signature.result.dump_json(result).decode()
        return Done(BodyDone(attempt.execution, changed=False, output=output), operations=0)
