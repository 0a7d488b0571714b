"""``perago worker``: poll for tasks and run them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from perago_worker.cli.console import log_to_screen
from perago_worker.cli.keep import keeping
from perago_worker.cli.project import project_of
from perago_worker.logger import log
from perago_worker.pipelines.taskdefs import settle_drift
from perago_worker.runtime.assembly import assemble
from perago_worker.runtime.worker import draining_on_signals


def worker(
    context: typer.Context,
    *,
    until_idle: Annotated[bool, typer.Option(help="Stop when there is nothing to do.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every step.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Log one JSON object a line.")] = False,
) -> None:
    """Poll for tasks and run them. SIGTERM drains; a second one stops.

    Pipelines with ``every`` are started again and again, except with --until-idle.
    """
    project = project_of(context)
    log_to_screen(verbose=verbose, as_json=as_json)
    tasks = project.tasks()
    settle_drift(
        project.all_tasks(),
        project.pipelines(),
        project.settings.orchestrator.on_drift,
    )
    moved = True
    code = 0
    while moved:
        with (
            assemble(project.settings, project.stack, tasks) as assembled,
            draining_on_signals(assembled.worker),
            nullcontext() if until_idle else keeping(project, assembled.worker),
        ):
            code = assembled.worker.run(until_idle=until_idle)
        moved = assembled.worker.moved
        if moved:
            log.info("the policy of the cluster has changed: starting again under it")
    raise typer.Exit(code)
