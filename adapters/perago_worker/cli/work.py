"""Commands that do the work: make a project, run a pipeline here, run a worker."""

from __future__ import annotations

import threading
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from perago_core.answers import Done
from perago_core.values import CommitRef, Target
from perago_worker.assembly import assemble, draining_on_signals
from perago_worker.cli.console import (
    AsJson,
    CommandError,
    Project,
    log_to_screen,
    messages,
    out,
    print_json,
    project_of,
    teaching,
)
from perago_worker.pipelines import PipelineView, head_of, pipelines_of

_TEMPLATE = ("perago.toml", "pipeline.py")


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    for name, command in (("init", init), ("check", check), ("run", run), ("worker", worker)):
        app.command(name)(teaching(command))


def init(folder: Annotated[Path, typer.Argument(help="Where; made if it is not there.")] = Path()) -> None:
    """Write a small working project: a configuration and three tasks."""
    folder.mkdir(parents=True, exist_ok=True)
    there = [name for name in _TEMPLATE if (folder / name).exists()]
    if there:
        raise CommandError(f"{folder} already holds {' and '.join(there)}: choose another folder, or remove them first")
    template = files("perago_worker") / "template"
    for name in _TEMPLATE:
        (folder / name).write_text((template / name).read_text(encoding="utf-8"), encoding="utf-8")
    out.print(f"wrote {', '.join(str(folder / name) for name in _TEMPLATE)}")
    where = "" if folder == Path() else f"cd {folder} && "
    out.print(f"next: [bold]{where}perago run orders[/bold]")


def check(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Read the configuration and import the tasks; say what is there."""
    project = project_of(context)
    settings, tasks = project.settings, project.tasks()
    for name, pipeline in settings.pipelines.items():
        unknown = sorted({step.task for step in pipeline.steps} - set(tasks))
        if unknown:
            raise CommandError(
                f"pipeline {name} names tasks that do not exist: {', '.join(unknown)}; there are {', '.join(tasks)}"
            )
    warnings = [
        f"task {each.name}: {warning}"
        for each in tasks.values()
        for warning in settings.budget.budget().warnings(each.response_timeout)
    ]
    if as_json:
        print_json({"tasks": list(tasks), "pipelines": list(settings.pipelines), "warnings": warnings})
        return
    table = Table("task", "workspace", "retries", "response timeout", box=None)
    for each in tasks.values():
        where = "none" if each.workspace is None else f"/{each.workspace.prefix}"
        table.add_row(
            each.name,
            f"{where} (read only)" if each.read_only and each.workspace else where,
            str(each.retries),
            f"{each.response_timeout:g} s",
        )
    out.print(table)
    for name, pipeline in settings.pipelines.items():
        order = " -> ".join(step.task for step in pipeline.steps)
        out.print(f"pipeline {name}: {order} on {pipeline.repository}/{pipeline.branch}")
    for warning in warnings:
        messages.print(f"[yellow]warning:[/yellow] {warning}")


def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A pipeline of perago.toml, or a task.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline here, from the head of its branch to its end."""
    project = project_of(context)
    pipeline = project.settings.pipelines.get(name)
    if pipeline is None:
        known = ", ".join(project.settings.pipelines) or "none"
        raise CommandError(f"there is no pipeline {name!r} in perago.toml; there are: {known}")
    tasks = project.tasks()
    words = pipelines_of(project.stack)
    words.register(tasks.values())
    ref = _begin_at(project, Target(pipeline.repository, pipeline.branch))
    with assemble(project.settings, project.stack, tasks) as assembled:
        workflow_id = words.start(name, pipeline, ref)
        helper = threading.Thread(target=assembled.worker.run, name="worker")
        helper.start()
        try:
            view = _watch(words, workflow_id, len(pipeline.steps))
        finally:
            assembled.worker.drain()
            helper.join()
    show(view, as_json=as_json)
    raise typer.Exit(0 if view.succeeded else 1)


def worker(
    context: typer.Context,
    *,
    until_idle: Annotated[bool, typer.Option(help="Stop when there is nothing to do.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every step.")] = False,
) -> None:
    """Poll for tasks and run them. SIGTERM drains; a second one stops."""
    project = project_of(context)
    log_to_screen(verbose=verbose)
    tasks = project.tasks()
    pipelines_of(project.stack).register(tasks.values())
    with assemble(project.settings, project.stack, tasks) as assembled, draining_on_signals(assembled.worker):
        code = assembled.worker.run(until_idle=until_idle)
    raise typer.Exit(code)


def _begin_at(project: Project, target: Target) -> CommitRef:
    """Give the head of the target; on the embedded store a branch that is not there is made, empty."""
    create = getattr(project.stack.store, "create", None)
    found = project.stack.store.head(target)
    if create is not None and (not isinstance(found, Done) or found.value is None):
        made = create(target)
        if isinstance(made, Done):
            messages.print(f"made {target}, empty")
            ref: CommitRef = made.value
            return ref
    return head_of(project.stack, target)


def _watch(words: Any, workflow_id: str, steps: int) -> PipelineView:  # noqa: ANN401  any orchestrator's words
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=messages, transient=True) as bar:
        task = bar.add_task("starting", total=steps)
        while True:
            view: PipelineView = words.view(workflow_id)
            last = view.attempts[-1] if view.attempts else None
            what = "starting" if last is None else f"{last.step}, attempt {last.number}: {last.status.value.lower()}"
            bar.update(task, completed=len(view.output), description=what)
            if not view.running:
                return view
            threading.Event().wait(0.05)


def show(view: PipelineView, *, as_json: bool) -> None:
    """Show how a pipeline stands."""
    if as_json:
        print_json(
            {
                "workflow_id": view.workflow_id,
                "status": view.status,
                "reason": view.reason,
                "output": dict(view.output),
                "attempts": [
                    {
                        "step": each.step,
                        "number": each.number,
                        "status": each.status.value,
                        "ref": each.ref,
                        "reason": each.reason,
                    }
                    for each in view.attempts
                ],
            }
        )
        return
    table = Table("step", "attempt", "status", "commit", "why", box=None)
    colours = {"COMPLETED": "green", "IN_PROGRESS": "cyan", "SCHEDULED": "cyan"}
    for each in view.attempts:
        status = f"[{colours.get(each.status.value, 'red')}]{each.status.value.lower()}[/]"
        table.add_row(each.step, str(each.number), status, (each.ref or "")[:12], each.reason)
    out.print(table)
    colour = "green" if view.succeeded else "red"
    out.print(f"{view.workflow_id}: [{colour}]{view.status.lower()}[/] {view.reason}".rstrip())
