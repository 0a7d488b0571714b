"""``perago run``: a pipeline or a single task, here, from the head of its branch to its end."""

from __future__ import annotations

import json
import threading
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from perago_core.answers import Answer, Done
from perago_core.values import CommitRef, Target
from perago_worker.assembly import assemble, draining_on_signals
from perago_worker.cli.console import AsJson, CommandError, Project, add_commands, messages, project_of
from perago_worker.cli.showing import show
from perago_worker.cli.targets import target_of
from perago_worker.pipelines import Pipelines, PipelineView, head_of, pipelines_of
from perago_worker.registry import Registry
from perago_worker.settings import PipelineSettings, StepSettings
from perago_worker.worker import Worker


def add_to(app: typer.Typer, panel: str) -> None:
    """Add the command."""
    add_commands(app, panel, run=run)


def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A pipeline of perago.toml, or a task.")],
    *,
    param: Annotated[
        list[str],
        typer.Option("--param", metavar="NAME=VALUE", help="A parameter; the value is JSON, or else text."),
    ] = [],  # noqa: B006  typer reads it, nobody changes it
    params: Annotated[str, typer.Option(metavar="JSON", help="All parameters as one JSON object.")] = "",
    target: Annotated[
        str, typer.Option(metavar="REPOSITORY/BRANCH", help="Where a task publishes; the project's only target else.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Run a pipeline or a single task here. What a pipeline's steps quote as ${params.NAME} is given by --param."""
    project = project_of(context)
    tasks = project.tasks()
    given = _params(params, param)
    own = project.settings.pipelines.get(name)
    if own is not None and target:
        raise CommandError(f"pipeline {name} publishes to {own.repository}/{own.branch}; --target is for single tasks")
    pipeline, where = (
        _single(project, tasks, name, given, target) if own is None else (own, Target(own.repository, own.branch))
    )
    words = pipelines_of(project.stack)
    words.register(tasks.values())
    ref = None if where is None else _begin_at(project, where)
    with assemble(project.settings, project.stack, tasks) as assembled, draining_on_signals(assembled.worker):
        workflow_id = words.start(name, pipeline, ref, given if own else {})
        view = _watch(words, workflow_id, len(pipeline.steps), assembled.worker)
    show(view, as_json=as_json)
    if view.running:
        messages.print("stopped before its end; a `perago worker` of this project goes on with it")
    raise typer.Exit(0 if view.succeeded else 1)


def _single(
    project: Project, tasks: Registry, name: str, params: dict[str, Any], target: str
) -> tuple[PipelineSettings, Target | None]:
    """Make a pipeline of one task. A task without workspace needs no target."""
    if name not in tasks:
        pipelines = ", ".join(project.settings.pipelines) or "none"
        known = f"pipelines: {pipelines}; tasks: {', '.join(tasks) or 'none'}"
        raise CommandError(f"expected a pipeline of perago.toml or a task; found {name!r}. {known}")
    step = (StepSettings(task=name, params=params),)
    if tasks[name].workspace is None and not target:
        return PipelineSettings(repository="-", steps=step), None
    where = target_of(project, target)
    return PipelineSettings(repository=where.repository, branch=where.branch, steps=step), where


def _params(text: str, pairs: list[str]) -> dict[str, Any]:
    """Read parameters: one JSON object, and over it single ones, whose values are JSON if they can be."""
    found: Any = {}
    if text:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise CommandError(f"--params must be a JSON object, e.g. '{{\"rows\": 5}}'; {error}") from None
        if not isinstance(found, dict):
            raise CommandError(f"--params must be a JSON object, e.g. '{{\"rows\": 5}}'; found {text!r}")
    params: dict[str, Any] = {**found}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise CommandError(f"--param must read NAME=VALUE, e.g. rows=5; found {pair!r}")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params


def _begin_at(project: Project, target: Target) -> CommitRef:
    """Give the head of the target; on the embedded store a branch that is not there is made, empty."""
    create = getattr(project.stack.store, "create", None)
    found = project.stack.store.head(target)
    if create is not None and (not isinstance(found, Done) or found.value is None):
        made: Answer[CommitRef] = create(target)
        if isinstance(made, Done):
            messages.print(f"made {target}, empty")
            return made.value
        raise CommandError(f"{target} is not there and could not be made: {made.reason}")
    return head_of(project.stack, target)


def _watch(words: Pipelines, workflow_id: str, steps: int, worker: Worker) -> PipelineView:
    """Let the worker work until the pipeline has ended, or the worker was told to stop."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    helper = threading.Thread(target=worker.run, name="worker")
    helper.start()
    try:
        with Progress(*columns, console=messages, transient=True) as bar:
            task = bar.add_task("starting", total=steps)
            while True:
                works = helper.is_alive()
                view = words.view(workflow_id)
                assert view is not None
                last = view.attempts[-1] if view.attempts else None
                what = (
                    "starting" if last is None else f"{last.step}, attempt {last.number}: {last.status.value.lower()}"
                )
                bar.update(task, completed=len(view.output), description=what)
                if not view.running or not works:
                    return view
                helper.join(0.05)
    finally:
        worker.drain()
        helper.join()
