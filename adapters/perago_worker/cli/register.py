"""``perago register``: task definitions at the orchestrator."""

from __future__ import annotations

import typer

from perago_worker.cli.console import AsJson, out, print_json
from perago_worker.cli.project import project_of


def register(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Make the project's tasks known to the orchestrator."""
    project = project_of(context)
    tasks = project.all_tasks()
    project.pipelines().register(tasks.values())
    if as_json:
        print_json({"registered": list(tasks)})
    else:
        out.print(f"registered {', '.join(tasks)}")
