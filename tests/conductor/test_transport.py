"""A bad network between worker and Conductor: what nobody answered is unknown, and nothing is sent twice unasked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import pytest

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_conductor.transport import Unreachable
from perago_conformance.support import done
from perago_core.answers import NotDone, Unknown
from perago_core.attempt.state import is_accepted
from perago_core.values import TaskStatus
from tests.conductor.attempts import FIRST_REF, LAST_REF, MAIN, completed, polled, reload, wide
from tests.conductor.front import Asked, Word, fronted
from tests.support.conductor.operating import Operator
from tests.support.servers.conductor import Conductor
from tests.support.servers.faulty_proxy import (
    LOSE_ANSWER,
    LOSE_REQUEST,
    FaultyProxy,
    Gate,
    Handling,
    Predicate,
    Request,
    always,
    when,
)
from tests.support.servers.server import free_port


@pytest.fixture
def proxy(conductor_server: Conductor) -> Iterator[FaultyProxy]:
    with FaultyProxy(conductor_server.url) as between:
        yield between


@pytest.fixture
def distant(operator: Operator, proxy: FaultyProxy) -> Iterator[ConductorOrchestrator]:
    with closing(ConductorOrchestrator(proxy.url, domain=operator.domain, timeout=30.0)) as opened:
        yield opened


def sent(method: str, part: str) -> Predicate:
    return lambda request: request.method == method and part in request.target


is_poll, is_report = sent("GET", "/tasks/poll/"), sent("POST", "/api/tasks")


def test_a_poll_is_sent_once_and_a_lost_answer_is_unknown(
    operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator
) -> None:
    """The library alone sends it again: a second batch is assigned, and nobody runs the first."""
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    operator.start(("clean",), MAIN, FIRST_REF)
    proxy.script = when(is_poll, LOSE_ANSWER)
    answer = distant.poll("worker-1", ("clean",), 1)
    assert isinstance(answer, Unknown), answer
    assert len([each for each in proxy.seen if is_poll(each)]) == 1
    statuses = {task["status"] for each in operator.started for task in operator.tasks(each)}
    assert statuses == {"IN_PROGRESS", "SCHEDULED"}, workflow


def test_what_one_poll_has_assigned_is_not_lost_with_the_next(
    operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator
) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    proxy.script = when(lambda request: "/join" in request.target, LOSE_REQUEST)
    assert len(done(distant.poll("worker-1", ("clean", "join"), 5))) == 1
    assert isinstance(distant.poll("worker-1", ("clean", "join"), 5), Unknown)


@pytest.mark.parametrize("what", ["/tasks/", "/workflow/"])
def test_a_read_without_an_answer_is_unknown_and_never_gone(
    operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator, what: str
) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(distant)
    proxy.forget()
    proxy.script = when(sent("GET", what), LOSE_ANSWER, times=1)
    assert isinstance(distant.reload(task.snapshot.workflow_id, task.snapshot.task_id), Unknown)
    assert len([each for each in proxy.seen if sent("GET", what)(each)]) == 1
    assert reload(distant, task) == task.snapshot


def test_a_heartbeat_without_an_answer_is_unknown_and_not_repeated(
    operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator
) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(distant)
    proxy.forget()
    proxy.script = always(LOSE_ANSWER)
    assert isinstance(distant.extend(wide(task)), Unknown)
    assert len(proxy.seen) == 1


@pytest.mark.parametrize("handling", [LOSE_REQUEST, LOSE_ANSWER], ids=["request", "answer"])
def test_a_result_that_had_no_answer_is_sent_until_it_has_one(
    operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator, handling: Handling
) -> None:
    """Lost on its way there it is sent again; lost on its way back the task has ended, and it is not."""
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(distant)
    proxy.forget()
    proxy.script = when(is_report, handling, times=1)
    answer = distant.report(wide(task), completed())
    assert isinstance(answer, Unknown) is (handling is LOSE_ANSWER)
    assert len([each for each in proxy.seen if is_report(each)]) == (2 if handling is LOSE_REQUEST else 1)
    assert is_accepted(wide(task), reload(distant, task))


def test_a_result_that_nobody_answers_is_sent_again_while_there_is_time(
    operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator
) -> None:
    """A silent server: what is waited for an answer elsewhere (30 s here) is more than the whole reserve."""
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(distant)
    proxy.forget()
    silence = Gate()
    proxy.script = when(is_report, Handling(before=silence), times=1)
    answer = distant.report(wide(task), completed())
    silence.open()
    assert not isinstance(answer, NotDone)
    assert len([each for each in proxy.seen if is_report(each)]) > 1
    assert is_accepted(wide(task), reload(distant, task))


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_result_that_may_have_arrived_is_unknown_whatever_is_answered_to_the_next_try(
    conductor_server: Conductor, operator: Operator, port: ConductorOrchestrator, status: int
) -> None:
    """Told "not done", a worker would believe that nobody has its result."""
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port)
    gone = operator.call("GET", "/tasks/no-such-task", expected=(404,)).text
    words = [Word(504), Word(status, gone)]

    def says(asked: Asked) -> Word | None:
        return words.pop(0) if asked.method == "POST" else None

    with fronted(conductor_server.url, says) as url, closing(ConductorOrchestrator(url)) as distant:
        answer = distant.report(wide(task), completed())
    assert words == []
    assert isinstance(answer, Unknown), answer
    assert str(status) in answer.reason


def test_a_result_is_not_sent_again_to_a_task_that_has_a_new_owner(
    operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator, port: ConductorOrchestrator
) -> None:
    """Conductor would take it for the new owner's."""
    operator.start(("clean",), MAIN, FIRST_REF)
    old = polled(distant)
    operator.requeue("clean")
    new = polled(port, worker="worker-2")
    proxy.script = when(is_report, LOSE_REQUEST, times=1)
    assert isinstance(distant.report(wide(old), completed()), Unknown)
    assert reload(port, new) == new.snapshot
    done(port.report(wide(new, "run-2"), completed(LAST_REF, "run-2")))
    assert is_accepted(wide(new, "run-2"), reload(port, new))


def test_a_result_is_not_tried_for_ever(operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(distant)
    proxy.script = when(is_report, LOSE_REQUEST)
    assert isinstance(distant.report(wide(task), completed()), Unknown)
    assert reload(distant, task) == task.snapshot


def test_nobody_there_is_not_done_because_nothing_was_sent(operator: Operator, port: ConductorOrchestrator) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port)
    with closing(ConductorOrchestrator(f"http://127.0.0.1:{free_port()}/api")) as lonely:
        for answer in (
            lonely.poll("worker-1", ("clean",), 1),
            lonely.reload(task.snapshot.workflow_id, task.snapshot.task_id),
            lonely.extend(wide(task)),
            lonely.report(wide(task), completed()),
        ):
            assert isinstance(answer, Unreachable), answer
    assert reload(port, task) == task.snapshot


def test_an_address_where_nobody_serves_the_api_does_not_make_tasks_disappear(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    """Its 404 would read as "gone", and gone attempts stay silent."""
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port)
    with closing(ConductorOrchestrator(f"{operator.url}/v7")) as elsewhere:
        answer = elsewhere.reload(task.snapshot.workflow_id, task.snapshot.task_id)
    assert isinstance(answer, Unknown)
    assert "orchestrator.url" in answer.reason


@pytest.mark.parametrize(
    "word",
    [
        Word(404, "404 page not found\n", "text/plain"),
        Word(404, "default backend - 404", "text/plain"),
        Word(404, '{"message": "no Route matched with those values"}'),
        Word(404, "<html><title>404 Not Found</title></html>", "text/html"),
        Word(404, '["retryable"]'),
        Word(404),
    ],
    ids=["traefik", "ingress", "kong", "nginx", "list", "empty"],
)
def test_what_a_proxy_says_while_conductor_is_away_does_not_make_tasks_disappear(
    conductor_server: Conductor, operator: Operator, port: ConductorOrchestrator, word: Word
) -> None:
    """A 404 in other words than Conductor's. Read as "gone", it would kill every body of every worker."""
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port)
    with fronted(conductor_server.url, lambda _: word) as url, closing(ConductorOrchestrator(url)) as distant:
        answers = distant.reload(task.snapshot.workflow_id, task.snapshot.task_id), distant.extend(wide(task))
    for answer in answers:
        assert isinstance(answer, Unknown), answer
        assert "orchestrator.url" in answer.reason
    assert reload(port, task) == task.snapshot


def test_the_address_of_the_server_is_enough(operator: Operator) -> None:
    with closing(ConductorOrchestrator(operator.url.removesuffix("/api"), domain=operator.domain)) as opened:
        operator.start(("clean",), MAIN, FIRST_REF)
        assert polled(opened).snapshot.status is TaskStatus.IN_PROGRESS


def test_no_poll_waits_for_more_than_one_task(
    operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator
) -> None:
    """Conductor holds such a poll until all have come or the time is over, and what has come waits with it."""
    operator.start(("clean",), MAIN, FIRST_REF)
    several = {"workerid": "w", "domain": operator.domain, "count": 5, "timeout": 1500}
    begun = time.monotonic()
    assert len(operator.call("GET", "/tasks/poll/batch/clean", params=several).json()) == 1
    assert time.monotonic() - begun > 1.4
    for names, limit in ((("clean",), 5), (("clean", "join"), 3), (("clean",), 1)):
        proxy.forget()
        assert done(distant.poll("worker-1", names, limit)) == ()
        asked = [
            (query["count"], query["timeout"])
            for query in (parse_qs(urlsplit(each.target).query) for each in proxy.seen)
        ]
        assert asked
        assert all("1" in count or "0" in timeout for count, timeout in asked), asked


def test_the_requests_of_each_call_are_counted_as_the_port_says(
    operator: Operator, proxy: FaultyProxy, distant: ConductorOrchestrator
) -> None:
    """One for each call; two for a reload, which reads the task and its workflow."""
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(distant)

    def shape(request: Request) -> str:
        return request.path.removeprefix("/api/").split("/")[0]

    proxy.forget()
    assert distant.reload(task.snapshot.workflow_id, task.snapshot.task_id).operations == 2
    assert proxy.counts(shape) == {"tasks": 1, "workflow": 1}
    proxy.forget()
    assert distant.extend(wide(task)).operations == 1
    assert distant.report(wide(task), completed()).operations == 1
    assert proxy.counts(shape) == {"tasks": 2}
