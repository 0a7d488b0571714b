"""Workspaces without a folder: of tasks that run in the worker itself, and of attempts whose input cannot be read.

Only our own tasks run in the worker, because they need its keys. Bodies of users have processes of their own.
What an own task stages is there already, in another commit of the same repository: it is linked,
and no byte is moved where the store can do that.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import define
from pydantic import ValidationError

from perago_core.answers import Answer, Done, NotDone
from perago_core.attempt.messages import BodyDone, BodyEvent, BodyFailed
from perago_core.errors import one_line
from perago_core.ports import Sink, Store, Stored
from perago_core.values import Attempt, CommitRef
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
    """The workspace of an attempt whose input cannot be read: it fails without a body, for good unless told (S-36)."""

    def __init__(self, trouble: str, *, terminal: bool = True) -> None:
        self._trouble = trouble
        self._terminal = terminal

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Fail with what is wrong with the input."""
        return Done(BodyFailed(attempt.execution, self._trouble, terminal=self._terminal), operations=0)


@define
class StoreWorkspace:
    """What an own task works on: the store, and an attempt that may publish to one branch of it.

    ``linked`` and ``deleted`` are what it stages, on top of the attempt's input; ``linked`` are files of ``origin``.
    """

    perago_workspace: ClassVar[str] = "store"

    store: Store
    attempt: Attempt
    linked: tuple[Stored, ...] = ()
    deleted: tuple[str, ...] = ()
    origin: CommitRef | None = None


class InternalTask(_NoFolder):
    """The workspace of a task that runs in the worker itself: there is no folder, and the function is just called."""

    def __init__(self, definition: TaskDefinition, params: str, store: Store) -> None:
        self._definition = definition
        self._params = params
        self._store = store
        self._staged: StoreWorkspace | None = None

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        """Call the function. What it raises fails the attempt, for good if it says so or cannot read its input."""
        signature = self._definition.signature
        workspace = StoreWorkspace(self._store, attempt)
        try:
            given = () if signature.workspace is None else (workspace,)
            params = () if signature.params is None else (signature.params.validate_json(self._params),)
            result = self._definition.function(*given, *params)
        except (TaskTerminalError, ValidationError) as error:
            return Done(BodyFailed(attempt.execution, one_line(said(error)), terminal=True), operations=0)
        except Exception as error:  # noqa: BLE001  as for any body: whatever it raises is its failure
            return Done(BodyFailed(attempt.execution, one_line(said(error))), operations=0)
        self._staged = workspace
        output = signature.result.dump_json(result).decode()
        changed = bool(workspace.linked or workspace.deleted)
        return Done(BodyDone(attempt.execution, changed=changed, output=output), operations=0)

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        """Link what the function staged."""
        if self._staged is None:
            return NotDone(f"nothing of execution {attempt.execution} is here to link")
        answer = sink.link(self._staged.linked, self._staged.deleted)
        shown = sink.list() if isinstance(answer, Done) else answer
        if not isinstance(shown, Done):
            return shown
        there = {each.path: each.address for each in shown.value or ()}
        strange = [each.path for each in self._staged.linked if there.get(each.path) != each.address]
        return self._copied(self._staged, strange, sink) if strange else Done(None)

    def _copied(self, staged: StoreWorkspace, paths: list[str], sink: Sink) -> Answer[None]:
        """Send the bytes of what the store did not link under the address it had itself told.

        Counterexample: lakeFS on a local disk tells of a linked object an address at which there is nothing. Linked
        again by that address, the promoted file answered 410.
        """
        assert staged.origin is not None
        source = self._store.read(staged.attempt.target.repository, staged.origin)
        stored: list[Stored] = []
        for path in paths:
            opened = source.get(path)
            if not isinstance(opened, Done):
                return opened
            with opened.value as data:
                put = sink.put(path, data)
            if not isinstance(put, Done):
                return put
            stored.append(put.value)
        return sink.link(tuple(stored))
