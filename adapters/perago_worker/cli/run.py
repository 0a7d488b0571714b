"""``perago run``: a pipeline or a single task, from the head of its branch to its end; here, or by others."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any

import typer
from attrs import frozen
from rich.markup import escape

from perago_core.answers import Done
from perago_core.driver import run as run_talk
from perago_core.ledger.records import SettlementKind
from perago_core.pipelines import Pipelines, steps_of
from perago_core.ports import BranchCreator
from perago_core.sharing import newest_accepted
from perago_core.values import CommitRef, Scope, Target
from perago_worker.api.registry import Registry
from perago_worker.api.task import TaskDefinition
from perago_worker.cli.console import AsJson, CommandError, messages, out, print_json
from perago_worker.cli.project import Project, project_of, target_of
from perago_worker.cli.render import describe
from perago_worker.cli.work_off import Seen, follow, work_off
from perago_worker.config.settings import PipelineSettings, StepSettings, rolls_back
from perago_worker.ops.recover import tidy_up
from perago_worker.pipelines.checks import check_params, check_pipeline
from perago_worker.pipelines.parameters import spread
from perago_worker.pipelines.run_tasks import scope_of_run
from perago_worker.pipelines.taskdefs import settle_drift
from perago_worker.runtime.bootstrap import worker_id
from perago_worker.runtime.exporters import exporting
from perago_worker.stack import head_of


def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A pipeline of perago.toml, or a task.")],
    *,
    param: Annotated[
        list[str],
        typer.Option("--param", metavar="NAME=VALUE", help="A parameter; the value is JSON, or else text."),
    ] = [],  # noqa: B006  typer reads it, nobody changes it
    params: Annotated[str, typer.Option(metavar="JSON", help="All parameters as one JSON object.")] = "",
    over: Annotated[
        str,
        typer.Option(
            metavar="NAME=FIRST..LAST", help="One run after the other: for each day or number, or for each of A,B,C."
        ),
    ] = "",
    target: Annotated[
        str, typer.Option(metavar="REPOSITORY/BRANCH", help="Where a task publishes; the project's only target else.")
    ] = "",
    on: Annotated[
        str, typer.Option(metavar="ORCHESTRATOR", help="Only start and follow it there (local, conductor).")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Run a pipeline or a single task here. What a pipeline's steps quote as ${params.NAME} is given by --param.

    With --on it is only started and followed; the workers that poll that orchestrator do the work.
    """
    project = project_of(context)
    if on:
        project.overrides.setdefault("orchestrator", {})["kind"] = on
    declared = project.settings.pipelines.get(name)
    texts = set[str]() if declared is None else {key for key, each in declared.params.items() if each.type == "text"}
    given = _params(params, param, texts)
    if not over:
        run_one(project, name, given, target, on).tell(as_json=as_json)
    spread_name, values = spread(over)
    if spread_name in given:
        raise CommandError(f"parameter {spread_name!r} is given by --param and by --over; leave one of them out")
    seen: list[Seen] = []
    for value in values:
        seen.append(run_one(project, name, {**given, spread_name: value}, target, on))
        if not as_json:
            out.print(f"[bold]{escape(spread_name)}={escape(str(value))}[/bold]")
            seen[-1].show()
        if not seen[-1].view.succeeded:
            rest = f", and {len(values) - len(seen)} after it were not begun" if len(seen) < len(values) else ""
            messages.print(f"stopped at {spread_name}={value}{rest}; mend it, then go on from there", markup=False)
            break
    if as_json:
        print_json([describe(each.view) for each in seen])
    raise typer.Exit(0 if len(seen) == len(values) and seen[-1].view.succeeded else 1)


def run_one(
    project: Project,
    name: str,
    given: dict[str, Any],
    target: str = "",
    on: str = "",
    *,
    extra: Mapping[str, TaskDefinition] | None = None,
) -> Seen:
    """Check everything that can be checked before, start it at the head of its branch, and see it to its end.

    ``extra``: tasks beside those of the project.
    """
    ready = make_ready(project, name, given, target, on, extra=extra)
    if on:
        return follow(ready.pipelines, ready.begin(), ready.steps)
    return work_off(project, ready.tasks, ready.pipelines, ready.begin, ready.steps)


@frozen
class Ready:
    """A run that can begin."""

    tasks: Registry
    pipelines: Pipelines
    begin: Callable[[], str]
    steps: int


def make_ready(
    project: Project,
    name: str,
    given: dict[str, Any],
    target: str = "",
    on: str = "",
    *,
    extra: Mapping[str, TaskDefinition] | None = None,
) -> Ready:
    """Check everything that can be checked before a run, and find the commit that it begins at."""
    tasks = Registry({**project.tasks(), **(extra or {})})
    own = project.settings.pipelines.get(name)
    if own is not None and target:
        raise CommandError(f"pipeline {name} publishes to {own.repository}/{own.branch}; --target is for single tasks")
    pipeline, where = (
        _single(project, tasks, name, given, target) if own is None else (own, Target(own.repository, own.branch))
    )
    check_pipeline(name, pipeline, tasks)
    with_defaults = {} if own is None else check_params(name, own, given)
    pipelines = project.pipelines()
    if not on:
        settle_drift({**project.all_tasks(), **(extra or {})}, pipelines, project.settings.orchestrator.on_drift)
    _settle_definition(project, pipelines, name, pipeline)
    shares = _shares(pipeline, tasks)
    if where is not None and not shares:
        _warn_of_rivals(project, pipelines, where)
    ref = None if where is None else _begin_at(project, where)
    if where is not None and ref is not None and shares:
        ref = _accepted(project, where, ref, scope_of_run(pipeline, tasks))
    for further in _further(project, tasks, pipeline):
        _begin_at(project, further)
    begin = partial(pipelines.start, name, pipeline, ref, with_defaults)
    return Ready(tasks, pipelines, begin, len(steps_of(name, pipeline)))


def _settle_definition(project: Project, pipelines: Pipelines, name: str, pipeline: PipelineSettings) -> None:
    """Start nothing under a name that is defined as something else."""
    fields = pipelines.unlike(name, pipeline)
    if not fields:
        return
    problem = f"pipeline {name} is registered otherwise than declared: {', '.join(fields)}"
    match project.settings.orchestrator.on_drift:
        case "register":
            pipelines.define(name, pipeline)
        case "warn":
            messages.print(f"[yellow]warning:[/yellow] {problem}; what is registered runs")
        case "fail":
            raise CommandError(f"{problem}. `perago pipeline register {name}` registers what is declared")


def _shares(pipeline: PipelineSettings, tasks: Registry) -> bool:
    """Whether every step that writes declares what it reads and writes, so that others may write beside it."""
    return all(tasks[each.task].scope is not None for each in pipeline.all_steps if not tasks[each.task].read_only)


def _accepted(project: Project, target: Target, head: CommitRef, scope: Scope | None) -> CommitRef:
    """Return the newest commit at or below the head that nobody can take back: others may be publishing just now.

    ``scope``: of a pipeline that stacks, to which only what changes that makes a difference.
    """
    found = project.stack.store.look(target.repository, head)
    if isinstance(found, Done) and found.value is not None:
        pinned = run_talk(newest_accepted(target, found.value, scope), project.stack.ports())
        if isinstance(pinned, Done):
            return pinned.value
        raise CommandError(f"expected to know whether {target} was accepted: {pinned.reason}. Nothing was started")
    raise CommandError(f"{target} cannot be read at {head}. Nothing was started")


def _warn_of_rivals(project: Project, pipelines: Pipelines, target: Target) -> None:
    """Say that somebody else writes to the branch: of two, the one that publishes second is refused (P-21)."""
    names = [
        name for name, each in project.settings.pipelines.items() if Target(each.repository, each.branch) == target
    ]
    for each in pipelines.rivals(target, names):
        messages.print(
            f"[yellow]warning:[/yellow] workflow {each} already runs on {target}: wait for it, or one of the two will "
            "find the branch moved, and fail"
        )


def _single(
    project: Project, tasks: Registry, name: str, params: dict[str, Any], target: str
) -> tuple[PipelineSettings, Target | None]:
    """Make a pipeline of one task. A task without workspace needs no target."""
    if name not in tasks:
        pipelines = ", ".join(project.settings.pipelines) or "none"
        known = f"pipelines: {pipelines}; tasks: {', '.join(tasks) or 'none'}"
        raise CommandError(f"expected a pipeline of perago.toml or a task; found {name!r}. {known}")
    step = (StepSettings(task=name, params=params),)
    if tasks[name].workspace is None and not target:
        return PipelineSettings(repository="-", steps=step), None
    where = target_of(project, target)
    return PipelineSettings(repository=where.repository, branch=where.branch, steps=step), where


def _params(text: str, pairs: list[str], texts: Collection[str]) -> dict[str, Any]:
    """Read parameters: one JSON object, and over it single ones, whose values are JSON if they can be.

    ``texts``: those that are declared as text, and stay it: a customer's number may begin with a nought.
    """
    found: Any = {}
    if text:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise CommandError(f"--params must be a JSON object, e.g. '{{\"rows\": 5}}'; {error}") from None
        if not isinstance(found, dict):
            raise CommandError(f"--params must be a JSON object, e.g. '{{\"rows\": 5}}'; found {text!r}")
    params: dict[str, Any] = {**found}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise CommandError(f"--param must read NAME=VALUE, e.g. rows=5; found {pair!r}")
        try:
            params[name] = value if name in texts else json.loads(value)
        except ValueError:
            params[name] = value
    return params


def _further(project: Project, tasks: Registry, pipeline: PipelineSettings) -> tuple[Target, ...]:
    """Name the targets its tasks publish to beside that of the pipeline."""
    declared = (tasks[step.task].workspace for step in pipeline.all_steps)
    names = {name for workspace in declared if workspace is not None for name in workspace.targets}
    return tuple(target for name, target in project.settings.targets.items() if name in names)


def _begin_at(project: Project, target: Target) -> CommitRef:
    """Return the head of the target; on the embedded store a branch that is not there is made, empty."""
    store = project.stack.store
    found = store.head(target)
    if not isinstance(found, Done):
        raise CommandError(f"{target} cannot be read: {found.reason}")
    if isinstance(store, BranchCreator) and found.value is None:
        made = store.create(target)
        if isinstance(made, Done):
            messages.print(f"made {target}, empty")
            return made.value
        raise CommandError(f"{target} is not there and could not be made: {made.reason}")
    leave_nothing_unaccepted(project, target)
    return head_of(project.stack, target)


def leave_nothing_unaccepted(project: Project, target: Target) -> None:
    """Take back what failed runs left, or start nothing on it: it would become part of what this run is accepted for.

    Counterexample: a run is killed after it has published and fails for good; the next run starts from that commit,
    changes nothing, and reports what nobody accepted as its own result.
    """
    if project.stack.coordination is None:
        return
    wanted = rolls_back(project.settings, target)
    with exporting(project.settings.telemetry, scraped=False) as instruments:
        swept = tidy_up(project.stack, target, worker_id(), roll_back=wanted, instruments=instruments)
    if not isinstance(swept, Done):
        raise CommandError(f"expected to know whether {target} was accepted: {swept.reason}. Nothing was started")
    for each in swept.value.outcomes:
        if each.audit is SettlementKind.ROLLED_BACK:
            messages.print(f"took back what a failed run had published to {target} and nobody accepted")
        if each.unaccepted is not None:
            raise CommandError(f"{each.reason}; nothing was started on it. {each.next_action}")
