"""``perago``: explore the protocol, climb the ladder, check a trace, draw a machine.

Exit code 0: what was asked for holds. 1: a property is broken, a trace diverges. 2: the question makes no sense.
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from perago_core.description import mermaid
from perago_core.engine import Table
from perago_core.values import Backing
from perago_simulation.check_trace import check_trace
from perago_simulation.explore import Exploration, Limits, explore
from perago_simulation.ladder import ladder, ladder_text, rungs
from perago_simulation.model import Model
from perago_simulation.properties import PROPERTIES
from perago_simulation.report import page, story
from perago_simulation.settings import Setting, setting
from perago_simulation.windows import windows_text

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
console = Console()
messages = Console(stderr=True)


class Machine(StrEnum):
    """The machines that can be drawn."""

    attempt = "attempt"
    policy = "policy"
    lease = "lease"
    recovery = "recovery"


AsJson = Annotated[bool, typer.Option("--json", help="Write the result as JSON.")]


@app.command("explore")
def explore_command(
    *,
    backing: Annotated[Backing, typer.Option(help="What keeps the fence decision true.")] = Backing.SOFT,
    ledger: Annotated[bool, typer.Option(help="Arm, confirm and settle intents.")] = False,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts of each step, retries included.")] = 2,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the workflow.")] = 1,
    crashes: Annotated[int, typer.Option(min=0, help="How many executions may crash.")] = 1,
    losses: Annotated[int, typer.Option(min=0, help="How many answers may get lost.")] = 0,
    duplicates: Annotated[int, typer.Option(min=0, help="How often an attempt may be delivered again.")] = 0,
    strangers: Annotated[int, typer.Option(min=0, help="How many commits a stranger may make.")] = 0,
    pauses: Annotated[bool, typer.Option(help="Give attempts up while their worker still lives.")] = True,
    no_ops: Annotated[bool, typer.Option("--no-ops/--only-changes", help="Bodies may also change nothing.")] = False,
    same_tree: Annotated[bool, typer.Option(help="Every attempt stages the same content.")] = False,
    states: Annotated[int, typer.Option(min=1, help="Stop after so many distinct worlds.")] = 5_000_000,
    seconds: Annotated[float, typer.Option(min=0, help="Stop after so many seconds.")] = 600.0,
    html: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the shortest violation as a page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Explore one configuration exhaustively within its bounds, and show the shortest way to each violation."""
    wanted = setting(
        backing,
        ledger=ledger,
        attempts=attempts,
        steps=steps,
        crashes=crashes,
        losses=losses,
        duplicates=duplicates,
        strangers=strangers,
        pauses=pauses,
        no_ops=no_ops,
        same_tree=same_tree,
    )
    found = _explored(wanted, Limits(states=states, seconds=seconds))
    if as_json:
        console.print_json(json.dumps(_as_data(found)))
    else:
        _show(found)
    if html is not None and found.violations:
        _write_page(found, html)
    raise typer.Exit(1 if found.violations else 0)


def _write_page(found: Exploration, path: Path) -> None:
    """Write the worst of what was found: the first property in the order of the clauses."""
    path.write_text(page(story(Model(found.setting), found.violations[0])), encoding="utf-8")
    messages.print(f"wrote {path}: step through it with the arrow keys", soft_wrap=True)


def _explored(wanted: Setting, limits: Limits) -> Exploration:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task("exploring")

        def tell(generated: int, distinct: int, depth: int) -> None:
            progress.update(task, description=f"{generated:,} worlds generated, {distinct:,} distinct, depth {depth}")

        return explore(wanted, limits=limits, progress=tell)


def _show(found: Exploration) -> None:
    console.print(f"[bold]{found.setting.bounds()}[/bold]", soft_wrap=True)
    done = "every world within these bounds" if found.complete else "[red]stopped before the end[/red]"
    console.print(
        f"{found.generated:,} worlds generated, {found.distinct:,} distinct, depth {found.depth}, "
        f"{found.seconds:.1f} s: {done}",
        soft_wrap=True,
    )
    says = {each.id: each.says for each in PROPERTIES}
    broken = found.broken()
    for each in PROPERTIES:
        verdict = f"[red]broken in {broken[each.id]} steps[/red]" if each.id in broken else "[green]holds[/green]"
        console.print(f"  {each.id:<6} {says[each.id]:<58} {verdict}", soft_wrap=True)
    for violation in found.violations:
        console.print(f"\n[bold red]{violation.property}[/bold red] {violation.problem}", soft_wrap=True)
        grid = Grid(box=None, pad_edge=False, show_header=False)
        for number, (who, what, about) in enumerate(violation.trace, start=1):
            grid.add_row(f"{number:>3}", f"[cyan]{who}[/cyan]", what, f"[dim]{about}[/dim]")
        console.print(grid)


def _as_data(found: Exploration) -> dict[str, Any]:
    return {
        "bounds": found.setting.bounds(),
        "generated": found.generated,
        "distinct": found.distinct,
        "depth": found.depth,
        "seconds": round(found.seconds, 3),
        "complete": found.complete,
        "violations": [
            {"property": each.property, "problem": each.problem, "trace": [list(label) for label in each.trace]}
            for each in found.violations
        ],
    }


@app.command("ladder")
def ladder_command(
    *,
    backing: Annotated[Backing | None, typer.Option(help="Only this backing.")] = None,
    as_json: AsJson = False,
) -> None:
    """Explore every backing in every environment, and say what holds where."""
    wanted = [each for each in rungs() if backing is None or each[1].backing is backing]
    with messages.status(f"exploring {len(wanted)} combinations"):
        found = ladder(wanted)
    if as_json:
        data = [{"environment": rung.environment, **_as_data(rung.exploration)} for rung in found]
        console.print_json(json.dumps(data))
    else:
        sys.stdout.write(ladder_text(found))


@app.command("windows")
def windows_command() -> None:
    """Kill an execution at every point of every path, and say what comes of it."""
    sys.stdout.write(windows_text())


@app.command("check-trace")
def check_trace_command(
    trace: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A trace a worker wrote.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Replay a trace through the production table and name the first divergence."""
    checked = check_trace(trace.read_text(encoding="utf-8").splitlines())
    if as_json:
        console.print_json(json.dumps({"steps": checked.steps, "divergence": checked.divergence}))
    elif checked.divergence is None:
        console.print(f"[green]{checked.steps} steps agree with the table[/green]")
    else:
        console.print(f"[red]after {checked.steps} steps: {checked.divergence}[/red]")
    raise typer.Exit(0 if checked.divergence is None else 1)


@app.command("diagram")
def diagram_command(machine: Annotated[Machine, typer.Argument(help="Which machine.")] = Machine.attempt) -> None:
    """Draw a machine as a Mermaid state diagram."""
    from perago_core import attempt, lease, policy, recovery  # noqa: PLC0415  only the drawing needs all four

    tables: dict[Machine, Table[Any, Any]] = {
        Machine.attempt: attempt.ATTEMPT,
        Machine.policy: policy.POLICY,
        Machine.lease: lease.LEASE,
        Machine.recovery: recovery.RECOVERY,
    }
    sys.stdout.write(mermaid(tables[machine]))


if __name__ == "__main__":
    app()
