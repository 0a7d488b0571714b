"""A simulated run, told: who takes part, what happens in each step, and how the world stands after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perago_core.machine.description import digest
from perago_report.scenes import CommitNode, Fired, Line, Scene, Story
from perago_report.sentences import COORDINATION, FAULT, ORCHESTRATOR, STORE, STRANGER, plan
from perago_simulation.explore.exploration import Violation
from perago_simulation.properties.safety import PROPERTIES, Property, When
from perago_simulation.report import words
from perago_simulation.report.graph import graphs
from perago_simulation.runs.replay import Step, Stored, replay, replay_stored
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


def _scene(step: Step, nodes: tuple[CommitNode, ...], problem: str) -> Scene:
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
