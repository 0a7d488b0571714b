"""The commands that try everything of a kind and make a table of it: ladder, windows, mutants."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any

import typer
from attrs import fields
from rich.table import Table as Grid

from perago_core.values import Backing
from perago_simulation.catalogue.ladder import ENVIRONMENTS, SHARED, Rung, climb, environments_of, ladder_text, rungs
from perago_simulation.catalogue.windows import PATHS, Window, windows, windows_text
from perago_simulation.cli import data
from perago_simulation.cli.console import counted, in_processes, results, spinning, write_json
from perago_simulation.cli.options import AsJson, Asked, OwnStore, StoreCan, capabilities
from perago_simulation.mutants.kills import baseline, mutants, recall, settings_of
from perago_simulation.mutants.page import MutantOutcome, examine, mutant_table
from perago_simulation.mutants.survivors import REASONS
from perago_simulation.properties.liveness import LEADS, REST
from perago_simulation.properties.register import JUDGED
from perago_simulation.world.capabilities import Capabilities, best_backing
from perago_simulation.world.presets import PRESETS
from perago_simulation.world.settings import Setting


def ladder_command(
    *,
    backing: Annotated[Backing | None, typer.Option(help="Only this backing.")] = None,
    environment: Annotated[list[str] | None, typer.Option(help="Only this environment; may be repeated.")] = None,
    store: OwnStore = None,
    store_can: StoreCan = None,
    as_json: AsJson = False,
) -> None:
    """Explore every backing in every environment, and say what holds where; or ask what you get on your own store."""
    own = store is not None or store_can is not None
    every = _on_own_store(backing, store, store_can) if own else _on_ours(backing)
    there = (*ENVIRONMENTS, *SHARED)
    if unknown := [each for each in environment or () if each not in there]:
        message = f"nobody knows {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, there))}"
        raise typer.BadParameter(message, param_hint="--environment")
    wanted = [each for each in every if not environment or each[0] in environment]
    found = in_processes("exploring", _climbed, wanted)
    if as_json:
        write_json([data.climbed(rung) for rung in found])
    elif own:
        _show_own(found, store, store_can)
    else:
        sys.stdout.write(ladder_text(found))


def _on_ours(backing: Backing | None) -> list[tuple[str, Asked]]:
    return [(name, Asked(each)) for name, each in rungs() if backing in {None, each.backing}]


def _on_own_store(backing: Backing | None, store: str | None, store_can: str | None) -> list[tuple[str, Asked]]:
    """Take the backing that was asked for, or the one under which the store shows what it can."""
    able = capabilities(store_can, store, backing or Backing.SOFT)
    chosen = backing or best_backing(able).asked
    return [
        (name, Asked(Setting(backing=chosen, store=able, adopts=True, **bounds), store))
        for name, bounds in environments_of(chosen).items()
    ]


def _climbed(wanted: tuple[str, Asked]) -> Rung:
    name, asked = wanted
    return climb(name, asked.model())


def _show_own(found: Sequence[Rung], store: str | None, store_can: str | None) -> None:
    of = found[0].exploration.setting
    able = [each.name for each in fields(Capabilities) if getattr(of.store, each.name)]
    presets = {name: preset for name, preset in PRESETS.items() if name in (store_can or "").split(",")}
    grid = Grid(
        "environment",
        "verdict",
        "distinct worlds",
        title=f"{of.backing.value} on {store or next(iter(presets), 'your store')}",
    )
    for rung in found:
        broken = [f"{name} in {steps}" for name, steps in rung.broken().items()]
        verdict = f"[red]broken: {', '.join(broken)}[/red]" if broken else "[green]everything holds[/green]"
        grid.add_row(rung.environment, verdict, f"{rung.exploration.distinct:,}")
    results.print(grid)
    results.print(f"It can do: {', '.join(able) or 'nothing'}.", soft_wrap=True)
    for rung in found:
        results.print(f"  {rung.environment}: {rung.exploration.setting.bounds().partition(': ')[2]}", soft_wrap=True)
    for line in _kept_and_lost(found):
        results.print(line, soft_wrap=True, markup=False)
    for name, preset in presets.items():
        results.print(f"{name}: {preset.says}", soft_wrap=True, markup=False)
    results.print("By its capabilities alone:")
    for line in best_backing(of.store).lines():
        results.print(f"  {line}", soft_wrap=True, markup=False)


def _kept_and_lost(found: Sequence[Rung]) -> Iterator[str]:
    """Say over all environments what holds everywhere, and of what does not, where and how soon it breaks."""
    says = {each.id: each.says for each in JUDGED} | {each.id: each.says for each in (REST, *LEADS)}
    lost = {clause: [rung for rung in found if clause in rung.broken()] for clause in says}
    yield f"Holds in all {len(found)} environments: {', '.join(each for each in says if not lost[each])}."
    for clause, broken in lost.items():
        if broken:
            first = min(rung.broken()[clause] for rung in broken)
            yield f"Lost in {len(broken)} of {len(found)}: {clause}, {says[clause]} (soonest in {first} moves)."


def windows_command(*, as_json: AsJson = False) -> None:
    """Kill an execution at every point of every path, and say what comes of it."""
    if not as_json:
        with spinning("dying at every point of every path"):
            text = windows_text()
        sys.stdout.write(text)
        return
    places = [(backing, path) for backing in Backing for path in PATHS]
    write_json(
        [
            _window(each)
            for backing, path in counted("dying at every point", places, len(places))
            for each in windows(backing, path, ledger=True)
        ]
    )


def _window(found: Window) -> dict[str, Any]:
    return {
        "backing": found.setting.backing.value,
        "path": found.path,
        "after": list(found.after),
        "waiting_for": found.waiting_for,
        "residue": found.residue,
        "outcomes": list(found.outcomes),
        "broken": list(found.broken),
    }


def mutants_command(
    names: Annotated[list[str] | None, typer.Argument(help="Only these mutants; all of them takes minutes.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Try every wrong protocol everywhere, and say who notices it; a survivor without a written reason is an error."""
    with spinning("exploring the production table everywhere"):
        known = mutants()
        right = {of: baseline(of) for backing in Backing for _, of in settings_of(backing)}
    wanted = names or list(known)
    if unknown := [each for each in wanted if each not in known]:
        near = dict.fromkeys(name for each in unknown for name in get_close_matches(each, known, n=5, cutoff=0.3))
        message = (
            f"there is no mutant {', '.join(map(repr, unknown))}; near: {', '.join(near) or 'none'}. There are bugs "
            "with names, 'no PHASE' for a step left out, and 'ROW as ROW' for an answer mistaken: see specs/mutants.md."
        )
        raise typer.BadParameter(message, param_hint="NAMES")
    outcomes = in_processes("trying mutants", examine, wanted, begin=partial(recall, right))
    unexplained = [each.id for each in outcomes if not each.noticed and each.id not in REASONS]
    if as_json:
        write_json({"mutants": [_outcome(each) for each in outcomes], "unexplained": unexplained})
    else:
        sys.stdout.write(mutant_table(outcomes))
    raise typer.Exit(1 if unexplained else 0)


def _outcome(found: MutantOutcome) -> dict[str, Any]:
    return {
        "id": found.id,
        "says": mutants()[found.id].says,
        "noticed": found.noticed,
        "refused_at_import": found.refused,
        "clauses": list(found.clauses),
        "reason": REASONS.get(found.id),
        "cells": {
            name: [{"backing": backing.value, "property": clause, "steps": length} for backing, clause, length in cell]
            for name, cell in found.cells.items()
            if cell
        },
    }
