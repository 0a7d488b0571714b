"""``perago timeline``: what happened in a run, step by step, as text, as a page or as data."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from perago_worker.cli.console import AsJson, CommandError, Project, add_commands, messages, out, print_json, project_of
from perago_worker.pipelines import pipelines_of

if TYPE_CHECKING:
    from perago_simulation.report.scenes import Story


def add_to(app: typer.Typer, panel: str) -> None:
    """Add the command."""
    add_commands(app, panel, timeline=timeline)


def timeline(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="A workflow, or a task: then all attempts of that task.")],
    *,
    html: Annotated[Path | None, typer.Option(help="Write a page to step through with the arrow keys.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell a run step by step, from the traces of its workers: who asked for what, what was answered, what followed."""
    project = project_of(context)
    told = story_of(project, what)
    if html is not None:
        write_page(told, html)
        messages.print(f"wrote {html}: open it in a browser and step with the arrow keys")
    if as_json:
        print_json(_data(told))
    elif html is None:
        _print(told)
    raise typer.Exit(1 if told.breaks else 0)


def story_of(project: Project, what: str) -> Story:
    """Tell a workflow or a task of a project."""
    telling = _part("perago_worker.timeline")
    words = pipelines_of(project.stack)
    place = words.find(what)
    view = words.view(what if place is None else place.workflow_id)
    if view is None:
        raise CommandError(f"there is no workflow and no task {what!r}; `perago status --all` lists the workflows")
    task = "" if place is None else place.logical_task
    try:
        told: Story = telling.timeline(project.settings.worker.trace, project.stack.store, view, task)
    except telling.TimelineError as error:
        raise CommandError(str(error)) from None
    return told


def write_page(told: Story, file: Path) -> None:
    """Write the page of a story."""
    try:
        file.write_text(_part("perago_simulation.report").page(told), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}; name another file") from None


def _part(name: str) -> Any:  # noqa: ANN401  a module
    """Import what needs the simulator, when it is needed."""
    try:
        return import_module(name)
    except ImportError as missing:
        raise CommandError(f"{missing.name} is not installed: pip install 'perago-core[simulation]'") from None


def _print(told: Story) -> None:
    out.print(f"[bold]{told.clause}[/bold]")
    out.print(told.bounds, markup=False)
    table = Table("when", "who", "what", "main at" if told.branch == "main" else "branch at", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    table.columns[0].no_wrap = table.columns[1].no_wrap = table.columns[3].no_wrap = True
    for scene in told.scenes:
        table.add_row(scene.when, scene.lane, scene.says, scene.head)
    out.print(table, soft_wrap=False)
    out.print(f"[red]S-01 is broken: {told.problem}[/red]" if told.breaks else f"[green]{told.verdict}[/green]")


def _data(told: Story) -> dict[str, object]:
    return {
        "title": told.clause,
        "about": told.bounds,
        "table": told.table,
        "problem": told.problem,
        "steps": [
            {
                "number": scene.number,
                "when": scene.when,
                "who": scene.lane,
                "with": scene.peer,
                "says": scene.says,
                "row": scene.rows[-1].id if scene.rows else None,
                "event": scene.rows[-1].told if scene.rows else None,
                "head": scene.head,
            }
            for scene in told.scenes
        ],
    }
