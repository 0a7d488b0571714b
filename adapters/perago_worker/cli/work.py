"""Commands that make a project, check it, and let a worker work."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from perago_worker.assembly import assemble, draining_on_signals
from perago_worker.cli.console import (
    AsJson,
    CommandError,
    add_commands,
    log_to_screen,
    messages,
    out,
    print_json,
    project_of,
)
from perago_worker.declaring import check_pipeline
from perago_worker.pipelines import pipelines_of
from perago_worker.recovering import own_tasks
from perago_worker.taskdefs import settle_drift

_TEMPLATE = ("perago.toml", "pipeline.py")


def add_to(app: typer.Typer, panel: str) -> None:
    """Add these commands."""
    add_commands(app, panel, init=init, check=check, worker=worker)


def init(
    folder: Annotated[Path, typer.Argument(help="Where; made if it is not there.")] = Path(),
    *,
    spark: Annotated[bool, typer.Option("--spark", help="Tasks on Spark data sets instead of folders.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a small working project: a configuration and three tasks."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{folder} cannot be made: {error.strerror}; choose another folder") from None
    there = [name for name in _TEMPLATE if (folder / name).exists()]
    if there:
        raise CommandError(f"{folder} already holds {' and '.join(there)}: choose another folder, or remove them first")
    template = files("perago_worker") / "template" / ("spark" if spark else "")
    for name in _TEMPLATE:
        (folder / name).write_text((template / name).read_text(encoding="utf-8"), encoding="utf-8")
    if as_json:
        print_json({"wrote": [str(folder / name) for name in _TEMPLATE]})
        return
    out.print(f"wrote {', '.join(str(folder / name) for name in _TEMPLATE)}")
    where = "" if folder == Path() else f"cd {folder} && "
    out.print(f"next: [bold]{where}perago run orders[/bold]")


def check(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Read the configuration and import the tasks; say what is there."""
    project = project_of(context)
    settings, tasks = project.settings, project.tasks()
    for name, pipeline in settings.pipelines.items():
        check_pipeline(name, pipeline, tasks)
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
        order = " -> ".join(" | ".join(step.task for step in stage) for stage in pipeline.stages)
        out.print(f"pipeline {name}: {order} on {pipeline.repository}/{pipeline.branch}")
    for warning in warnings:
        messages.print(f"[yellow]warning:[/yellow] {warning}")


def worker(
    context: typer.Context,
    *,
    until_idle: Annotated[bool, typer.Option(help="Stop when there is nothing to do.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every step.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Log one JSON object a line.")] = False,
) -> None:
    """Poll for tasks and run them. SIGTERM drains; a second one stops."""
    project = project_of(context)
    log_to_screen(verbose=verbose, as_json=as_json)
    tasks = project.tasks()
    settle_drift(
        {**tasks, **own_tasks(project.settings, project.stack)},
        pipelines_of(project.stack, project.settings.budget.budget()),
        project.settings.orchestrator.on_drift,
    )
    with assemble(project.settings, project.stack, tasks) as assembled, draining_on_signals(assembled.worker):
        code = assembled.worker.run(until_idle=until_idle)
    raise typer.Exit(code)
