"""Commands about task definitions: extract, register, diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from perago_worker.cli.console import AsJson, CommandError, add_commands, messages, out, print_json, project_of
from perago_worker.pipelines import pipelines_of
from perago_worker.taskdefs import differences, document


def add_to(app: typer.Typer, panel: str) -> None:
    """Add these commands."""
    add_commands(app, panel, extract=extract, register=register, diff=diff)


def extract(
    context: typer.Context,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write here, not to standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="It is JSON anyway.")] = False,
) -> None:
    """Write the definitions of the project's tasks as JSON, as Conductor takes them."""
    del as_json  # so that --json may be said everywhere
    documents = [document(task) for task in project_of(context).tasks().values()]
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
    tasks = project.tasks()
    pipelines_of(project.stack).register(tasks.values())
    if as_json:
        print_json({"registered": list(tasks)})
    else:
        out.print(f"registered {', '.join(tasks)}")


def diff(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show where what is registered is not what is declared; exit code 1 if there is a difference."""
    project = project_of(context)
    found = differences(project.tasks().values(), pipelines_of(project.stack).registered())
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
            out.print("`perago register` registers what is declared")
        else:
            out.print("[green]registered as declared[/green]")
    raise typer.Exit(1 if found else 0)
