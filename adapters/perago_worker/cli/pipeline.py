"""``perago pipeline``: pipelines as workflow definitions of the orchestrator."""

from __future__ import annotations

from typing import Annotated

import typer

from perago_worker.cli.console import AsJson, CommandError, out, print_json
from perago_worker.cli.project import Project, project_of
from perago_worker.config.settings import PipelineSettings
from perago_worker.pipelines.checks import check_pipeline
from perago_worker.pipelines.taskdefs import differences

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def pipeline() -> None:
    """Define pipelines at the orchestrator."""


@app.command("register")
def register(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(help="Pipelines of perago.toml; all if none is given.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Define pipelines as workflows of the orchestrator, so that anybody can start one by its name."""
    project = project_of(context)
    pipelines = project.pipelines()
    chosen = _chosen(project, names or [])
    for name, pipeline in chosen.items():
        check_pipeline(name, pipeline, project.tasks())
    missing = [str(each) for each in differences(project.all_tasks().values(), pipelines) if not each.field]
    if missing and pipelines.shared:
        # A workflow that names an unknown task would start, and wait for ever with the server's defaults.
        raise CommandError(f"{'; '.join(missing)}. Run `perago register` first")
    for name, pipeline in chosen.items():
        pipelines.define(name, pipeline)
    if as_json:
        print_json({"registered": list(chosen)})
    else:
        out.print(f"registered {', '.join(chosen)}; start one with `perago run NAME --on ORCHESTRATOR`")


def _chosen(project: Project, names: list[str]) -> dict[str, PipelineSettings]:
    known = project.settings.pipelines
    unknown = [name for name in names if name not in known]
    if unknown or not known:
        there = ", ".join(known) or "none"
        raise CommandError(
            f"expected pipelines of perago.toml; found {', '.join(unknown) or 'none'}. There are: {there}"
        )
    return {name: known[name] for name in names or known}
