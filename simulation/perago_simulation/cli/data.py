"""What was found, as plain data for ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perago_report import Story
from perago_simulation.catalogue.ladder import Rung
from perago_simulation.explore.exploration import Exploration, Violation
from perago_simulation.runs.replay import ReplayedMove, line_of, replay
from perago_simulation.runs.schedule import Failure, Simulation
from perago_simulation.world.model import Label, Model


def explored(found: Exploration, model: Model | None = None) -> dict[str, Any]:
    """Give an exploration as data; with its model, each violation has the line that replays it."""
    return {
        "bounds": found.setting.bounds(),
        "generated": found.generated,
        "distinct": found.distinct,
        "depth": found.depth,
        "seconds": round(found.seconds, 3),
        "complete": found.complete,
        "stopped": found.stopped,
        "violations": [violation(each, model) for each in found.violations],
    }


def climbed(rung: Rung) -> dict[str, Any]:
    """Give a rung of the ladder as data; what does not heal is among its violations."""
    healing = () if rung.healing is None else rung.healing.violations
    found = explored(rung.exploration)
    violations = [*found["violations"], *(violation(each) for each in healing)]
    return {"environment": rung.environment, "broken": rung.broken(), **found, "violations": violations}


def violation(found: Violation | Failure, model: Model | None = None) -> dict[str, Any]:
    """Give a violation as data."""
    trace = found.trace if isinstance(found, Violation) else found.labels
    line = {} if model is None else {"line": line_of(model, choices(model, trace))}
    return {"property": found.property, "problem": found.problem, **line, "trace": [list(label) for label in trace]}


def simulated(found: Simulation, model: Model, shrunk: Failure | None) -> dict[str, Any]:
    """Give random runs as data."""
    return {
        "bounds": model.setting.bounds(),
        "runs": found.runs,
        "steps": found.steps,
        "worlds": found.worlds,
        "seconds": round(found.seconds, 3),
        "violations": [violation(each, model) for each in found.failures],
        "shrunk": None if shrunk is None else violation(shrunk, model),
    }


def replayed(told: Story, steps: Sequence[ReplayedMove]) -> dict[str, Any]:
    """Give a run as data, step by step. ``breaks`` is the step that breaks the property, 0 if none does."""
    return {
        "bounds": told.bounds,
        "table": told.table,
        "property": told.property,
        "problem": told.problem,
        "breaks": told.breaks,
        "steps": [
            {
                "number": scene.number,
                "choice": step.choice,
                "label": list(scene.label),
                "says": f"{scene.lane} {scene.says}",
                "rows": [row.id for row in scene.rows],
                "head": scene.head,
            }
            for scene, step in zip(told.scenes, steps, strict=True)
        ],
    }


def choices(model: Model, trace: Sequence[Label]) -> tuple[int, ...]:
    """Give the choices that labels stand for."""
    return tuple(step.choice for step in replay(model, trace))
