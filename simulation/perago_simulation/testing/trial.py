"""A trial of somebody's own store, table or runtime: it passes, or it fails with everything one needs to look further.

What the ``perago`` fixture gives. A model is made with ``Embedded(setting(...), runtime=...)``.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from perago_core.value import Value
from perago_report import columns, page
from perago_simulation.explore.exploration import Violation
from perago_simulation.explore.first_violation import ViolationSearch
from perago_simulation.properties.register import JUDGED
from perago_simulation.report.story import story
from perago_simulation.runs.replay import command_of, replay
from perago_simulation.runs.schedule import Scheduler, Swarm, WorldCache, shrink, simulate
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting

#: A run of the simulator costs a small part of what an example of Hypothesis costs.
RUNS_PER_EXAMPLE = 20


@frozen(repr=False)
class Trial(Value):
    """Explores or simulates, and raises ``AssertionError`` if a property breaks; the page goes into ``folder``."""

    runs: int
    folder: Path

    def explore(self, of: Model | Setting, states: int = 1_000_000) -> int:
        """Visit every world within the bounds, or fail; give how many there are."""
        model = Model(of) if isinstance(of, Setting) else of
        search = ViolationSearch(model, JUDGED)
        found = search.first(states)
        if found is not None:
            raise self._failed(model, Violation(found.property, found.problem, found.trace))
        if search.seen >= states:
            raise AssertionError(f"not every world was visited: stopped after {states:,}; explore a smaller setting")
        return search.seen

    def simulate(self, of: Model | Setting, scheduler: Scheduler | None = None) -> None:
        """Make random runs, or fail with one that breaks a property, shrunk. The same runs every time."""
        worlds = WorldCache(Model(of) if isinstance(of, Setting) else of, JUDGED)
        found = simulate(worlds, scheduler or Swarm(), self.runs)
        if found.failures:
            small = shrink(worlds, found.failures[0])
            raise self._failed(worlds.model, Violation(small.property, small.problem, small.labels))

    def _failed(self, model: Model, found: Violation) -> AssertionError:
        told = story(model, found, JUDGED)
        where = self.folder / "counterexample.html"
        where.write_text(page(told), encoding="utf-8")
        choices = [step.choice for step in replay(model, found.trace)]
        again = command_of(model, choices)
        return AssertionError(f"{columns(told)}\nto see it again: {again}\nto step through it: open {where}")
