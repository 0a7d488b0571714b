"""``perago history``: the commits of a branch."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from perago_core.answers import Done
from perago_core.values import Commit, Target
from perago_worker.cli.console import AsJson, CommandError, out, print_json
from perago_worker.cli.project import Project, project_of, target_of


def history(
    context: typer.Context,
    branch: Annotated[str, typer.Argument(help="REPOSITORY/BRANCH; that of the only pipeline if not given.")] = "",
    *,
    limit: Annotated[int, typer.Option(help="How many commits.", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """Draw the branch: every publication, newest first."""
    project = project_of(context)
    target = target_of(project, branch)
    commits = _history(project, target, limit)
    if as_json:
        print_json([{"ref": each.ref, "parents": list(each.parents), "message": each.message} for each in commits])
        return
    out.print(f"[bold]{target}[/bold]")
    for number, each in enumerate(commits):
        first = each.message.splitlines()[0] if each.message else ""
        line = f"[yellow]●[/yellow] [cyan]{each.ref[:12]}[/cyan]  {escape(first)}"
        out.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=False)
        if number + 1 < len(commits):
            out.print("[yellow]│[/yellow]")
        elif each.parents:
            out.print(f"[dim]┆ and more; --limit {2 * limit}[/dim]")


def _history(project: Project, target: Target, limit: int) -> tuple[Commit, ...]:
    found = project.stack.store.history(target, limit)
    if not isinstance(found, Done) or not found.value:
        raise CommandError(f"{target} cannot be read: {'no such branch' if isinstance(found, Done) else found.reason}")
    return found.value
