"""What an assignment asks for: the task's parameters, the commit it starts from and the branch it may publish to."""

from __future__ import annotations

import json
from typing import Any

from attrs import frozen

from perago_core.answers import Answer, Done, NotDone
from perago_core.attempt.messages import BodyEvent, BodyFailed
from perago_core.contract import NO_COMMIT, NOWHERE
from perago_core.ports import Assignment, Sink
from perago_core.values import Attempt, Operation
from perago_worker.contract import WorkspaceRef, read_input, workspace_ref
from perago_worker.errors import InputError
from perago_worker.task import TaskDefinition

_NOWHERE = WorkspaceRef(NOWHERE, NO_COMMIT)


@frozen
class Place:
    """Where an attempt works. ``trouble``: its input cannot be read, and this is why."""

    workspace: WorkspaceRef
    params: str
    read_only: bool
    operation: Operation
    trouble: str | None = None
    over_maintenance: bool = False


def place_of(assignment: Assignment, definition: TaskDefinition) -> Place:
    """Read the assignment's input. A task without workspace hands the workflow's on as it is."""
    try:
        given = read_input(assignment.input, definition)
    except InputError as error:
        return Place(_NOWHERE, "{}", read_only=True, operation=definition.operation, trouble=str(error))
    found = given.workspace or _handed_on(assignment.input)
    return Place(
        found,
        given.params,
        read_only=definition.read_only,
        operation=definition.operation,
        over_maintenance=definition.over_maintenance,
    )


def patience_of(assignment: Assignment, definition: TaskDefinition) -> float:
    """Give for how many seconds of silence the attempt stays ours: what it was handed out with, never more than ours.

    It may have been handed out with less than we declare: another release has registered, and our start only warned.
    """
    given = assignment.response_timeout
    return definition.response_timeout if given is None else min(given, definition.response_timeout)


def _handed_on(text: str) -> WorkspaceRef:
    document: Any = json.loads(text)
    try:
        return workspace_ref(document)
    except InputError:
        return _NOWHERE


class UnreadableInput:
    """The workspace of an attempt whose input cannot be read: it fails terminally, without a body (S-36)."""

    def __init__(self, trouble: str) -> None:
        self._trouble = trouble

    def prepare(self, attempt: Attempt) -> Answer[None]:  # noqa: ARG002  there is nothing to prepare
        """Do nothing."""
        return Done(None, operations=0)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Say what is wrong."""
        return Done(BodyFailed(attempt.execution, self._trouble, terminal=True), operations=0)

    def resume(self, attempt: Attempt, sink: Sink) -> Answer[BodyEvent]:  # noqa: ARG002  nobody asked for staging
        """Refuse."""
        return NotDone("no body runs here")

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:  # noqa: ARG002  there is nothing to upload
        """Refuse."""
        return NotDone("no body ran here")

    def remove(self, attempt: Attempt) -> Answer[None]:  # noqa: ARG002  there is nothing to remove
        """Do nothing."""
        return Done(None, operations=0)
