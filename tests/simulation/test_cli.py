"""The command line answers, in words and in JSON, and its exit code says whether what was asked for holds."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from attrs import fields
from typer.testing import CliRunner

from perago_core import Tracer, drive
from perago_core.lease import LEASE
from perago_core.values import Backing
from perago_simulation.cli import app
from perago_simulation.mutants import page as mutant_table
from perago_simulation.mutants.kills import ENVIRONMENTS
from perago_simulation.runs.replay import line_of
from perago_simulation.runs.trace_check import check_trace
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting
from tests.core.world import World

runner = CliRunner()
WIDE = {"COLUMNS": "400"}


def test_a_broken_property_is_shown_with_its_shortest_trace_and_exit_code_1() -> None:
    """S-01: the accepted publication that soft loses, step by step."""
    result = runner.invoke(app, ["explore", "--backing", "soft", "--crashes", "0"])
    assert result.exit_code == 1
    assert "is not on the branch any more" in result.stdout
    assert "every world within these bounds" in result.stdout


def test_the_violation_can_be_had_as_a_page(tmp_path: Path) -> None:
    """The page opens on the violating step and needs nothing but itself."""
    path = tmp_path / "out.html"
    assert runner.invoke(app, ["explore", "--backing", "soft", "--crashes", "0", "--html", str(path)]).exit_code == 1
    text = path.read_text(encoding="utf-8")
    assert "S-01" in text
    assert runner.invoke(app, ["explore", "--backing", "atomic", "--html", str(tmp_path / "none.html")]).exit_code == 0
    assert not (tmp_path / "none.html").exists()


def test_what_holds_has_exit_code_0_and_prints_its_bounds() -> None:
    result = runner.invoke(app, ["explore", "--backing", "atomic", "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["complete"]
    assert found["violations"] == []
    assert "2 attempt(s), 1 crash(es)" in found["bounds"]


def test_an_exploration_that_was_stopped_says_so() -> None:
    result = runner.invoke(app, ["explore", "--backing", "atomic", "--states", "10"])
    assert "stopped before the end" in result.stdout


@pytest.mark.parametrize("bad", [["--backing", "nonsense"], ["--attempts", "0"], ["--crashes", "-1"]])
def test_a_question_that_makes_no_sense_has_exit_code_2(bad: list[str]) -> None:
    assert runner.invoke(app, ["explore", *bad]).exit_code == 2


@pytest.mark.parametrize("machine", ["attempt", "policy", "lease", "recovery"])
def test_every_machine_can_be_drawn(machine: str) -> None:
    result = runner.invoke(app, ["diagram", machine])
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "stateDiagram-v2")


def traced(backing: Backing) -> list[str]:
    lines: list[str] = []
    world = World()
    drive(world.attempt(1, backing), world.ports(), observe=Tracer("attempt", lines.append))
    return lines


@pytest.mark.parametrize("backing", list(Backing), ids=lambda backing: backing.value)
def test_a_trace_of_a_real_run_agrees(backing: Backing, tmp_path: Path) -> None:
    """The driver's own trace, replayed."""
    lines = traced(backing)
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = runner.invoke(app, ["check-trace", str(trace)])
    assert result.exit_code == 0
    assert f"{len(lines) - 1} steps agree" in result.stdout


def test_the_first_divergence_of_a_trace_is_named(tmp_path: Path) -> None:
    """Dropped, reordered, forged: each is named with its line."""
    lines = traced(Backing.SOFT)
    forged = [*lines[:3], lines[3].replace('"row":"F1"', '"row":"F2"'), *lines[4:]]
    assert check_trace(forged).divergence == "line 4: row is 'F2', the table says 'F1'"
    assert "TaskReloaded is not allowed in phase BODY" in str(check_trace([*lines[:2], *lines[3:]]).divergence)
    assert check_trace([]).divergence == "there is no line at all"
    assert check_trace(["nonsense"]).divergence is not None
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(forged), encoding="utf-8")
    assert runner.invoke(app, ["check-trace", str(trace)]).exit_code == 1
    as_json = runner.invoke(app, ["check-trace", str(trace), "--json"])
    assert json.loads(as_json.stdout) == {"steps": 2, "divergence": "line 4: row is 'F2', the table says 'F1'"}


DUPLICATES = ["ladder", "--backing", "soft", "--environment", "duplicate delivery"]


def test_one_backing_can_be_climbed_in_one_environment() -> None:
    result = runner.invoke(app, DUPLICATES)
    assert result.exit_code == 0
    assert result.stdout.count("| `soft` | duplicate delivery |") == 1
    found = json.loads(runner.invoke(app, [*DUPLICATES, "--json"]).stdout)
    assert [rung["environment"] for rung in found] == ["duplicate delivery"] * 2
    assert all("S-17" in rung["broken"] for rung in found)


def test_an_environment_nobody_knows_is_named_with_those_there_are() -> None:
    result = runner.invoke(app, ["ladder", "--environment", "monsoon"], env=WIDE)
    assert result.exit_code == 2
    assert "nobody knows 'monsoon'; there are 'retries after crashes'" in result.stderr


# ---------------------------------------------------------------------------------------------------------------------
# Random runs, and the line that shows them again

SIMULATE = ["simulate", "--backing", "soft", "--crashes", "0", "--no-ops", "--runs", "20000"]


@pytest.mark.parametrize("scheduler", ["weighted", "swarm", "pct"])
def test_a_random_failure_is_shrunk_and_its_line_replays(scheduler: str, tmp_path: Path) -> None:
    """S-01 to S-04 on soft: what was found is told again, as text, data, diagram and page, with exit code 1."""
    page = tmp_path / "simulated.html"
    result = runner.invoke(app, [*SIMULATE, "--scheduler", scheduler, "--json", "--html", str(page)])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    shrunk, (first,) = found["shrunk"], found["violations"]
    assert shrunk["property"] == first["property"]
    assert len(shrunk["trace"]) <= len(first["trace"])
    assert f">{shrunk['property']}<" in page.read_text(encoding="utf-8")

    line = shrunk["line"]
    told = json.loads(runner.invoke(app, ["replay", line, "--json"]).stdout)
    assert (told["property"], told["problem"]) == (shrunk["property"], shrunk["problem"])
    assert told["breaks"] == len(told["steps"])
    assert [step["label"] for step in told["steps"]] == shrunk["trace"]
    as_text = runner.invoke(app, ["replay", *line.split(), "--html", str(tmp_path / "replayed.html")])
    assert (as_text.exit_code, "<-- broken here" in as_text.stdout) == (1, True)
    assert (tmp_path / "replayed.html").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    assert runner.invoke(app, ["replay", line, "--mermaid"]).stdout.startswith("sequenceDiagram")


def test_what_is_printed_can_be_copied_and_run() -> None:
    """Every violation comes with its command, on one line, whatever the width of the terminal."""
    printed = runner.invoke(app, [*SIMULATE, "--failures", "3"], env={"COLUMNS": "40"}).stdout
    commands = [shlex.split(line) for line in printed.splitlines() if line.startswith("perago replay ")]
    assert len(commands) == 4
    for _, *arguments in commands:
        assert runner.invoke(app, arguments).exit_code == 1


def test_every_violation_an_exploration_finds_has_a_line_that_ends_in_it() -> None:
    """On the way to S-03 an accepted result is lost first (S-01); the line still tells of S-03."""
    found = json.loads(runner.invoke(app, ["explore", "--crashes", "0", "--json"]).stdout)["violations"]
    assert len(found) > 3
    for each in found:
        told = json.loads(runner.invoke(app, ["replay", each["line"], "--json"]).stdout)
        assert (len(told["steps"]), told["breaks"]) == (len(each["trace"]), len(each["trace"]))


def test_random_runs_that_hold_have_exit_code_0() -> None:
    result = runner.invoke(app, ["simulate", "--backing", "atomic", "--runs", "200"])
    assert (result.exit_code, "none is broken" in result.stdout) == (0, True)


def test_a_run_that_breaks_nothing_is_told_with_exit_code_0() -> None:
    line = line_of(Model(setting(Backing.ATOMIC)), (0, 0, 0))
    result = runner.invoke(app, ["replay", line])
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "3 steps")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run 0123456789abcdef backing=soft,store=- 0", "made on table 0123456789abcdef, and this is"),
        ("walk a backing=soft 0", "it begins with 'walk', not with 'run'"),
        ("run a backing=soft,weather=1 0", "a setting has no 'weather'; it has backing, store, ledger"),
        ("run a backing=soft,store=magic 0", "a store has no magic; it may have blind, claim"),
        ("run a backing=soft,store=- 0 moon=full", "nobody knows moon; after the choices come store= and runtime="),
        (
            line_of(Model(setting(Backing.SOFT)), (0, 99)),
            "step 2: choice 99 cannot happen; what can happen here: 0: e0",
        ),
    ],
)
def test_a_line_that_cannot_be_replayed_says_why(line: str, says: str) -> None:
    result = runner.invoke(app, ["replay", line], env=WIDE)
    assert result.exit_code == 2
    assert says in result.stderr


# ---------------------------------------------------------------------------------------------------------------------
# Options


def test_every_bound_of_a_setting_is_an_option() -> None:
    """Whoever adds a budget to ``Setting`` need not think of the command line."""
    for command in ("explore", "simulate"):
        shown = runner.invoke(app, [command, "--help"], env=WIDE).stdout
        for each in fields(Setting):
            spelled = {"adopts": "--adopt"}.get(each.name, f"--{each.name.replace('_', '-')}")
            assert spelled in shown, each.name


def test_what_the_store_can_do_changes_what_is_found() -> None:
    """A store without revocable names does not carry `conditional`: S-02b."""
    able = ["explore", "--backing", "conditional", "--no-ops", "--crashes", "0"]
    assert runner.invoke(app, able).exit_code == 0
    without = runner.invoke(app, [*able, "--store-can", "barrier,conditional_merge", "--json"])
    assert without.exit_code == 1
    assert "store=blind+claim+lease+barrier+conditional_merge," in json.loads(without.stdout)["violations"][0]["line"]
    refused = runner.invoke(app, [*able, "--store-can", "magic"], env=WIDE)
    assert (refused.exit_code, "nobody knows magic; known" in refused.stderr) == (2, True)


def test_conduct_can_be_judged_too() -> None:
    """S-17: two executions of one task publish, which the branch alone does not show."""
    asked = ["explore", "--backing", "soft", "--attempts", "1", "--duplicates", "1", "--crashes", "0"]
    outcome, everything = (
        {each["property"] for each in json.loads(runner.invoke(app, [*asked, *more]).stdout)["violations"]}
        for more in (["--json"], ["--judge", "everything", "--json"])
    )
    assert outcome < everything
    assert "S-17" in everything


# ---------------------------------------------------------------------------------------------------------------------
# Catalogues


def test_a_mutant_can_be_tried_alone() -> None:
    """S-18: an intent stands before its publication is sent."""
    result = runner.invoke(app, ["mutants", "no INTENT", "--json"])
    found = json.loads(result.stdout)
    (mutant,) = found["mutants"]
    assert (result.exit_code, mutant["noticed"], found["unexplained"]) == (0, True, [])
    assert {"backing": "soft", "property": "S-18", "steps": 9} in mutant["cells"]["ledger"]


def test_a_survivor_without_a_reason_has_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no environment has a ledger, nobody misses the intent, and no reason says that this is right."""
    monkeypatch.setattr(mutant_table, "ENVIRONMENTS", {"alone": ENVIRONMENTS["alone"]})
    result = runner.invoke(app, ["mutants", "no INTENT", "--json"])
    assert (result.exit_code, json.loads(result.stdout)["unexplained"]) == (1, ["no INTENT"])


def test_a_mutant_nobody_knows_is_named_with_those_near() -> None:
    result = runner.invoke(app, ["mutants", "no INTENTION"], env=WIDE)
    assert (result.exit_code, "near: no INTENT" in result.stderr) == (2, True)


def test_windows_and_machines_can_be_had_as_data() -> None:
    windows = json.loads(runner.invoke(app, ["windows", "--json"]).stdout)
    assert {each["backing"] for each in windows} == {each.value for each in Backing}
    assert any(each["broken"] for each in windows if each["backing"] == "soft")
    lease = json.loads(runner.invoke(app, ["diagram", "lease", "--json"]).stdout)
    assert (lease["machine"], len(lease["rows"])) == ("lease", len(LEASE.definition.rows))


def test_a_protocol_in_which_nothing_is_ever_accepted_does_not_pass() -> None:
    """A store that keeps no claims refuses every attempt, so nothing breaks: that is no success, and says so."""
    names = "no-claim,revocable_names,barrier,conditional_merge"
    asked = ["explore", "--backing", "conditional", "--crashes", "0", "--attempts", "1"]
    idle = CliRunner().invoke(app, [*asked, "--store-can", names], env={"COLUMNS": "200"})
    assert idle.exit_code == 1
    assert "no result is ever accepted here" in idle.stdout
    busy = CliRunner().invoke(app, [*asked, "--json"])
    assert busy.exit_code == 0
    found = json.loads(busy.stdout)
    assert found["first_accepted"] > 0
    assert 10 < found["rows"] < 60
