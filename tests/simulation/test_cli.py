"""The command line answers, in words and in JSON, and its exit code says whether what was asked for holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perago_core import Tracer, drive
from perago_core.values import Backing
from perago_simulation.check_trace import check_trace
from perago_simulation.cli import app
from tests.core.world import World

runner = CliRunner()


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


def test_the_ladder_of_one_backing_can_be_climbed_alone() -> None:
    result = runner.invoke(app, ["ladder", "--backing", "soft"])
    assert result.exit_code == 0
    assert result.stdout.count("| `soft` |") == 10
