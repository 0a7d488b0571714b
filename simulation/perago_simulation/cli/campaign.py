"""The command that makes very many random schedules, somewhere, and keeps what they came to as a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from attrs import asdict, frozen
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from perago_core.value import Value
from perago_simulation.campaign import (
    PIECE,
    Campaign,
    CampaignError,
    Engine,
    EngineError,
    Folder,
    Processes,
    Summary,
    carry_out,
)
from perago_simulation.cli.console import remarks, results, write_json
from perago_simulation.cli.options import AsJson, Asked, Judge, Judged, asks_about_a_setting
from perago_simulation.cli.runs import By


@frozen(repr=False)
class Where(Value):
    """What an engine may be told: how many processes, which master, and settings of it."""

    processes: int | None = None
    master: str | None = None
    conf: tuple[str, ...] = ()


#: Makes an engine; raises ``ImportError`` or ``RuntimeError`` with what to do if it cannot run here.
Maker: TypeAlias = Callable[[Where], Engine]


def in_processes(where: Where) -> Engine:
    """Take processes of this machine."""
    return Processes(where.processes)


#: Who can make schedules without anything else installed. Whoever has more engines hands them over as ``obj``.
ENGINES: Mapping[str, Maker] = {"processes": in_processes}
#: What a shell shows for a program that was interrupted.
_INTERRUPTED = 130
_MASTER = (
    "Spark's master, e.g. spark://host:7077. Its workers need a Python of this version that has perago-core with the "
    "extra 'simulation'; name it with --conf spark.pyspark.python=PATH."
)


@asks_about_a_setting
def campaign_command(
    *,
    context: typer.Context,
    asked: Asked,
    schedules: Annotated[str, typer.Option(help="How many schedules; 1e6 is a million.")] = "100000",
    on: Annotated[str, typer.Option(help="Who makes them: processes of this machine, or spark.")] = "processes",
    out: Annotated[Path, typer.Option(file_okay=False, help="Where the outcomes go.")] = Path("campaign"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the campaign in that folder.")] = False,
    scheduler: Annotated[By, typer.Option(help="Who chooses what happens next.")] = By.swarm,
    seed: Annotated[int, typer.Option(help="The same seed makes the same choices.")] = 0,
    moves: Annotated[int, typer.Option(min=1, help="How long a schedule may become.")] = 200,
    piece: Annotated[int, typer.Option(min=1, help="Schedules of one task and one file.")] = PIECE,
    processes: Annotated[int | None, typer.Option(min=1, help="How many processes, on processes.")] = None,
    master: Annotated[str | None, typer.Option(help=_MASTER)] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark.")] = None,
    judge: Judge = Judged.outcome,
    as_json: AsJson = False,
) -> None:
    """Make very many random schedules, keep what each came to as a Parquet data set, and sum it up."""
    asked.model()  # a store or runtime that is not there is an error of the question, and found before any work
    campaign = Campaign(
        setting=asked.setting,
        store=asked.store,
        runtime=asked.runtime,
        scheduler=scheduler.value,
        seed=seed,
        moves=moves,
        everything=judge is Judged.everything,
    )
    wanted = _number(schedules)
    engine = _engine(context.obj or ENGINES, on, Where(processes, master, tuple(conf or ())))
    try:
        with _counting(wanted) as tell:
            found = carry_out(campaign, Folder(out), wanted, engine, resume=resume, piece=piece, progress=tell)
    except CampaignError as problem:
        raise typer.BadParameter(str(problem), param_hint="--out") from problem
    except EngineError as problem:
        remarks.print(f"[red]error:[/red] {escape(str(problem))}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        remarks.print(f"stopped; what was made is in {out}: the same command with --resume goes on")
        raise typer.Exit(_INTERRUPTED) from None
    if as_json:
        write_json(asdict(found))
    else:
        _show(found, campaign, out)
    raise typer.Exit(1 if found.broken else 0)


def _number(text: str) -> int:
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        number = 0.0
    if not (1 <= number < sys.maxsize and number.is_integer()):
        raise typer.BadParameter(
            f"expected a whole number, 1 or more, such as 1e6; found {text!r}", param_hint="--schedules"
        )
    return int(number)


def _engine(engines: Mapping[str, Maker], on: str, where: Where) -> Engine:
    if on not in engines:
        raise typer.BadParameter(f"expected {' or '.join(engines)}; found {on!r}", param_hint="--on")
    try:
        return engines[on](where)
    except (ImportError, RuntimeError, ValueError) as problem:
        raise typer.BadParameter(str(problem), param_hint="--on") from problem


class _counting:  # noqa: N801  used as a function is
    """Show how many schedules have been made."""

    def __init__(self, total: int) -> None:
        words = (SpinnerColumn(), TextColumn("{task.description}"))
        numbers = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*words, *numbers, console=remarks, transient=True)
        self._task = self._progress.add_task("making schedules", total=total)

    def __enter__(self) -> Callable[[int], None]:
        self._progress.start()
        return lambda made: self._progress.update(self._task, completed=made)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _show(found: Summary, campaign: Campaign, out: Path) -> None:
    results.print(f"[bold]{campaign.setting.bounds()}[/bold]", soft_wrap=True)
    says = f"[red]{len(found.broken)} properties broken[/red]" if found.broken else "[green]none is broken[/green]"
    results.print(
        f"{found.schedules:,} schedules, {found.steps:,} steps, digest {found.digest}: {says}", soft_wrap=True
    )
    for title, counted in (("what came of it", found.outcomes), ("faults met, and where", found.faults)):
        results.print(_grid(title, counted, found.schedules))
    for each in found.broken:
        results.print(
            f"\n[bold red]{each.property}[/bold red] in {each.schedules:,} schedules; "
            f"the shortest is {each.seed} with {each.steps} steps:",
            soft_wrap=True,
        )
        results.print(f"perago replay '{each.line}'", soft_wrap=True, markup=False, highlight=False)
    results.print(f"\nEach schedule is a row of {out}/outcomes/*.parquet", soft_wrap=True, markup=False)


def _grid(title: str, counted: Mapping[str, int], of: int) -> Grid:
    grid = Grid(title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
    for name, number in counted.items():
        grid.add_row(name, f"{number:,}", f"{number / of:.1%}")
    return grid


def engine_conf(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Read ``KEY=VALUE`` pairs; raise ``ValueError`` for one that is none."""
    if wrong := [each for each in pairs if "=" not in each]:
        message = f"expected KEY=VALUE; found {', '.join(map(repr, wrong))}"
        raise ValueError(message)
    return dict(each.split("=", 1) for each in pairs)
