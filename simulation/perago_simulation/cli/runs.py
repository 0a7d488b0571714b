"""The commands that end in a run somebody can look at: explore, simulate, replay."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer
from attrs import evolve
from rich.markup import escape
from rich.table import Table as Grid

from perago_core.attempt import ATTEMPT
from perago_report import columns, sequence
from perago_simulation.cli import data
from perago_simulation.cli.console import remarks, results, spinning, write_json, write_page
from perago_simulation.cli.options import (
    AsJson,
    Asked,
    Html,
    Judge,
    Judged,
    OwnRuntime,
    OwnStore,
    asks_about_a_setting,
    embedded,
)
from perago_simulation.explore.exploration import Exploration, Limits, Violation
from perago_simulation.explore.search import explore
from perago_simulation.properties.witnesses import ACCEPTED
from perago_simulation.report.story import story
from perago_simulation.runs.replay import (
    EVERYTHING,
    LineError,
    ReplayError,
    Stored,
    command_of,
    model_of,
    read_line,
    replay,
    verdict,
)
from perago_simulation.runs.schedule import (
    Failure,
    Pct,
    Scheduler,
    Simulation,
    Swarm,
    Weighted,
    WorldCache,
    shrink,
    simulate,
)
from perago_simulation.world.model import Model


@asks_about_a_setting
def explore_command(
    *,
    asked: Asked,
    limits: Limits,
    processes: Annotated[int, typer.Option(min=1, help="How many processes share the work.")] = 1,
    judge: Judge = Judged.outcome,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Explore one configuration exhaustively within its bounds, and show the shortest way to each violation."""
    model = asked.model()
    with spinning("exploring") as say:

        def tell(generated: int, distinct: int, depth: int) -> None:
            say(f"{generated:,} worlds generated, {distinct:,} distinct, depth {depth}")

        try:
            found = explore(model, (*judge.properties(), ACCEPTED), limits, tell, processes=processes)
        except Exception as error:
            if asked.store is None and asked.runtime is None:
                raise
            remarks.print(
                f"[red]your {asked.runtime or asked.store} raised {type(error).__name__}: {escape(str(error))}[/red]\n"
                "`perago simulate` with the same options shows the run that leads there.",
                soft_wrap=True,
            )
            raise typer.Exit(1) from error
    first = found.broken().get(ACCEPTED.id)
    found = evolve(found, violations=tuple(each for each in found.violations if each.property != ACCEPTED.id))
    # Rows fire in the process that explores them; only where there is one are they all known.
    rows = len(model.fired) if processes == 1 else None
    if as_json:
        write_json({**data.explored(found, model), "first_accepted": first, "rows": rows})
    else:
        _show_exploration(found, model, judge)
        _show_acceptance(first, rows)
    if html is not None and found.violations:
        # The worst of what was found: the first property in the order of the clauses.
        write_page(story(model, found.violations[0], EVERYTHING), html)
    raise typer.Exit(1 if found.violations or (first is None and found.complete) else 0)


def _show_acceptance(first: int | None, rows: int | None) -> None:
    """Say that something was tried at all: a protocol that never publishes breaks nothing."""
    if first is None:
        results.print("[red]no result is ever accepted here, so whatever holds, holds vacuously[/red]", soft_wrap=True)
    else:
        results.print(f"a result is accepted after {first} steps at the earliest", soft_wrap=True)
    if rows:
        results.print(f"{rows} of the {len(ATTEMPT.definition.rows)} rows of the table have fired", soft_wrap=True)


def _show_exploration(found: Exploration, model: Model, judge: Judged) -> None:
    results.print(f"[bold]{found.setting.bounds()}[/bold]", soft_wrap=True)
    done = (
        "every world within these bounds" if found.complete else f"[red]stopped before the end: {found.stopped}[/red]"
    )
    results.print(
        f"{found.generated:,} worlds generated, {found.distinct:,} distinct, depth {found.depth}, "
        f"{found.seconds:.1f} s: {done}",
        soft_wrap=True,
    )
    broken = found.broken()
    for each in judge.properties():
        says = f"[red]broken in {broken[each.id]} steps[/red]" if each.id in broken else "[green]holds[/green]"
        results.print(f"  {each.id:<6} {each.says:<58} {says}", soft_wrap=True)
    for violation in found.violations:
        _show_violation(violation, model)


def _show_violation(found: Violation, model: Model) -> None:
    results.print(f"\n[bold red]{found.property}[/bold red] {found.problem}", soft_wrap=True)
    grid = Grid(box=None, pad_edge=False, show_header=False)
    for number, (who, what, about) in enumerate(found.trace, start=1):
        grid.add_row(f"{number:>3}", f"[cyan]{who}[/cyan]", what, f"[dim]{about}[/dim]")
    results.print(grid)
    _show_command(command_of(model, data.choices(model, found.trace)))


def _show_command(command: str) -> None:
    """Plain and on one line, so that it can be copied."""
    results.print(command, soft_wrap=True, markup=False, highlight=False)


class By(StrEnum):
    """Who chooses what happens next."""

    weighted = "weighted"
    swarm = "swarm"
    pct = "pct"


@asks_about_a_setting
def simulate_command(
    *,
    asked: Asked,
    scheduler: Annotated[By, typer.Option(help="Who chooses what happens next.")] = By.swarm,
    runs: Annotated[int, typer.Option(min=1, help="How many runs.")] = 10_000,
    seed: Annotated[int, typer.Option(help="The same seed makes the same choices.")] = 0,
    moves: Annotated[int, typer.Option(min=1, help="How long a run may become.")] = 200,
    failures: Annotated[int, typer.Option(min=1, help="Stop after so many failing runs.")] = 1,
    judge: Judge = Judged.outcome,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Make random runs, also in worlds too big to explore; show how a property breaks, shrunk to what matters."""
    model = asked.model()
    worlds = WorldCache(model, judge.properties())
    kinds: dict[By, Scheduler] = {By.weighted: Weighted(seed), By.swarm: Swarm(seed), By.pct: Pct(seed)}
    with spinning("running") as say:

        def tell(done: int) -> None:
            say(f"{done:,} of {runs:,} runs")

        found = simulate(worlds, kinds[scheduler], runs, moves, failures, progress=tell)
        say("shrinking the first failure")
        small = shrink(worlds, found.failures[0]) if found.failures else None
    if as_json:
        write_json(data.simulated(found, model, small))
    else:
        _show_simulation(found, model, small)
    if html is not None and small is not None:
        write_page(story(model, _as_violation(small), EVERYTHING), html)
    raise typer.Exit(1 if found.failures else 0)


def _as_violation(found: Failure) -> Violation:
    return Violation(found.property, found.problem, found.labels)


def _show_simulation(found: Simulation, model: Model, small: Failure | None) -> None:
    results.print(f"[bold]{model.setting.bounds()}[/bold]", soft_wrap=True)
    says = f"[red]{len(found.failures)} broke a property[/red]" if found.failures else "[green]none is broken[/green]"
    results.print(
        f"{found.runs:,} runs, {found.steps:,} steps, {found.worlds:,} different worlds, {found.seconds:.1f} s: {says}",
        soft_wrap=True,
    )
    for each in found.failures:
        results.print(f"\n[bold red]{each.property}[/bold red] {each.problem}", soft_wrap=True)
        _show_command(command_of(model, each.choices))
    if small is not None:
        results.print(f"\nThe first, shrunk from {len(found.failures[0].choices)} steps to {len(small.choices)}:")
        _show_violation(_as_violation(small), model)


def replay_command(
    line: Annotated[list[str], typer.Argument(help="A line that begins with 'run', quoted or not.")],
    *,
    store: OwnStore = None,
    runtime: OwnRuntime = None,
    html: Html = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Write a Mermaid sequence diagram.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay a line: tell the run step by step, and say what it breaks."""
    try:
        read = read_line(" ".join(line))
        model = model_of(read, embedded(read.setting, store, runtime))
        steps = replay(model, read.choices)
    except (LineError, ReplayError) as problem:
        raise typer.BadParameter(str(problem), param_hint="LINE") from problem
    found = verdict(model, steps)
    whole = Stored(read.table, read.setting, trace=tuple(step.label for step in steps))
    told = story(model, found or whole, EVERYTHING)
    if as_json:
        write_json(data.replayed(told, steps))
    else:
        sys.stdout.write(sequence(told) if mermaid else columns(told))
    if html is not None:
        write_page(told, html)
    raise typer.Exit(0 if found is None else 1)
