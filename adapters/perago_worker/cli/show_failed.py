"""``perago show-failed``: what did not pass its gates, and how to look at it."""

from __future__ import annotations

import time

import typer
from attrs import asdict
from rich.markup import escape

from perago_worker.cli.console import AsJson, CommandError, out, print_json
from perago_worker.cli.project import project_of
from perago_worker.ops.failed import failed_gates
from perago_worker.ops.gc import CollectError


def show_failed(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List what did not pass its gates: why, until when it is kept, and under which name it can be read."""
    stack = project_of(context).stack
    now = stack.clock.wall()
    try:
        found = [each for each in failed_gates(stack.coordination) if each.until > now]
    except CollectError as error:
        raise CommandError(str(error)) from None
    if as_json:
        print_json([{**asdict(each), "places": list(each.places())} for each in found])
        return
    for each in sorted(found, key=lambda each: each.until):
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.until / 1000))
        out.print(f"[bold]{escape(each.logical_task)}[/bold] task {escape(each.task_id)}, kept until {until}")
        out.print(f"  {escape(each.reason)}")
        for place in each.places():
            out.print(f'  look at it with dataset("{escape(place)}").pandas(), or load("{escape(place)}") on Spark')
    if not found:
        out.print("nothing that did not pass its gates is kept")
