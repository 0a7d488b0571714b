"""A declared pipeline is refused before it starts, in words that say what to change (P-21)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import evolve
from pydantic import BaseModel, Field, ValidationError

from perago_worker.api.task import TaskDefinition, Workspace, definition_of, task
from perago_worker.config.load import SettingsError
from perago_worker.config.settings import PipelineSettings, StepSettings
from perago_worker.pipelines.checks import check_params, check_pipeline


class Params(BaseModel):
    count: int = 0
    rows: str = ""
    n: int = Field(default=0, validation_alias="number", serialization_alias="number")


class Open(BaseModel, extra="allow"):
    """Takes whatever is given."""


@task(name="open")
def _open(params: Open) -> int:
    return len(params.model_dump())


def _task(name: str, *, read_only: bool = False) -> TaskDefinition:
    @task(name=name, workspace=Workspace(read_only=read_only))
    def body(workspace: Path, params: Params) -> int:
        return len(workspace.name) + params.count

    found = definition_of(body)
    assert found is not None
    return evolve(found, name=name)


TASKS = {each.name: each for each in (_task("write"), _task("append"), _task("look", read_only=True))}


def _pipeline(*steps: StepSettings) -> PipelineSettings:
    return PipelineSettings(repository="lake", steps=steps)


def _step(task: str, name: str = "", **params: object) -> StepSettings:
    return StepSettings(task=task, name=name, params=params)


def _beside(*steps: StepSettings) -> StepSettings:
    return StepSettings(parallel=steps)


FINE = (
    _pipeline(_step("write"), _step("append")),
    _pipeline(_step("write"), _beside(_step("look", "one"), _step("look", "two"))),
    _pipeline(_beside(_step("look"), _step("write"))),
    _pipeline(_step("write", count="${params.count}"), _step("append", rows="${write.result.rows} of it")),
)
WRONG = (
    (_pipeline(_step("wirte")), "there is no task wirte; there are write, append, look"),
    (_pipeline(_beside(_step("write"), _step("append"))), "write and append would write to lake/main side by side"),
    (_pipeline(_beside(_step("write"), _step("look"))), "put it last of the steps it runs beside"),
    (_pipeline(_step("write"), _step("write")), "two steps are called 'write'"),
    (_pipeline(_step("write", "params")), "neither 'params' nor 'workflow'"),
    (_pipeline(_step("write", "a.b")), "letters, digits, '_' and '-'"),
    (_pipeline(_step("write", n="${look.result.n}"), _step("look")), "and only params came before it"),
    (_pipeline(_beside(_step("look"), _step("write", n="${look.result.n}"))), "and only params came before it"),
    (_pipeline(_step("write", cuont=1)), "task write has no parameter 'cuont'; did you mean 'count'?"),
    (_pipeline(_step("write", zzz=1)), "task write has no parameter 'zzz'; it has count, n, number, rows"),
)


@pytest.mark.parametrize("pipeline", FINE)
def test_a_pipeline_with_one_writer_at_a_time_is_fine(pipeline: PipelineSettings) -> None:
    check_pipeline("p", pipeline, TASKS)


@pytest.mark.parametrize(("pipeline", "says"), WRONG)
def test_a_pipeline_that_cannot_run_says_what_to_change(pipeline: PipelineSettings, says: str) -> None:
    with pytest.raises(SettingsError, match="pipeline p: ") as raised:
        check_pipeline("p", pipeline, TASKS)
    assert says in str(raised.value)


PARAMETERS: tuple[tuple[PipelineSettings, dict[str, int], str], ...] = (
    (_pipeline(_step("write", count="${params.rows}")), {"rows": 5}, ""),
    (_pipeline(_step("write", count="${params.rows}")), {"row": 5}, "has no parameter 'row'; did you mean 'rows'?"),
    (_pipeline(_step("write", count="${params.rows}")), {}, "needs --param rows=VALUE"),
    (_pipeline(_step("write")), {"rows": 5}, "it has none: quote it in a step, e.g. params = { rows ="),
)


@pytest.mark.parametrize(("pipeline", "given", "says"), PARAMETERS)
def test_a_pipeline_is_given_the_parameters_its_steps_quote_and_no_other(
    pipeline: PipelineSettings, given: dict[str, int], says: str
) -> None:
    """Counterexample, seen: a mistyped one was ignored, and a wrong result was published with exit code 0."""
    if not says:
        check_params("p", pipeline, given)
        return
    with pytest.raises(SettingsError, match=re.escape(says)):
        check_params("p", pipeline, given)


def test_a_task_that_takes_whatever_is_given_is_given_it() -> None:
    found = definition_of(_open)
    assert found is not None
    check_pipeline("p", _pipeline(_step("open", anything=1)), {"open": found})


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        check_pipeline("p", _pipeline(_step("write", "params"), _step("append", n="${nobody.x}")), TASKS)
    assert len(str(raised.value).splitlines()) == 2


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"task": "a", "parallel": [{"task": "b"}]},
        {"name": "x", "parallel": [{"task": "b"}]},
        {"parallel": [{"parallel": [{"task": "b"}]}]},
    ],
)
def test_a_step_is_one_task_or_several_steps(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        StepSettings.model_validate(given)
