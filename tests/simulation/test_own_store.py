"""What do I get on my store? The documented thirty lines get a ladder row of their own, and so does a list of flags."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perago_simulation.cli import app

EXAMPLES = Path(__file__).parents[2] / "simulation" / "examples"
FENCED = ["--store", "fenced_store:FencedStore", "--backing", "conditional"]


def perago(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line where the example lies, as its own words say."""
    wide = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, "-m", "perago_simulation", *arguments]
    return subprocess.run(command, cwd=EXAMPLES, env=wide, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603  our own command line


def test_an_own_store_gets_its_row_of_the_ladder() -> None:
    """S-01 to S-04 hold on fencing tokens; a request of the attempt itself, though, cannot be stopped by a token."""
    expected = {
        "retries after crashes": "everything holds",
        "pauses that resume": "broken: C8 in 18",
        "duplicate delivery": "everything holds",
        "foreign writer": "broken: S-15 in 29",
    }
    printed = perago("ladder", *FENCED, *(word for name in expected for word in ("--environment", name))).stdout
    assert "conditional on fenced_store:FencedStore" in printed
    rows = [cells for line in printed.splitlines() if len(cells := line.split("│")) == 5]
    assert {cells[1].strip(): cells[2].strip() for cells in rows} == expected
    assert "Not `conditional`: it lacks revocable_names" in printed


def test_an_own_store_without_its_barrier_is_broken_and_the_line_says_so() -> None:
    """S-02: what the example says about the second command."""
    found = perago("explore", *FENCED, "--store-can", "conditional_merge", "--no-ops", "--json")
    assert found.returncode == 1
    (violation,) = json.loads(found.stdout)["violations"]
    assert violation["property"] == "S-02b"
    assert violation["line"].endswith("store=fenced_store:FencedStore")
    refused = perago("replay", violation["line"])
    assert (refused.returncode, "add --store fenced_store:FencedStore" in refused.stderr) == (2, True)
    replayed = perago("replay", violation["line"], "--store", "fenced_store:FencedStore", "--json")
    assert replayed.returncode == 1
    assert json.loads(replayed.stdout)["property"] == "S-02b"


def test_the_documented_store_is_thirty_lines() -> None:
    text = (EXAMPLES / "fenced_store.py").read_text(encoding="utf-8")
    code = text.split('"""', 2)[2]
    assert len(code.strip().splitlines()) <= 30


def test_flags_alone_answer_what_a_store_carries() -> None:
    """Names and a barrier, without a conditional merge: `locked`, and why not more."""
    asked = ["ladder", "--store-can", "revocable_names,barrier", "--environment", "duplicate delivery"]
    result = CliRunner().invoke(app, asked, env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "locked on your store" in result.stdout
    assert "This store carries `locked`." in result.stdout
    assert "Not `conditional`: it lacks conditional_merge" in result.stdout


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fenced_store", "write module:name"),
        ("nowhere:Store", "cannot import nowhere"),
        ("fenced_store:Nothing", "fenced_store has no Nothing; it has Capabilities, ClassVar, FencedStore"),
        ("fenced_store:World", "fenced_store:World is no store"),
    ],
)
def test_a_store_that_is_not_there_is_named_with_what_is(name: str, says: str) -> None:
    refused = perago("explore", "--store", name)
    assert refused.returncode == 2
    assert says in " ".join(refused.stderr.replace("│", " ").split())
