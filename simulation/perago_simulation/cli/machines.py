"""The commands about the machines themselves: check a trace against the table, draw a table."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from perago_core.machine.description import describe, digest, mermaid
from perago_core.machine.engine import Table
from perago_simulation.cli.console import results, write_json
from perago_simulation.cli.options import AsJson
from perago_simulation.runs.trace_check import check_trace


def check_trace_command(
    trace: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A trace a worker wrote.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Replay a trace through the production table and name the first divergence."""
    checked = check_trace(trace.read_text(encoding="utf-8").splitlines())
    if as_json:
        write_json({"steps": checked.steps, "divergence": checked.divergence})
    elif checked.divergence is None:
        results.print(f"[green]{checked.steps} steps agree with the table[/green]")
    else:
        results.print(f"[red]after {checked.steps} steps: {checked.divergence}[/red]", soft_wrap=True)
    raise typer.Exit(0 if checked.divergence is None else 1)


class Machine(StrEnum):
    """The machines that can be drawn."""

    attempt = "attempt"
    policy = "policy"
    lease = "lease"
    recovery = "recovery"


def diagram_command(
    machine: Annotated[Machine, typer.Argument(help="Which machine.")] = Machine.attempt,
    *,
    as_json: AsJson = False,
) -> None:
    """Draw a machine as a Mermaid state diagram, or give its whole table as JSON."""
    from perago_core import attempt, lease, policy, recovery  # noqa: PLC0415  only the drawing needs all four

    tables: dict[Machine, Table[Any, Any]] = {
        Machine.attempt: attempt.ATTEMPT,
        Machine.policy: policy.POLICY,
        Machine.lease: lease.LEASE,
        Machine.recovery: recovery.RECOVERY,
    }
    table = tables[machine]
    if as_json:
        write_json({"digest": digest(table), **describe(table)})
    else:
        sys.stdout.write(mermaid(table))
