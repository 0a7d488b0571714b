"""The command line does the work: init, check, run, worker; and its mistakes are one line with the fix."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perago_core.answers import Done
from perago_worker.cli import app
from perago_worker.config.load import load
from perago_worker.stack import pipelines_of
from tests.worker.projects import MAIN, Project, create, new_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project") as made:
        yield made


def test_init_writes_a_project_that_check_finds_sound_and_writes_nothing_over(tmp_path: Path) -> None:
    there = tmp_path / "new"
    runner = CliRunner()
    made = runner.invoke(app, ["init", str(there), "--json"])
    assert made.exit_code == 0
    assert json.loads(made.stdout)["wrote"] == [str(there / "perago.toml"), str(there / "pipeline.py")]
    checked = runner.invoke(app, ["--project", str(there), "check", "--json"])
    assert json.loads(checked.stdout) == {
        "tasks": ["ingest", "clean", "rollup"],
        "pipelines": ["orders"],
        "warnings": [],
    }
    (there / "pipeline.py").unlink()
    assert runner.invoke(app, ["init", str(there)]).exit_code == 0, "as after one that was killed"
    for name in ("perago.toml", "pipeline.py"):
        with (there / name).open("a") as file:
            file.write("# mine\n")
    again = runner.invoke(app, ["init", str(there)])
    assert again.exit_code == 2
    assert "already holds perago.toml and pipeline.py: choose another folder" in again.stderr
    assert runner.invoke(app, ["init", str(there / "perago.toml")]).exit_code == 2


def test_what_a_project_keeps_for_itself_is_nothing_to_git(tmp_path: Path) -> None:
    """``git add .`` on the first day would commit the data and every file a run has left."""
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet"], check=True)  # noqa: S603  no shell
    runner = CliRunner()
    assert runner.invoke(app, ["init", str(tmp_path)]).exit_code == 0
    assert runner.invoke(app, ["--project", str(tmp_path), "status"]).exit_code == 0
    assert (tmp_path / ".perago" / "orchestrator.db").exists()
    shown = subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True, text=True).stdout  # noqa: S603
    assert shown.splitlines() == ["?? perago.toml", "?? pipeline.py"]


@pytest.mark.parametrize(
    ("typed", "meant"), [("statsu", "'status'"), ("show-faild", "'show-failed'"), ("laddr", "'ladder'")]
)
def test_a_command_that_is_none_is_answered_with_one_that_is_near(typed: str, meant: str) -> None:
    mistyped = CliRunner().invoke(app, [typed], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert mistyped.exit_code == 2
    assert f"No such command '{typed}'. Did you mean {meant}" in mistyped.stderr


@pytest.mark.parametrize(
    ("store", "advice"), [("s3:/name", "use s3://, az://"), ("file://lake", "use file:lake below the project")]
)
def test_init_writes_nothing_for_a_store_that_is_none(store: str, advice: str, tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["init", str(tmp_path), "--store", store])
    assert refused.exit_code == 2
    assert advice in " ".join(refused.stderr.split())
    assert not list(tmp_path.iterdir())


def test_run_takes_a_pipeline_from_the_head_to_its_end_and_gives_its_steps_parameters(project: Project) -> None:
    ran = project.perago("run", "both", "--param", "text=good day", "--json")
    assert ran.code == 0
    view = ran.data
    assert view["status"] == "COMPLETED"
    assert [(each["step"], each["status"]) for each in view["attempts"]] == [
        ("write", "COMPLETED"),
        ("total", "COMPLETED"),
    ]
    assert view["output"]["total"]["result"] == {"count": 3}
    head = project.stack().store.head(MAIN)
    assert isinstance(head, Done)
    assert head.value is not None
    assert head.value.commit.ref == view["attempts"][-1]["ref"]
    source = project.stack().store.read(MAIN.repository, head.value.commit.ref).get("data/0.txt")
    assert isinstance(source, Done)
    assert source.value.read() == b"good day"


def test_run_takes_a_single_task_with_parameters_and_a_target(project: Project) -> None:
    ran = project.perago("run", "write", "--params", '{"text": "x", "count": 9}', "--param", "count=2", "--json")
    assert ran.code == 0
    assert ran.data["output"]["write"]["result"] == {"count": 2}
    assert ran.data["output"]["write"]["workspace"]["branch"] == "main"
    elsewhere = project.perago("run", "write", "--target", "lake/side", "--json")
    assert elsewhere.data["output"]["write"]["workspace"]["branch"] == "side"
    assert project.perago("run", "add", "--param", "count=41", "--json").data["output"]["add"]["result"] == {
        "count": 42
    }


def test_run_says_why_a_task_failed_and_its_exit_code_is_1(project: Project) -> None:
    ran = project.perago("run", "broken")
    assert ran.code == 1
    assert "there is no bread today" in " ".join(ran.out.split())
    assert "failed" in ran.out


MISTAKES = {
    "neither pipeline nor task": (("run", "nothing"), "found 'nothing'. pipelines: both, broken; tasks: write, total"),
    "params that are no JSON": (("run", "write", "--params", "{"), "--params must be a JSON object"),
    "params that are no object": (("run", "write", "--params", "[1]"), "--params must be a JSON object"),
    "a param nobody reads": (("run", "write", "--param", "cuont=2"), "no parameter 'cuont'; did you mean 'count'?"),
    "a param of a pipeline nobody reads": (
        ("run", "both", "--param", "txt=2"),
        "no parameter 'txt'; did you mean 'text'?",
    ),
    "a param without a value": (("run", "write", "--param", "count"), "--param must read NAME=VALUE"),
    "a target that is none": (("run", "write", "--target", "main"), "expected REPOSITORY/BRANCH, e.g. lake/main"),
    "a pipeline with a target": (("run", "both", "--target", "a/b"), "--target is for single tasks"),
    "no such workflow": (("status", "wf-1"), "there is no run 'wf-1'; `perago runs` lists them"),
    "no such run": (("timeline", "wf-1"), "`perago runs` lists them"),
    "no such run to show": (("show", "wf-1"), "`perago runs` lists them"),
    "no such run to cancel": (("cancel", "wf-1"), "`perago runs` lists them"),
    "no such run to retry": (("retry", "wf-1"), "`perago runs` lists them"),
    "no such run to forget": (("rm", "wf-1"), "`perago runs` lists them"),
    "no such log": (("logs", "wf-1"), "`perago runs` lists them"),
    "no such state": (("runs", "--state", "done"), "there is no state 'done'; there are running,"),
    "no such task": (("explain", "task-1"), "`perago show RUN` their tasks"),
    "no such branch": (("history", "lake/nowhere"), "lake/nowhere cannot be read"),
    "a branch that is none": (("gc", "lake"), "expected REPOSITORY/BRANCH, e.g. lake/main"),
    "kept without grounds": (("recover", "--keep"), "say why with --grounds"),
    "kept and rolled back": (("recover", "--keep", "--roll-back"), "--roll-back and --keep contradict each other"),
    "gone without a word": (("recover", "--settle-gone", "op-1"), "are given together"),
    "an operation that is not open": (("recover", "--operation", "op-1"), "nothing is open"),
    "a page nobody can write": (("extract", "-o", "/nowhere/at/all"), "cannot be written"),
    "a setting without a value": (("--set", "fence.policy", "check"), "expected KEY=VALUE"),
    "a setting nobody has": (("--set", "fence.polcy=soft", "check"), "there is no such setting; known here: policy"),
    "a value that is none": (("--set", "fence.policy=hard", "check"), "fence.policy"),
    "a module that is none": (("--set", "tasks=nowhere_at_all", "check"), "nowhere_at_all"),
    "a part that is not there": (("--set", "store.kind=lakefs", "history"), "store.kind"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_the_fix_and_exit_code_2(project: Project, mistake: str) -> None:
    words, says = MISTAKES[mistake]
    ran = project.perago(*words, width=300)
    assert ran.code == 2, ran.out + ran.err
    assert ran.out == ""
    assert says in ran.err
    assert "Traceback" not in ran.err
    shown = [line for line in ran.err.splitlines() if line.startswith("error:")]
    assert len(shown) == 1 or "Usage" in ran.err


BROKEN = {
    "work": (("run", "write"), "`perago doctor` looks at every folder"),
    "orchestrator.db": (("status",), "expected a SQLite file at"),
    "coordination.db": (("policy", "show"), "expected a SQLite file at"),
    "store": (("run", "write"), "lake/main is not there and could not be made"),
}


@pytest.mark.parametrize("part", BROKEN)
def test_a_file_where_something_else_should_be_is_one_line_too(project: Project, part: str) -> None:
    words, says = BROKEN[part]
    (project.folder / ".perago").mkdir()
    (project.folder / ".perago" / part).write_text("rubbish", encoding="utf-8")
    ran = project.perago(*words, width=300)
    assert ran.code == 2
    (line,) = [line for line in ran.err.splitlines() if line.startswith("error:")]
    assert says in line


def test_no_coordination_store_needs_an_explicit_policy_and_the_error_says_so(project: Project) -> None:
    """S-28: nobody decides alone in silence."""
    ran = project.perago("--set", "coordination.kind=none", "run", "write", width=300)
    assert ran.code == 2
    assert re.search(r"soft|enable", ran.err)
    fine = project.perago("--set", "coordination.kind=none", "--set", "fence.policy=soft", "run", "write", "--json")
    assert fine.code == 0


def test_a_worker_process_works_off_what_is_there_logs_one_line_a_record_and_ends(project: Project) -> None:
    """The real thing: its own process, its own signals, log lines that can be searched or read by machines."""
    registered = project.process("register", "--json")
    assert json.loads(registered.stdout)["registered"] == ["write", "total", "add", "dawdle", "sleep", "fail"]
    stack = project.stack()
    first = create(stack)
    pipeline = load(project.folder, {}, {}).pipelines["both"]
    workflow = pipelines_of(stack).start("both", pipeline, first, {"text": "a"})
    worker = project.process("worker", "--until-idle", "--json", "--verbose")
    assert worker.returncode == 0, worker.stderr
    said = [json.loads(line) for line in worker.stderr.splitlines()]
    assert {"at", "level", "says"} <= set(said[0])
    assert any("completed with" in each["says"] and each["level"] == "INFO" for each in said)
    assert any(each["level"] == "DEBUG" and "HeadSeen" in each["says"] for each in said)
    assert [each.workflow_id for each in project.views() if each.succeeded] == [workflow]
    plain = project.process("worker", "--until-idle")
    assert re.match(r"\d{4}-\d\d-\d\d \S+ INFO worker \S+: backing atomic", plain.stderr)
