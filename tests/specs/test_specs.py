"""What is generated is up to date, what it says is complete, and the checker for other languages can be trusted."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perago_core.machine.description import digest, mermaid
from tests.specs.vectors import MACHINES, vectors

SPECS = Path(__file__).parents[2] / "specs"
CHECKER = SPECS / "check_vectors.py"

each_machine = pytest.mark.parametrize("name", MACHINES)


@cache
def generated() -> Mapping[str, Callable[[], str]]:
    """Return what ``specs/generate.py`` would write, unwritten."""
    found = importlib.util.spec_from_file_location("generate", SPECS / "generate.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    files: Callable[[], Mapping[str, Callable[[], str]]] = module.files
    return files()


def stored(name: str) -> dict[str, Any]:
    """Read the vectors of a machine as another language finds them."""
    content: dict[str, Any] = json.loads((SPECS / "vectors" / f"{name}.json").read_text(encoding="utf-8"))
    return content


# ---------------------------------------------------------------------------------------------------------------------
# The files


@pytest.mark.parametrize(
    "name",
    [
        "table.json",
        "cost.md",
        "properties.md",
        "windows.md",
        *(f"diagrams/{name}.mmd" for name in MACHINES),
        *(f"vectors/{name}.json" for name in MACHINES),
    ],
)
def test_every_generated_file_is_up_to_date(name: str) -> None:
    path = SPECS / name
    current = path.is_file() and path.read_text(encoding="utf-8") == generated()[name]()
    assert current, f"specs/{name} is out of date: run `make specs`"


def test_nothing_else_is_generated_and_nothing_generated_is_left_over() -> None:
    folders = (SPECS / "diagrams", SPECS / "vectors")
    found = {path.relative_to(SPECS).as_posix() for folder in folders for path in folder.iterdir()}
    assert found | {"table.json", "cost.md", "ladder.md", "properties.md", "windows.md", "evidence.md"} == {
        name for name in generated() if not name.startswith("guide/")
    }


@pytest.mark.parametrize(
    ("name", "tables"), [("kill-matrix.md", 6), ("kill-matrix-lakefs.md", 6), ("kill-matrix-bucket.md", 2)]
)
def test_nothing_was_lost_when_the_whole_kill_matrix_was_played(name: str, tables: int) -> None:
    """The page is written by ``make test-full``; here it is only read."""
    rows = re.findall(
        r"^\| all \| (\d+) \| \d+ \| \d+ \| (\d+) \| \d+ \|$", (SPECS / name).read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) == tables
    assert all(int(cases) > 0 and int(lost) == 0 for cases, lost in rows)


def test_the_vectors_stay_small() -> None:
    assert sum(len(text().encode()) for name, text in generated().items() if name.startswith("vectors/")) < 2_000_000


def test_the_table_names_every_row_once() -> None:
    tables = json.loads((SPECS / "table.json").read_text(encoding="utf-8"))
    assert list(tables) == list(MACHINES) == ["attempt", "policy", "lease", "recovery"]
    for name, table in MACHINES.items():
        assert tables[name]["digest"] == digest(table)
        named = Counter(row["id"] for row in tables[name]["rows"])
        assert named == Counter(dict.fromkeys((row.id for row in table.definition.rows), 1))


@each_machine
def test_the_diagram_mentions_every_phase(name: str) -> None:
    words = set(re.findall(r"\w+", mermaid(MACHINES[name])))
    assert {phase.name for phase in MACHINES[name].definition.phases} <= words


# ---------------------------------------------------------------------------------------------------------------------
# The vectors


@each_machine
def test_every_row_is_fired_by_some_vector(name: str) -> None:
    content = stored(name)
    assert (content["schema"], content["machine"], content["digest"]) == (3, name, digest(MACHINES[name]))
    fired = {step["row"] for vector in content["vectors"] for step in vector["steps"]}
    assert fired == {row.id for row in MACHINES[name].definition.rows}


@each_machine
def test_a_vector_says_which_rows_it_fires_and_has_a_name_of_its_own(name: str) -> None:
    found = stored(name)["vectors"]
    assert len({vector["name"] for vector in found}) == len(found)
    for vector in found:
        assert vector["rows"] == [step["row"] for step in vector["steps"]]


@each_machine
def test_no_vector_is_the_beginning_of_another(name: str) -> None:
    ways = [(vector["subject"], [step["event"] for step in vector["steps"]]) for vector in stored(name)["vectors"]]
    for subject, events in ways:
        assert [each for each, others in ways if each == subject and others[: len(events)] == events] == [subject]


@each_machine
def test_exactly_the_steps_that_end_a_machine_have_an_outcome(name: str) -> None:
    terminal = {phase.name for phase in MACHINES[name].definition.terminal}
    steps = [step for vector in stored(name)["vectors"] for step in vector["steps"]]
    assert all(("outcome" in step) is (step["phase"] in terminal) for step in steps)
    assert terminal == {step["phase"] for step in steps if "outcome" in step}


@each_machine
def test_what_must_be_refused_is_there(name: str) -> None:
    cases = stored(name)["refused"]
    assert [case["name"] for case in cases] == ["too early", "twice", "another machine's", "after the end"]
    for case in cases:
        refused = [number for number, step in enumerate(case["steps"]) if "refused" in step]
        followed = len(case["steps"]) - 1 - refused[0]
        assert (len(refused), followed) == (1, 0 if case["name"] == "after the end" else 1)


@each_machine
def test_generating_twice_gives_the_same(name: str) -> None:
    assert json.dumps(vectors(name)) == json.dumps(stored(name))


# ---------------------------------------------------------------------------------------------------------------------
# The checker


def check(*program: str, timeout: float = 10.0) -> subprocess.CompletedProcess[str]:
    """Run the checker against a program, or against the reference."""
    return subprocess.run(  # noqa: S603  a program of these tests
        [sys.executable, str(CHECKER), *program],
        env={**os.environ, "VECTORS_TIMEOUT": str(timeout)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def sabotaged(folder: Path, change: str) -> tuple[str, str]:
    """Write a program that is the reference with its answers changed, and give how to run it."""
    path = folder / "sabotaged.py"
    path.write_text(
        f"""
import json, os, sys, time
sys.path.insert(0, {str(SPECS)!r})
from reference import Answerer

answerer = Answerer()
for number, line in enumerate(sys.stdin):
    question = json.loads(line)
    answer = answerer.answer(question)
    {change}
    print(json.dumps(answer), flush=True)
""",
        encoding="utf-8",
    )
    return sys.executable, str(path)


def test_the_reference_passes_everything() -> None:
    checked = check()
    assert (checked.returncode, checked.stderr) == (0, "")
    counts = {name: len(stored(name)["vectors"]) + len(stored(name)["refused"]) for name in sorted(MACHINES)}
    expected = [f"{name}: {count} of {count} passed" for name, count in counts.items()]
    assert checked.stdout.splitlines() == [*expected, "no difference"]


HARMLESS = {
    "the order of the fields": "answer = dict(reversed(list(answer.items())))",
    "no outcome": "answer.pop('outcome', None)",
    "whole numbers as fractions": "answer = json.loads(json.dumps(answer), parse_int=float)",
    "more than was asked for": "answer['remark'] = 'hello'",
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_makes_no_difference_passes(tmp_path: Path, change: str) -> None:
    checked = check(*sabotaged(tmp_path, change))
    assert checked.returncode == 0, checked.stdout


SABOTAGE = {
    "another phase": ("if answer.get('phase') == 'TAKEOVER': answer['phase'] = 'FENCE_3'", "attempt"),
    "no command": ("if answer.get('phase') == 'RENEWAL': answer['commands'] = []", "lease"),
    "an argument": ("if answer.get('phase') == 'PROBE_PAUSE': answer['commands'][0]['seconds'] *= 1.5", "policy"),
    "a number for a truth": ("answer = json.loads(json.dumps(answer).replace('false', '0'))", "attempt"),
    "another outcome": ("if 'outcome' in answer: answer['outcome'] = None", "attempt"),
    "everything allowed": (
        "if 'refused' in answer: answer = {'phase': answerer.state.phase.name, 'commands': []}",
        "attempt",
    ),
    "everything refused": ("answer = {'refused': 'no'}", "attempt"),
    "a refusal beside the answer": ("answer['refused'] = 'no'", "attempt"),
    "a refusal that forgets": (
        "if 'refused' in answer: answerer.state = answerer.table.start(answerer.state.subject).state",
        "attempt",
    ),
    "an empty answer": ("answer = {}", "attempt"),
}


@pytest.mark.parametrize(("change", "machine"), SABOTAGE.values(), ids=SABOTAGE)
def test_what_makes_a_difference_fails(tmp_path: Path, change: str, machine: str) -> None:
    """The difference is shown in full: machine, vector, what was asked, wanted and got."""
    checked = check(*sabotaged(tmp_path, change))
    assert (checked.returncode, checked.stderr) == (1, "")
    *counts, rest = checked.stdout.split("passed\n")
    assert len(counts) == len(MACHINES)
    difference = json.loads(rest)
    assert list(difference) == ["machine", "vector", "asked", "wanted", "got"]
    assert difference["machine"] == machine


DEADLY = {
    "at once": "sys.exit(0)",
    "in the middle": "if number == 100: os._exit(1)",
    "silent": "if number == 100: time.sleep(600)",
    "not JSON": "if number == 100: print('debug: hello')",
    "half an answer": "if number == 100: print('{', flush=True)",
    "no object": "if number == 100: answer = [answer]",
}


@pytest.mark.parametrize("change", DEADLY.values(), ids=DEADLY)
def test_a_program_that_cannot_be_talked_to_is_told_from_one_that_differs(tmp_path: Path, change: str) -> None:
    checked = check(*sabotaged(tmp_path, change), timeout=2.0)
    assert (checked.returncode, checked.stderr) == (2, ""), checked.stdout
    assert "the program" in checked.stdout


def test_a_silent_program_behind_a_script_does_not_hold_the_checker_up(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("sleep 5 2>/dev/null\necho late\n", encoding="utf-8")
    checked = check("sh", str(script), timeout=0.5)
    assert checked.returncode == 2
    assert "silent for 0.5 s" in checked.stdout


def test_a_program_that_does_not_exist_is_no_difference(tmp_path: Path) -> None:
    checked = check(str(tmp_path / "nobody"))
    assert checked.returncode == 2
    assert "nobody" in checked.stdout


def test_the_checker_is_short_and_needs_the_standard_library_only() -> None:
    """Whoever writes another implementation reads it in a minute: fifty lines, docstrings aside."""
    text = CHECKER.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef))]
    quoted: set[int] = set()
    for node in documented:
        if ast.get_docstring(node) is not None:
            first = node.body[0]
            quoted |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    code = [line for number, line in enumerate(text.splitlines(), 1) if line.strip() and number not in quoted]
    assert len(code) <= 50
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names
