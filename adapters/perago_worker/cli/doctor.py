"""``perago doctor``: every dependency and permission a worker needs."""

from __future__ import annotations

import os
from itertools import chain

import typer
from rich.markup import escape
from rich.table import Table

from perago_worker.cli.console import AsJson, messages, out, print_json
from perago_worker.cli.project import project_of
from perago_worker.ops.doctor import Finding, examine, examine_spark


def doctor(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Look at every dependency and permission a worker needs; exit code 1 if one is missing."""
    project = project_of(context)
    findings: list[Finding] = []
    table = Table(box=None, show_header=False)
    with messages.status("looking"):
        spark = examine_spark(project.settings.spark, project.tasks, os.environ)
        for each in chain(examine(project.settings, project.tasks), spark):
            findings.append(each)
            mark = "[green]fine[/green]" if each.fine else "[red]trouble[/red]"
            table.add_row(mark, each.what, escape(each.found if each.fine else f"{each.found}. {each.fix}"))
    if as_json:
        print_json([{"what": each.what, "fine": each.fine, "found": each.found, "fix": each.fix} for each in findings])
    else:
        out.print(table)
    raise typer.Exit(0 if all(each.fine for each in findings) else 1)
