"""The branches of isolated runs: which of them nobody needs any more, and their end.

A promoted run's branch shows nothing that the target does not; it goes with the next worker that starts, or with
``perago gc``. That of a run which failed stays for as long as its pipeline says, for whoever wants to see what it left.
"""

from __future__ import annotations

from typing import Protocol, cast

from attrs import field, frozen

from perago_core.answers import Answer, Done, NotDone
from perago_core.garbage import run_branch_may_go
from perago_core.names import run_of
from perago_core.pipelines import PipelineView
from perago_core.ports import RunBranches, Store
from perago_core.values import Target
from perago_worker.config.settings import PipelineSettings, Settings, targets_of
from perago_worker.logger import log
from perago_worker.ops.recover import tidy_up
from perago_worker.runtime.bootstrap import worker_id
from perago_worker.runtime.telemetry import instruments
from perago_worker.stack import Stack, StackError, pipelines_of

_DAY = 24 * 3600.0


class Runs(Protocol):
    """What the orchestrator says of its runs."""

    def view(self, workflow_id: str) -> PipelineView | None:
        """Return a run as it is now; ``None``: there is none of this id here."""
        ...


@frozen
class CollectedRuns:
    """The branches that went, or with a dry run would; those that stay, and why; what was tried in vain."""

    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    trouble: tuple[str, ...] = field(default=())


def collect_run_branches(
    stack: Stack, runs: Runs, settings: Settings, repository: str, *, unknown: bool = False, dry_run: bool = False
) -> CollectedRuns:
    """Remove the branches whose runs need them no more; with ``unknown`` also those of runs that are not known here."""
    store: object = stack.store
    if not isinstance(store, RunBranches):
        return CollectedRuns()
    listed = store.run_branches(repository)
    if not isinstance(listed, Done):
        return CollectedRuns(trouble=(f"branches of runs: {listed.reason}",))
    removed: list[str] = []
    kept: list[str] = []
    strange: list[str] = []
    trouble: list[str] = []
    for branch in listed.value:
        view = runs.view(run_of(branch) or "")
        if not run_branch_may_go(view, stack.clock.wall(), _kept_for(settings, view), unknown=unknown):
            (strange if view is None else kept).append(branch)
            continue
        gone: Answer[None] = Done(None) if dry_run else _removed(stack, store, Target(repository, branch))
        if isinstance(gone, Done):
            removed.append(branch)
        else:
            trouble.append(f"{branch}: {gone.reason}")
    return CollectedRuns(tuple(removed), tuple(kept), tuple(strange), tuple(trouble))


def sweep_run_branches(stack: Stack, settings: Settings) -> None:
    """Do it for the isolated pipelines of a project. What is in the way of that is not in the way of working."""
    for repository in sorted({each.repository for each in settings.pipelines.values() if each.isolated}):
        try:
            swept = collect_run_branches(stack, pipelines_of(stack), settings, repository)
        except Exception as error:  # noqa: BLE001  as above
            log.warning("branches of ended runs stay in %s: %s", repository, error)
            continue
        for each in swept.trouble:
            log.warning("a branch of an ended run stays in %s: %s", repository, each)
        if swept.removed:
            log.info("removed %d branch(es) of ended runs from %s", len(swept.removed), repository)


def written_targets(stack: Stack, settings: Settings) -> tuple[Target, ...]:
    """Name every branch that attempts of this project may publish to now: the pipelines' own, and those of runs."""
    targets, store = targets_of(settings), cast("object", stack.store)
    if not isinstance(store, RunBranches):
        return targets
    found = list(targets)
    for repository in sorted({each.repository for each in settings.pipelines.values() if each.isolated}):
        listed = store.run_branches(repository)
        if not isinstance(listed, Done):
            raise StackError(f"the branches of runs in {repository} cannot be read: {listed.reason}. Try again")
        found += [Target(repository, branch) for branch in listed.value]
    return tuple(found)


def is_gone(store: Store, target: Target) -> bool:
    """Return whether this is the branch of a run, and the store says that there is none (any more)."""
    found = store.head(target) if run_of(target.branch) is not None else None
    return isinstance(found, Done) and found.value is None


def _kept_for(settings: Settings, view: PipelineView | None) -> float:
    """Return the seconds that a failed run's branch stays; a pipeline that is declared no more had the default."""
    declared = None if view is None else settings.pipelines.get(view.name)
    default: float = PipelineSettings.model_fields["keep_failed_days"].default
    return (default if declared is None else declared.keep_failed_days) * _DAY


def _removed(stack: Stack, store: RunBranches, target: Target) -> Answer[None]:
    """Remove one, once nothing that the ledger has open speaks of it: nobody could settle that afterwards."""
    if stack.coordination is not None:
        swept = tidy_up(stack, target, worker_id(), roll_back=True, instruments=instruments())
        if not isinstance(swept, Done):
            return swept
        unsettled = (*swept.value.alarms, *swept.value.unresolved)
        if unsettled:
            return NotDone(f"{unsettled[0]}. `perago recover {target}` shows it")
    return store.remove_branch(target)
