"""Pipelines as people see them: define, start, watch one, say how it ended. The same words for every orchestrator.

What an orchestrator offers beyond its port differs; each has a module beside this one that speaks these words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from perago_core.answers import Done
from perago_core.budget import PublishBudget
from perago_core.ports import Orchestrator
from perago_core.revocation import pin
from perago_core.values import CommitRef, Target, TaskStatus
from perago_worker.stack import Stack, StackError

if TYPE_CHECKING:
    # Only names of types: looking at what runs needs neither the tasks nor the settings models.
    from perago_worker.api.task import TaskDefinition
    from perago_worker.config.settings import PipelineSettings


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

    @property
    def running(self) -> bool:
        """Return whether it is still under way; a paused one is."""
        return self.status in {"RUNNING", "PAUSED"}

    @property
    def succeeded(self) -> bool:
        """Return whether every step was accepted."""
        return self.status == "COMPLETED"


@frozen
class Delivery:
    """A task as it was handed out last: which attempt of what it is, and whether that one is open."""

    logical_task: str
    number: int
    is_open: bool


@frozen
class TaskPlace:
    """Where an attempt belongs. ``accepted`` is the number of the attempt of its task whose result was taken."""

    workflow_id: str
    logical_task: str
    target: Target
    accepted: int | None = None


class Pipelines(Protocol):
    """What a person does with an orchestrator."""

    @property
    def shared(self) -> bool:
        """Return whether others define tasks and pipelines there too, so that what is registered may not be ours."""
        ...

    def register(self, tasks: Iterable[TaskDefinition]) -> None:
        """Make the tasks known."""
        ...

    def described(self, task: TaskDefinition) -> Mapping[str, Any]:
        """Describe a task in the fields the orchestrator keeps."""
        ...

    def registered(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is registered, by name, in the same fields."""
        ...

    def define(self, name: str, pipeline: PipelineSettings) -> None:
        """Make a pipeline known, if the orchestrator keeps such definitions."""
        ...

    def unlike(self, name: str, pipeline: PipelineSettings) -> tuple[str, ...] | None:
        """Name the fields in which a pipeline is defined otherwise than declared; ``None``: it is not defined."""
        ...

    def start(
        self, name: str, pipeline: PipelineSettings, ref: CommitRef | None, params: Mapping[str, Any] | None = None
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
        """Look at one."""
        ...

    def running(self) -> tuple[PipelineView, ...]:
        """Look at all that run."""
        ...

    def everything(self) -> tuple[PipelineView, ...]:
        """Look at all that run or have ended."""
        ...

    def find(self, task_id: str) -> TaskPlace | None:
        """Say where an attempt belongs."""
        ...

    def delivery(self, task_id: str) -> Delivery | None:
        """Say whose task this is and whether it is open; ``None``: there is none of this id here."""
        ...

    def settled(self, logical_tasks: Collection[str], older_than: float, *, unknown: bool = False) -> frozenset[str]:
        """Return those of these tasks whose workflow has ended so long ago; with ``unknown`` those of none here too."""
        ...

    def log(self, task_id: str) -> tuple[str, ...]:
        """Return what was written about an attempt."""
        ...

    def stop(self, workflow_id: str, reason: str) -> None:
        """End one; attempts that run are refused from now on."""
        ...


#: The module that implements ``Pipelines`` for the orchestrator of a package; imported when it is used.
_IMPLEMENTATIONS: Mapping[str, str] = {
    "perago_local": "perago_worker.pipelines.embedded",
    "perago_conductor": "perago_worker.pipelines.conductor",
}


def pipelines_of(stack: Stack, budget: PublishBudget | None = None) -> Pipelines:
    """Return the pipelines of this stack's orchestrator; what is registered there is made to fit the publish budget."""
    return pipelines_on(stack.orchestrator, budget)


def pipelines_on(orchestrator: Orchestrator, budget: PublishBudget | None = None) -> Pipelines:
    """Import the implementation for this kind of orchestrator, and make it."""
    kind = type(orchestrator)
    implementation = _IMPLEMENTATIONS.get(kind.__module__.partition(".")[0])
    if implementation is None:
        raise StackError(f"pipelines cannot be started on {kind.__name__}; there are: {', '.join(_IMPLEMENTATIONS)}")
    module: Any = import_module(implementation)
    made: Pipelines = module.pipelines_on(orchestrator, budget or PublishBudget())
    return made


def head_of(stack: Stack, target: Target) -> CommitRef:
    """Return the commit a pipeline starts from: the head of its target, once nothing of the past can move it."""
    from perago_core.driver import run  # noqa: PLC0415  compiles four machines, which a look at workflows does not need

    found = run(pin(target), stack.ports())
    if isinstance(found, Done) and found.value is not None:
        return found.value.commit.ref
    if isinstance(found, Done):
        raise StackError(f"{target} cannot be read: there is no such branch. Create it in the store, then try again")
    raise StackError(
        f"expected to see the head of {target} after everybody who has ended: {found.reason}. Nothing was started: try "
        "again once it answers"
    )
