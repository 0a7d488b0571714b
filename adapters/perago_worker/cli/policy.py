"""``perago policy``: the decision of the cluster on how publications are fenced."""

from __future__ import annotations

import typer

from perago_core.answers import Done
from perago_core.policy.messages import Decision
from perago_core.policy.state import PREFIX, latest_decision
from perago_worker.cli.console import AsJson, CommandError, out, print_json, teaching
from perago_worker.cli.project import project_of

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def policy() -> None:
    """Show the decision of the cluster on how publications are fenced."""


@app.command("show")
@teaching
def show(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show the stored decision: which backing, since which epoch, on what evidence, by whom."""
    project = project_of(context)
    if project.stack.coordination is None:
        raise CommandError("no coordination store is configured, so nothing is stored; set coordination.kind")
    found = project.stack.coordination.list(PREFIX)
    if not isinstance(found, Done):
        raise CommandError(f"the decision cannot be read: {found.reason}")
    decision = latest_decision(found.value)
    wanted = project.settings.fence.policy
    if as_json:
        stored = None if decision is None else _decision(decision)
        print_json({"policy": wanted, "decision": stored})
    elif decision is None:
        out.print(f"policy {wanted}; nothing is decided yet: the first worker that starts decides")
    else:
        out.print(f"policy {wanted}; backing [bold]{decision.backing.value}[/bold] since epoch {decision.epoch}")
        out.print(f"{decision.evidence.value} by {decision.detector}")


def _decision(decision: Decision) -> dict[str, object]:
    return {
        "backing": decision.backing.value,
        "epoch": decision.epoch,
        "evidence": decision.evidence.value,
        "detector": decision.detector,
    }
