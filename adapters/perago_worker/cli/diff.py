"""``perago diff``: where what is registered is not what is declared."""

from __future__ import annotations

import typer

from perago_core.pipelines import Pipelines
from perago_worker.cli.console import AsJson, out, print_json
from perago_worker.cli.project import Project, project_of
from perago_worker.pipelines.taskdefs import Difference, differences


def diff(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show where what is registered is not what is declared; exit code 1 if there is a difference."""
    project = project_of(context)
    pipelines = project.pipelines()
    tasks = differences(project.all_tasks().values(), pipelines)
    found = (*tasks, *_pipeline_differences(project, pipelines))
    if as_json:
        shown = [
            {"task": each.task, "field": each.field, "declared": each.declared, "registered": each.registered}
            for each in found
        ]
        print_json(shown)
    else:
        for each in found:
            out.print(str(each), markup=False)
        if found:
            out.print("`perago register` and `perago pipeline register` register what is declared")
        else:
            out.print("[green]registered as declared[/green]")
    raise typer.Exit(1 if found else 0)


def _pipeline_differences(project: Project, pipelines: Pipelines) -> tuple[Difference, ...]:
    found: list[Difference] = []
    for name, pipeline in project.settings.pipelines.items():
        fields = pipelines.unlike(name, pipeline)
        if fields is None:
            found.append(Difference(f"pipeline {name}", "", None, None))
        else:
            found += [Difference(f"pipeline {name}", each, "as in perago.toml", "otherwise") for each in fields]
    return tuple(found)
