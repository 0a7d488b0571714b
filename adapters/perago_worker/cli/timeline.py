"""``perago timeline``: what happened in a run, step by step, as text, as a page or as data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from perago_report import Story, page
from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json
from perago_worker.cli.finding import find_attempts
from perago_worker.cli.project import Project, project_of
from perago_worker.ops.timeline import TimelineError
from perago_worker.ops.timeline import timeline as tell_run


def timeline(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="A workflow, or a task: then all attempts of that task.")],
    *,
    html: Annotated[Path | None, typer.Option(help="Write a page to step through with the arrow keys.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell a run step by step, from the traces of its workers: who asked for what, what was answered, what then."""
    project = project_of(context)
    story = story_of(project, what)
    if html is not None:
        write_page(story, html)
        messages.print(f"wrote {html}: open it in a browser and step with the arrow keys")
    if as_json:
        print_json(_data(story))
    elif html is None:
        _print(story)
    raise typer.Exit(1 if story.breaks else 0)


def story_of(project: Project, what: str) -> Story:
    """Tell a workflow or a task of a project."""
    pipelines = project.pipelines()
    found = find_attempts(pipelines, what)
    view = found.run
    of_one_step = {each.step for each in found.attempts} if len(found.attempts) < len(view.attempts) else set[str]()
    task = f"{view.workflow_id}/{of_one_step.pop()}" if len(of_one_step) == 1 else ""
    try:
        story = tell_run(project.settings.worker.trace, project.stack.store, view, task)
    except TimelineError as error:
        raise CommandError(str(error)) from None
    return story


def write_page(told: Story, file: Path) -> None:
    """Write the page of a story."""
    try:
        file.write_text(page(told), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}; name another file") from None


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
