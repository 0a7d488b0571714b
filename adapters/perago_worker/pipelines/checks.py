"""A declared pipeline, checked against the tasks there are before it is registered or started.

Steps side by side start from one commit, and each publishes by moving the branch from there: of two that write, the
second would always be refused, unless they declare what they read and write, and it is disjoint. So at most one of them
writes (P-21), or all that do declare it; and one that writes comes last: its ref is the next step's input, and an
orchestrator that knows only lines of steps may run them in this order. After several, whoever wants what all of them
have written declares to read it: then it begins at the newest accepted commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from perago_core.pipelines import OPENING, PROMOTION, quoted
from perago_worker.api.task import TaskDefinition
from perago_worker.config.load import SettingsError
from perago_worker.config.settings import PipelineSettings, StepSettings
from perago_worker.pipelines.parameters import complete, fits, how, instead

_NAME = re.compile(r"[A-Za-z0-9_-]+")
#: What quotations call the parameters of the pipeline, and what Conductor calls the workflow itself.
_TAKEN = frozenset({"params", "workflow"})
_OWN = re.compile(r"params\.[^.]")


def check_pipeline(name: str, pipeline: PipelineSettings, tasks: Mapping[str, TaskDefinition]) -> None:
    """Raise ``SettingsError``, one line for each mistake, if the pipeline cannot be run with these tasks."""
    mistakes = [
        f"pipeline {name}: {each}"
        for each in (
            *_names(pipeline),
            *_tasks(pipeline, tasks),
            *_quotes(pipeline),
            *_declarations(pipeline),
            *_unread(pipeline, tasks),
        )
    ]
    if mistakes:
        raise SettingsError("\n".join(mistakes))


def check_params(name: str, pipeline: PipelineSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters a pipeline runs with; ``SettingsError`` unless it is given what it declares or quotes.

    Counterexample, seen: ``perago run orders --param row=5`` ran with what the steps say, and exit code 0.
    """
    if pipeline.params:
        return complete(name, pipeline.params, given)
    wanted = _quoted_params(pipeline)
    unknown, missing = sorted(given.keys() - wanted), sorted(wanted - given.keys())
    if unknown:
        raise SettingsError(
            f"pipeline {name} has no parameter {unknown[0]!r}; {instead(unknown[0], wanted)}{how(wanted)}"
        )
    if missing:
        raise SettingsError(f"pipeline {name} needs --param {missing[0]}=VALUE: a step quotes it")
    return dict(given)


def _quoted_params(pipeline: PipelineSettings) -> set[str]:
    return {path.split(".")[1] for step in pipeline.all_steps for path in quoted(step.params) if _OWN.match(path)}


def _declarations(pipeline: PipelineSettings) -> Iterator[str]:
    """Name what is quoted and not declared, and defaults that are not of their type."""
    for each in sorted(_quoted_params(pipeline) - pipeline.params.keys()) if pipeline.params else ():
        yield f"a step quotes ${{params.{each}}}, which is not declared; {instead(each, pipeline.params)}"
    for name, declared in pipeline.params.items():
        if declared.default is not None and not fits(declared.type, declared.default):
            yield f"parameter {name} is declared as {declared.type}; found the default {declared.default!r}"


def _names(pipeline: PipelineSettings) -> Iterator[str]:
    seen: set[str] = set()
    for step in pipeline.all_steps:
        if not _NAME.fullmatch(step.label) or step.label in _TAKEN:
            yield (
                f"a step is quoted by its name: letters, digits, '_' and '-', and neither 'params' nor 'workflow'; "
                f"found {step.label!r}. Name it with `name`"
            )
        if pipeline.isolated and step.label in {OPENING, PROMOTION}:
            yield f"{step.label} is the name of a step that isolation = 'run' adds; give yours another `name`"
        if step.label in seen:
            yield f"two steps are called {step.label!r}; give one of them another `name`"
        seen.add(step.label)


def _tasks(pipeline: PipelineSettings, tasks: Mapping[str, TaskDefinition]) -> Iterator[str]:
    unknown = sorted({step.task for step in pipeline.all_steps} - set(tasks))
    if unknown:
        yield f"there is no task {', '.join(unknown)}; there are {', '.join(tasks)}"
        return
    for step in (one for audit in pipeline.audits for one in (audit.parallel or (audit,))):
        if not tasks[step.task].read_only:
            yield (
                f"audit {step.label} looks at the run and must not change it; declare task {step.task} with "
                "Workspace(read_only=True), or make it a step"
            )
    several = ""
    where = f"{pipeline.repository}/{pipeline.branch}"
    for stage in pipeline.stages:
        for step in stage:
            if several and tasks[step.task].workspace is not None and tasks[step.task].scope is None:
                yield (
                    f"{step.label} comes after {several}, which write side by side, and would see what one of them has "
                    f"written; declare what task {step.task} reads and writes in its Workspace"
                )
        writers = [step for step in stage if not tasks[step.task].read_only]
        yield from _side_by_side(writers, tasks, where)
        if writers and writers[-1] is not stage[-1]:
            yield f"{writers[-1].label} writes to {where}; put it last of the steps it runs beside"
        several = _all(writers) if len(writers) > 1 else several


def _side_by_side(writers: list[StepSettings], tasks: Mapping[str, TaskDefinition], where: str) -> Iterator[str]:
    """Name writers that would get in each other's way."""
    scopes = [(step, tasks[step.task].scope) for step in writers]
    if len(writers) > 1 and any(scope is None for _, scope in scopes):
        yield (
            f"{_all(writers)} would write to {where} side by side, and all but one would be refused; put them one "
            "after the other, make them read only, or declare in their Workspace what they read and write"
        )
        return
    for (one, its), (other, others) in combinations(scopes, 2):
        met = None if its is None or others is None else its.meets(others)
        if met is not None:
            yield (
                f"{one.label} and {other.label} run side by side, and one writes {met or 'everything'!r} that the "
                "other reads or writes; put them one after the other"
            )


def _quotes(pipeline: PipelineSettings) -> Iterator[str]:
    earlier: set[str] = {"params"}
    for stage in pipeline.stages:
        for step in stage:
            for path in quoted(step.params):
                if path.partition(".")[0] not in earlier:
                    yield f"step {step.label} quotes ${{{path}}}, and only {', '.join(sorted(earlier))} came before it"
        earlier |= {step.label for step in stage}


def _unread(pipeline: PipelineSettings, tasks: Mapping[str, TaskDefinition]) -> Iterator[str]:
    """Name what a step gives to a task that would not read it, and so do what nobody asked for."""
    for step in pipeline.all_steps:
        known = tasks[step.task].signature.param_names if step.task in tasks else None
        for each in () if known is None else sorted(step.params.keys() - known):
            yield f"task {step.task} has no parameter {each!r}; {instead(each, known or ())}"


def _all(steps: list[StepSettings]) -> str:
    return " and ".join(step.label for step in steps)
