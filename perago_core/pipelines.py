"""Pipelines: what people ask of an orchestrator beyond its port, and what they declare and are shown. No decisions.

``Pipelines`` is implemented beside each adapter of the orchestrator port. What is declared reaches it as protocols
(``DeclaredTask``, ``DeclaredPipeline``), so that neither the core nor an adapter knows how a project is configured.

The parameters of a step may quote what came before it:

    ``${params.day}``            a parameter of the pipeline
    ``${clean.result.rows}``     a field of the result of the step ``clean``
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Protocol

from attrs import field, frozen

from perago_core.contract import BRANCH, REPOSITORY, WORKSPACE, is_list, is_object
from perago_core.names import run_of
from perago_core.values import CommitRef, Target, TaskStatus

#: What orchestrators call a workflow that has not ended.
UNDER_WAY = frozenset({"RUNNING", "PAUSED"})
QUOTATION = re.compile(r"\$\{([^{}]*)\}")


class OrchestratorError(Exception):
    """What a person asked of an orchestrator was not done, or may not have been; the message says which, and why.

    The calls of the port never raise it: they answer.
    """


class DeclaredTask(Protocol):
    """A kind of task as a project declares it: what an orchestrator must know of it. Times are seconds."""

    @property
    def name(self) -> str:
        """Return the name it is registered under."""
        ...

    @property
    def description(self) -> str:
        """Return what it does, for people; blank: its name says it."""
        ...

    @property
    def owner_email(self) -> str:
        """Return whom to ask about it."""
        ...

    @property
    def retries(self) -> int:
        """Return how many attempts may follow the first."""
        ...

    @property
    def retry_delay(self) -> float:
        """Return how long to wait before each of them."""
        ...

    @property
    def response_timeout(self) -> float:
        """Return after how much silence an attempt is given up."""
        ...

    @property
    def input_schema(self) -> dict[str, Any]:
        """Describe the input it wants, as a JSON Schema."""
        ...

    @property
    def output_schema(self) -> dict[str, Any]:
        """Describe the output it shows, as a JSON Schema."""
        ...


class Place(Enum):
    """Which commit of which branch a step is given.

    ``BEFORE``: what the step before it left. ``RUN``: the branch of the run, at the commit the run was started at.
    ``START``: the branch and the commit the run was started at, whatever came since.
    """

    BEFORE = "before"
    RUN = "run"
    START = "start"


class DeclaredStep(Protocol):
    """One step of a pipeline, as a project declares it."""

    @property
    def label(self) -> str:
        """Return the name it is quoted by."""
        ...

    @property
    def task(self) -> str:
        """Return the name of the task it runs."""
        ...

    @property
    def params(self) -> Mapping[str, Any]:
        """Return what it is given; texts may quote what came before."""
        ...


class DeclaredPipeline(Protocol):
    """Steps over one branch, as a project declares them."""

    @property
    def repository(self) -> str:
        """Return the repository of the branch."""
        ...

    @property
    def branch(self) -> str:
        """Return the branch its steps publish to."""
        ...

    @property
    def recovery(self) -> bool:
        """Return whether what a failed run left open is settled by a task of its own."""
        ...

    @property
    def isolated(self) -> bool:
        """Return whether nothing of a run is visible on the branch until all of it is."""
        ...

    @property
    def stages(self) -> tuple[tuple[DeclaredStep, ...], ...]:
        """Return the steps in order, and those that run side by side together."""
        ...


@frozen
class Step:
    """One step as an orchestrator runs it: what is declared of it, and where it works."""

    label: str
    task: str
    params: Mapping[str, Any]
    place: Place = Place.BEFORE


def recovery_task_name(pipeline: str) -> str:
    """Name the recovery task of a pipeline. Each has its own: workers of other projects have other ledgers."""
    return f"{pipeline}-recover"


def opening_task_name(pipeline: str) -> str:
    """Name the task that makes the branch of a run; each pipeline has its own, for the same reason."""
    return f"{pipeline}-open-run"


def promotion_task_name(pipeline: str) -> str:
    """Name the task that makes a run visible on its target."""
    return f"{pipeline}-promote"


#: What the two steps around an isolated run are called; steps that people declare there are called otherwise.
OPENING, PROMOTION = "open-run", "promote"


def stages_of(name: str, pipeline: DeclaredPipeline) -> tuple[tuple[Step, ...], ...]:
    """Return the steps that a run of a pipeline has, and those that run side by side together.

    Those of an isolated run work on a branch that its first step makes, and its last step publishes what they left to
    the branch of the pipeline, from the commit at which the run was started.
    """
    declared = tuple(tuple(Step(each.label, each.task, each.params) for each in stage) for stage in pipeline.stages)
    if not pipeline.isolated:
        return declared
    left = {"run": f"${{{declared[-1][-1].label}.{WORKSPACE}}}"}
    opening = Step(OPENING, opening_task_name(name), {}, Place.RUN)
    return ((opening,), *declared, (Step(PROMOTION, promotion_task_name(name), left, Place.START),))


def steps_of(name: str, pipeline: DeclaredPipeline) -> tuple[Step, ...]:
    """Return every step that a run of a pipeline has, one after the other."""
    return tuple(step for stage in stages_of(name, pipeline) for step in stage)


def quoted(params: object) -> Iterator[str]:
    """Return what a step's parameters quote, such as ``params.day`` or ``clean.result.rows``."""
    if is_object(params):
        params = list(params.values())
    if is_list(params):
        for each in params:
            yield from quoted(each)
    elif isinstance(params, str):
        yield from (match[1] for match in QUOTATION.finditer(params))


@frozen
class AttemptView:
    """One attempt of one step."""

    task_id: str
    step: str
    number: int
    status: TaskStatus
    worker_id: str = ""
    reason: str = ""
    ref: str | None = None
    started_at: int = 0
    ended_at: int = 0


@frozen
class PipelineView:
    """A running or finished pipeline. ``output`` is what each finished step gave, by step name."""

    workflow_id: str
    name: str
    status: str
    reason: str = ""
    attempts: tuple[AttemptView, ...] = ()
    output: Mapping[str, Any] = field(factory=dict[str, Any])
    started_at: int = 0
    ended_at: int = 0
    target: Target | None = None
    ref: CommitRef | None = None

    @property
    def running(self) -> bool:
        """Return whether it is still under way; a paused one is."""
        return self.status in UNDER_WAY

    @property
    def succeeded(self) -> bool:
        """Return whether every step was accepted."""
        return self.status == "COMPLETED"

    @property
    def reached(self) -> CommitRef | None:
        """Return the commit its next step starts from: what the last accepted one left, or what it was started at."""
        left = [CommitRef(each.ref) for each in self.attempts if each.status is TaskStatus.COMPLETED and each.ref]
        return left[-1] if left else self.ref

    @property
    def branch_of_its_own(self) -> Target | None:
        """Return the branch that its steps publish to instead of the target; ``None``: it has none, or not yet."""
        for each in self.output.values():
            found = each.get(WORKSPACE)
            if is_object(found) and run_of(str(found.get(BRANCH))) == self.workflow_id:
                return Target(found[REPOSITORY], found[BRANCH])
        return None


@frozen
class RunLine:
    """A run in a list. ``steps`` is 0 where the orchestrator does not say how many it has."""

    workflow_id: str
    name: str
    status: str
    started_at: int
    ended_at: int
    done: int
    steps: int = 0

    @property
    def running(self) -> bool:
        """Return whether it is still under way."""
        return self.status in UNDER_WAY


@frozen
class TaskName:
    """An attempt by its id, and where it belongs."""

    task_id: str
    workflow_id: str
    step: str


@frozen
class Delivery:
    """A task as it was handed out last: which attempt of what it is, and whether that one is open."""

    logical_task: str
    number: int
    is_open: bool


@frozen
class TaskPlace:
    """Where an attempt belongs. ``accepted`` is the number of the attempt of its task whose result was taken.

    ``params``: what it was given. ``ref``: the commit it was given; ``None``: it has no workspace.
    """

    workflow_id: str
    logical_task: str
    target: Target
    accepted: int | None = None
    params: Mapping[str, Any] = field(factory=dict[str, Any])
    ref: CommitRef | None = None


class TaskDefinitions(Protocol):
    """The part of ``Pipelines`` that is about task definitions."""

    @property
    def shared(self) -> bool:
        """Return whether others define tasks and pipelines there too, so that what is registered may not be ours."""
        ...

    def register(self, tasks: Iterable[DeclaredTask]) -> None:
        """Make the tasks known."""
        ...

    def described(self, task: DeclaredTask) -> Mapping[str, Any]:
        """Describe a task in the fields the orchestrator keeps."""
        ...

    def registered(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is registered, by name, in the same fields."""
        ...


class Pipelines(TaskDefinitions, Protocol):
    """What a person does with an orchestrator: define, start, watch, stop. Raises ``OrchestratorError``."""

    def define(self, name: str, pipeline: DeclaredPipeline) -> None:
        """Make a pipeline known, if the orchestrator keeps such definitions."""
        ...

    def unlike(self, name: str, pipeline: DeclaredPipeline) -> tuple[str, ...] | None:
        """Name the fields in which a pipeline is defined otherwise than declared; ``None``: it is not defined."""
        ...

    def start(
        self, name: str, pipeline: DeclaredPipeline, ref: CommitRef | None, params: Mapping[str, Any] | None = None
    ) -> str:
        """Start a pipeline at a commit (``None``: it has no workspace) and give the workflow's id."""
        ...

    def rivals(self, target: Target, names: Iterable[str]) -> tuple[str, ...]:
        """Return the workflows that may write to this target now; ``names``: pipelines that are known to."""
        ...

    def unattended(self, view: PipelineView) -> tuple[str, ...]:
        """Name the tasks it waits for that no worker has asked for lately."""
        ...

    def view(self, workflow_id: str) -> PipelineView | None:
        """Return a workflow as it is now; ``None``: there is none of this id."""
        ...

    def running(self) -> tuple[PipelineView, ...]:
        """Return every workflow that runs."""
        ...

    def everything(self) -> tuple[PipelineView, ...]:
        """Return the workflows that run or have ended, as far back as the orchestrator shows them."""
        ...

    def newest(self, limit: int, skip: int = 0, *, name: str = "", states: Collection[str] = ()) -> tuple[RunLine, ...]:
        """List so many runs, newest first, after the first ``skip``; only those of a name or in these states if given.

        Costs what it shows: who looks at one page of ten thousand runs reads one page.
        """
        ...

    def tasks_like(self, beginning: str) -> tuple[TaskName, ...]:
        """Name the attempts whose id begins like this; an orchestrator that cannot search looks at the newest runs."""
        ...

    def find(self, task_id: str) -> TaskPlace | None:
        """Return where an attempt belongs; ``None``: there is none of this id."""
        ...

    def delivery(self, task_id: str) -> Delivery | None:
        """Return whose task this is and whether it is open; ``None``: there is none of this id."""
        ...

    def settled(self, logical_tasks: Collection[str], older_than: float, *, unknown: bool = False) -> frozenset[str]:
        """Return those of these tasks whose workflow has ended so long ago; with ``unknown`` those of none here too."""
        ...

    def log(self, task_id: str) -> tuple[str, ...]:
        """Return what was written about an attempt."""
        ...

    def stop(self, workflow_id: str, reason: str) -> None:
        """End a workflow; attempts that run are refused from now on."""
        ...

    def retry(self, workflow_id: str) -> None:
        """Let one that has ended go on from the step at which it stopped; what was accepted before stays."""
        ...

    def remove(self, workflow_id: str) -> None:
        """Forget one that has ended, with all its tasks and their logs."""
        ...

    def work_only_on(self, workflow_id: str) -> bool:
        """Let polls through this orchestrator bring tasks of this workflow only; ``False``: it has no such thing."""
        ...
