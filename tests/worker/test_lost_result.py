"""An accepted result that is not on its branch is an alarm at every door: the command, a start, an attempt, recovery.

The worker is killed right after its report was taken, so that its intent stays open; then a stranger moves the branch
back. Whoever sweeps the target next is the only one ever to find it: the intent is closed by that.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from attrs import define, field

from perago_core.answers import Done
from perago_core.attempt.messages import BodyFailed
from perago_core.results import Completed
from perago_core.values import Attempt, Backing, CommitRef, Target
from perago_worker.config.load import load
from perago_worker.pipelines.recovery_task import recovery_of
from perago_worker.runtime.internal_tasks import InternalTask
from perago_worker.stack import pipelines_of
from tests.worker.embedded import Died, Embedded, Faulty, embedded
from tests.worker.projects import IMPATIENT, Project, create, new_project

LOST = "ACCEPTED RESULT LOST on lake/main"
ON_THE_BRANCH = "the orchestrator accepted this result and it is not on the branch: lake/main at "


@define
class Counters:
    """Instruments that keep what was counted."""

    counted: list[tuple[str, Mapping[str, str]]] = field(factory=list[tuple[str, Mapping[str, str]]])

    def count(self, name: str, attributes: Mapping[str, str]) -> None:
        self.counted.append((name, attributes))

    def span(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:  # noqa: ARG002
        return nullcontext()

    def note(self, name: str, attributes: Mapping[str, str]) -> None:
        """Keep nothing."""


def move_back(project: Project) -> None:
    """Take the last commit off ``main`` behind everybody's back."""
    repository = next(project.folder.rglob("lake.git"))
    subprocess.run(["git", "-C", str(repository), "update-ref", "refs/heads/main", "main~1"], check=True)  # noqa: S603, S607


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path, IMPATIENT) as made:
        stack = made.stack()
        first = create(stack)
        assert made.process("register").returncode == 0
        pipeline = load(made.folder, {}, {}).pipelines["both"]
        pipelines_of(stack).start("both", pipeline, first, {"text": "a"})
        killed = made.process("worker", PERAGO_FAILPOINT="kill orchestrator.report.after 1 write")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        move_back(made)
        yield made


def the_task(project: Project) -> str:
    return project.views()[0].attempts[0].task_id


@pytest.mark.parametrize("settle", [(), ("--settle",)])
def test_recover_says_it_and_exits_1(project: Project, settle: tuple[str, ...]) -> None:
    shown = project.process("recover", *settle)
    assert shown.returncode == 1
    assert LOST in shown.stderr
    assert "ACCEPTED RESULT LOST" in shown.stdout
    assert ON_THE_BRANCH in shown.stdout


def test_recover_shows_it_as_json(project: Project) -> None:
    shown = project.process("recover", "--settle", "--json")
    assert shown.returncode == 1
    (found,) = json.loads(shown.stdout)
    assert (found["ending"], found["kind"], found["alarm"]) == ("settled", "accepted lost", True)


def test_a_starting_worker_logs_it_and_recover_still_knows(project: Project) -> None:
    started = project.process("worker", "--until-idle")
    (line,) = [line for line in started.stderr.splitlines() if LOST in line]
    assert " ERROR " in line
    assert ON_THE_BRANCH in line
    later = project.process("recover")
    assert "no open intent; nothing to recover" in later.stdout
    assert f"the accepted result of task {the_task(project)} was found lost by" in later.stderr
    audited = " ".join(project.process("audit").stdout.split())
    records = json.loads(project.process("audit", "--json").stdout)
    (record,) = [each for each in records if each["kind"] == "accepted lost"]
    assert record["worker"] != record["settled_by"]
    assert f"attempt 1: left open by {record['worker']}, settled by {record['settled_by']}" in audited


def test_explain_never_says_that_it_stays(project: Project) -> None:
    """Before anybody has settled it, and after."""
    for ledger in ("not settled yet: ", "settled as accepted lost by "):
        shown = project.process("explain", the_task(project), "--json")
        findings: dict[str, str] = {each["source"]: each["says"] for each in json.loads(shown.stdout)}
        assert findings["ledger"].startswith(ledger)
        assert findings["so"].startswith("its result was accepted and is LOST: it is not on lake/main.")
        assert "stays" not in shown.stdout
        project.process("recover", "--settle")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path) as made:
        made.start("write")
        with pytest.raises(Died):
            made.run(orchestrator=Faulty(made.stack.orchestrator, report=report_and_die))
        move_back(made.project)
        yield made


def report_and_die(report: Callable[[Attempt, object], object], attempt: Attempt, result: object) -> None:
    report(attempt, result)
    raise Died


def test_the_sweep_before_a_publication_logs_and_counts_it(worker: Embedded, caplog: pytest.LogCaptureFixture) -> None:
    worker.start("write", text="more")
    counters = Counters()
    with caplog.at_level(logging.INFO):
        outcome = worker.run(instruments=counters)
    assert isinstance(outcome.result, Completed), "the alarm changes no result"
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert LOST in record.getMessage()
    assert ("lost", {"target": "lake/main"}) in counters.counted


def test_the_recovery_task_fails_with_it(worker: Embedded, caplog: pytest.LogCaptureFixture) -> None:
    place = Attempt("w", "t", 0, "w/t", 1, "run-1", Target("-", "-"), CommitRef("-"), Backing.SOFT, read_only=True)
    recovery = recovery_of("p-recover", Target("lake", "main"), worker.stack)
    ended = InternalTask(recovery, '{"workflow": "w-1", "reason": "it failed"}', worker.stack.store).run(place)
    assert isinstance(ended, Done)
    assert isinstance(ended.value, BodyFailed)
    assert ended.value.terminal
    assert ON_THE_BRANCH in ended.value.reason
    assert LOST in caplog.text
