"""A simulated run, told: who takes part, what happens in each step, and how the world stands after it.

A commit is drawn in the same place in every step: in the column of its distance from the root. The top line is the
branch; below it each execution has a line for what it staged, so that a branch pointed at somebody's staged commit is
seen leaving its line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from perago_core.machine.description import digest
from perago_report.scenes import CommitNode, Fired, Line, Position, Scene, Standing, Story
from perago_report.sentences import COORDINATION, FAULT, ORCHESTRATOR, STORE, STRANGER, plan
from perago_simulation.explore.exploration import Violation
from perago_simulation.properties.safety import PROPERTIES, Property, When
from perago_simulation.report import words
from perago_simulation.runs.replay import ReplayedMove, Stored, replay, replay_stored
from perago_simulation.world.history import chain, commit
from perago_simulation.world.model import Model
from perago_simulation.world.state import (
    CLEAN,
    COMPLETED,
    DEAD,
    ENDED,
    NOBODY,
    RUNNING,
    TARGET,
    Request,
    Run,
    Task,
    World,
    branch_of,
)


def graphs(steps: Sequence[ReplayedMove]) -> tuple[tuple[CommitNode, ...], ...]:
    """Return the commit graph after each step; a commit keeps its place."""
    seen: dict[str, None] = {}
    growing: list[tuple[str, ...]] = []
    for step in steps:
        seen.update(dict.fromkeys(_mentioned(step.after)))
        growing.append(tuple(seen))
    places = _places(tuple(seen))
    before: tuple[str, ...] = ()
    made: list[tuple[CommitNode, ...]] = []
    for step, refs in zip(steps, growing, strict=True):
        made.append(_nodes(step.after, refs, places, before))
        before = refs
    return tuple(made)


def _mentioned(world: World) -> Iterable[str]:
    """Name every commit a world knows of, parents first."""
    held = (
        world.head,
        *(ref for _, ref in world.names),
        *world.strangers,
        *(task.ref or task.input for task in world.tasks),
        *(request.plan.commit for request in world.requests),
    )
    for ref in held:
        yield from reversed(chain(ref))


def _places(refs: Sequence[str]) -> Mapping[str, Position]:
    """Commits of the branch share the top lines, staged ones have the line of their execution."""
    staging = sorted({_number(ref) for ref in refs if _is_staged(ref)})
    taken: set[Position] = set()
    places: dict[str, Position] = {}
    crowded = max(Counter(_depth(ref) for ref in refs if not _is_staged(ref)).values(), default=1)
    for ref in refs:
        line = crowded + staging.index(_number(ref)) if _is_staged(ref) else 0
        place = Position(_depth(ref), line)
        while place in taken:
            place = Position(place.column, place.line + 1)
        taken.add(place)
        places[ref] = place
    return places


def _nodes(
    world: World, refs: Sequence[str], places: Mapping[str, Position], before: Sequence[str]
) -> tuple[CommitNode, ...]:
    branch = set(chain(world.head))
    held = {each for _, ref in world.names for each in chain(ref)}
    accepted = {task.ref for task in world.tasks if task.status is COMPLETED}
    precious = accepted | set(world.strangers)

    def standing(ref: str) -> Standing:
        if ref in branch:
            return Standing.BRANCH
        if ref in precious:
            return Standing.LOST
        return Standing.STAGED if ref in held else Standing.ABANDONED

    return tuple(
        CommitNode(
            ref=ref,
            parent=next(iter(commit(ref).parents), ""),
            place=places[ref],
            standing=standing(ref),
            execution=f"e{_number(ref)}" if _number(ref) >= 0 else "",
            stranger=ref in world.strangers,
            head=ref == world.head,
            accepted=ref in accepted,
            names=tuple(f"e{run}" for run, at in world.names if at == ref),
            fresh=ref not in before,
        )
        for ref in refs
    )


def _is_staged(ref: str) -> bool:
    return ref[0] in "CD"


def _number(ref: str) -> int:
    """Return the execution a commit is named after; -1 for the root and for a stranger's."""
    found = re.match(r"[CDME](\d+)", ref)
    return int(found[1]) if found else -1


def _depth(ref: str) -> int:
    return len(chain(ref)) - 1


def story(
    model: Model, found: Violation | Stored, properties: Sequence[Property] = PROPERTIES, *, force: bool = False
) -> Story:
    """Carry out a violation, or a stored run, and tell it."""
    steps = replay_stored(found, model, force=force) if isinstance(found, Stored) else replay(model, found.trace)
    clauses = [each for each in properties if each.id == found.property]
    nodes = graphs(steps)
    scenes = tuple(
        _scene(step, at, _problem(model, clauses, step.after)) for step, at in zip(steps, nodes, strict=True)
    )
    # A run may go on after the violation, and a property may be one nobody can judge here: then its word counts.
    broken = [scene.number for scene in scenes if scene.problem]
    lanes = _lanes(scenes)
    return Story(
        property=found.property,
        clause=clauses[0].says if clauses else "",
        problem=found.problem,
        bounds=model.setting.bounds(),
        table=digest(model.table),
        lanes=lanes,
        scenes=scenes,
        breaks=broken[0] if broken else (len(scenes) if found.property and not clauses else 0),
        executions=tuple(each for each in lanes if words.is_execution(each)),
        branch=TARGET.branch,
    )


def _problem(model: Model, clauses: Sequence[Property], world: World) -> str:
    for each in clauses:
        if each.when is When.ALWAYS or model.at_rest(world):
            return each.judge(model.setting, world) or ""
    return ""


def _lanes(scenes: Sequence[Scene]) -> tuple[str, ...]:
    """Order the lanes as the work flows: who hands out, who works, what is worked on, who interferes."""
    seen = dict.fromkeys(each for scene in scenes for each in (scene.lane, scene.peer) if each)
    runs = sorted((each for each in seen if words.is_execution(each)), key=lambda each: int(each[1:]))
    known = (ORCHESTRATOR, *runs, STORE, COORDINATION, STRANGER, FAULT)
    return (*(each for each in known if each in seen), *(each for each in seen if each not in known))


def _scene(step: ReplayedMove, nodes: tuple[CommitNode, ...], problem: str) -> Scene:
    world, before = step.after, step.before
    return Scene(
        number=step.number,
        label=step.label,
        lane=words.lane(step),
        peer=words.peer(step),
        inward=words.inward(step),
        says=words.says(step),
        rows=tuple(
            Fired(
                id=told.row.id,
                execution=told.execution,
                told=type(told.event).__name__,
                phase=told.row.phase.name,
                next=told.row.next.name,
                note=told.row.note,
            )
            for told in step.told
        ),
        head=world.head,
        nodes=nodes,
        names=tuple((f"e{run}", ref) for run, ref in world.names),
        tasks=_changed(_tasks(world), _tasks(before)),
        runs=_changed(_runs(world), _runs(before)),
        requests=_changed(_requests(world), _requests(before)),
        records=_changed(_records(world), _records(before)),
        alive=tuple(f"e{index}" for index, run in enumerate(world.runs) if run.fate is RUNNING),
        problem=problem,
    )


def _changed(now: Iterable[Line], before: Iterable[Line]) -> tuple[Line, ...]:
    old = set(before)
    return tuple(line if line in old else Line(line.name, line.text, line.standing, changed=True) for line in now)


def _tasks(world: World | None) -> list[Line]:
    return [] if world is None else [_task(index, task) for index, task in enumerate(world.tasks)]


def _task(index: int, task: Task) -> Line:
    where = f"step {task.step + 1}, attempt {task.number}, on {task.input}"
    return Line(f"t{index}", where, f"accepted {task.ref}" if task.status is COMPLETED else task.status)


def _runs(world: World | None) -> list[Line]:
    return [] if world is None else [_run(world, index, run) for index, run in enumerate(world.runs)]


def _run(world: World, index: int, run: Run) -> Line:
    name, whose = f"e{index}", f"runs t{run.task}"
    if run.state is None:
        return Line(name, whose, {ENDED: "ended", DEAD: "dead"}.get(run.fate, run.fate))
    sent = any(request.run == index and request.awaited for request in world.requests)
    waits = "waits for" if sent else "next"
    return Line(name, f"{whose}; {waits}: {run.state.phase.value}", "waiting" if sent else "running")


def _requests(world: World | None) -> list[Line]:
    return [] if world is None else [_request(request) for request in world.requests]


def _request(request: Request) -> Line:
    nobody = "" if request.awaited else ", nobody waits for it"
    return Line(f"e{request.run}", plan(request.plan, TARGET.branch) + nobody, "begun" if request.begun else "sent")


def _records(world: World | None) -> list[Line]:
    """Tell of what else there is: claims, intents, the lease, and what is wrong with the branch if anything is."""
    if world is None:
        return []
    branch = [] if branch_of(world) == CLEAN else [Line("branch", TARGET.branch, branch_of(world))]
    claims = [Line("claim", f"{claim.execution} for {claim.task_id}", "stands") for claim in world.claims]
    intents = [Line("intent", f"of e{run}", "open") for run in world.intents]
    holder = world.lease.holder
    return [*branch, *claims, *intents, *([] if holder == NOBODY else [Line("lease", f"of e{holder}", "held")])]
