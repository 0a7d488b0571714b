"""``make demo`` as people run it: the data pipeline on Spark, a killed worker, a zombie, and every row counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perago_core.pipelines import Pipelines, PipelineView
from perago_simulation.runs.trace_check import check_trace
from perago_worker.config.load import load
from perago_worker.stack import open_stack, pipelines_of
from tests.worker.projects import environment

pytest.importorskip("pyspark")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "here"


@pytest.fixture(scope="module")
def played(place: Path) -> dict[str, Any]:
    run = subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "examples.orders", "--json", "--folder", str(place)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    told: dict[str, Any] = json.loads(run.stdout)
    return {**told, "story": " ".join(run.stderr.split())}


@pytest.fixture
def pipelines(place: Path, played: dict[str, Any]) -> Pipelines:
    assert played["held"]
    return pipelines_of(open_stack(load(place, {}, {})))


def the_run(pipelines: Pipelines) -> PipelineView:
    (found,) = pipelines.everything()
    return found


def test_every_promise_holds_and_every_row_is_counted(played: dict[str, Any]) -> None:
    """S-01, S-15: the killed worker's publication is adopted, the zombie is refused, and no row is there twice."""
    promises = {each["says"]: each["held"] for each in played["promises"]}
    assert set(promises.values()) == {True}
    assert len(promises) == 7
    assert any("orders with an amount exactly once" in each for each in promises)
    order = (
        "was killed (SIGKILL) right after it had published clean",
        "worker 2 took over",
        "was stopped (SIGSTOP) in rollup",
        "worker 3 took rollup over",
        "worker 2 wakes",
        "the store refuses it, and it keeps silent:",
    )
    places = [played["story"].index(words) for words in order]
    assert places == sorted(places)


def test_the_page_shows_the_chart_and_leads_to_every_step(played: dict[str, Any], place: Path) -> None:
    text = Path(played["page"]).read_text(encoding="utf-8")
    assert "Every promise held" in text
    assert text.count("<rect") == 12 * 5
    assert 'href="timeline.html"' in text
    assert "refuses rollup 1" in (place / "timeline.html").read_text(encoding="utf-8")


def test_what_the_workers_did_agrees_with_the_table(played: dict[str, Any], place: Path) -> None:
    traces = sorted((place / ".perago" / "trace").glob("*.jsonl"))
    assert len(traces) == 5
    assert played["held"]
    for trace in traces:
        assert check_trace(trace.read_text(encoding="utf-8").splitlines()).divergence is None, trace


def test_how_far_spark_is_reaches_the_log_of_the_task(pipelines: Pipelines) -> None:
    lines = [line for each in the_run(pipelines).attempts for line in pipelines.log(each.task_id)]
    assert [line for line in lines if line.startswith("progress ") and " tasks done, " in line]


def test_nothing_of_the_killed_and_the_others_is_left(played: dict[str, Any], place: Path) -> None:
    """The successor sweeps what the killed worker could not; each body's process ends with its worker (P-25)."""
    assert list((place / ".perago" / "work" / "spark").iterdir()) == []
    assert played["folder"] == str(place)
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(place) not in process.read_text("utf-8", "replace"), process
        except OSError:
            continue  # gone meanwhile
