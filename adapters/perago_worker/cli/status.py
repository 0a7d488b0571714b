"""``perago status``: what runs, and what ran."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from perago_core.answers import Done
from perago_core.ledger.records import open_prefix
from perago_core.values import Target
from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json
from perago_worker.cli.project import project_of
from perago_worker.cli.render import describe, show
from perago_worker.config.settings import targets_of
from perago_worker.stack import Stack


def status(
    context: typer.Context,
    workflow: Annotated[str, typer.Argument(help="A workflow; all that run if not given.")] = "",
    *,
    ended: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what runs, and with --all what ran."""
    project = project_of(context)
    pipelines = project.pipelines()
    if workflow:
        view = pipelines.view(workflow)
        if view is None:
            raise CommandError(f"there is no workflow {workflow!r}; `perago status --all` lists them")
        show(view, as_json=as_json)
        return
    found = pipelines.everything() if ended else pipelines.running()
    if as_json:
        print_json([describe(each) for each in found])
        return
    for number, view in enumerate(found):
        if number:
            out.print()
        show(view, as_json=False)
    for target in targets_of(project.settings):
        if _has_open_intents(project.stack, target):
            _tell_unaccepted(project.stack, target)
    if not found:
        out.print("there is no workflow yet" if ended else "nothing runs; `perago status --all` lists what ran")


def _has_open_intents(stack: Stack, target: Target) -> bool:
    """Say whether there may be a head nobody accepted; without an open intent there is none."""
    listed = None if stack.coordination is None else stack.coordination.list(open_prefix(target), limit=1)
    return isinstance(listed, Done) and bool(listed.value)


def _tell_unaccepted(stack: Stack, target: Target) -> None:
    from perago_worker.ops.recover import unaccepted  # noqa: PLC0415  it compiles a machine; most looks need none

    for each in unaccepted(stack, target):
        messages.print(f"[bold red]never accepted:[/bold red] {escape(each.reason)}. {escape(each.next_action)}")
