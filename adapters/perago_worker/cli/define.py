"""Commands about what the orchestrator is told: definitions of tasks and of pipelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from perago_worker.cli.console import (
    AsJson,
    CommandError,
    Project,
    add_commands,
    messages,
    out,
    print_json,
    project_of,
    teaching,
)
from perago_worker.declaring import check_pipeline
from perago_worker.pipelines import Pipelines, pipelines_of
from perago_worker.recovering import own_tasks
from perago_worker.settings import PipelineSettings
from perago_worker.task import TaskDefinition
from perago_worker.taskdefs import Difference, differences, document


def add_to(app: typer.Typer, panel: str) -> None:
    """Add these commands."""
    add_commands(app, panel, extract=extract, register=register, diff=diff)
    pipeline = typer.Typer(no_args_is_help=True, help="Define pipelines at the orchestrator.")
    pipeline.command("register")(teaching(register_pipelines))
    app.add_typer(pipeline, name="pipeline", rich_help_panel=panel)


def extract(
    context: typer.Context,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write here, not to standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="It is JSON anyway.")] = False,
) -> None:
    """Write the definitions of the project's tasks as JSON, as Conductor takes them."""
    del as_json  # so that --json may be said everywhere
    project = project_of(context)
    budget = project.settings.budget.budget()
    documents = [document(task, budget) for task in project.tasks().values()]
    if output is None:
        print_json(documents)
    else:
        try:
            output.write_text(json.dumps(documents, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}; name another file") from None
        messages.print(f"wrote {len(documents)} definition(s) to {output}")


def register(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Make the project's tasks known to the orchestrator."""
    project = project_of(context)
    tasks = _all_tasks(project)
    _words(project).register(tasks.values())
    if as_json:
        print_json({"registered": list(tasks)})
    else:
        out.print(f"registered {', '.join(tasks)}")


def register_pipelines(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(help="Pipelines of perago.toml; all if none is given.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Define pipelines as workflows of the orchestrator, so that anybody can start one by its name."""
    project = project_of(context)
    words = _words(project)
    chosen = _chosen(project, names or [])
    for name, pipeline in chosen.items():
        check_pipeline(name, pipeline, project.tasks())
    missing = [str(each) for each in differences(_all_tasks(project).values(), words) if not each.field]
    if missing and words.shared:
        # A workflow that names an unknown task would start, and wait for ever with the server's defaults.
        raise CommandError(f"{'; '.join(missing)}. Run `perago register` first")
    for name, pipeline in chosen.items():
        words.define(name, pipeline)
    if as_json:
        print_json({"registered": list(chosen)})
    else:
        out.print(f"registered {', '.join(chosen)}; start one with `perago run NAME --on ORCHESTRATOR`")


def diff(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show where what is registered is not what is declared; exit code 1 if there is a difference."""
    project = project_of(context)
    words = _words(project)
    tasks = differences(_all_tasks(project).values(), words)
    found = (*tasks, *_pipeline_differences(project, words))
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


def _words(project: Project) -> Pipelines:
    return pipelines_of(project.stack, project.settings.budget.budget())


def _all_tasks(project: Project) -> dict[str, TaskDefinition]:
    return {**project.tasks(), **own_tasks(project.settings, project.stack)}


def _chosen(project: Project, names: list[str]) -> dict[str, PipelineSettings]:
    known = project.settings.pipelines
    unknown = [name for name in names if name not in known]
    if unknown or not known:
        there = ", ".join(known) or "none"
        raise CommandError(
            f"expected pipelines of perago.toml; found {', '.join(unknown) or 'none'}. There are: {there}"
        )
    return {name: known[name] for name in names or known}


def _pipeline_differences(project: Project, words: Pipelines) -> tuple[Difference, ...]:
    found: list[Difference] = []
    for name, pipeline in project.settings.pipelines.items():
        fields = words.unlike(name, pipeline)
        if fields is None:
            found.append(Difference(f"pipeline {name}", "", None, None))
        else:
            found += [Difference(f"pipeline {name}", each, "as in perago.toml", "otherwise") for each in fields]
    return tuple(found)
