"""``perago extract``: the task definitions of a project as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from perago_conductor.documents import task_document
from perago_worker.cli.console import CommandError, messages, print_json
from perago_worker.cli.project import project_of


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
    documents = [task_document(task, budget) for task in project.tasks().values()]
    if output is None:
        print_json(documents)
    else:
        try:
            output.write_text(json.dumps(documents, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}; name another file") from None
        messages.print(f"wrote {len(documents)} definition(s) to {output}")
