"""``perago rm``: forget runs that have ended."""

from __future__ import annotations

from typing import Annotated

import typer

from perago_core.answers import Done
from perago_core.ledger.records import open_prefix
from perago_core.pipelines import PipelineView
from perago_worker.cli.console import AsJson, CommandError, messages, print_json
from perago_worker.cli.finding import find_run_to_change
from perago_worker.cli.project import Project, project_of


def rm(
    context: typer.Context,
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs that have ended.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Forget ended runs and their logs. Branches and audit stay; a run with unsettled publications stays, too."""
    project = project_of(context)
    pipelines = project.pipelines()
    views = [find_run_to_change(pipelines, each, running=False) for each in runs]
    for view in views:
        if view.running:
            raise CommandError(f"{view.workflow_id} runs: `perago cancel {view.workflow_id}` first")
        _require_settled(project, view)
    for view in views:
        pipelines.remove(view.workflow_id)
        messages.print(f"removed {view.workflow_id}")
    if as_json:
        print_json({"removed": [each.workflow_id for each in views]})


def _require_settled(project: Project, view: PipelineView) -> None:
    """Keep the orchestrator's word on a publication until the ledger has it.

    Counterexample: a run publishes and is accepted, its worker dies before it writes that down, and the run is removed:
    now nobody knows that what stands on the branch was accepted.
    """
    coordination = project.stack.coordination
    for target in (view.target, view.branch_of_its_own):
        if target is None or coordination is None:
            continue
        listed = coordination.list(open_prefix(target), limit=1)
        if not isinstance(listed, Done):
            raise CommandError(f"expected to know what is open on {target}: {listed.reason}. Nothing was removed")
        if listed.value:
            raise CommandError(
                f"publications to {target} are not settled yet, and only their runs say what became of them: "
                f"`perago recover {target} --settle` first"
            )
