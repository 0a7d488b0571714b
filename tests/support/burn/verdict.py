"""What a round came to, judged at rest and from the servers alone: nothing a worker or the burn remembers is asked.

Four judges that share no code: ``perago verify``; the simulator's own properties, on the recorded history put into the
words of a simulated world; what the files say against what was reported, and the ledger's records (``judging``); and
the traces of all workers, replayed through the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from attrs import frozen

from perago_core.pipelines import PipelineView
from perago_core.values import Backing, Commit, CommitRef, TaskStatus
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.runs.trace_check import check_trace
from perago_simulation.world.capabilities import RELIES_ON
from perago_simulation.world.history import take_over
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import COMPLETED, TIMED_OUT, Budget, Lease, Task, World
from perago_worker.ops.gc import collect
from perago_worker.ops.verify import verify
from tests.support.burn.faults import Kind
from tests.support.burn.field import STEPS, STRANGERS_ON, Field, Pipeline
from tests.support.crash.judging import (
    Line,
    judge_ledger,
    judge_leftovers,
    judge_outputs,
    judge_processes,
    settle,
)
from tests.support.crash.project import done

_RESIDUALS = Path(__file__).parents[3] / "specs" / "residuals.json"
#: In which environments of the ladder a kind of fault is.
_ENVIRONMENTS = {
    Kind.RESENT: ("re-sent publication",),
    Kind.STRANGER: ("foreign writer",),
    Kind.TWICE: ("requeued task", "duplicate delivery"),
    Kind.STOP: ("pauses that resume",),
    Kind.STOP_AT: ("pauses that resume",),
    Kind.KILL: ("retries after crashes",),
    Kind.KILL_AT: ("retries after crashes",),
    Kind.DELAY: ("requests that land late",),
    Kind.LOST_ANSWER: ("requests that land late",),
    Kind.FREEZE: ("requests that land late",),
}
#: What the sentences of ``perago verify`` begin with, as clauses; else it is an unaccepted commit.
_CLAUSES = {"lost": "S-01", "out of order": "S-03", "twice": "S-41"}
#: More than any burn starts.
_ALL = 10_000


@frozen
class Verdict:
    """``lost``: broken promises. ``registered``: broken as ``specs/residuals.json`` says this backing may be."""

    runs: int
    completed: int
    accepted: int
    attempts: int
    traced: int
    lost: tuple[str, ...]
    registered: tuple[str, ...]


def judge(field: Field, backings: Collection[str], injected: Collection[Kind]) -> Verdict:
    """Judge every pipeline of a round that has come to rest, then collect, and see that nothing is left."""
    views = {pipeline.name: _views(field, pipeline) for pipeline in field.pipelines}
    broken: list[str] = []
    for pipeline in field.pipelines:
        broken += _judge_pipeline(field, pipeline, views[pipeline.name])
    steps, divergences = _judge_traces(field.traces)
    broken += divergences
    lines = [Line(each.target, each.first, view.workflow_id) for each in field.pipelines for view in views[each.name]]
    # The ledger remembers all rounds.
    broken += [*settle(field.project, lines), *judge_ledger(field.project, [*field.past, *lines])]
    broken += _judge_rest(field, views)
    completed = {view.workflow_id for found in views.values() for view in found if view.succeeded}
    field.past += [line for line in lines if line.workflow in completed]
    known = registered(backings, injected)
    every = [view for found in views.values() for view in found]
    attempts = [each for view in every for each in view.attempts]
    return Verdict(
        len(every),
        sum(view.succeeded for view in every),
        sum(each.status is TaskStatus.COMPLETED for each in attempts),
        len(attempts),
        steps,
        tuple(each for each in broken if each.partition(" ")[0] not in known),
        tuple(each for each in broken if each.partition(" ")[0] in known),
    )


def registered(backings: Collection[str], kinds: Collection[Kind]) -> frozenset[str]:
    """Return the promises that these faults may break on these backings, as the register of known holes has it."""
    environments = {each for kind in kinds for each in _ENVIRONMENTS.get(kind, ())}
    return frozenset(
        each["property"]
        for each in json.loads(_RESIDUALS.read_text(encoding="utf-8"))
        if each["backing"].partition(",")[0] in backings and environments & each["steps"].keys()
    )


def _views(field: Field, pipeline: Pipeline) -> list[PipelineView]:
    """Return the runs of a pipeline as the orchestrator shows them, oldest first."""
    lines = [each for each in field.project.pipelines.newest(_ALL) if each.name == pipeline.name]
    return [field.project.view(each.workflow_id) for each in sorted(lines, key=lambda line: line.started_at)]


def _judge_pipeline(field: Field, pipeline: Pipeline, views: list[PipelineView]) -> Iterator[str]:
    for view in views:
        if not view.succeeded and pipeline.task != STRANGERS_ON:
            yield f"L-01 {view.name} {view.workflow_id} is {view.status}: {view.reason}"
        yield from judge_outputs(field.project, view)
    if not any(view.attempts for view in views):
        return
    stack = field.project.stack
    for sentence in verify(stack, field.project.pipelines, pipeline.target).broken:
        yield f"{_CLAUSES.get(sentence.partition(':')[0], 'S-02b')} perago verify says: {sentence}"
    world = recorded_world(field, pipeline, views)
    setting = Setting(backing=Backing.CONDITIONAL, store=RELIES_ON[Backing.CONDITIONAL], steps=STEPS)
    for each in PROPERTIES:
        wrong = each.judge(setting, world)
        if wrong is not None:
            yield f"{each.id} {pipeline.target}: {wrong}"


def recorded_world(field: Field, pipeline: Pipeline, views: list[PipelineView]) -> World:
    """Put what store and orchestrator say of a branch into the words of a simulated world."""
    history = done(field.project.store.history(pipeline.target, limit=_ALL))
    commits = list(history)
    known = [each.ref for each in commits]
    commits = commits[: known.index(pipeline.first) + 1] if pipeline.first in known else commits
    refs = {CommitRef(each.ref) for view in views for each in view.attempts if each.ref}
    for ref in refs - set(known):
        found = done(field.project.store.look(pipeline.target.repository, ref))
        if found is not None:
            commits.append(found)

    def name(ref: str) -> CommitRef:
        letter = "F" if ref in pipeline.strangers else "A" if ref == pipeline.first else "R"
        return CommitRef(f"{letter}{pipeline.target}@{ref}")

    take_over(
        Commit(name(each.ref), () if each.ref == pipeline.first else tuple(map(name, each.parents)), each.tree)
        for each in commits
    )
    return World(
        head=name(commits[0].ref),
        names=(),
        claims=(),
        raised=(),
        requests=(),
        tasks=tuple(_tasks(pipeline, views, name)),
        runs=(),
        lease=Lease(),
        intents=(),
        strangers=tuple(name(each) for each in pipeline.strangers),
        budget=Budget(0, 0, 0, 0),
    )


def _tasks(pipeline: Pipeline, views: list[PipelineView], name: Callable[[str], CommitRef]) -> Iterator[Task]:
    """Return the attempts of all runs, each with the input its step had; steps count on through the runs."""
    for number, view in enumerate(views):
        before: str = view.ref or pipeline.first
        for each in view.attempts:
            step = number * STEPS + int(each.step.removeprefix("s"))
            accepted = each.status is TaskStatus.COMPLETED and bool(each.ref)
            status = COMPLETED if accepted else TIMED_OUT
            yield Task(step, each.number, name(before), status, ref=name(each.ref) if accepted and each.ref else "")
            if accepted and each.ref:
                before = each.ref


def _judge_traces(folder: Path) -> tuple[int, list[str]]:
    """Replay every trace; the last line of one whose worker was killed, or whose disk was full, may be torn."""
    steps, broken = 0, list[str]()
    for path in sorted(folder.rglob("*.jsonl")):
        whole = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
        if not whole:
            continue
        checked = check_trace(whole)
        steps += checked.steps
        if checked.divergence is not None:
            broken.append(f"S-39 {path.name}: {checked.divergence}")
    return steps, broken


def _judge_rest(field: Field, views: dict[str, list[PipelineView]]) -> list[str]:
    """Forget the runs that failed, collect as ``perago gc --unknown`` does, and see that nothing is left.

    Claims of a failed run stay as long as it can be retried, and names of a probe that was killed as long as nobody
    says that no other orchestrator uses the repository: here both can be said.
    """
    pipelines = field.project.pipelines
    for view in (each for found in views.values() for each in found if not each.succeeded and not each.running):
        pipelines.remove(view.workflow_id)
    target = field.pipelines[0].target
    collected = collect(field.project.stack, pipelines, target, older_than=0.0, unknown=True)
    left = [f"{sentence}; gc said {collected}" for sentence in judge_leftovers(field.project)]
    return [*left, *field.project.judge_store(), *judge_processes(field.project)]
