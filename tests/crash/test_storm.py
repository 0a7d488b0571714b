"""Workers killed at random while they work: every accepted result is on its branch, once (issue 5; S-01 to S-06)."""

from __future__ import annotations

from pathlib import Path

from tests.crash.storm import AT_LEAST_ONE_IN, Size, storm
from tests.support.crash.project import CrashProject
from tests.support.crash.seeds import FULL, seed

#: 200 tasks take minutes; 40 show the same in less than one.
SIZE = Size(branches=8, workflows=5, steps=5) if FULL else Size(branches=4, workflows=2, steps=5)


def test_every_accepted_result_is_on_its_branch_and_nothing_twice_while_workers_are_killed(tmp_path: Path) -> None:
    with CrashProject(tmp_path / "p", "auto") as project:
        report = storm(project, SIZE, seed())
    print(report)  # noqa: T201  the figure
    assert report.broken == []
    assert report.accepted == report.on_branch == report.tasks >= SIZE.tasks
    assert report.kills * AT_LEAST_ONE_IN >= SIZE.tasks
