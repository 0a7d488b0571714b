"""Explore a configuration: every reachable world within the bounds, the shortest way to each violation."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from perago_simulation.exploration import Exploration, Limits, Progress, Violation
from perago_simulation.model import Model
from perago_simulation.properties import PROPERTIES, Property
from perago_simulation.reductions import Reduction
from perago_simulation.search import Explorer
from perago_simulation.settings import Setting

__all__ = ["Exploration", "Explorer", "Limits", "Progress", "Reduction", "Violation", "explore"]


def explore(
    model: Model | Setting,
    properties: Sequence[Property] = PROPERTIES,
    limits: Limits | None = None,
    progress: Progress | None = None,
    *,
    processes: int = 1,
    reductions: Collection[Reduction] = (),
) -> Exploration:
    """Explore a model, or a setting on the production table, and give what was found.

    With several ``processes`` it is found sooner, and is the same: every figure, verdict and length of a trace. With
    ``reductions`` fewer worlds are visited, and the verdicts are the same.
    """
    wanted = Model(model) if isinstance(model, Setting) else model
    return Explorer(wanted, properties, processes, reductions).run(limits or Limits(), progress)
