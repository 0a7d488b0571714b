"""What an assignment asks for: the task's parameters, the commit it starts from and the branch it may publish to.

The input is the document of ``perago_core.contract``. Unknown keys beside ``params`` and ``workspace`` are ignored,
because real workflows pass more along; ``ref_type`` is read as ``refType``, so that both generations of callers can
move over. What is inside ``params`` is for the task's own model, which is the author's code and therefore runs in the
body's process, not here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

from perago_core.contract import (
    BRANCH,
    COMMIT,
    NO_COMMIT,
    NOWHERE,
    PARAMS,
    REF,
    REF_TYPE,
    REPOSITORY,
    WORKSPACE,
)
from perago_core.ports import Assignment
from perago_core.values import CommitRef, OnAbandoned, OnConflict, Operation, Scope, Target
from perago_worker.api.errors import InputError
from perago_worker.api.task import TaskDefinition
from perago_worker.runtime.internal_tasks import StoreWorkspace

#: How callers of an earlier generation spell ``refType``.
_OLD_REF_TYPE = "ref_type"
_FIX = "Correct the workflow's input mapping and start it again."
#: No store has longer names; what is longer would fill every refusal that names it.
_LONGEST = 1024


@frozen
class WorkspaceRef:
    """A commit of a branch: what a task starts from, or what it has made."""

    target: Target
    ref: CommitRef


_NOWHERE = WorkspaceRef(NOWHERE, NO_COMMIT)


@frozen
class TaskInput:
    """A task's input: its parameters, still as JSON, and the commit it starts from if it has a workspace."""

    params: str
    workspace: WorkspaceRef | None


def read_input(text: str, definition: TaskDefinition) -> TaskInput:
    """Read a task's input, or raise ``InputError`` with what to change."""
    document = _object("a JSON object as input", _parse(text))
    workspace = None
    if definition.workspace is not None:
        workspace = workspace_ref(document)
    if definition.signature.params is None:
        return TaskInput("{}", workspace)
    if PARAMS not in document:
        raise InputError(f'a key "{PARAMS}"', f"the keys {_names(document)}", f"Put the parameters under it. {_FIX}")
    params = _object(f'an object under "{PARAMS}"', document[PARAMS])
    return TaskInput(json.dumps(params, ensure_ascii=False), workspace)


def _parse(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        # Says where it stops being JSON and quotes nothing of it: an input may hold a password.
        raise InputError("JSON", str(error) or type(error).__name__, _FIX) from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name}, which is not JSON")


def workspace_ref(document: Mapping[str, object]) -> WorkspaceRef:
    """Read where a document says to work, or raise ``InputError``."""
    if WORKSPACE not in document:
        raise InputError(
            f'a key "{WORKSPACE}"', f"the keys {_names(document)}", f"Pass the previous step's workspace. {_FIX}"
        )
    found = _object(f'an object under "{WORKSPACE}"', document[WORKSPACE])
    kind = found.get(REF_TYPE, found.get(_OLD_REF_TYPE, COMMIT))
    if kind != COMMIT:
        raise InputError(f'{WORKSPACE}.{REF_TYPE} "{COMMIT}"', repr(kind), f"Pass a commit id: a branch moves. {_FIX}")
    target = Target(_text(found, REPOSITORY), _text(found, BRANCH))
    return WorkspaceRef(target, CommitRef(_text(found, REF)))


def _text(found: Mapping[str, object], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str):
        raise InputError(f"text in {WORKSPACE}.{key}", _kind(value) if key in found else "no such key", _FIX)
    if len(value) > _LONGEST:
        raise InputError(f"at most {_LONGEST} characters in {WORKSPACE}.{key}", str(len(value)), _FIX)
    if not value.strip() or "\0" in value or value != value.strip():
        raise InputError(f"text in {WORKSPACE}.{key}", repr(value), _FIX)
    return value


def _object(expected: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InputError(expected, _kind(value), _FIX)
    return cast("Mapping[str, object]", value)


def _kind(value: object) -> str:
    names: dict[type, str] = {
        list: "an array",
        dict: "an object",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "null")


def _names(document: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in list(document)[:8]) or "of an empty object"


@frozen
class AttemptInput:
    """Where an attempt works. ``trouble``: its input cannot be read, and this is why.

    ``movable``: it may begin at a newer commit than it was told. Not so a promotion: its work is the difference between
    its input and what its run has left, and from a newer one it would remove what others have published since.
    """

    workspace: WorkspaceRef
    params: str
    read_only: bool
    operation: Operation
    trouble: str | None = None
    over_maintenance: bool = False
    on_abandoned: OnAbandoned = OnAbandoned.ADOPT
    scope: Scope | None = None
    on_conflict: OnConflict = OnConflict.RERUN
    movable: bool = True


def attempt_input(assignment: Assignment, definition: TaskDefinition) -> AttemptInput:
    """Read the assignment's input. A task without workspace hands the workflow's on as it is."""
    try:
        given = read_input(assignment.input, definition)
    except InputError as error:
        return AttemptInput(_NOWHERE, "{}", read_only=True, operation=definition.operation, trouble=str(error))
    found = given.workspace or _handed_on(assignment.input)
    return AttemptInput(
        found,
        given.params,
        read_only=definition.read_only,
        operation=definition.operation,
        over_maintenance=definition.over_maintenance,
        on_abandoned=definition.on_abandoned,
        scope=definition.scope,
        on_conflict=definition.on_conflict,
        movable=definition.signature.kind != StoreWorkspace.perago_workspace,
    )


def patience_of(assignment: Assignment, definition: TaskDefinition) -> float:
    """Return for how many seconds of silence the attempt stays ours: what it was handed out with, never more than ours.

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
