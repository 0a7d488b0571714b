"""``perago ui`` over real HTTP: who is let in, what is answered, and that nothing is changed unless it was allowed."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from attrs import frozen

from perago_core.answers import Unknown
from perago_core.pipelines import OrchestratorError
from perago_core.values import CommitRef
from perago_local.coordination import SqliteCoordination
from perago_local.git.store import GitStore
from perago_local.orchestrator.pipelines import EmbeddedPipelines
from perago_worker.cli.project import Project as OpenProject
from perago_worker.config.load import load
from perago_worker.stack import pipelines_of
from perago_worker.ui.door import Door
from perago_worker.ui.endpoints import Endpoints
from perago_worker.ui.server import PageServer
from tests.worker.projects import MAIN, TASKS, Project, create, environment, new_project
from tests.worker.test_cli_runs import wait_for

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[2J"
MORE_TASKS = f'''
@task(name="speak", workspace=Workspace(), retries=0, response_timeout=20)
def speak(workspace: Path, params: Params) -> Sum:
    """Say something that would be markup, and fail until a file says otherwise."""
    print({HOSTILE!r})
    if not Path(params.text).exists():
        raise ValueError({HOSTILE!r})
    return Sum(count=5)
'''
PIPELINES = """
[pipelines.talk]
repository = "lake"
steps = [
    {{ name = "first", task = "write" }},
    {{ task = "speak", params = {{ text = "{gate}" }} }},
    {{ task = "total" }},
]
"""


@frozen
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def data(self) -> Any:  # noqa: ANN401  whatever JSON it was
        return json.loads(self.text)


@frozen
class Visitor:
    """Somebody who has the address, and may send what a browser would not."""

    server: PageServer

    def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None, /, **query: str | int
    ) -> Answer:
        """Ask for a path beneath the token."""
        return self.raw(f"/{self.server.door.token}/{path}?{urlencode(query)}", method, headers)

    def raw(self, target: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        """Ask for a path as it is."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.door.port, timeout=60)) as connection:
            connection.request(method, target, headers=dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())

    def look(self, name: str, /, **query: str | int) -> Any:  # noqa: ANN401  as above
        """Ask for data that is there."""
        answer = self.ask(f"api/{name}", **query)
        assert answer.status == 200, answer
        return answer.data


@contextmanager
def serving(project: Project, *, actions: bool = False) -> Generator[Visitor]:
    """Serve a project in this process."""
    opened = OpenProject(project.folder)
    server = PageServer(Endpoints(opened, actions=actions))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Visitor(server)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        opened.close()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Give a project with one run that was accepted and one that failed; nobody changes it."""
    folder = tmp_path_factory.mktemp("ui")
    with new_project(folder / "shop", TASKS + MORE_TASKS, PIPELINES.format(gate=folder / "gate")) as made:
        assert made.perago("run", "both", "--param", "text=a").code == 0
        assert made.perago("run", "talk").code == 1
        yield made


@pytest.fixture(scope="module")
def visitor(ran: Project) -> Iterator[Visitor]:
    with serving(ran) as made:
        yield made


# ---- who is let in


PLACES = ("", "page.js", "page.css", "api/runs", "api/project", "timeline")


@pytest.mark.parametrize("token", ["", "x", "%00", "%C3%A9", "{token}x", "{shorter}"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nobody_comes_in_without_the_token(visitor: Visitor, token: str, method: str) -> None:
    door = visitor.server.door
    given = token.format(token=door.token, shorter=door.token[:-1])
    for place in PLACES:
        refused = visitor.raw(f"/{given}/{place}", method)
        assert refused.status == 403, place
        assert "`perago ui` printed" in refused.text
        assert door.token not in refused.text + str(refused.headers)


def test_every_server_has_a_token_of_its_own_that_nobody_guesses() -> None:
    tokens = {Door(1).token for _ in range(20)}
    assert len(tokens) == 20
    assert min(map(len, tokens)) >= 43
    assert Door(1).token not in repr(Door(1))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_another_host_is_refused_though_it_has_the_token(visitor: Visitor, host: str) -> None:
    given = host.format(port=visitor.server.door.port)
    for place in PLACES:
        assert visitor.ask(place, "GET", {"Host": given}).status == 403
    for name in ("127.0.0.1", "localhost"):
        assert visitor.ask("", "GET", {"Host": f"{name}:{visitor.server.door.port}"}).status == 200


def test_a_request_without_a_host_is_refused(visitor: Visitor) -> None:
    door = visitor.server.door
    with socket.create_connection(("127.0.0.1", door.port), timeout=60) as line:
        line.sendall(f"GET /{door.token}/ HTTP/1.0\r\n\r\n".encode())
        assert line.makefile("rb").readline().split()[1] == b"403"


def test_a_page_of_another_origin_is_refused(visitor: Visitor) -> None:
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{visitor.server.door.port}"):
        assert visitor.ask("api/runs", "GET", {"Origin": origin}).status == 403
    own = f"http://127.0.0.1:{visitor.server.door.port}"
    assert visitor.ask("api/runs", "GET", {"Origin": own}).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_other_methods_are_refused_and_nothing_is_echoed(visitor: Visitor, method: str) -> None:
    refused = visitor.ask("api/runs", method)
    assert refused.status == 501
    assert visitor.server.door.token not in refused.text


def test_it_listens_on_loopback_only(visitor: Visitor) -> None:
    assert visitor.server.socket.getsockname()[0] == "127.0.0.1"


def test_every_answer_forbids_what_it_does_not_need(visitor: Visitor) -> None:
    answers = [visitor.ask(place) for place in PLACES] + [visitor.raw("/"), visitor.ask("nowhere")]
    for each in answers:
        assert each.headers["X-Content-Type-Options"] == "nosniff"
        assert each.headers["Referrer-Policy"] == "no-referrer"
        assert each.headers["Cache-Control"] == "no-store"
        policy = each.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "Python" not in each.headers["Server"]


def test_the_page_makes_no_markup_of_strings_and_asks_nobody_else(visitor: Visitor) -> None:
    script = visitor.ask("page.js").text
    ways = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser|srcdoc|createContextual"
    )
    assert not re.search(ways, script)
    for name in ("page.html", "page.css", "page.js"):
        text = files("perago_worker.ui").joinpath(name).read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\"'\s)]+", text)) <= {"http://www.w3.org/2000/svg"}


# ---- what is answered


def test_the_answers_are_what_the_commands_print(ran: Project, visitor: Visitor) -> None:
    runs = visitor.look("runs")
    assert runs["runs"] == ran.perago("runs", "--json").data
    assert (runs["more"], [each["name"] for each in runs["runs"]]) == (False, ["talk", "both"])
    run = visitor.look("run", run=runs["runs"][1]["workflow_id"])
    shown = ran.perago("show", "both", "--json").data
    assert {key: run[key] for key in shown} == shown
    assert (run["target"], run["running"], run["steps"]) == ("lake/main", False, ["write", "total"])
    task = shown["attempts"][0]["task_id"]
    assert visitor.look("explain", task=task)["findings"] == ran.perago("explain", task, "--json").data
    history = visitor.look("history", target="lake/main")
    commits = ran.perago("history", "--json").data
    assert [{key: each[key] for key in commits[0]} for each in history["commits"]] == commits
    assert visitor.look("verify")["holds"] is True
    assert visitor.look("policy") == {**ran.perago("policy", "show", "--json").data, "signs_of_life": True}
    assert visitor.look("ledger")["open"] == ran.perago("recover", "--json").data == []
    audit = {each["operation"]: each for each in visitor.look("audit")["audit"]}
    for each in ran.perago("audit", "--json").data:
        assert {key: audit[each["operation"]][key] for key in each} == each
    assert {each["task"] for each in visitor.look("claims")["claims"]} >= {task}
    assert visitor.look("locks") == {"holder": None, "lease": None, "last": None}


def test_the_branch_says_of_every_commit_what_the_ledger_knows(visitor: Visitor) -> None:
    history = visitor.look("history")
    assert [each["standing"] for each in history["commits"]] == ["accepted", "accepted", "accepted", "no record"]
    assert [len(each["publications"]) for each in history["commits"]] == [1, 1, 1, 0]
    assert (history["more"], history["unknown"]) == (False, [])
    short = visitor.look("history", limit=1)
    assert (len(short["commits"]), short["more"]) == (1, True)


def test_a_log_is_given_from_where_it_was_read_to(ran: Project, visitor: Visitor) -> None:
    lines = ran.perago("logs", "talk", "--json").data
    run = visitor.look("runs", pipeline="talk")["runs"][0]["workflow_id"]
    tasks = [each["task_id"] for each in visitor.look("run", run=run)["attempts"]]
    whole = visitor.look("logs", run=run, seen=",".join(f"{each}:0" for each in tasks))
    assert [each["task_id"] for each in whole["lines"]] == [each["task_id"] for each in lines]
    assert sum(whole["seen"].values()) == len(lines)
    rest = visitor.look("logs", run=run, seen=f"{tasks[1]}:1")
    assert rest["lines"] == [each for each in whole["lines"] if each["task_id"] == tasks[1]][1:]
    for wrong in ("nobody:0", f"{tasks[0]}:-1", f"{tasks[0]}:x", tasks[0]):
        assert visitor.ask("api/logs", run=run, seen=wrong).status == 404


def test_what_a_body_says_arrives_as_data_and_steers_nothing(visitor: Visitor) -> None:
    run = visitor.look("runs", pipeline="talk")["runs"][0]["workflow_id"]
    failed = visitor.look("run", run=run)["attempts"][-1]
    said = r"<img src=x onerror=alert(1)>\u202e\x1b[2J"
    assert said in failed["reason"]
    answers = [
        visitor.ask("api/run", run=run),
        visitor.ask("api/logs", run=run, seen=f"{failed['task_id']}:0"),
        visitor.ask("api/explain", task=failed["task_id"]),
        visitor.ask("api/run", run=HOSTILE),
        visitor.ask("api/runs", pipeline=HOSTILE),
    ]
    assert said in " ".join(json.loads(answers[1].text)["lines"][0]["line"].splitlines())
    for each in answers:
        assert each.headers["Content-Type"] == "application/json"
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", each.text)


def test_the_timeline_of_a_run_is_the_page_of_the_command_with_its_own_policy(visitor: Visitor) -> None:
    run = visitor.look("runs", pipeline="talk")["runs"][0]["workflow_id"]
    page = visitor.ask("timeline", run=run)
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "<h1>" in page.text
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in page.text
    assert page.headers["Content-Security-Policy"] == "frame-ancestors 'self'"
    assert visitor.ask("timeline", run="nobody").status == 404


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("api/run", {"run": "nobody"}),
        ("api/run", {}),
        ("api/explain", {"task": "nobody"}),
        ("api/find", {"what": "nobody"}),
        ("api/history", {"target": "lake/nowhere"}),
        ("api/history", {"target": "lake"}),
        ("api/runs", {"state": "strange"}),
        ("api/runs", {"limit": "all"}),
        ("api/runs", {"skip": "-1"}),
        ("api/runs", {"skip": "9" * 30}),
        ("api/nothing", {}),
        ("../../etc/passwd", {}),
    ],
)
def test_a_question_that_makes_no_sense_is_not_found(visitor: Visitor, path: str, query: dict[str, str]) -> None:
    assert visitor.ask(path, **query).status == 404


def test_whatever_is_printed_is_found(ran: Project, visitor: Visitor) -> None:
    run = ran.perago("show", "talk", "--json").data
    speak = run["attempts"][1]["task_id"]
    assert visitor.look("find", what=run["workflow_id"][:9]) == {"workflow_id": run["workflow_id"], "task": None}
    for what in (speak, speak[:8], "speak"):
        assert visitor.look("find", what=what) == {"workflow_id": run["workflow_id"], "task": speak}


# ---- what nobody knows is unknown


def test_what_does_not_answer_is_unknown_and_never_empty(
    visitor: Visitor, ran: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_asked: object, **_more: object) -> Unknown:
        return Unknown("nobody answers")

    def lost(*_asked: object, **_more: object) -> None:
        raise OrchestratorError("nobody answers")

    run = visitor.look("runs")["runs"][0]["workflow_id"]
    task = visitor.look("run", run=run)["attempts"][0]["task_id"]
    with monkeypatch.context() as patched:
        patched.setattr(SqliteCoordination, "list", silent)
        patched.setattr(SqliteCoordination, "get", silent)
        for name in ("policy", "ledger", "locks", "audit", "verify"):
            assert "nobody answers" in unknown(visitor.ask(f"api/{name}")), name
        history = visitor.look("history")
        assert {each["standing"] for each in history["commits"]} == {"unknown"}
        assert "nobody answers" in " ".join(history["unknown"])
        said = [each["says"] for each in visitor.look("explain", task=task)["findings"] if each["source"] == "ledger"]
        assert "nobody answers" in " ".join(said)
    with monkeypatch.context() as patched:
        for call in ("history", "all_claims"):
            patched.setattr(GitStore, call, silent)
        for name in ("history", "claims"):
            assert "nobody answers" in unknown(visitor.ask(f"api/{name}")), name
    with monkeypatch.context() as patched:
        for call in ("view", "newest", "find"):
            patched.setattr(EmbeddedPipelines, call, lost)
        for name, query in (("runs", {}), ("run", {"run": run}), ("explain", {"task": task})):
            assert "nobody answers" in unknown(visitor.ask(f"api/{name}", **query)), name
    assert ran.perago("verify").code == 0


def unknown(answer: Answer) -> str:
    assert answer.status == 503, answer
    return str(answer.data["unknown"])


# ---- many runs


def test_ten_thousand_runs_are_shown_page_by_page(tmp_path: Path) -> None:
    with new_project(tmp_path) as project:
        create(project.stack())
        with closing(sqlite3.connect(load(project.folder, {}, {}).orchestrator.path)) as database, database:
            for table, columns in _many(10_000):
                marks = ", ".join("?" * len(columns[0]))
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", columns)  # noqa: S608  names of our own
        with serving(project) as visitor:
            first = visitor.look("runs", limit=50)
            assert [each["workflow_id"] for each in first["runs"]] == [f"both-{at:05}" for at in range(9999, 9949, -1)]
            assert (first["more"], first["runs"][0]["done"], first["runs"][0]["steps"]) == (True, 1, 1)
            last = visitor.look("runs", skip=9990, limit=50)
            assert [each["workflow_id"] for each in last["runs"]] == [f"both-{at:05}" for at in range(9, -1, -1)]
            assert last["more"] is False
            failed = visitor.look("runs", state="failed,timed-out", skip=10, limit=2)
            assert [each["workflow_id"] for each in failed["runs"]] == ["both-09890", "both-09880"]
            assert len(visitor.look("runs", limit=100_000)["runs"]) == 200, "one answer has an end"
            assert visitor.look("runs", pipeline="total")["runs"] == []
            assert visitor.look("find", what="both-00017") == {"workflow_id": "both-00017", "task": None}


def _many(number: int) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    """Make the rows of ended runs of one step, every tenth of which failed."""
    states = ["FAILED" if at % 10 == 0 else "COMPLETED" for at in range(number)]
    ids = [f"both-{at:05}" for at in range(number)]
    where = ("lake", "main", "0" * 40)
    yield (
        "workflow",
        [
            (run, "both", "", "{}", *where, state, "", at + 1, at + 2)
            for at, (run, state) in enumerate(zip(ids, states, strict=True))
        ],
    )
    yield "step", [(run, 0, "write", "write", None, "{}", 1, None, "before") for run in ids]
    yield (
        "task",
        [
            (f"task{run}", run, 0, 0, state, "{}", 1, 1, 2, "w", 1, 1, None, None, None, None, None, "")
            for run, state in zip(ids, states, strict=True)
        ],
    )


# ---- actions


@pytest.fixture
def failed(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "shop", TASKS + MORE_TASKS, PIPELINES.format(gate=tmp_path / "gate")) as made:
        create(made.stack())
        yield made


def started(project: Project, name: str) -> str:
    stack = project.stack()
    assert project.perago("register").code == 0
    head: Any = stack.store.head(MAIN)
    pipeline = load(project.folder, {}, {}).pipelines[name]
    return pipelines_of(stack).start(name, pipeline, CommitRef(head.value.commit.ref), {"text": "a"})


def test_nothing_is_changed_unless_it_was_allowed(failed: Project) -> None:
    run = started(failed, "both")
    with serving(failed) as visitor:
        for name in ("cancel", "retry", "run", "runs"):
            refused = visitor.ask(f"api/{name}", "POST", run=run)
            assert refused.status == 405
            assert "`perago ui --actions`" in refused.data["error"]
        assert visitor.ask("api/cancel", run=run).status == 404, "to look is not to do"
        assert visitor.look("project")["actions"] is False
    assert failed.perago("show", run, "--json").data["status"] == "RUNNING"


def test_a_run_is_cancelled_and_gone_on_with_where_it_was_allowed(failed: Project, tmp_path: Path) -> None:
    with serving(failed, actions=True) as visitor:
        run = started(failed, "talk")
        done = visitor.ask("api/cancel", "POST", run=run)
        assert (done.status, done.data["status"]) == (200, "TERMINATED")
        again = visitor.ask("api/cancel", "POST", run=run)
        assert (again.status, "has ended already" in again.data["error"]) == (409, True)
        # No step was given up by a body; it goes on from the first one.
        assert visitor.ask("api/retry", "POST", run=run).data["status"] == "RUNNING"
        running = visitor.ask("api/retry", "POST", run=run)
        assert (running.status, "has not ended" in running.data["error"]) == (409, True)
        assert failed.process("worker", "--until-idle").returncode == 0
        assert visitor.look("run", run=run)["status"] == "FAILED"
        (tmp_path / "gate").touch()
        assert visitor.ask("api/retry", "POST", run=run).status == 200
        assert failed.process("worker", "--until-idle").returncode == 0
        ended = visitor.look("run", run=run)
        assert [(each["step"], each["status"]) for each in ended["attempts"]][-2:] == [
            ("speak", "COMPLETED"),
            ("total", "COMPLETED"),
        ]
        completed = visitor.ask("api/retry", "POST", run=run)
        assert (completed.status, "has completed" in completed.data["error"]) == (409, True)
    assert failed.perago("verify").code == 0


def test_an_action_that_got_no_answer_is_unknown(failed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_asked: object) -> None:
        raise OrchestratorError("whether it was done is not known")

    run = started(failed, "both")
    monkeypatch.setattr(EmbeddedPipelines, "stop", lost)
    with serving(failed, actions=True) as visitor:
        assert "not known" in unknown(visitor.ask("api/cancel", "POST", run=run))


def test_an_action_of_another_origin_is_refused_though_it_has_the_token(failed: Project) -> None:
    run = started(failed, "both")
    with serving(failed, actions=True) as visitor:
        assert visitor.ask("api/cancel", "POST", {"Origin": "http://evil.example"}, run=run).status == 403
        assert visitor.look("run", run=run)["status"] == "RUNNING"


# ---- the command


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_the_address_and_ends_cleanly(ran: Project, ending: signal.Signals) -> None:
    process = subprocess.Popen(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", "--project", str(ran.folder), "ui", "--no-browser"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        printed: str = process.stdout.readline().strip()
        address = urlsplit(printed)
        with closing(http.client.HTTPConnection(address.netloc, timeout=60)) as connection:
            connection.request("GET", f"{address.path}api/runs")
            # The connection stays open: a browser's does, and nobody waits for it.
            assert len(json.loads(connection.getresponse().read())["runs"]) == 2
            process.send_signal(ending)
            out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (0, "")
    assert err.splitlines()[-1] == "ended"
    assert "read only; --actions" in err
    assert "Traceback" not in err


def test_the_address_is_in_no_process_list(ran: Project, tmp_path: Path) -> None:
    """What a browser is started with, every user can read; so it is a file that only its owner can."""
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.part\nmv {seen}.part {seen}\n', encoding="utf-8")
    browser.chmod(0o700)
    command = [sys.executable, "-m", "perago_worker", "--project", str(ran.folder), "ui", "--json"]
    variables = environment(BROWSER=str(browser), DISPLAY=":none")
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  as above
        try:
            wait_for(seen)
            opened = seen.read_text(encoding="utf-8").strip()
            file = Path(urlsplit(opened).path)
            assert opened.startswith("file://")
            assert file.parent.stat().st_mode & 0o077 == 0
            leads = file.read_text(encoding="utf-8")
        finally:
            process.terminate()
            out, _ = process.communicate(timeout=60)
    address: str = json.loads(out)["address"]
    assert f"url={address}" in leads
    assert urlsplit(address).path not in opened
    assert not file.exists(), "it is gone with the server"


def test_who_works_is_unknown_where_nothing_tells(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without leases workers show no sign of life; an empty list of them would say that nobody is there."""

    def without(_self: SqliteCoordination) -> str:
        return "use another"

    assert visitor.look("policy")["signs_of_life"] is True
    monkeypatch.setattr(SqliteCoordination, "instead_of_leases", without, raising=False)
    assert visitor.look("policy")["signs_of_life"] is False


def test_a_port_that_is_taken_is_one_line(ran: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = ran.perago("ui", "--no-browser", "--port", str(taken.getsockname()[1]), width=200)
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "without --port a free one is taken" in refused.err
