"""``perago verify``: whether a branch holds what was accepted, and nothing else."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape

from perago_core.values import Target
from perago_core.verification import Kind, Verdict
from perago_worker.cli.console import AsJson, messages, out, print_json
from perago_worker.cli.project import project_of, target_of
from perago_worker.ops.verify import verify as verified

#: Kinds a person should see, whatever the verdict.
_NAMED = (Kind.KEPT, Kind.STRANGER, Kind.UNDER_WAY, Kind.REVERT, Kind.REVERTED)


def verify(
    context: typer.Context,
    branch: Annotated[str, typer.Argument(help="REPOSITORY/BRANCH; that of the only pipeline if not given.")] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Prove on a branch that every accepted result is there, in order, once, and nothing else; exit code 1 if not."""
    project = project_of(context)
    target = target_of(project, branch)
    with messages.status(f"comparing {target} with what was accepted"):
        verdict = verified(project.stack, project.pipelines(), target)
    if as_json:
        print_json(describe_verdict(target, verdict))
    else:
        for each in verdict.findings:
            if each.kind in _NAMED:
                out.print(f"[yellow]{each.commit.ref[:12]}[/yellow] {each.kind.value} {escape(each.whose)}".rstrip())
        for sentence in verdict.broken:
            out.print(f"[bold red]broken:[/bold red] {escape(sentence)}")
        if not verdict.broken:
            number = sum(each.kind is Kind.ACCEPTED for each in verdict.findings)
            results = "1 accepted result is" if number == 1 else f"{number} accepted results are"
            out.print(f"{target}: {results} there, in order, once, and nothing unaccepted lies between")
    raise typer.Exit(1 if verdict.broken else 0)


def describe_verdict(target: Target, verdict: Verdict) -> dict[str, Any]:
    """Describe what a branch was found to hold."""
    return {
        "target": str(target),
        "holds": not verdict.broken,
        "broken": list(verdict.broken),
        "commits": [
            {"ref": each.commit.ref, "kind": each.kind.value, "task": each.whose or None} for each in verdict.findings
        ],
    }
