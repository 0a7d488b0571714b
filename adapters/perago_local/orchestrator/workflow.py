"""What a workflow is made of, as values: tasks and how they are retried, steps, and what a step is given.

A workflow is a line of steps. Each reads the workspace at the commit the one before it left, so the ref of a step's
result is the ref of the next step's input, unless its ``place`` says otherwise. The parameters of a step may quote what
came before it (``perago_core.pipelines``). A text that is one such quotation becomes the quoted value itself, whatever
its type; inside a longer text it becomes text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeAlias

from attrs import field, frozen

from perago_core.contract import NOWHERE, PARAMS, WORKSPACE, is_list, is_object, workspace_document
from perago_core.names import run_branch
from perago_core.pipelines import QUOTATION, Place
from perago_core.value import Value, a, count, many, maybe, seconds, text
from perago_core.values import CommitRef, Target

Json: TypeAlias = Any


class Backoff(Enum):
    """How the delay before a retry grows."""

    FIXED = "FIXED"
    EXPONENTIAL = "EXPONENTIAL"


class WorkflowStatus(Enum):
    """What became of a workflow."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    TERMINATED = "TERMINATED"


@frozen(repr=False)
class TaskDefinition(Value):
    """A kind of task, and what happens when an attempt fails or falls silent.

    ``response_timeout`` counts from the last sign of life, ``total_timeout`` from the moment the task was first
    scheduled, all its attempts together; infinite means no limit. ``retry_count`` is how many attempts may follow the
    first.
    """

    name: str = field(validator=text)
    retry_count: int = field(default=3, validator=count)
    retry_delay: float = field(default=1.0, validator=seconds)
    retry_backoff: Backoff = field(default=Backoff.FIXED, validator=a(Backoff))
    retry_delay_max: float = field(default=3600.0, validator=seconds)
    response_timeout: float = field(default=60.0, validator=seconds)
    total_timeout: float = field(default=float("inf"), validator=seconds)

    def __attrs_post_init__(self) -> None:
        if not 0 < self.response_timeout < float("inf"):
            message = f"TaskDefinition.response_timeout must be more than 0 and must end, not {self.response_timeout!r}"
            raise ValueError(message)

    def delay_before(self, retry: int) -> float:
        """Return the seconds to wait before the retry of this number, counted from 1."""
        if self.retry_backoff is Backoff.FIXED:
            return min(self.retry_delay, self.retry_delay_max)
        # The exponent is bounded, because two to the power of some thousand is no float; the maximum wins long before.
        return min(self.retry_delay * 2.0 ** min(retry - 1, 64), self.retry_delay_max)


def _json_text(params: str | Mapping[str, Json] | None) -> str | None:
    return params if params is None or isinstance(params, str) else json.dumps(params)


@frozen(repr=False)
class WorkflowStep(Value):
    """One step: its name in the workflow, the task it runs, and its parameters; ``None``: the workflow's.

    Parameters are given as a mapping or as the text of a JSON object, and kept as text. ``place``: where it works.
    """

    name: str = field(validator=text)
    task: str = field(validator=text)
    params: str | None = field(default=None, converter=_json_text, validator=maybe(text))
    place: Place = field(default=Place.BEFORE, validator=a(Place))

    def __attrs_post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.name):
            message = "WorkflowStep.name must be letters, digits, '_' and '-', because it is quoted by name, "
            message += f"not {self.name!r}"
            raise ValueError(message)
        if self.name == "params":
            message = "WorkflowStep.name must not be 'params': ${params.x} quotes the parameters of the workflow"
            raise ValueError(message)
        if self.params is not None:
            json_object(self.params, f"parameters of step {self.name}")


@frozen(repr=False)
class WorkflowDefinition(Value):
    """A workflow before it starts: a line of steps over one target, beginning at a commit of it.

    Without a target its tasks have no workspace.
    """

    name: str = field(validator=text)
    steps: tuple[WorkflowStep, ...] = field(validator=many(a(WorkflowStep)))
    params: str = field(default="{}", validator=text)
    target: Target | None = field(default=None, validator=maybe(a(Target)))
    ref: CommitRef | None = field(default=None, validator=maybe(text))

    def __attrs_post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if not names or len(set(names)) != len(names):
            message = f"a workflow needs at least one step, and each a name of its own; found {names}"
            raise ValueError(message)
        if (self.target is None) is not (self.ref is None):
            message = f"a workflow has both a target and a ref to begin at, or neither; found {self.target}, {self.ref}"
            raise ValueError(message)
        json_object(self.params, f"parameters of workflow {self.name}")


def json_object(source: str, what: str) -> Mapping[str, Json]:
    """Read a JSON object, or raise ``ValueError`` that says what was expected to be one."""
    try:
        found: Json = json.loads(source)
    except ValueError as problem:
        message = f"expected the {what} to be a JSON object, found text that is not JSON: {problem}"
        raise ValueError(message) from problem
    if not is_object(found):
        message = f"expected the {what} to be a JSON object, found {type(found).__name__}"
        raise ValueError(message)
    return found


def workspace_in(given: str) -> tuple[Target, CommitRef | None]:
    """Read from a task's input on which branch it works, and from which commit; nowhere if it has no workspace."""
    found: Json = json.loads(given).get(WORKSPACE)
    return (NOWHERE, None) if found is None else (Target(found["repository"], found["branch"]), CommitRef(found["ref"]))


def workspace_of(
    definition: WorkflowDefinition, workflow_id: str, step: WorkflowStep, left: tuple[Target, CommitRef] | None
) -> Json:
    """Name the commit a step works on; ``left``: what the step before it left. ``None``: it has no workspace."""
    if definition.target is None:
        return None
    start = (definition.target, definition.ref)
    match step.place:
        case Place.BEFORE:
            return workspace_document(*(left or start))
        case Place.START:
            return workspace_document(*start)
        case Place.RUN:
            branch = Target(definition.target.repository, run_branch(workflow_id))
            return workspace_document(branch, definition.ref)


def input_of(definition: WorkflowDefinition, step: WorkflowStep, outputs: Mapping[str, Json], workspace: Json) -> str:
    """Write what a step is given, from what the steps before it gave; ``ValueError`` if it quotes what is not there.

    ``workspace``: the commit it works on; ``None``: it has none.
    """
    params: Json = json_object(definition.params, "workflow parameters")
    if step.params is not None:
        scope = {**outputs, "params": params}
        params = _filled(json_object(step.params, "step parameters"), scope, step.name)
    given: dict[str, Json] = {PARAMS: params}
    if workspace is not None:
        given[WORKSPACE] = workspace
    return json.dumps(given)


def _filled(template: Json, scope: Mapping[str, Json], step: str) -> Json:
    if is_object(template):
        return {key: _filled(value, scope, step) for key, value in template.items()}
    if is_list(template):
        return [_filled(value, scope, step) for value in template]
    if not isinstance(template, str):
        return template
    whole = QUOTATION.fullmatch(template)
    if whole is not None:
        return _quoted(whole[1], scope, step)
    return QUOTATION.sub(lambda match: _as_text(_quoted(match[1], scope, step)), template)


def _quoted(path: str, scope: Mapping[str, Json], step: str) -> Json:
    found: Json = scope
    for part in path.split("."):
        if not is_object(found) or part not in found:
            # Never the value itself: a parameter may be a password, and a reason is shown to everybody.
            there = ", ".join(sorted(found)) if is_object(found) else f"a value of type {type(found).__name__}"
            message = f"step {step} quotes ${{{path}}}, and there is no {part!r} in it; found: {there or 'nothing'}"
            raise ValueError(message)
        found = found[part]
    return found


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)
