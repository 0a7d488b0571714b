"""What a run shows: the property it breaks, found by judging every world it passes through."""

from __future__ import annotations

from collections.abc import Sequence

from perago_simulation.explore.exploration import Violation
from perago_simulation.explore.first_violation import STUCK
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import PROPERTIES, Property, When
from perago_simulation.runs.replay import Step
from perago_simulation.world.model import Model

#: All that is judged. Where one step breaks several, what becomes of the branch is told, not how somebody misbehaved.
EVERYTHING = tuple({each.id: each for each in (*PROPERTIES, *JUDGED)}.values())


def verdict(model: Model, steps: Sequence[Step], properties: Sequence[Property] = EVERYTHING) -> Violation | None:
    """Give the property a run breaks last, or ``None`` if it breaks none.

    The last, because a run is kept for the property at its end: on the shortest way to a clean-history violation an
    accepted result may already have been lost, and that is another run's story.
    """
    trace = tuple(step.label for step in steps)
    gives_up = _gives_up(model, steps)
    if gives_up is not None:
        return Violation(STUCK, gives_up, trace)
    broken: dict[str, tuple[int, Violation]] = {}
    for step in steps:
        judged = {When.ALWAYS, When.AT_REST} if model.at_rest(step.after) else {When.ALWAYS}
        for each in properties:
            if each.id not in broken and each.when in judged:
                problem = each.judge(model.setting, step.after)
                if problem is not None:
                    broken[each.id] = (step.number, Violation(each.id, problem, trace))
    return max(broken.values(), key=lambda each: each[0])[1] if broken else None


def _gives_up(model: Model, steps: Sequence[Step]) -> str | None:
    """Look one step further: a table, store or runtime that gives up does so when it is asked what comes next."""
    try:
        for _ in model.moves(steps[-1].after) if steps else model.beginnings():
            pass
    except Exception as error:  # noqa: BLE001  whatever somebody's own runtime raises
        return f"{type(error).__name__}: {error}"
    return None
