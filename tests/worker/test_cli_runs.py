"""Runs in daily life: listed, shown, followed, stopped, gone on with, forgotten; found by whatever is printed."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perago_core.answers import Done
from perago_worker.config.load import load
from perago_worker.stack import pipelines_of
from tests.worker.projects import MAIN, TASKS, Project, create, environment, new_project

MORE_TASKS = '''
import logging


@task(name="speak", workspace=Workspace(prefix="spoken"), retries=0, response_timeout=20)
def speak(workspace: Path, params: Params) -> Sum:
    """Print, log, and fail until a file says otherwise."""
    print("\\x1b]0;mine now\\x07 loud \\x9b31m and clear")
    logging.getLogger("voice").info("softly")
    if not Path(params.text).exists():
        raise ValueError("no \\x1b[2J word")
    (workspace / "words.txt").write_text("words")
    return Sum(count=5)
'''

PIPELINES = """
[pipelines.talk]
repository = "lake"
steps = [
    {{ name = "first", task = "write", params = {{ count = 2 }} }},
    {{ task = "speak", params = {{ text = "{gate}" }} }},
    {{ name = "last", task = "total" }},
]

[pipelines.long]
repository = "lake"
steps = [{{ task = "sleep", params = {{ text = "{asleep}" }} }}]
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    more = PIPELINES.format(gate=tmp_path / "gate", asleep=tmp_path / "asleep")
    with new_project(tmp_path / "project", TASKS + MORE_TASKS, more) as made:
        yield made


@contextmanager
def in_background(project: Project, *words: str) -> Generator[subprocess.Popen[str]]:
    """Run a command as a process that can be sent signals."""
    process = subprocess.Popen(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", "--project", str(project.folder), *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(file: Path) -> None:
    """Wait until a body has said that it runs."""
    until = time.monotonic() + 60
    while not file.exists() or not file.read_text():
        assert time.monotonic() < until, f"{file} never came"
        time.sleep(0.02)


def test_a_failed_run_goes_on_from_the_step_that_failed_and_keeps_what_was_accepted(
    project: Project, tmp_path: Path
) -> None:
    failed = project.perago("run", "talk", width=300)
    assert failed.code == 1
    run = re.search(r"^(talk-\w+): failed after ", failed.out, re.MULTILINE)
    assert run is not None
    assert f"`perago retry {run[1]}` goes on from step speak" in failed.out
    before = project.perago("show", "talk", "--json").data
    (tmp_path / "gate").touch()
    mended = project.perago("retry", run[1], "--from-failed", width=300)
    assert mended.code == 0, mended.out + mended.err
    after = project.perago("show", run[1], "--json").data
    assert [(each["step"], each["number"], each["status"]) for each in after["attempts"]] == [
        ("first", 1, "COMPLETED"),
        ("speak", 1, "FAILED"),
        ("speak", 2, "COMPLETED"),
        ("last", 1, "COMPLETED"),
    ]
    assert after["attempts"][0] == before["attempts"][0], "what was accepted ran again"
    assert project.perago("verify").code == 0
    assert "wrote 1 file(s), 5 bytes; gave" in mended.out
    again = project.perago("retry", "talk")
    assert (again.code, "has completed" in again.err) == (2, True)


def test_a_run_whose_branch_has_moved_is_not_gone_on_with_and_no_body_runs_for_it(
    project: Project, tmp_path: Path
) -> None:
    """A deterministic failure is found before the body: the step's input is fixed, and the branch is elsewhere."""
    assert project.perago("run", "talk").code == 1
    assert project.perago("run", "write", "--param", "text=in between").code == 0
    (tmp_path / "gate").touch()
    before = project.perago("show", "talk", "--json").data
    refused = project.perago("retry", "talk", width=400)
    assert refused.code == 2
    assert "its result would be refused. `perago run talk` starts anew from there" in refused.err
    assert project.perago("show", "talk", "--json").data == before
    assert project.perago("run", "talk").code == 0, "the advice was followed"


def test_prints_and_logs_of_bodies_are_shown_live_and_kept_and_steer_no_terminal(project: Project) -> None:
    ran = project.perago("run", "talk", width=200)
    shown = project.perago("logs", "talk", width=200).out
    for text in (ran.err, shown):
        assert r"\x1b]0;mine now\x07 loud \x9b31m and clear" in text
        assert "voice: softly" in text
    told = (ran, *(project.perago(*words) for words in (("show", "talk"), ("explain", "speak"), ("status", "--all"))))
    for each in (*told, project.perago("show", "talk", "--json"), project.perago("logs", "talk", "--json")):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", each.out + each.err)
    worker = project.process("worker", "--until-idle", "--verbose")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", worker.stderr)
    (line,) = [each for each in project.perago("logs", "speak", "--json").data if "loud" in each["line"]]
    assert (line["step"], line["attempt"]) == ("speak", 1)


def test_a_run_is_found_by_name_and_by_every_beginning_that_is_printed(project: Project) -> None:
    for text in ("a", "b"):
        assert project.perago("run", "both", "--param", f"text={text}").code == 0
    newest, older = project.perago("runs", "both", "--json").data
    assert newest["started_at"] >= older["started_at"]
    assert (newest["done"], newest["steps"]) == (2, 2)
    listed = project.perago("runs", width=200).out
    assert [line.split()[0] for line in listed.splitlines()[1:]] == [newest["workflow_id"], older["workflow_id"]]
    assert project.perago("show", "both", "--json").data["workflow_id"] == newest["workflow_id"]
    part = older["workflow_id"].removeprefix("both-")[:8]
    for words in (("show", part), ("status", part), ("show", older["workflow_id"][:-2])):
        assert project.perago(*words, "--json").data["workflow_id"] == older["workflow_id"]
    shown = project.perago("show", part, width=200).out
    task = shown.splitlines()[1].split()[5]
    assert len(task) == 8
    for words in (("explain", task), ("timeline", task), ("explain", f"{part}/write"), ("logs", task)):
        found = project.perago(*words, width=200)
        assert found.code == 0, found.err
    several = project.perago("show", "both-", width=400)
    assert several.code == 2
    assert all(each["workflow_id"] in several.err for each in (newest, older))
    assert project.perago("rm", "both").code == 2, "what changes something never guesses"
    assert project.perago("logs", "both/nowhere", width=200).err.strip().endswith("there are: write, total")


def test_ended_runs_are_forgotten_with_their_logs_and_the_branch_stays_proven(project: Project) -> None:
    assert project.perago("run", "both", "--param", "text=a").code == 0
    assert project.perago("run", "broken").code == 1
    assert project.perago("rm", "both", "broken", "--json").data["removed"]
    assert project.perago("runs", "--json").data == []
    assert project.perago("runs").out == "there is no run yet: `perago run NAME` starts one\n"
    assert project.perago("verify").code == 0
    assert project.perago("runs", "--state", "failed").out == "there is no such run\n"


def test_one_run_is_worked_off_and_another_that_nobody_works_on_is_left_alone(project: Project) -> None:
    """Counterexample, seen: a run left behind was taken up by the next ``perago run``, which waited a minute for it."""
    stack = project.stack()
    ref = create(stack)
    project.perago("register")
    words = pipelines_of(stack)
    left = words.start("both", load(project.folder, {}, {}).pipelines["both"], ref, {"text": "left"})
    stack.close()
    ran = project.perago("run", "add", "--param", "count=1")
    assert ran.code == 0
    view = project.perago("show", left, "--json").data
    assert (view["status"], [each["status"] for each in view["attempts"]]) == ("RUNNING", ["SCHEDULED"])
    told = project.perago("status", width=300).out
    assert "it waits for a worker" in told
    assert f"`perago retry {left}` goes on with it" in told
    gone_on = project.perago("retry", left)
    assert gone_on.code == 0, "the advice was followed"
    assert project.perago("status").out.startswith("nothing runs")


def test_ctrl_c_says_what_it_does_and_by_when_and_twice_leaves_a_run_that_status_explains(
    project: Project, tmp_path: Path
) -> None:
    with in_background(project, "run", "long") as running:
        wait_for(tmp_path / "asleep")
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        while "the step that runs may end, until" not in (said := running.stderr.readline()):
            assert said, "it ended without a word"
        assert re.search(r"until \d\d:\d\d:\d\d at the latest; no other is begun. Again: stop at once", said)
        running.send_signal(signal.SIGINT)
        shown, _ = running.communicate(timeout=60)
        assert running.returncode == 1
    assert "it waits for a worker" in " ".join(shown.split())
    told = project.perago("status", width=300).out
    assert "it waits for a worker" in told
    cancelled = project.perago("cancel", "long", "--reason", "enough", width=300)
    assert cancelled.code == 0
    assert "terminated" in cancelled.out
    assert "enough" in cancelled.out
    assert project.perago("cancel", "long").code == 2
    body = int((tmp_path / "asleep").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(body, 0)


def test_a_run_that_is_cancelled_elsewhere_ends_at_once_with_its_body(project: Project, tmp_path: Path) -> None:
    with in_background(project, "run", "long", "--json") as running:
        wait_for(tmp_path / "asleep")
        with in_background(project, "logs", "long", "--follow", "--json") as following:
            assert project.perago("rm", "long").code == 2, "what runs is not forgotten"
            assert project.perago("cancel", "long").code == 0
            shown, said = running.communicate(timeout=60)
            assert running.returncode == 1, said
            assert json.loads(shown)["status"] == "TERMINATED"
            lines, _ = following.communicate(timeout=60)
            assert following.returncode == 0
    assert all(json.loads(line)["step"] == "sleep" for line in lines.splitlines())
    head = project.stack().store.head(MAIN)
    assert isinstance(head, Done)
    assert head.value is not None
    assert head.value.commit.parents == (), "a cancelled run has published nothing"


FORGER = """
import logging


@task(name="forge", workspace=Workspace(prefix="forged"), retries=0, response_timeout=20)
def forge(workspace: Path) -> Sum:
    logging.getLogger("me").info("quiet\\n2026-01-01 00:00:00,000 INFO attempt 9 of everything: completed, accepted")
    return Sum(count=1)
"""


def test_no_line_of_a_body_passes_for_one_of_the_worker_and_its_trace_is_for_its_owner(tmp_path: Path) -> None:
    """Counterexample, seen: a line end in a record of a body began a line that looked like the worker's own."""
    pipeline = '[pipelines.forgery]\nrepository = "lake"\nsteps = [{ task = "forge" }]\n'
    with new_project(tmp_path / "p", TASKS + FORGER, pipeline) as project:
        stack = project.stack()
        first = create(stack)
        assert project.process("register").returncode == 0
        settings = load(project.folder, {}, {})
        pipelines_of(stack).start("forgery", settings.pipelines["forgery"], first)
        said = project.process("worker", "--until-idle").stderr
        assert "    2026-01-01 00:00:00,000 INFO attempt 9 of everything" in said
        assert not [line for line in said.splitlines() if line.startswith("2026-01-01")]
        (trace,) = project.traces()
        assert stat.S_IMODE(trace.stat().st_mode) == 0o600
