"""``perago run``: a pipeline or a single task, from the head of its branch to its end; here, or by others."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from perago_core.answers import Done
from perago_core.ledger.records import SettlementKind
from perago_core.ports import BranchCreator
from perago_core.values import CommitRef, Target, TaskStatus
from perago_worker.api.registry import Registry
from perago_worker.bodies.notes import Progressed, Transferred
from perago_worker.bodies.process import as_text
from perago_worker.cli.console import AsJson, CommandError, messages
from perago_worker.cli.project import Project, project_of, target_of
from perago_worker.cli.render import show
from perago_worker.config.settings import PipelineSettings, StepSettings, rolls_back
from perago_worker.ops.recover import tidy_up
from perago_worker.pipelines.checks import check_params, check_pipeline
from perago_worker.pipelines.protocol import Pipelines, PipelineView, head_of
from perago_worker.pipelines.taskdefs import settle_drift
from perago_worker.runtime.assembly import Assembled, assemble
from perago_worker.runtime.bootstrap import worker_id
from perago_worker.runtime.telemetry import instruments
from perago_worker.runtime.worker import draining_on_signals

#: Seconds between two looks whether anybody works at all.
_LOOK_FOR_WORKERS = 10.0


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
    on: Annotated[
        str, typer.Option(metavar="ORCHESTRATOR", help="Only start and follow it there (local, conductor).")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Run a pipeline or a single task here. What a pipeline's steps quote as ${params.NAME} is given by --param.

    With --on it is only started and followed; the workers that poll that orchestrator do the work.
    """
    project = project_of(context)
    if on:
        project.overrides.setdefault("orchestrator", {})["kind"] = on
    tasks = project.tasks()
    given = _params(params, param)
    own = project.settings.pipelines.get(name)
    if own is not None and target:
        raise CommandError(f"pipeline {name} publishes to {own.repository}/{own.branch}; --target is for single tasks")
    pipeline, where = (
        _single(project, tasks, name, given, target) if own is None else (own, Target(own.repository, own.branch))
    )
    check_pipeline(name, pipeline, tasks)
    if own is not None:
        check_params(name, own, given)
    pipelines = project.pipelines()
    if not on:
        settle_drift(project.all_tasks(), pipelines, project.settings.orchestrator.on_drift)
    _settle_definition(project, pipelines, name, pipeline)
    if where is not None:
        _warn_of_rivals(project, pipelines, where)
    ref = None if where is None else _begin_at(project, where)
    begin = partial(pipelines.start, name, pipeline, ref, given if own else {})
    steps = len(pipeline.all_steps)
    view = _follow(pipelines, begin(), steps) if on else _run_here(project, tasks, pipelines, begin, steps)
    show(view, as_json=as_json)
    if view.running:
        messages.print("stopped before its end; a `perago worker` of this project goes on with it")
    raise typer.Exit(0 if view.succeeded else 1)


def _run_here(
    project: Project, tasks: Registry, pipelines: Pipelines, begin: Callable[[], str], steps: int
) -> PipelineView:
    """Start it when a worker stands that can work it off; one whose policy changes meanwhile is started again."""
    workflow_id = ""
    while True:
        with assemble(project.settings, project.stack, tasks) as assembled, draining_on_signals(assembled.worker):
            workflow_id = workflow_id or begin()
            view = _work_off(pipelines, workflow_id, steps, assembled)
        if not view.running or not assembled.worker.moved:
            return view


def _settle_definition(project: Project, pipelines: Pipelines, name: str, pipeline: PipelineSettings) -> None:
    """Start nothing under a name that is defined as something else."""
    fields = pipelines.unlike(name, pipeline)
    if not fields:
        return
    told = f"pipeline {name} is registered otherwise than declared: {', '.join(fields)}"
    match project.settings.orchestrator.on_drift:
        case "register":
            pipelines.define(name, pipeline)
        case "warn":
            messages.print(f"[yellow]warning:[/yellow] {told}; what is registered runs")
        case "fail":
            raise CommandError(f"{told}. `perago pipeline register {name}` registers what is declared")


def _warn_of_rivals(project: Project, pipelines: Pipelines, target: Target) -> None:
    """Say that somebody else writes to the branch: of two, the one that publishes second is refused (P-21)."""
    names = [
        name for name, each in project.settings.pipelines.items() if Target(each.repository, each.branch) == target
    ]
    for each in pipelines.rivals(target, names):
        messages.print(
            f"[yellow]warning:[/yellow] workflow {each} already runs on {target}: wait for it, or one of the two will "
            "find the branch moved, and fail"
        )


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
    """Return the head of the target; on the embedded store a branch that is not there is made, empty."""
    store = project.stack.store
    found = store.head(target)
    if isinstance(store, BranchCreator) and (not isinstance(found, Done) or found.value is None):
        made = store.create(target)
        if isinstance(made, Done):
            messages.print(f"made {target}, empty")
            return made.value
        raise CommandError(f"{target} is not there and could not be made: {made.reason}")
    _leave_nothing_unaccepted(project, target)
    return head_of(project.stack, target)


def _leave_nothing_unaccepted(project: Project, target: Target) -> None:
    """Take back what failed runs left, or start nothing on it: it would become part of what this run is accepted for.

    Counterexample: a run is killed after it has published and fails for good; the next run starts from that commit,
    changes nothing, and reports what nobody accepted as its own result.
    """
    if project.stack.coordination is None:
        return
    wanted = rolls_back(project.settings, target)
    swept = tidy_up(project.stack, target, worker_id(), roll_back=wanted, instruments=instruments())
    if not isinstance(swept, Done):
        raise CommandError(f"expected to know whether {target} was accepted: {swept.reason}. Nothing was started")
    for each in swept.value.outcomes:
        if each.audit is SettlementKind.ROLLED_BACK:
            messages.print(f"took back what a failed run had published to {target} and nobody accepted")
        if each.unaccepted is not None:
            raise CommandError(f"{each.reason}; nothing was started on it. {each.next_action}")


def _work_off(pipelines: Pipelines, workflow_id: str, steps: int, assembled: Assembled) -> PipelineView:
    """Let the worker work until the pipeline has ended, or the worker was told to stop."""
    worker = assembled.worker
    helper = threading.Thread(target=worker.run, name="worker")
    helper.start()
    try:
        with _Bar(steps, assembled.progress) as bar:
            while True:
                works = helper.is_alive()
                view = bar.show(pipelines, workflow_id)
                if not view.running or not works:
                    return view
                helper.join(0.05)
    finally:
        worker.drain()
        helper.join()


def _follow(pipelines: Pipelines, workflow_id: str, steps: int) -> PipelineView:
    """Watch until the pipeline has ended, or nobody wants to watch any more."""
    messages.print(f"started {workflow_id}")
    looked = time.monotonic()
    with _Bar(steps) as bar:
        view = bar.show(pipelines, workflow_id)
        try:
            while view.running:
                time.sleep(0.3)
                view = bar.show(pipelines, workflow_id)
                if time.monotonic() - looked > _LOOK_FOR_WORKERS:
                    looked = time.monotonic()
                    for task in pipelines.unattended(view):
                        messages.print(f"[yellow]warning:[/yellow] no worker asks for {task}; start `perago worker`")
        except KeyboardInterrupt:
            messages.print(f"it goes on without you; look with `perago status {workflow_id}`")
    return view


class _Bar(Progress):
    """How far a pipeline is, and its last step, if its body runs here and says so; for a Spark task, Spark does."""

    def __init__(self, steps: int, notes: Mapping[str, Progressed] | None = None) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        super().__init__(*columns, console=messages, transient=True)
        self._task = self.add_task("starting", total=steps)
        self._notes: Mapping[str, Progressed] = notes or {}

    def show(self, pipelines: Pipelines, workflow_id: str) -> PipelineView:
        """Look at the pipeline and show how far it is."""
        view = pipelines.view(workflow_id)
        assert view is not None
        last = view.attempts[-1] if view.attempts else None
        what = "starting" if last is None else f"{last.step}, attempt {last.number}: {last.status.value.lower()}"
        note = self._notes.get(last.task_id) if last is not None and last.status is TaskStatus.IN_PROGRESS else None
        # What is fetched or staged is no part of the body's own work.
        within = 0.0 if note is None or isinstance(note, Transferred) else note.fraction or 0.0
        self.update(
            self._task,
            completed=len(view.output) + within,
            description=what if note is None else f"{what}, {escape(as_text(note))}",
        )
        return view
