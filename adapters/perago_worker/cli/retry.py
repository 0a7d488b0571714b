"""``perago retry``: go on with a run from where it stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from perago_core.pipelines import OPENING, Pipelines, PipelineView, steps_of
from perago_core.values import CommitRef, Target
from perago_worker.api.registry import Registry
from perago_worker.cli.console import AsJson, CommandError, messages
from perago_worker.cli.finding import find_run_to_change
from perago_worker.cli.project import Project, project_of
from perago_worker.cli.run import leave_nothing_unaccepted
from perago_worker.cli.work_off import follow, work_off
from perago_worker.ops.run_branches import is_gone
from perago_worker.stack import head_of


def retry(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="A run that failed, was cancelled, or that nobody works on any more.")],
    *,
    from_failed: Annotated[
        bool,
        typer.Option(
            "--from-failed", help="From the step that failed, which is what it does; for scripts that say so."
        ),
    ] = True,
    on: Annotated[
        str, typer.Option(metavar="ORCHESTRATOR", help="Only let it go on and follow it there (local, conductor).")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Go on with a run from the step at which it stopped, here; steps that were accepted stay and do not run again."""
    del from_failed
    project = project_of(context)
    if on:
        project.overrides.setdefault("orchestrator", {})["kind"] = on
    tasks = project.tasks()
    pipelines = project.pipelines()
    view = find_run_to_change(pipelines, run, running=False)
    require_retriable(project, view, tasks)

    def begin() -> str:
        if view.running:
            messages.print("it has not ended: going on with it here")
        else:
            pipelines.retry(view.workflow_id)
        return view.workflow_id

    steps = _steps(project, pipelines, view)
    if on:
        follow(pipelines, begin(), steps).tell(as_json=as_json)
    work_off(project, tasks, pipelines, begin, steps).tell(as_json=as_json)


def require_retriable(project: Project, view: PipelineView, tasks: Registry) -> None:
    """Refuse what could not go on, before anything runs for it; take back what a failed attempt left unaccepted."""
    if view.succeeded:
        raise CommandError(
            f"{view.workflow_id} has completed: there is nothing to go on with; `perago run {view.name}`"
        )
    _require_tasks(view, tasks)
    if not view.running:
        _require_unmoved(project, view, tasks)


def _require_tasks(view: PipelineView, tasks: Registry) -> None:
    last = view.attempts[-1] if view.attempts else None
    if last is None:
        raise CommandError(
            f"no step of {view.workflow_id} has begun ({view.reason}); `perago run {view.name}` starts anew"
        )
    if not tasks:
        raise CommandError("this project has no tasks; go to the folder of the project whose run it is")


def _require_unmoved(project: Project, view: PipelineView, tasks: Registry) -> None:
    """Refuse before any body runs what could not be published afterwards: the step's input is fixed, its branch moved.

    Maintenance in between is no matter for tasks that allow it; whether it was only that, the fence decides.
    """
    place = project.pipelines().find(view.attempts[-1].task_id)
    if place is None or place.ref is None:
        return
    if is_gone(project.stack.store, place.target):
        if view.attempts[-1].step == OPENING:
            return
        raise CommandError(f"{place.target} is gone, and with it what {view.workflow_id} left. {_anew(view)}")
    if _declares_its_scope(project, view, tasks):
        return
    leave_nothing_unaccepted(project, place.target)
    head = head_of(project.stack, place.target)
    if head != place.ref and not any(each.over_maintenance for each in tasks.values()):
        raise CommandError(_moved(view, place.target, place.ref, head))


def _declares_its_scope(project: Project, view: PipelineView, tasks: Registry) -> bool:
    """Whether it goes on with a task that shares its branch: that one adopts what it has published, or begins anew."""
    known = project.settings.pipelines.get(view.name)
    steps = {} if known is None else {each.name or each.task: each.task for each in known.all_steps}
    task = steps.get(view.attempts[-1].step, view.name)
    return task in tasks and tasks[task].scope is not None


def _moved(view: PipelineView, target: Target, ref: CommitRef, head: CommitRef) -> str:
    return (
        f"{view.workflow_id} would go on from {ref[:12]}, and {target} is at {head[:12]} by now: its result would be "
        f"refused. {_anew(view)} from there; `perago history {target}` shows what came between"
    )


def _anew(view: PipelineView) -> str:
    return f"`perago run {view.name}` starts anew"


def _steps(project: Project, pipelines: Pipelines, view: PipelineView) -> int:
    """Say how many steps it has, for the bar."""
    known = project.settings.pipelines.get(view.name)
    if known is not None:
        return len(steps_of(view.name, known))
    return next((each.steps for each in pipelines.newest(1000) if each.workflow_id == view.workflow_id), 0) or 1
