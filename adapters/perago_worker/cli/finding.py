"""Which run or attempt is meant: by its id, by the beginning of one, by a pipeline's name, by a step's.

Whatever is printed is understood. What could be several is answered with a list of them, never with a guess that
changes something.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from attrs import frozen

from perago_worker.cli.console import CommandError
from perago_worker.cli.words import ago

if TYPE_CHECKING:
    from perago_core.pipelines import AttemptView, Pipelines, PipelineView, RunLine

#: Runs that are looked at for a name or a beginning.
LOOKED_AT = 10_000
_LISTED = 8
_LISTS_THEM = "`perago runs` lists them"


@frozen
class Attempts:
    """A run, and those of its attempts that were named."""

    run: PipelineView
    attempts: tuple[AttemptView, ...]


def find_run(pipelines: Pipelines, named: str) -> PipelineView:
    """Find a run to look at. A pipeline's name means its newest run."""
    exact = pipelines.view(named)
    if exact is not None:
        return exact
    lines = pipelines.newest(LOOKED_AT)
    newest = next((each for each in lines if each.name == named), None)
    return _view(pipelines, newest or _only(_beginning(lines, named), named))


def find_run_to_change(pipelines: Pipelines, named: str, *, running: bool) -> PipelineView:
    """Find a run to do something to: of several of one pipeline the only one that runs, or that does not."""
    exact = pipelines.view(named)
    if exact is not None:
        return exact
    lines = pipelines.newest(LOOKED_AT)
    same = [each for each in lines if each.name == named]
    fitting = [each for each in same if each.running is running] or same
    return _view(pipelines, _only(fitting or _beginning(lines, named), named))


def find_attempts(pipelines: Pipelines, named: str) -> Attempts:
    """Find attempts: those of a run, of RUN/STEP, of a step in the newest run that has it, or the one of a task id."""
    of_run, sign, step = named.rpartition("/")
    if sign:
        return _of_step(find_run(pipelines, of_run), step)
    place = pipelines.find(named)
    if place is not None:
        return _of_task(pipelines, place.workflow_id, named)
    lines = pipelines.newest(LOOKED_AT)
    if not any(each.name == named for each in lines) and not _beginning(lines, named):
        tasks = pipelines.tasks_like(named) if named else ()
        if len(tasks) > 1:
            raise CommandError(_several(named, (f"{each.task_id} ({each.step})" for each in tasks)))
        if tasks:
            return _of_task(pipelines, tasks[0].workflow_id, tasks[0].task_id)
        for each in lines:
            view = pipelines.view(each.workflow_id)
            if view is not None and any(attempt.step == named for attempt in view.attempts):
                return _of_step(view, named)
        raise CommandError(f"there is no run, step or task {named!r}; {_LISTS_THEM}, `perago show RUN` their tasks")
    view = find_run(pipelines, named)
    return Attempts(view, view.attempts)


def _of_task(pipelines: Pipelines, workflow_id: str, task_id: str) -> Attempts:
    view = pipelines.view(workflow_id)
    assert view is not None
    return Attempts(view, tuple(each for each in view.attempts if each.task_id == task_id))


def _of_step(view: PipelineView, step: str) -> Attempts:
    found = tuple(each for each in view.attempts if each.step == step)
    if not found:
        there = ", ".join(dict.fromkeys(each.step for each in view.attempts)) or "none"
        raise CommandError(f"no step {step!r} of {view.workflow_id} has begun; there are: {there}")
    return Attempts(view, found)


def _beginning(lines: Iterable[RunLine], named: str) -> list[RunLine]:
    """Return the runs whose id begins like this, with or without the pipeline's name before it."""
    if not named:
        return []
    return [
        each
        for each in lines
        if each.workflow_id.startswith(named) or each.workflow_id.removeprefix(f"{each.name}-").startswith(named)
    ]


def _only(found: list[RunLine], named: str) -> RunLine:
    if not found:
        raise CommandError(f"there is no run {named!r}; {_LISTS_THEM}")
    if len(found) > 1:
        candidates = (f"{each.workflow_id} ({each.status.lower()}, {ago(each.started_at)})" for each in found)
        raise CommandError(_several(named, candidates))
    return found[0]


def _several(named: str, found: Iterable[str]) -> str:
    candidates = list(found)
    more = f" and {len(candidates) - _LISTED} more" if len(candidates) > _LISTED else ""
    return f"{named!r} could be {', '.join(candidates[:_LISTED])}{more}; name one of them"


def _view(pipelines: Pipelines, line: RunLine) -> PipelineView:
    view = pipelines.view(line.workflow_id)
    if view is None:
        raise CommandError(f"run {line.workflow_id} is gone; {_LISTS_THEM}")
    return view
