"""``perago status``: what runs, and what ran."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from perago_core.answers import Done
from perago_core.ledger.records import open_prefix
from perago_core.ports import Coordination
from perago_core.values import Target
from perago_worker.cli.console import AsJson, messages, out, print_json
from perago_worker.cli.finding import find_run
from perago_worker.cli.project import project_of
from perago_worker.cli.render import describe, show
from perago_worker.config.settings import targets_of
from perago_worker.stack import Stack


def status(
    context: typer.Context,
    workflow: Annotated[str, typer.Argument(help="A run; all that run if not given.")] = "",
    *,
    ended: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what runs, and with --all what ran."""
    project = project_of(context)
    pipelines = project.pipelines()
    if workflow:
        show(find_run(pipelines, workflow), as_json=as_json)
        return
    found = pipelines.everything() if ended else pipelines.running()
    for target in targets_of(project.settings):
        if _may_have_open_intents(project.coordination, target):
            _tell_unaccepted(project.stack, target)
    if as_json:
        print_json([describe(each) for each in found])
        return
    for number, view in enumerate(found):
        if number:
            out.print()
        show(view, as_json=False)
    if not found:
        out.print("there is no workflow yet" if ended else "nothing runs; `perago status --all` lists what ran")


def _may_have_open_intents(coordination: Coordination | None, target: Target) -> bool:
    """Say whether there may be a head nobody accepted; where an answer says that no intent is open, there is none."""
    if coordination is None:
        return False
    listed = coordination.list(open_prefix(target), limit=1)
    return not isinstance(listed, Done) or bool(listed.value)


def _tell_unaccepted(stack: Stack, target: Target) -> None:
    from perago_worker.ops.recover import unaccepted  # noqa: PLC0415  it compiles a machine; most looks need none

    looked = unaccepted(stack, target)
    for each in looked.heads:
        messages.print(f"[bold red]never accepted:[/bold red] {escape(each.reason)}. {escape(each.next_action)}")
    for sentence in looked.unknown:
        messages.print(f"[yellow]unknown:[/yellow] {escape(sentence)}")
