"""The two tasks around an isolated run: one makes the branch its steps publish to, one makes the run visible, whole.

Both are attempts like any other, and run in the worker, as the recovery task does. The promotion's input is the commit
of the target that the run was started at, and its work is the difference between that and what the last step left. So
it is published as everything is: fenced, once, adopted by the next attempt if its worker dies before it reports.

A run whose tasks all declare what they read and write declares the union of it, and is published onto disjoint work of
others too. A conflict ends it: its work is a difference from its input, so it cannot begin elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve
from pydantic import BaseModel

from perago_core.answers import Answer, Done
from perago_core.names import run_branch
from perago_core.pipelines import opening_task_name, promotion_task_name
from perago_core.ports import ManagedStore, RunBranches, Store, Stored
from perago_core.values import Attempt, CommitRef, OnConflict, Scope, Target
from perago_worker.api.errors import TaskTerminalError
from perago_worker.api.task import TaskDefinition, Workspace, definition_of, task
from perago_worker.config.settings import PipelineSettings, Settings
from perago_worker.runtime.internal_tasks import StoreWorkspace
from perago_worker.stack import Stack, StackError

#: More commits than a run has steps, between the head of its branch and where the branch began.
_FAR = 1000


class StoreError(Exception):
    """The store did not answer, or refused; trying again may help."""


class Opened(BaseModel):
    """The branch of a run."""

    branch: str


class LeftBehind(BaseModel):
    """What the last step of a run left."""

    repository: str
    branch: str
    ref: str


class Run(BaseModel):
    """The run to promote."""

    run: LeftBehind


class Promoted(BaseModel):
    """What became visible: from which branch and commit, and how many files it changed."""

    branch: str
    ref: str
    changed: int
    removed: int


def run_tasks(settings: Settings, stack: Stack, tasks: Mapping[str, TaskDefinition]) -> dict[str, TaskDefinition]:
    """Return the tasks that workers of this project have for its isolated pipelines: two for each."""
    made: dict[str, TaskDefinition] = {}
    # They do nothing that takes long, so a dead worker's is given up as soon as the budget allows.
    patience = settings.budget.budget().total
    for name, each in settings.pipelines.items():
        if each.isolated:
            made[opening_task_name(name)] = opening_of(opening_task_name(name), stack.store, patience)
            promotion = promotion_of(promotion_task_name(name), patience)
            made[promotion_task_name(name)] = _with_scope(promotion, scope_of_run(each, tasks))
    return made


def scope_of_run(pipeline: PipelineSettings, tasks: Mapping[str, TaskDefinition]) -> Scope | None:
    """Return what the tasks of a run read and write together; ``None`` if one of them does not say.

    An audit counts: one that declares nothing has looked at the whole branch, and what was published beside the run
    since then it has not seen.
    """
    scopes: list[Scope] = []
    for each in pipeline.all_steps:
        definition = tasks.get(each.task)
        if definition is None or (definition.workspace is not None and definition.scope is None):
            return None
        if definition.scope is not None:
            scopes.append(definition.scope)
    reads = tuple(sorted({prefix for scope in scopes for prefix in scope.reads}))
    writes = tuple(sorted({prefix for scope in scopes for prefix in scope.writes}))
    scope = Scope(reads, writes)
    return evolve(scope, apart=scope.prefixes if pipeline.stacking else ()) if scopes else None


def _with_scope(promotion: TaskDefinition, scope: Scope | None) -> TaskDefinition:
    if scope is None:
        return promotion
    workspace = Workspace(reads=scope.reads, writes=scope.writes)
    return evolve(promotion, workspace=workspace, on_conflict=OnConflict.FAIL, apart=scope.apart)


def opening_of(name: str, store: ManagedStore, patience: float) -> TaskDefinition:
    """Make the task that makes the branch of a run."""
    if not isinstance(store, RunBranches):
        raise StackError(
            f"{type(store).__name__} cannot hold a run apart: set isolation to 'step', or change the store"
        )
    branches: RunBranches = store

    @task(name=name, workspace=Workspace(read_only=True), retries=5, retry_delay=1, response_timeout=patience)
    def open_run(workspace: StoreWorkspace) -> Opened:
        """Make the branch that the steps of a run publish to."""
        attempt = workspace.attempt
        _require_own(attempt, attempt.target)
        made = branches.branch_off(attempt.target, attempt.input)
        if not isinstance(made, Done):
            _require_begun_at(store, attempt.target, attempt.input, made.reason)
        return Opened(branch=attempt.target.branch)

    definition = definition_of(open_run)
    assert definition is not None
    return definition


def promotion_of(name: str, patience: float) -> TaskDefinition:
    """Make the task that makes a run visible."""

    @task(name=name, workspace=Workspace(), retries=5, retry_delay=1, response_timeout=patience)
    def promote(workspace: StoreWorkspace, params: Run) -> Promoted:
        """Make a run visible on its target in one commit."""
        attempt, run = workspace.attempt, params.run
        _require_own(attempt, Target(run.repository, run.branch))
        before = _listed(workspace.store, attempt.target.repository, attempt.input)
        after = _listed(workspace.store, run.repository, CommitRef(run.ref))
        workspace.linked = tuple(each for path, each in after.items() if not _same(before.get(path), each))
        workspace.deleted = tuple(path for path in before if path not in after)
        workspace.origin = CommitRef(run.ref)
        return Promoted(branch=run.branch, ref=run.ref, changed=len(workspace.linked), removed=len(workspace.deleted))

    definition = definition_of(promote)
    assert definition is not None
    return definition


def _require_own(attempt: Attempt, branch: Target) -> None:
    """Let a run touch no branch but its own: whoever defines a workflow can write any into its input."""
    own = Target(attempt.target.repository, run_branch(attempt.workflow_id))
    if branch != own:
        raise TaskTerminalError(f"expected {own}, the branch of this run; found {branch}. Correct the workflow")


def _require_begun_at(store: ManagedStore, target: Target, ref: CommitRef, reason: str) -> None:
    """Take a branch that is there for this run's if it began where this run does: an earlier attempt or a twin made it.

    It may be further by now. Counterexample to "it must be at that commit": of two twins one makes the branch, the
    first step publishes, and the other twin would fail the run.
    """
    found = store.history(target, _FAR)
    if not isinstance(found, Done):
        raise StoreError(f"{target} could not be made: {reason}; nor read: {found.reason}")
    if not found.value:
        raise StoreError(f"{target} could not be made: {reason}")
    if ref not in {each.ref for each in found.value}:
        raise TaskTerminalError(
            f"expected {target} to begin at {ref}, found a branch that does not: somebody else made it. Remove it, and "
            "start a new run"
        )


def _listed(store: Store, repository: str, ref: CommitRef) -> dict[str, Stored]:
    found: Answer[tuple[Stored, ...]] = store.read(repository, ref).list()
    if isinstance(found, Done):
        return {each.path: each for each in found.value}
    raise StoreError(f"the files of {ref} cannot be listed: {found.reason}")


def _same(before: Stored | None, after: Stored) -> bool:
    return before is not None and (before.address, before.checksum, before.size) == (
        after.address,
        after.checksum,
        after.size,
    )
