"""What a round came to, judged at rest and from the servers alone: nothing a worker or the burn remembers is asked.

Four judges that share no code: ``perago verify``; the simulator's own properties, on the recorded history put into the
words of a simulated world; what the files say against what was reported, and the ledger's records (``judging``); and
the traces of all workers, replayed through the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path

from attrs import evolve, frozen

from perago_core.names import is_ignored
from perago_core.pipelines import PipelineView
from perago_core.values import Backing, Commit, CommitRef, Target, TaskStatus
from perago_simulation.properties.safety import PROPERTIES, Property
from perago_simulation.properties.sharing import SHARING
from perago_simulation.runs.trace_check import check_trace
from perago_simulation.world.capabilities import RELIES_ON
from perago_simulation.world.history import chain, take_over
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import COMPLETED, ENDED, TIMED_OUT, Budget, Lease, Run, Task, World
from perago_worker.ops.gc import collect
from perago_worker.ops.verify import verify
from tests.support.burn.faults import Kind
from tests.support.burn.field import ON_SPARK, STEPS, STRANGERS_ON, Field, Pipeline
from tests.support.burn.sharing import Sharing
from tests.support.crash.judging import (
    Line,
    executions_accepted,
    judge_ledger,
    judge_leftovers,
    judge_outputs,
    judge_processes,
    settle,
    text_at,
)
from tests.support.crash.project import REPOSITORY, CrashProject, done

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
    Kind.ONE_WAY: ("requests that land late",),
    Kind.FREEZE: ("requests that land late",),
}
#: What the sentences of ``perago verify`` begin with, as clauses; else it is an unaccepted commit.
_CLAUSES = {"lost": "S-01", "out of order": "S-03", "elsewhere": "S-04", "twice": "S-41"}
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
    if field.sharing is not None:
        broken += _judge_shared(field, field.sharing, [views[each.name] for each in field.pipelines])
    for pipeline in field.pipelines if field.sharing is None else ():
        broken += _judge_pipeline(field, pipeline, views[pipeline.name])
    steps, divergences = _judge_traces(field.traces)
    broken += divergences
    lines = [Line(each.target, each.first, view.workflow_id) for each in field.pipelines for view in views[each.name]]
    broken += settle(field.project, lines)
    # The ledger remembers all rounds; the orchestrator is told below to forget the runs that failed, and what was
    # accepted of them with them.
    field.accepted |= executions_accepted(field.project, lines)
    broken += judge_ledger(field.project, field.accepted)
    broken += _judge_rest(field, views)
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
        yield from judge_outputs(field.project, view, holding=_rows if pipeline.task == ON_SPARK else None)
    if not any(view.attempts for view in views):
        return
    yield from _verified(field, pipeline.target)
    world = recorded_world(field, pipeline, views)
    setting = Setting(backing=Backing.CONDITIONAL, store=RELIES_ON[Backing.CONDITIONAL], steps=STEPS)
    yield from _simulated(pipeline.target, setting, world, PROPERTIES)


def _judge_shared(field: Field, sharing: Sharing, views: list[list[PipelineView]]) -> Iterator[str]:
    """Judge the one branch of all workflows: every run succeeds, every result is there, and they are serialisable."""
    pipeline = field.pipelines[0]
    head = done(field.project.store.head(pipeline.target))
    assert head is not None
    for number, found in enumerate(views):
        token = f"{sharing.folder(number)}token"
        for view in found:
            if not view.succeeded:
                yield f"L-01 {view.name} {view.workflow_id} is {view.status}: {view.reason}"
            yield from judge_outputs(field.project, view, token)
            yield from sharing.refusals(view)
        said = [view.output[each.step]["result"]["token"] for view in found for each in view.attempts if each.ref]
        if said and text_at(field.project, head.commit.ref, token) != said[-1]:
            yield f"S-01 the head of {pipeline.target} does not hold in {token} what was accepted last, {said[-1]!r}"
    if not any(view.attempts for found in views for view in found):
        return
    yield from _verified(field, pipeline.target)
    setting, world = shared_world(field, sharing, views)
    yield from _simulated(pipeline.target, setting, world, (*PROPERTIES, *SHARING))


def _verified(field: Field, target: Target) -> Iterator[str]:
    for sentence in verify(field.project.stack, field.project.pipelines, target).broken:
        yield f"{_CLAUSES.get(sentence.partition(':')[0], 'S-02b')} perago verify says: {sentence}"


def _simulated(target: Target, setting: Setting, world: World, properties: Iterable[Property]) -> Iterator[str]:
    for each in properties:
        wrong = each.judge(setting, world)
        if wrong is not None:
            yield f"{each.id} {target}: {wrong}"


def _rows(project: CrashProject, ref: CommitRef) -> str:
    """Give what all files of the data set say: one row, once, or it is not what one attempt has written."""
    source = project.store.read(REPOSITORY, ref)
    said: list[str] = []
    for each in done(source.list("tables/tokens/")):
        if not is_ignored(each.path):
            with done(source.get(each.path)) as file:
                said += [json.loads(line)["token"] for line in file.read().splitlines()]
    return ", ".join(said)


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
    return _world(
        name(commits[0].ref), tuple(_tasks(pipeline, views, name)), (), tuple(name(each) for each in pipeline.strangers)
    )


def shared_world(field: Field, sharing: Sharing, views: list[list[PipelineView]]) -> tuple[Setting, World]:
    """Put what store and orchestrator say of a branch that workflows share into the words of a simulated world.

    All runs of a pipeline, one after the other, are one workflow of the simulation, which has one scope. A publication
    is named after the task that was accepted with it, and what was staged for it is asked of the store.
    """
    pipeline = field.pipelines[0]
    look = partial(field.project.store.look, pipeline.target.repository)
    history = done(field.project.store.history(pipeline.target, limit=_ALL))
    commits = list(history)
    commits = commits[: [each.ref for each in commits].index(pipeline.first) + 1]
    known = {each.ref for each in commits}
    longest = STEPS * max(len(found) for found in views)
    makers: dict[str, int] = {}
    for index, attempt in enumerate(each for found in views for view in found for each in view.attempts):
        if attempt.status is TaskStatus.COMPLETED and attempt.ref:
            makers.setdefault(attempt.ref, index)

    def name(ref: str) -> CommitRef:
        letter = "F" if ref in pipeline.strangers else "A" if ref == pipeline.first else "R"
        letter = f"M{makers[ref]}" if ref in makers and letter == "R" else letter
        return CommitRef(f"{letter}{'' if ref in known else '~'}:{pipeline.target}@{ref}")

    for ref in makers.keys() - known:
        lost = done(look(CommitRef(ref)))
        commits.append(Commit(CommitRef(ref), (), "lost") if lost is None else evolve(lost, parents=()))
    for each in reversed(commits):
        if each.ref == pipeline.first or not each.parents:
            take_over([Commit(name(each.ref), (), each.tree)])
            continue
        parents = [name(each.parents[0])]
        for ref in each.parents[1:] if each.ref in makers else ():
            staged = done(look(ref))
            assert staged is not None, f"nothing was staged as {ref}"
            base = staged.parents[0]
            if base not in known:
                take_over([Commit(name(base), (), f"tree of {base}")])
            parents.append(CommitRef(f"C{makers[each.ref]}:{pipeline.target}@{ref}"))
            take_over([Commit(parents[-1], (name(base),), staged.tree)])
        take_over([Commit(name(each.ref), tuple(parents), each.tree)])
        chain(name(each.ref))  # from the oldest on, so that no chain is longer than its parent's by more than one
    tasks: list[Task] = []
    for number, found in enumerate(views):
        shift = number * longest
        tasks += [each._replace(step=shift + each.step) for each in _tasks(pipeline, found, name)]
    setting = Setting(
        backing=Backing.CONDITIONAL,
        store=RELIES_ON[Backing.CONDITIONAL],
        steps=longest,
        workflows=sharing.workflows,
        abreast=True,
        scopes=sharing.scopes,
    )
    runs = tuple(Run(index, ENDED, None) for index in range(len(tasks)))
    return setting, _world(name(commits[0].ref), tuple(tasks), runs, tuple(map(name, pipeline.strangers)))


def _world(head: CommitRef, tasks: tuple[Task, ...], runs: tuple[Run, ...], strangers: tuple[CommitRef, ...]) -> World:
    """Make a world at rest, of which nothing is left but its history and what was accepted."""
    return World(
        head=head,
        names=(),
        claims=(),
        raised=(),
        requests=(),
        tasks=tasks,
        runs=runs,
        lease=Lease(),
        intents=(),
        strangers=strangers,
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
