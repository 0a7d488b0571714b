"""``make demo`` as people run it: a real process, real workers killed and stopped, and a page at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from examples.orders.story import STEPS, Ending, Promise
from perago_core.pipelines import PipelineView
from perago_simulation.runs.trace_check import check_trace
from tests.worker.projects import environment


def run(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", module, *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "here"


@pytest.fixture(scope="module")
def played(place: Path) -> subprocess.CompletedProcess[str]:
    return run("examples.orders", "--files", "--folder", str(place))


def test_the_demo_tells_its_story_and_every_promise_holds(played: subprocess.CompletedProcess[str]) -> None:
    """S-01, S-15: the killed worker's publication is adopted, the zombie is refused, the history is linear."""
    assert played.returncode == 0, played.stderr
    told = " ".join(played.stderr.split())
    order = (
        "was killed (SIGKILL) right after it had published clean",
        "worker 2 took over",
        "was stopped (SIGSTOP) in rollup",
        "worker 3 took rollup over",
        "worker 2 wakes",
        "the store refuses it, and it keeps silent:",
    )
    places = [told.index(words) for words in order]
    assert places == sorted(places)
    assert played.stdout.count("held    ") == 4
    assert "BROKEN" not in played.stdout
    for step in ("ingest, attempt 1", "clean, attempt 2", "rollup, attempt 2", "the first commit"):
        assert step in played.stdout


def test_the_demo_leaves_a_page_traces_that_agree_with_the_table_and_an_ordinary_git_repository(
    played: subprocess.CompletedProcess[str], place: Path
) -> None:
    assert played.returncode == 0, played.stderr
    page = place / "timeline.html"
    assert str(page) in "".join(played.stdout.split())
    text = page.read_text(encoding="utf-8")
    assert "is heard of no more" in text
    assert "refuses rollup 1" in text
    traces = sorted((place / ".perago" / "trace").glob("*.jsonl"))
    assert len(traces) == 5
    for trace in traces:
        assert check_trace(trace.read_text(encoding="utf-8").splitlines()).divergence is None, trace
    repository = place / ".perago" / "store" / "lake.git"
    log = subprocess.run(  # noqa: S603  git, and a repository of ours
        ["git", "--git-dir", str(repository), "log", "--oneline", "main"],  # noqa: S607  whichever git there is
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(log.stdout.splitlines()) == 1 + len(STEPS)
    audit = json.loads(run("perago_worker", "--project", str(place), "audit", "--json").stdout)
    assert sorted(each["kind"] for each in audit) == [*["accepted"] * 3, "not published", "superseded"]


def test_the_demo_wants_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("mine", encoding="utf-8")
    refused = run("examples.orders", "--folder", str(tmp_path))
    assert refused.returncode == 2
    assert "is not empty: the demo wants a folder of its own" in " ".join(refused.stderr.split())
    assert [each.name for each in tmp_path.iterdir()] == ["something"]


def test_a_promise_that_was_broken_is_not_held() -> None:
    ending = Ending(PipelineView("wf", "orders", "COMPLETED"), (), (Promise("a", held=True), Promise("b", held=True)))
    assert ending.held
    assert not evolve(ending, promises=(*ending.promises, Promise("c", held=False))).held
