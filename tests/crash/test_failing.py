"""How a worker is told to die: every point has a name, a mistake is an error, listing does no harm (T-O19, R-30)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from perago_core.failpoints import CATALOGUE, Failpoint
from perago_worker.runtime.failpoints import FailpointSignal, Witness, failpoint_from
from tests.support.crash.project import CrashProject

HEAD = Failpoint.parse("store.head.after")


def test_nothing_is_armed_unless_it_is_asked_for() -> None:
    assert failpoint_from(lambda _name: None) is None
    assert failpoint_from(lambda _name: "") is None


@pytest.mark.parametrize("point", [str(each) for each in CATALOGUE])
def test_every_point_of_the_catalogue_can_be_armed_by_its_name(point: str) -> None:
    failpoint = failpoint_from(lambda _name: f"stop {point} 3 clean")
    assert isinstance(failpoint, FailpointSignal)
    assert (failpoint.signal, str(failpoint.point), failpoint.count, failpoint.task) == (
        signal.SIGSTOP,
        point,
        3,
        "clean",
    )


@pytest.mark.parametrize("words", ["kill", "list", "burn store.head.after", "kill store.haed.after", "kill a b c d e"])
def test_a_misspelt_fate_is_an_error_and_not_one_that_never_comes(words: str) -> None:
    with pytest.raises(ValueError, match=r"PORT\.METHOD|no such failpoint"):
        failpoint_from(lambda _name: words)


def test_a_worker_with_a_misspelt_fate_does_not_start_and_says_why_in_one_line(tmp_path: Path) -> None:
    with CrashProject(tmp_path / "p", "auto") as project:
        project.add_task("idle")
        worker = project.worker(failpoint="kill store.haed.after", until_idle=True)
        assert worker.wait() == 2, worker.said()
        assert "no such failpoint: 'store.haed.after'" in worker.said()
        assert "Traceback" not in worker.said()


def test_a_fate_waits_for_its_task_and_its_turn() -> None:
    """It would kill this very process if it came too early."""
    failpoint = FailpointSignal.parse("kill store.head.after 3 clean")
    for task in ("other", "clean", "other", "clean"):
        failpoint.of(task)(HEAD)
    failpoint.of("clean")(Failpoint.parse("store.head.before"))
    assert failpoint.count == 1


def test_a_witness_writes_each_point_in_the_words_that_arm_it(tmp_path: Path) -> None:
    witness = failpoint_from(lambda _name: f"list {tmp_path / 'points of today'}")
    assert isinstance(witness, Witness)
    for task in ("clean", "", "clean"):
        witness.of(task)(HEAD)
    lines = (tmp_path / "points of today").read_text(encoding="utf-8").splitlines()
    assert lines == ["store.head.after 1 clean", "store.head.after 1", "store.head.after 2 clean"]
    assert [FailpointSignal.parse(f"kill {line}").count for line in lines] == [1, 1, 2]
