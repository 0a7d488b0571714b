"""OpenLineage is told of every attempt, of those that lost too; nothing in an event is secret; nobody waits for it."""

from __future__ import annotations

import importlib
import json
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from jsonschema import ValidationError

from perago_core.answers import Done, Unknown
from perago_core.contract import NOWHERE
from perago_core.results import Acceptance, Classification, Completed, Failed, FailedTerminally, Outcome, Refusal
from perago_core.values import Attempt, Backing, CommitRef
from perago_worker.api.registry import load_tasks
from perago_worker.config.load import load
from perago_worker.config.settings import TelemetrySettings
from perago_worker.runtime import lineage_sender
from perago_worker.runtime.lineage import Lineage, run_id
from perago_worker.runtime.lineage_reporter import LineageReporter
from perago_worker.runtime.lineage_sender import WAITING, LineageSender
from perago_worker.runtime.lineage_unfinished import BEGUN, Unfinished
from perago_worker.runtime.provenance import code_digest
from perago_worker.runtime.telemetry import Silence
from tests.worker.collector import collector
from tests.worker.embedded import Died, Embedded, Faulty, always, embedded
from tests.worker.openlineage import check_event
from tests.worker.projects import MAIN, TASKS, new_project

ATTEMPT = Attempt("both-12ab", "t1", 0, "both-12ab/write", 1, "e1", MAIN, CommitRef("A"), Backing.ATOMIC, "w")
TO_FILE = '\n[telemetry]\nopenlineage = "file:told/events.jsonl"\n'


def events(folder: Path, enough: int) -> list[dict[str, Any]]:
    """Read what was told, once so many events are there; each is valid."""
    path, until = folder / "told" / "events.jsonl", time.monotonic() + 120
    while not path.exists() or len(path.read_text(encoding="utf-8").splitlines()) < enough:
        assert time.monotonic() < until, "too few events came"
        time.sleep(0.05)
    told = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for each in told:
        check_event(each)
    return told


def test_an_accepted_attempt_is_told_with_its_input_its_output_and_what_made_it(tmp_path: Path) -> None:
    with embedded(tmp_path / "project", more=TO_FILE) as worker:
        worker.start("write", worker.first, text="told")
        outcome = worker.run()
        began, ended = events(worker.project.folder, 2)
        code = worker.runtime.codes["write"]
        published = worker.head()
    assert isinstance(outcome.result, Completed)
    assert (began["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    assert began["run"]["runId"] == ended["run"]["runId"] == run_id(outcome.result.execution)
    assert ended["job"]["name"] == "write"
    (given,), (left,) = ended["inputs"], ended["outputs"]
    assert given["name"] == left["name"] == "lake/main/data"
    assert given["facets"]["version"]["datasetVersion"] == worker.first
    assert left["facets"]["version"]["datasetVersion"] == published
    assert left["facets"]["perago_commit"]["branch"] == "main"
    assert ended["run"]["facets"]["perago_code"]["digest"] == code
    assert re.fullmatch("sha256:[0-9a-f]{64}", code)
    attempt = ended["run"]["facets"]["perago_attempt"]
    assert (attempt["number"], attempt["acceptance"], attempt["adopted"]) == (1, "accepted", False)


def test_losing_attempts_are_told_too(tmp_path: Path) -> None:
    with embedded(tmp_path / "project", more=TO_FILE) as worker:
        worker.start("write", worker.first, text="in time")
        worker.run()
        worker.start("write", worker.first, text="late")
        assert isinstance(worker.run().result, FailedTerminally)
        *_, began, refused = events(worker.project.folder, 4)
    assert (began["eventType"], refused["eventType"]) == ("START", "ABORT")
    assert refused["outputs"] == []
    assert refused["run"]["facets"]["perago_attempt"]["why"] == "head-elsewhere"
    assert "expected" in refused["run"]["facets"]["errorMessage"]["message"]


@pytest.mark.parametrize("acceptance", Acceptance)
def test_a_result_of_which_nobody_knows_whether_it_counts_is_neither_complete_nor_aborted(
    acceptance: Acceptance, tmp_path: Path
) -> None:
    outcome = Outcome(Completed(CommitRef("B"), "{}", "e1"), acceptance, Backing.ATOMIC)
    told = _ended(tmp_path, ATTEMPT, outcome)
    wanted = {Acceptance.ACCEPTED: "COMPLETE", Acceptance.NOT_ACCEPTED: "ABORT"}.get(acceptance, "OTHER")
    assert told["eventType"] == wanted
    assert told["outputs"][0]["facets"]["version"]["datasetVersion"] == "B"


@pytest.mark.parametrize("why", Classification)
@pytest.mark.parametrize("kind", [Failed, FailedTerminally, None])
def test_every_refusal_is_an_event_that_openlineage_takes(
    why: Classification, kind: type[Failed | FailedTerminally] | None, tmp_path: Path
) -> None:
    refusal = Refusal(why, "one thing", "geheim-body-5c", "try again")
    outcome = Outcome(
        None if kind is None else kind(refusal),
        Acceptance.UNREAD,
        Backing.ATOMIC,
        silence=refusal if kind is None else None,
    )
    told = _ended(tmp_path, ATTEMPT, outcome)
    assert told["outputs"] == []
    own = why.value in {"body-failed", "body-lost", "workspace-failed", "read-only-wrote"}
    assert told["eventType"] == ("FAIL" if own and kind is not None else "ABORT")
    assert ("geheim-body-5c" in json.dumps(told)) is not own, "what a body said is not told"


def _ended(folder: Path, attempt: Attempt, outcome: Outcome) -> dict[str, Any]:
    with new_project(folder / "project") as project:
        definition = load_tasks(load(project.folder, {}, {}), project.folder)["write"]
        told = Lineage("jobs", "data").ended(attempt, definition, "", 1_700_000_000_000, outcome)
    check_event(told)
    return told


def test_an_attempt_without_a_place_has_no_data_sets(tmp_path: Path) -> None:
    outcome = Outcome(Completed(CommitRef("-"), "{}", "e1"), Acceptance.ACCEPTED, Backing.ATOMIC)
    told = _ended(tmp_path, evolve(ATTEMPT, target=NOWHERE, read_only=True), outcome)
    assert told["inputs"] == told["outputs"] == []


@pytest.mark.parametrize("broken", ["run", "job", "eventTime", "producer", "schemaURL", "runId", "_producer"])
def test_the_schema_refuses_what_openlineage_would(broken: str, tmp_path: Path) -> None:
    told = _ended(
        tmp_path, ATTEMPT, Outcome(Completed(CommitRef("B"), "{}", "e1"), Acceptance.ACCEPTED, Backing.ATOMIC)
    )
    place = {"runId": told["run"], "_producer": told["run"]["facets"]["parent"]}.get(broken, told)
    del place[broken]
    with pytest.raises(ValidationError, match=broken):
        check_event(told)


QUOTING = TASKS.replace("there is no bread today", "geheim-body-77")


def test_a_server_receives_the_events_with_its_key_and_no_secret_is_in_them(tmp_path: Path) -> None:
    with new_project(tmp_path / "project", QUOTING) as project, collector() as server:
        told_to = {
            "PERAGO_TELEMETRY__OPENLINEAGE": server.url,
            "PERAGO_TELEMETRY__OPENLINEAGE_KEY": "geheim-key-9f",
        }
        ran = project.process("run", "both", "--param", "text=geheim-parameter-12", **told_to)
        failed = project.process("run", "broken", **told_to)
    assert ran.returncode == 0, ran.stderr
    assert failed.returncode == 1, failed.stderr
    told = [json.loads(body) for body in server.bodies["/api/v1/lineage"]]
    for each in told:
        check_event(each)
    kinds = [(each["job"]["name"], each["eventType"]) for each in told]
    by_job = {job: [kind for name, kind in kinds if name == job] for job in ("write", "total", "fail")}
    won = ["START", "COMPLETE"]
    assert by_job == {"write": won, "total": won, "fail": ["START", "FAIL"]}
    assert all(each["authorization"] == "Bearer geheim-key-9f" for each in server.headers)
    assert "geheim" not in json.dumps(told)
    assert "geheim-key-9f" not in ran.stdout + ran.stderr


def test_a_server_that_never_answers_delays_no_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be waited for longer than the test waits, were anything but the end to wait for it."""
    monkeypatch.setattr(lineage_sender, "_REQUEST", 3600.0)
    monkeypatch.setattr(lineage_sender, "_LAST", 0.1)
    ended: list[object] = []
    with collector(silent=True) as hole:
        settings = f'\n[telemetry]\nopenlineage = "{hole.url}"\n'
        with embedded(tmp_path / "project", more=settings) as worker:
            worker.start("write", worker.first, text="undelayed")
            attempt = threading.Thread(target=lambda: ended.append(worker.run().result), daemon=True)
            attempt.start()
            assert hole.asked.wait(120), "the first event hangs now"
            attempt.join(300)
            assert not attempt.is_alive()
    (result,) = ended
    assert isinstance(result, Completed)


def kill_after(worker: Embedded, port: str, call: str) -> None:
    """Let a worker be gone in the middle of an attempt, of whose end it tells nobody."""

    def die(ask: Callable[..., object], *given: object) -> None:
        ask(*given)
        raise Died

    worker.start("write", worker.first, text="unfinished")
    faulty: dict[str, Any] = {port: Faulty(getattr(worker.runtime, port), **{call: die})}
    with pytest.raises(Died):
        worker.run(None, **faulty)
    events(worker.project.folder, 1)


def another(worker: Embedded) -> Unfinished:
    """Give the memory of another worker on the same stack, which told its events to the same place."""
    assert worker.runtime.lineage is not None
    assert worker.stack.coordination is not None
    return Unfinished(
        worker.stack.coordination, worker.stack.orchestrator, worker.runtime.lineage.sender, worker.stack.clock
    )


def begun(worker: Embedded) -> list[str]:
    assert worker.stack.coordination is not None
    listed = worker.stack.coordination.list(BEGUN)
    assert isinstance(listed, Done)
    return [entry.key for entry in listed.value]


def test_whoever_retries_tells_the_end_of_the_run_that_a_killed_worker_had_begun(tmp_path: Path) -> None:
    with embedded(tmp_path / "project", more=TO_FILE) as worker:
        kill_after(worker, "store", "claim")
        with another(worker).open() as unfinished:
            assert isinstance(worker.runtime.lineage, LineageReporter)
            outcome = worker.run(lineage=evolve(worker.runtime.lineage, unfinished=unfinished))
        told = events(worker.project.folder, 4)
        assert begun(worker) == []
    assert isinstance(outcome.result, Completed)
    won = run_id(outcome.result.execution)
    assert [each["eventType"] for each in told if each["run"]["runId"] == won] == ["START", "COMPLETE"]
    began, ended = (each for each in told if each["run"]["runId"] != won)
    assert (began["eventType"], ended["eventType"], ended["outputs"]) == ("START", "ABORT", [])
    assert ended["run"]["facets"]["perago_attempt"]["acceptance"] == "not accepted"


def test_a_worker_that_starts_tells_of_a_result_that_was_taken_from_a_worker_killed_right_after(tmp_path: Path) -> None:
    with embedded(tmp_path / "project", more=TO_FILE) as worker:
        kill_after(worker, "orchestrator", "report")
        with another(worker).open():
            pass
        began, ended = events(worker.project.folder, 2)
        assert begun(worker) == []
        (output,) = ended["outputs"]
        assert output["facets"]["version"]["datasetVersion"] == worker.head()
    assert (began["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    assert began["run"]["runId"] == ended["run"]["runId"]


def test_what_is_still_under_way_is_told_by_nobody_else(tmp_path: Path) -> None:
    with embedded(tmp_path / "project", more=TO_FILE) as worker:
        kill_after(worker, "store", "claim")
        silent: Any = Faulty(worker.stack.orchestrator, reload=always(Unknown("silence")))
        with evolve(another(worker), orchestrator=silent).open():
            pass
        assert len(begun(worker)) == 1
        assert [each["eventType"] for each in events(worker.project.folder, 1)] == ["START"]


def test_a_key_goes_to_the_server_that_was_named_and_to_no_other() -> None:
    undelivered = threading.Event()

    class Counting(Silence):
        def count(self, name: str, attributes: object, by: int = 1) -> None:
            del attributes, by
            assert name == "undelivered"
            undelivered.set()

    with collector() as other, collector(moved_to=f"{other.url}/api/v1/lineage") as named:
        settings = TelemetrySettings.model_validate({"openlineage": named.url, "openlineage_key": "geheim"})
        with lineage_sender.lineage_sender(settings, Counting()) as sender:
            assert sender is not None
            sender.tell({})
            assert undelivered.wait(60)
        assert named.asked.is_set()
        assert not other.asked.is_set()


def test_the_queue_has_a_bound_and_what_does_not_fit_is_counted() -> None:
    counted: list[str] = []

    class Counting(Silence):
        def count(self, name: str, attributes: object, by: int = 1) -> None:
            del attributes, by
            counted.append(name)

    taken, go_on, sent = threading.Event(), threading.Event(), list[str]()

    def send(line: str) -> None:
        taken.set()
        go_on.wait()
        sent.append(line)

    with LineageSender(send, Counting()).open() as sender:
        sender.tell({"number": -1})
        assert taken.wait(60)
        for number in range(WAITING + 5):
            sender.tell({"number": number})
        assert counted == ["undelivered"] * 5
        go_on.set()
    assert [json.loads(line)["number"] for line in sent] == list(range(-1, WAITING))


def test_a_key_is_not_sent_in_clear_text_over_the_network() -> None:
    key = {"openlineage_key": "geheim", "openlineage": "http://lineage.example"}
    with pytest.raises(ValueError, match="would carry the key in clear text"):
        TelemetrySettings.model_validate(key)
    TelemetrySettings.model_validate({**key, "insecure": True})
    TelemetrySettings.model_validate({**key, "openlineage": "https://lineage.example"})


def test_the_digest_of_the_code_changes_with_a_helper_and_not_with_what_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digested_helper.py").write_text("ANSWER = 42\n", encoding="utf-8")
    (tmp_path / "digested_tasks.py").write_text("import digested_helper\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.import_module("digested_tasks")
    try:
        before = code_digest("digested_tasks")
        (tmp_path / "unused.py").write_text("ANSWER = 1\n", encoding="utf-8")
        assert code_digest("digested_tasks") == before
        (tmp_path / "digested_helper.py").write_text("ANSWER = 43\n", encoding="utf-8")
        assert code_digest("digested_tasks") != before
    finally:
        for name in ("digested_tasks", "digested_helper"):
            del sys.modules[name]
    assert not code_digest("digested_tasks")
