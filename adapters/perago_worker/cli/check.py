"""``perago check``: the configuration and the tasks, read without running anything."""

from __future__ import annotations

import typer
from rich.table import Table

from perago_worker.cli.console import AsJson, messages, out, print_json
from perago_worker.cli.project import project_of
from perago_worker.pipelines.checks import check_pipeline


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
        whole = ", a whole run at a time" if pipeline.isolated else ""
        out.print(f"pipeline {name}: {order} on {pipeline.repository}/{pipeline.branch}{whole}")
    for warning in warnings:
        messages.print(f"[yellow]warning:[/yellow] {warning}")
