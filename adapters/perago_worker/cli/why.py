"""``perago why``: who made a file as it is."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape

from perago_worker.cli.console import AsJson, messages, out, print_json
from perago_worker.cli.project import project_of, target_of
from perago_worker.ops.why import Why
from perago_worker.ops.why import why as reason

_ACCEPTED = {True: "accepted", False: "[bold red]never accepted[/bold red]", None: "[yellow]unknown[/yellow]"}


def why(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="A file of the branch, or a folder.")],
    *,
    at: Annotated[str, typer.Option(metavar="REF", help="A commit, or the beginning of its id; the head else.")] = "",
    branch: Annotated[
        str, typer.Option(metavar="REPOSITORY/BRANCH", help="That of the only pipeline if not given.")
    ] = "",
    limit: Annotated[int, typer.Option(help="How many commits to look at.", min=1)] = 1000,
    as_json: AsJson = False,
) -> None:
    """Say which attempt made a file as it is, from which code, parameters and input, and whether it was accepted.

    What nobody can tell any more is said to be unknown; then the exit code is 1.
    """
    project = project_of(context)
    target = target_of(project, branch)
    with messages.status(f"looking for what changed {path} last"):
        found = reason(project.stack, project.pipelines(), target, path, at=at, limit=limit)
    if as_json:
        print_json(_described(found))
    else:
        _show(found)
    raise typer.Exit(1 if found.unknown else 0)


def _described(found: Why) -> dict[str, object]:
    maker, target = found.maker, found.target
    place = {"repository": target.repository, "branch": target.branch}
    return {
        "path": found.path,
        **place,
        "at": found.at,
        "commit": found.commit.ref,
        "files": found.files,
        "attempt": None
        if maker is None
        else {
            "task": maker.task_id,
            "logical_task": maker.logical_task,
            "number": maker.number,
            "execution": maker.execution,
            "workflow": found.workflow_id,
            "evidence": list(maker.evidence),
        },
        "code": None if maker is None else maker.code,
        "params": None if found.params is None else dict(found.params),
        "inputs": [] if found.input is None else [{**place, "commit": found.input}],
        "accepted": found.accepted,
        "unknown": list(found.unknown),
    }


def _show(found: Why) -> None:
    maker = found.maker
    what = "" if found.files == 1 else f", {found.files} files"
    out.print(f"[bold]{escape(found.path or '/')}[/bold]{what} on {found.target} at {found.at[:12]}")
    out.print(f"  commit    [cyan]{found.commit.ref[:12]}[/cyan]  {_ACCEPTED[found.accepted]}")
    if maker is not None:
        by = ", ".join(maker.evidence) or "its own message only"
        out.print(f"  made by   attempt {maker.number} of {escape(maker.logical_task)}, task {escape(maker.task_id)}")
        out.print(f"  says so   {by}")
        out.print(f"  code      {escape(maker.code or 'unknown')}")
        params = "unknown" if found.params is None else json.dumps(dict(found.params), ensure_ascii=False)
        out.print(f"  params    {escape(params)}")
    if found.input is not None:
        out.print(f"  input     {found.target} at {found.input[:12]}")
    for sentence in found.unknown:
        out.print(f"[yellow]unknown:[/yellow] {escape(sentence)}")
