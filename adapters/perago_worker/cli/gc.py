"""``perago gc``: remove staging names, folders and claims that nothing needs any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from attrs import asdict, evolve
from rich.markup import escape

from perago_core.answers import Done
from perago_core.ledger.retention import Collected as OldRecords
from perago_core.values import Target
from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json
from perago_worker.cli.project import project_of, target_of
from perago_worker.folders.sandboxes import Sandboxes
from perago_worker.ops.failed import forget_failed
from perago_worker.ops.gc import Collected, CollectError, collect
from perago_worker.ops.inputs import forget_inputs
from perago_worker.ops.retention import collect_ledger
from perago_worker.ops.run_branches import CollectedRuns, collect_run_branches

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
    """Remove staging names and folders of attempts that ended, and what is left of workflows that are long over.

    The branch of a promoted run goes, and that of a failed one after its pipeline's keep_failed_days.
    From the ledger goes what is older than coordination.settled_days and audit_days, whatever the branch.
    """
    project = project_of(context)
    target = target_of(project, branch)
    pipelines = project.pipelines()
    try:
        with messages.status(f"collecting {target}"):
            collected = collect(
                project.stack, pipelines, target, older_than=older_than, unknown=unknown, dry_run=dry_run
            )
            runs = collect_run_branches(
                project.stack, pipelines, project.settings, target.repository, unknown=unknown, dry_run=dry_run
            )
            folders = () if dry_run else Sandboxes(project.settings.worker.root).sweep()
            inputs = forget_inputs(project.stack.coordination, pipelines, older_than=older_than, dry_run=dry_run)
            failed = forget_failed(project.stack, dry_run=dry_run)
            ledger = collect_ledger(project.stack, project.settings.coordination.retention(), dry_run=dry_run)
    except CollectError as error:
        raise CommandError(str(error)) from None
    collected = evolve(collected, trouble=(*collected.trouble, *runs.trouble))
    if not isinstance(ledger, Done):
        collected = evolve(collected, trouble=(*collected.trouble, f"old records of the ledger: {ledger.reason}"))
    old = ledger.value if isinstance(ledger, Done) else OldRecords()
    if as_json:
        records = {"settlements": old.settlements, "maintained": old.maintained, "audits": old.audits}
        branches = {"removed": list(runs.removed), "kept": list(runs.kept), "unknown": list(runs.unknown)}
        shown = {"folders": list(folders), "ledger": records, "run_branches": branches}
        forgotten = {"inputs": inputs, "failed_gates": failed}
        print_json({"dry_run": dry_run, **shown, **forgotten, **asdict(collected)})
        raise typer.Exit(1 if collected.trouble else 0)
    for line in _told(target, collected, old, "would remove" if dry_run else "removed"):
        out.print(line, markup=False)
    for line in _told_of_runs(runs, "would remove" if dry_run else "removed"):
        out.print(line, markup=False)
    verb = "would forget" if dry_run else "forgot"
    if inputs:
        out.print(f"{verb} {inputs} input(s) from outside, of workflows that are long over")
    if failed:
        out.print(f"{verb} {failed} result(s) that did not pass their gates, whose time is over")
    if folders:
        out.print(f"removed the local folders of {len(folders)} dead execution(s)")
    for each in collected.trouble:
        messages.print(f"[yellow]not removed:[/yellow] {escape(each)}")
    raise typer.Exit(1 if collected.trouble else 0)


def _told_of_runs(runs: CollectedRuns, verb: str) -> Iterator[str]:
    """Say which branches of runs went, and why others stay."""
    for each in runs.removed:
        yield f"{verb} {each}, whose run needs it no more"
    for each in runs.kept:
        yield f"kept {each}: its run is under way, or failed less than keep_failed_days ago"
    for each in runs.unknown:
        yield f"kept {each}: its run is not known here. If no other orchestrator uses the repository: --unknown"


def _told(target: Target, collected: Collected, old: OldRecords, verb: str) -> Iterator[str]:
    """Say what went, or would go, and what was kept and why."""
    yield f"{target}: {verb} {len(collected.names)} staging name(s) and the claims of {len(collected.claims)} task(s)"
    for name in collected.names:
        yield f"  {name}"
    if collected.objects:
        yield f"{verb} {collected.objects} object(s) that nothing reaches any more"
    if collected.intents:
        yield f"{verb} {len(collected.intents)} intent(s) whose worker died before anybody could find them"
    if old.removed:
        yield (
            f"{verb} {old.settlements} settlement(s), {old.maintained} record(s) of maintenance and {old.audits} audit "
            "record(s) whose time is over"
        )
    if collected.kept:
        yield f"kept {len(collected.kept)} name(s) of attempts that may still act"
    if collected.unknown:
        yield (
            f"kept {len(collected.unknown)} name(s) this orchestrator has never heard of: another one's, a probe's, or "
            "of a workflow that was removed. If no other one uses the repository, `perago gc --unknown` removes them"
        )
