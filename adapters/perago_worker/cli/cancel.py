"""``perago cancel``: end a run."""

from __future__ import annotations

from typing import Annotated

import typer

from perago_core.pipelines import Pipelines, PipelineView
from perago_worker.cli.console import AsJson, CommandError, messages
from perago_worker.cli.finding import find_run_to_change
from perago_worker.cli.project import project_of
from perago_worker.cli.render import show


def cancel(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="A run that runs, or a pipeline of which one runs.")],
    *,
    reason: Annotated[str, typer.Option(help="Why, for whoever looks later.")] = "cancelled by an operator",
    as_json: AsJson = False,
) -> None:
    """End a run: its attempts are refused from now on. What was accepted stays; `perago retry` can go on with it."""
    pipelines = project_of(context).pipelines()
    view = find_run_to_change(pipelines, run, running=True)
    after = end_run(pipelines, view, reason)
    if not as_json:
        messages.print(
            f"cancelled {view.workflow_id}; a body that still runs is stopped with its worker's next heartbeat"
        )
    show(after, as_json=as_json)


def end_run(pipelines: Pipelines, view: PipelineView, reason: str) -> PipelineView:
    """End a run that runs, and show how it stands then."""
    if not view.running:
        raise CommandError(
            f"{view.workflow_id} has ended already: {view.status.lower()}; `perago runs` lists what runs"
        )
    pipelines.stop(view.workflow_id, reason)
    return pipelines.view(view.workflow_id) or view
