"""Parameters of a pipeline are declared with types and defaults, and one of them may be spread over a range."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perago_conductor.documents import workflow_document
from perago_worker import RunFailedError, run
from perago_worker.api.errors import UserError
from perago_worker.config.load import SettingsError, load
from perago_worker.pipelines.checks import check_params, check_pipeline
from perago_worker.pipelines.parameters import spread
from tests.worker.projects import TASKS, Project, new_project

DAILY = """
[pipelines.daily]
repository = "lake"
steps = [{ task = "write", params = { text = "${params.day} ${params.who}", count = "${params.count}" } }]

[pipelines.daily.params]
count = 1
who = "nobody"
day = { type = "date" }

[pipelines.each]
repository = "lake"
steps = [
    { task = "write", for_each = ["at", "c h", 3], params = { text = "to ${item}" } },
    { parallel = [{ task = "add", for_each = [1, 2], params = { count = "${item}" } }] },
]
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project", TASKS, DAILY) as made:
        yield made


def test_defaults_are_put_in_types_are_checked_and_unknown_ones_are_refused(project: Project) -> None:
    ran = project.perago("run", "daily", "--param", "day=2026-01-05", "--param", "count=2", "--json")
    assert ran.data["output"]["write"]["result"] == {"count": 2}
    kept = project.perago("run", "daily", "--param", "day=2026-01-05", "--param", "who=007", "--json")
    assert kept.code == 0, kept.err
    for words, says in {
        (): "needs --param day=VALUE of type date: it has no default",
        ("--param", "day=tomorrow"): "expected type date for parameter 'day'; found str 'tomorrow'",
        ("--param", "day=2026-02-30"): "expected type date for parameter 'day'",
        ("--param", "day=2026-01-05", "--param", "count=many"): "expected type int for parameter 'count'; found str",
        ("--param", "day=2026-01-05", "--param", "count=true"): "expected type int for parameter 'count'; found bool",
        ("--param", "dya=2026-01-05"): "has no parameter 'dya'; did you mean 'day'?",
    }.items():
        refused = project.perago("run", "daily", *words, width=300)
        assert (refused.code, refused.out) == (2, "")
        assert says in refused.err
    assert len(project.perago("runs", "daily", "--json").data) == 2, "what is refused is not started"


def test_a_range_is_run_one_after_the_other_and_stops_where_one_fails(project: Project) -> None:
    ran = project.perago("run", "daily", "--over", "day=2026-02-27..2026-03-01", "--json")
    assert ran.code == 0, ran.err
    assert [each["status"] for each in ran.data] == ["COMPLETED"] * 3
    assert len(project.perago("history", "--json").data) == 4, "each began where the one before it ended"
    assert project.perago("verify").code == 0
    shown = project.perago("run", "add", "--over", "count=1..2", width=200)
    assert shown.code == 0
    assert "count=1" in shown.out
    assert 'add: gave {"count": 3}' in shown.out
    failed = project.perago("run", "broken", "--over", "text=a,b", width=200)
    assert failed.code == 2, "a parameter nobody has is refused before anything runs"
    twice = project.perago("run", "daily", "--param", "day=2026-01-05", "--over", "day=2026-01-05..2026-01-06")
    assert (twice.code, "leave one of them out" in twice.err) == (2, True)


def test_a_run_of_a_range_that_fails_leaves_the_rest_unbegun(tmp_path: Path) -> None:
    choosy = '''
@task(name="choosy", workspace=Workspace(prefix="chosen"), retries=0, response_timeout=20)
def choosy(workspace: Path, params: Params) -> Sum:
    """Like everything but two."""
    if params.count == 2:
        raise TaskTerminalError("not that one")
    (workspace / f"{params.count}.txt").write_text("chosen")
    return Sum(count=params.count)
'''
    with new_project(tmp_path / "choosy", TASKS + choosy) as project:
        ran = project.perago("run", "choosy", "--over", "count=1..4", width=200)
        assert ran.code == 1
        assert "stopped at count=2, and 2 after it were not begun" in ran.err
        states = [each["status"] for each in project.perago("runs", "choosy", "--json").data]
        assert states == ["FAILED", "COMPLETED"]


def test_a_step_for_each_item_is_a_step_of_its_own(project: Project) -> None:
    settings = load(project.folder, {}, {}).pipelines["each"]
    assert [[step.label for step in stage] for stage in settings.stages] == [
        ["write-at"],
        ["write-c-h"],
        ["write-3"],
        ["add-1", "add-2"],
    ]
    assert [step.params for step in settings.all_steps][1] == {"text": "to c h"}
    ran = project.perago("run", "each", "--json")
    assert ran.code == 0, ran.err
    assert ran.data["output"]["add-2"]["result"] == {"count": 3}
    assert len(project.perago("history", "--json").data) == 4
    for_conductor = workflow_document("each", settings)
    shown = json.dumps(for_conductor)
    assert all(f'"taskReferenceName": "{step.label}"' in shown for step in settings.all_steps)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("day=2026-02-28..2026-03-01", ("2026-02-28", "2026-03-01")),
        ("n=-1..1", (-1, 0, 1)),
        ("c=at,ch", ("at", "ch")),
        ("n=5", (5,)),
        ("n=3..1", None),
        ("day=2026-01-01..5", None),
        ("day=2026-13-01..2026-13-02", None),
        ("n=1..100000000", None),
        ("n", None),
        ("=1..2", None),
        ("n=", None),
        ("n=a..b", None),
    ],
)
def test_a_range_has_both_its_ends_and_nonsense_is_refused(text: str, values: tuple[Any, ...] | None) -> None:
    if values is None:
        with pytest.raises(SettingsError, match="--over"):
            spread(text)
    else:
        assert spread(text)[1] == values


def test_what_is_declared_is_checked_with_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "perago.toml").write_text(
        """
[pipelines.p]
repository = "lake"
steps = [{ task = "t", params = { x = "${params.dya}" } }]
params = { day = 2026-01-05, rows = { type = "int", default = "many" } }
""",
        encoding="utf-8",
    )
    pipeline = load(tmp_path, {}, {}).pipelines["p"]
    assert (pipeline.params["day"].type, pipeline.params["day"].default) == ("date", "2026-01-05")
    with pytest.raises(SettingsError) as told:
        check_pipeline("p", pipeline, {})
    assert "a step quotes ${params.dya}, which is not declared; did you mean 'day'?" in str(told.value)
    assert "parameter rows is declared as int; found the default 'many'" in str(told.value)
    with pytest.raises(SettingsError, match="expected type int"):
        check_params("p", pipeline, {})
    (tmp_path / "perago.toml").write_text(
        '[pipelines.p]\nrepository = "lake"\nsteps = [{ task = "t" }]\nparams = { x = [1] }\n', encoding="utf-8"
    )
    with pytest.raises(SettingsError, match="type"):
        load(tmp_path, {}, {})


def test_a_pipeline_is_run_from_python_and_gives_its_results_or_raises_what_to_do(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For notebooks and scripts; also beside the main thread, where no signal can be listened for."""
    for variable in ("COLUMNS", "NO_COLOR"):
        monkeypatch.setenv(variable, "200")
    done = run("daily", {"day": "2026-01-05", "count": 2}, project=project.folder)
    assert done.results == {"write": {"count": 2}}
    assert done.commit == project.perago("history", "--json").data[0]["ref"]
    with ThreadPoolExecutor(1) as beside:
        assert beside.submit(run, "add", {"count": 6}, project=project.folder).result().results == {"add": {"count": 7}}
    with pytest.raises(RunFailedError, match=r"there is no bread today.*`perago retry broken-") as failed:
        run("broken", project=project.folder)
    assert isinstance(failed.value, UserError)
    with pytest.raises(UserError, match="did you mean 'day'"):
        run("daily", {"dya": 1}, project=project.folder)
