"""``perago_worker.run``: a pipeline or a task from Python, for notebooks and scripts; the same as ``perago run``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from perago_worker.api.errors import UserError


class RunFailedError(UserError):
    """A run has not come to its end; the message says why, and how to go on with it."""


@frozen
class Finished:
    """A run of which every step was accepted: what each step gave, and the commit that the last one left."""

    run: str
    results: Mapping[str, Any]
    commit: str | None


def run(name: str, params: Mapping[str, Any] | None = None, *, project: str | Path = ".", target: str = "") -> Finished:
    """Run a pipeline or a task of a project here, show its progress on standard error, and give what it gave.

    Raises ``RunFailedError`` if a step failed for good, and ``UserError`` for what can be told before anything runs.
    An interrupt lets the step that runs end; a second one stops it.
    """
    from perago_worker.cli.project import Project, find_project  # noqa: PLC0415  a task's module needs no command line
    from perago_worker.cli.render import what_next  # noqa: PLC0415  as above
    from perago_worker.cli.run import run_one  # noqa: PLC0415  as above

    opened = Project(find_project(Path(project)))
    try:
        view = run_one(opened, name, dict(params or {}), target).view
    finally:
        opened.close()
    if not view.succeeded:
        reason = view.reason or next((each.reason for each in reversed(view.attempts) if each.reason), "")
        raise RunFailedError(f"{view.workflow_id}: {view.status.lower()}: {reason} Next: {what_next(view)}")
    return Finished(view.workflow_id, {step: each.get("result") for step, each in view.output.items()}, view.reached)
