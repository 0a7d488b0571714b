"""``perago gc``: remove staging names, folders and claims that nothing needs any more."""

from __future__ import annotations

from typing import Annotated

import typer
from attrs import asdict
from rich.markup import escape

from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json
from perago_worker.cli.project import project_of, target_of
from perago_worker.folders.sandboxes import Sandboxes
from perago_worker.ops.gc import CollectError, collect

_DAY = 24 * 3600.0


def gc(
    context: typer.Context,
    branch: Annotated[str, typer.Argument(help="REPOSITORY/BRANCH; that of the only pipeline if not given.")] = "",
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    older_than: Annotated[float, typer.Option(help="Seconds a workflow must be over before its claims go.")] = _DAY,
    unknown: Annotated[
        bool,
        typer.Option(
            "--unknown",
            help="Also what this orchestrator has never heard of. Only if no other one uses the repository, and nobody "
            "probes it now.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove staging names and folders of attempts that ended, and what is left of workflows that are long over."""
    project = project_of(context)
    target = target_of(project, branch)
    pipelines = project.pipelines()
    try:
        with messages.status(f"collecting {target}"):
            collected = collect(
                project.stack, pipelines, target, older_than=older_than, unknown=unknown, dry_run=dry_run
            )
            folders = () if dry_run else Sandboxes(project.settings.worker.root).sweep()
    except CollectError as error:
        raise CommandError(str(error)) from None
    if as_json:
        print_json({"dry_run": dry_run, "folders": list(folders), **asdict(collected)})
        raise typer.Exit(1 if collected.trouble else 0)
    verb = "would remove" if dry_run else "removed"
    out.print(
        f"{target}: {verb} {len(collected.names)} staging name(s) and the claims of {len(collected.claims)} task(s)"
    )
    for name in collected.names:
        out.print(f"  {name}", markup=False)
    if collected.intents:
        out.print(f"{verb} {len(collected.intents)} intent(s) whose worker died before anybody could find them")
    if collected.kept:
        out.print(f"kept {len(collected.kept)} name(s) of attempts that may still act")
    if collected.unknown:
        out.print(
            f"kept {len(collected.unknown)} name(s) this orchestrator has never heard of: another one's, a probe's, or "
            "of a workflow that was removed. If no other one uses the repository, `perago gc --unknown` removes them"
        )
    if folders:
        out.print(f"removed the local folders of {len(folders)} dead execution(s)")
    for each in collected.trouble:
        messages.print(f"[yellow]not removed:[/yellow] {escape(each)}")
    raise typer.Exit(1 if collected.trouble else 0)
