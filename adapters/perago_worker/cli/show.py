"""``perago show``: one run, step by step."""

from __future__ import annotations

from typing import Annotated

import typer

from perago_worker.cli import render
from perago_worker.cli.console import AsJson
from perago_worker.cli.finding import find_run
from perago_worker.cli.project import project_of


def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="A run: its id, the beginning of it, or a pipeline, whose newest it is.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show one run: its steps with durations, results and reasons, and what to do next."""
    render.show(find_run(project_of(context).pipelines(), run), as_json=as_json)
