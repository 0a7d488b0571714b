"""The command line looks at a run that happened, and mends: everything as text that fits and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perago_core.ledger.records import Audit, SettlementKind, audit_key, encode
from perago_worker.cli import COMMANDS, app, load_command
from tests.worker.projects import Project, environment, new_project

PANELS = ("Work", "Look", "Mend", "Define", "The protocol itself")
NAMES = (
    "init check run retry cancel worker runs show logs rm "
    "extract register diff doctor status explain history verify audit recover gc timeline policy "
    "pipeline init-repo"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with new_project(tmp_path_factory.mktemp("looked-at")) as made:
        assert made.perago("run", "both", "--param", "text=a").code == 0
        assert made.perago("run", "broken").code == 1
        yield made


def a_task(project: Project) -> str:
    return next(view for view in project.views() if view.name == "both").attempts[0].task_id


def test_help_groups_every_command_and_says_what_exit_codes_mean() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100", "TERM": "dumb"}).stdout
    for panel in PANELS:
        assert f"─ {panel} ─" in shown
    words = shown.split()
    assert set(NAMES.split()) <= set(words)
    assert "Exit codes: 0 it was done" in " ".join(words)


@pytest.mark.parametrize("words", [("history", "lake/main"), ("verify", "lake/main"), ("why", "text.txt")])
def test_before_the_first_run_whoever_looks_at_the_branch_is_told_what_makes_it(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """Nothing is unknown then, and nobody is told to try again; following the advice helps."""
    with new_project(tmp_path / "new") as project:
        before = project.perago(*words, width=400)
        assert before.code == 2
        assert "perago run" in before.err
        assert "unknown" not in before.err
        assert "again" not in before.err
        assert project.perago("run", "both", "--param", "text=a").code == 0
        assert project.perago("history", "lake/main").code == 0


def test_help_shows_text_and_no_markup_of_its_source() -> None:
    assert "``" not in CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100", "TERM": "dumb"}).stdout


def test_status_lists_what_runs_and_with_all_what_ran(project: Project) -> None:
    assert project.perago("status", "--json").data == []
    assert "nothing runs" in project.perago("status").out
    found = project.perago("status", "--all", "--json").data
    assert sorted(each["status"] for each in found) == ["COMPLETED", "FAILED"]
    (both,) = [each for each in found if each["name"] == "both"]
    alone = project.perago("status", both["workflow_id"])
    assert [line.split()[:3] for line in alone.out.splitlines()[1:3]] == [
        ["write", "1", "completed"],
        ["total", "1", "completed"],
    ]
    assert project.perago("status", both["workflow_id"], "--json").data == both


def test_history_draws_the_branch_newest_first(project: Project) -> None:
    commits = project.perago("history", "--json").data
    assert [len(each["parents"]) for each in commits] == [1, 1, 0]
    drawn = project.perago("history").out.splitlines()
    assert drawn[0] == "lake/main"
    assert [line[0] for line in drawn[1:]] == ["●", "│", "●", "│", "●"]
    assert "total attempt " in drawn[1]
    assert max(map(len, drawn)) <= 80
    short = project.perago("history", "--limit", "2").out.splitlines()
    assert short[-1].startswith("┆ and more")


def test_explain_says_what_orchestrator_store_branch_and_ledger_say_and_what_follows(project: Project) -> None:
    said = project.perago("explain", a_task(project), "--json").data
    assert [each["source"] for each in said] == ["orchestrator", "store", "branch", "ledger", "so"]
    assert said[-1]["says"] == "it is done: its result was accepted and stays"
    assert "100% files written" in project.perago("explain", a_task(project)).out


def test_audit_has_one_record_for_each_operation_and_fits_the_screen(project: Project) -> None:
    """One audit record per operation; a row is one line at 80 columns."""
    records = project.perago("audit", "--json").data
    assert [each["kind"] for each in records] == ["accepted", "accepted"]
    assert len({each["operation"] for each in records}) == 2
    shown = project.perago("audit").out.splitlines()
    assert len(shown) == 3
    assert max(map(len, shown)) <= 80
    for line in shown[1:]:
        assert line.split()[2] == "accepted"


def test_policy_show_gives_the_stored_decision_and_who_made_it(project: Project) -> None:
    stored = project.perago("policy", "show", "--json").data
    assert stored["policy"] == "auto"
    assert (stored["decision"]["backing"], stored["decision"]["evidence"]) == ("atomic", "proved")
    assert "backing atomic since epoch" in project.perago("policy", "show").out


def test_doctor_finds_everything_fine_or_says_the_fix(project: Project, tmp_path: Path) -> None:
    found = project.perago("doctor", "--json")
    assert found.code == 0, found.out
    looked_at = {each["what"] for each in found.data}
    assert looked_at >= {"Python", "git", "work folder", "cache", "tasks", "orchestrator", "coordination", "store"}
    assert "lake/main" in looked_at
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    sick = project.perago("--set", f"worker.root={blocked}", "doctor", "--json")
    assert sick.code == 1
    (trouble,) = [each for each in sick.data if not each["fine"]]
    assert trouble["what"] == "work folder"
    assert "writable, or name another in [worker]" in trouble["fix"]


def test_doctor_reports_tasks_that_cannot_be_imported_and_systems_that_are_not_there(project: Project) -> None:
    sick = project.perago("--set", "tasks=no_such_module", "--set", "store.kind=lakefs", "doctor", "--json")
    assert sick.code == 1
    trouble = {each["what"]: each["fix"] for each in sick.data if not each["fine"]}
    assert set(trouble) == {"tasks", "systems"}
    assert all(trouble.values())


def test_definitions_are_extracted_registered_and_compared(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    assert project.perago("extract", "--output", str(file)).code == 0
    documents = json.loads(file.read_text(encoding="utf-8"))
    assert documents == project.perago("extract").data == project.perago("extract", "--json").data
    assert [each["name"] for each in documents] == ["write", "total", "add", "dawdle", "sleep", "fail"]
    assert documents[0]["responseTimeoutSeconds"] == 20
    assert project.perago("diff", "--json").data == []
    with new_project(tmp_path / "other") as other:
        missing = other.perago("diff", "--json")
        assert missing.code == 1
        assert [each["task"] for each in missing.data] == ["write", "total", "add", "dawdle", "sleep", "fail"]
        assert "write: declared, and not registered" in other.perago("diff").out
        assert "registered write, total" in other.perago("register").out
        assert other.perago("diff").code == 0


def test_recover_finds_nothing_open_after_a_run_that_ended(project: Project) -> None:
    assert project.perago("recover", "--json").data == []
    assert "no open intent" in project.perago("recover", "--settle").out


def test_gc_says_what_it_would_remove_before_it_does(project: Project) -> None:
    would = project.perago("gc", "--dry-run", "--older-than", "0", "--json").data
    assert would["dry_run"] is True
    assert len(would["claims"]) == 2
    assert would["names"] == []
    kept = project.perago("gc", "--json").data
    assert kept["claims"] == []
    assert kept["ledger"] == {"settlements": 0, "maintained": 0, "audits": 0}
    assert "removed 0 staging name(s) and the claims of 0 task(s)" in project.perago("gc").out


def test_gc_removes_what_is_over_from_the_ledger(project: Project) -> None:
    kind = SettlementKind.ACCEPTED
    old = Audit("long-ago", kind, "worker", "worker", "workflow", "task", 1, "long-ago", movements=(), at=1)
    coordination = project.stack().coordination
    assert coordination is not None
    coordination.create_if_absent(audit_key("long-ago"), encode(old))
    assert project.perago("gc", "--dry-run", "--json").data["ledger"]["audits"] == 1
    said = project.perago("gc")
    assert "removed 0 settlement(s), 0 record(s) of maintenance and 1 audit record(s) whose time is over" in said.out
    assert project.perago("gc", "--dry-run", "--json").data["ledger"]["audits"] == 0


def test_the_simulators_commands_are_reached_through_the_same_program(project: Project) -> None:
    shown = project.process("check-trace", str(project.traces()[0]))
    assert shown.returncode == 0, shown.stderr
    assert "steps agree with the table" in shown.stdout
    assert project.process("explore", "--backing", "hard").returncode == 2


def test_without_the_simulator_a_run_is_still_told_and_the_simulators_commands_say_what_to_install(
    project: Project, tmp_path: Path
) -> None:
    """Running pipelines and looking at what happened needs neither the simulator nor Hypothesis."""
    hidden = "import sys\nsys.modules['perago_simulation'] = sys.modules['hypothesis'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(hidden, encoding="utf-8")
    path = f"{tmp_path}{os.pathsep}{environment()['PYTHONPATH']}"
    ran = project.process("status", "--all", "--json", PYTHONPATH=path)
    assert ran.returncode == 0, ran.stderr
    page = tmp_path / "timeline.html"
    told = project.process("timeline", a_task(project), "--html", str(page), PYTHONPATH=path)
    assert told.returncode == 0, told.stderr
    assert "</html>" in page.read_text(encoding="utf-8")
    missing = project.process("explore", PYTHONPATH=path)
    assert missing.returncode == 2
    assert "pip install 'perago-core[simulation]'" in " ".join(missing.stderr.split())


def imported(project: Project, *words: str) -> set[str]:
    """Name the modules a command has imported when it ends."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n'.join(sys.modules), file=sys.stderr))\n"
        f"sys.argv = ['perago', '--project', {str(project.folder)!r}, *{words!r}]\n"
        "from perago_worker.cli import app\n"
        "app()\n"
    )
    ran = subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    return set(ran.stderr.split())


#: What takes long to import, and what of it a command may need. Numbers of modules and not seconds, which vary.
HEAVY = {
    "pydantic",
    "pydantic_settings",
    "perago_core.driver",
    "perago_core.recovery",
    "perago_local",
    "pygit2",
    "perago_lakefs",
    "lakefs_sdk",
    "perago_conductor",
    "conductor",
    "perago_etcd",
    "perago_spark",
    "pyspark",
    "perago_simulation",
    "hypothesis",
    "opentelemetry",
    "perago_worker.runtime",
}


@pytest.mark.parametrize(
    ("words", "needed"),
    [(("--help",), set[str]()), (("status",), {"pydantic", "perago_local"})],
    ids=["help", "status"],
)
def test_a_command_imports_only_what_it_needs(project: Project, words: tuple[str, ...], needed: set[str]) -> None:
    assert imported(project, *words) & HEAVY == needed


def test_the_help_says_of_each_command_what_the_command_says_itself() -> None:
    """The help is written down a second time, so that showing it imports no command."""
    for name, entry in COMMANDS.items():
        own = load_command(name).help
        assert own is not None
        assert " ".join(own.split("\n\n")[0].split()) == entry.help, name


@pytest.mark.parametrize("command", ["--help", "status"])
def test_a_look_takes_half_a_second_of_processor_time(project: Project, tmp_path: Path, command: str) -> None:
    """With byte code compiled, as it is where packages are installed; a busy machine gets more tries."""
    kept = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    line = [sys.executable, "-m", "perago_worker", "--project", str(project.folder), command]
    seconds: list[float] = []
    for _ in range(8):
        before = os.times()
        subprocess.run(line, check=True, capture_output=True, env=kept)  # noqa: S603  our own command
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
        if seconds[-1] <= 0.5:
            return
    pytest.fail(f"{seconds}")
