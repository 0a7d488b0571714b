"""What exploring costs: worlds per second in one and two processes and beside TLC, random runs, failure to page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve

from perago_core.values import Backing
from perago_report.html import page
from perago_simulation.explore.exploration import Exploration
from perago_simulation.explore.reductions import Reduction
from perago_simulation.explore.search import explore
from perago_simulation.report.story import story
from perago_simulation.runs.schedule import Pct, Scheduler, Swarm, Weighted, WorldCache, simulate
from perago_simulation.tlc import Config, check, setting_of
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from tests.specs.evidence import note_count

ROUNDS = 3
#: Seconds that TLC may take where others use the machine too.
_LONGEST = 3_600
_TLA = Path(__file__).parents[2] / "specs" / "tla"


def _best(where: Setting, processes: int) -> Exploration:
    """Return the quickest of some explorations: others use the machine too."""
    return min((explore(where, processes=processes) for _ in range(ROUNDS)), key=lambda each: each.seconds)


def rates() -> None:
    """Say how many worlds per second the explorer generates, running the production ``step``."""
    settings = {
        **{each.value: setting(each, crashes=0, losses=1, no_ops=True) for each in Backing},
        "atomic, 3 attempts": setting(Backing.ATOMIC, attempts=3, crashes=1, no_ops=True),
        "conditional, 3": setting(Backing.CONDITIONAL, attempts=3, crashes=0),
    }
    print("explore, two attempts, pauses that resume, a lost answer, no-ops; generated worlds per second:")
    print(
        f"  {'':<20} {'generated':>10} {'distinct':>9} {'one process':>12} {'two':>11} {'ratio':>6} {'reduced to':>11}"
    )
    for name, where in settings.items():
        one, two = _best(where, 1), _best(where, 2)
        reduced = explore(where, reductions=list(Reduction)).distinct
        print(
            f"  {name:<20} {one.generated:10,} {one.distinct:9,} {_rate(one):>12} {_rate(two):>11} "
            f"{one.seconds / two.seconds:5.2f}x {reduced / one.distinct:10.0%}"
        )


def _rate(found: Exploration) -> str:
    return f"{found.generated / found.seconds:,.0f}/s"


def beside_tlc() -> None:
    """Compare with TLC on the same model, with the same number of workers; its Java needs about a second to start."""
    config = Config.read(_TLA / "Publish_atomic_duplicate.cfg")
    larger = evolve(config, constants={**config.constants, "Crashes": 1, "NoOps": True})
    print("explore and TLC on the same model, seconds:")
    for name, each in (("a duplicate", config), ("a duplicate, a crash, no-ops", larger)):
        told, distinct = list[str](), 0
        for workers in (1, 2):
            ours = _best(setting_of(each), workers)
            theirs = check(_TLA / "Publish.tla", each, workers=workers, seconds=_LONGEST)
            distinct = ours.distinct
            assert (ours.generated, ours.distinct) == (theirs.generated, theirs.distinct)
            ratio = theirs.seconds / ours.seconds
            at_work = f"{workers} worker{'s'[: workers - 1]}"
            print(f"  {name}, {at_work}: {ours.seconds:6.2f} s, TLC {theirs.seconds:6.2f} s = {ratio:5.1f}x")
            told.append(f"{ratio:.0f} times as fast as TLC with {at_work} each ({_rate(ours)})")
        note_count(
            f"tests/bench/exploring.py::beside_tlc[{name}]",
            f"{distinct:,} worlds (`atomic`, {name}) explored on the production table: {', '.join(told)}",
        )


def random_runs() -> None:
    """Say how many random runs per second are made, first through new worlds and then through known ones."""
    print("simulate, two attempts, a crash, pauses that resume; runs per second, at first and later:")
    schedulers: Sequence[Scheduler] = (Weighted(), Swarm(), Pct())
    for scheduler in schedulers:
        worlds = WorldCache(Model(setting(Backing.ATOMIC, crashes=1)))
        first, later = (simulate(worlds, scheduler, 10_000) for _ in range(2))
        rates = (f"{each.runs / each.seconds:9,.0f}/s" for each in (first, later))
        print(f"  {type(scheduler).__name__:<12} {' '.join(rates)}")


def failure_to_page() -> None:
    """Say how long it takes from a setting to its counterexample, and from there to the page."""
    begun = time.perf_counter()
    found = explore(setting(Backing.SOFT, crashes=1, no_ops=True))
    failed = time.perf_counter()
    text = page(story(Model(found.setting), found.violations[0]))
    shown = time.perf_counter()
    print("counterexample:")
    print(f"  found in {failed - begun:.2f} s, its page ({len(text):,} characters) in {shown - failed:.2f} s more")


def main() -> None:
    """Print every figure."""
    rates()
    beside_tlc()
    random_runs()
    failure_to_page()


if __name__ == "__main__":
    main()
