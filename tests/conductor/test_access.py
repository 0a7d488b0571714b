"""Key and secret, tokens that end, and TLS with an authority of one's own."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perago_conductor import ConductorOrchestrator
from perago_conductor.transport import Access, Unreachable
from perago_core.answers import NotDone
from perago_core.attempt.state import is_accepted
from tests.conductor.attempts import FIRST_REF, MAIN, completed, polled, reload, wide
from tests.conductor.front import Word
from tests.conductor.gateway import KEY, SECRET, Gateway, guarded
from tests.conformance.support import done
from tests.support.conductor.operating import Operator
from tests.support.etcd.server import Certificates
from tests.support.servers.conductor import Conductor


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates.made_in(tmp_path)


@pytest.fixture
def gateway(conductor_server: Conductor, certificates: Certificates) -> Iterator[Gateway]:
    with guarded(conductor_server.url, certificates) as door:
        yield door


def opened(gateway: Gateway, certificates: Certificates, operator: Operator, secret: str) -> ConductorOrchestrator:
    return ConductorOrchestrator(
        gateway.url, key=KEY, secret=secret, ca=certificates.ca, domain=operator.domain, timeout=60.0
    )


def test_key_and_secret_are_exchanged_for_tokens_and_a_token_that_ended_is_renewed(
    operator: Operator, gateway: Gateway, certificates: Certificates
) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    with closing(opened(gateway, certificates, operator, SECRET)) as port:
        task = polled(port)
        gateway.forget_tokens()
        done(port.extend(wide(task)))
        port.log(task.snapshot.task_id, "in the middle")
        gateway.forget_tokens()
        done(port.report(wide(task), completed()))
        assert is_accepted(wide(task), reload(port, task))
    assert operator.logs(task.snapshot.task_id) == ["in the middle"]


NOT_FOUND = Word(404, "404 page not found", "text/plain")
NO_TOKEN = pytest.mark.parametrize("word", [NOT_FOUND, Word(503)], ids=["404", "503"])


def is_let_in_again(port: ConductorOrchestrator, gateway: Gateway) -> None:
    """Be refused while there are no tokens, in the server's words, and let in as soon as there are."""
    refused = port.poll("worker-1", ("clean",), 1)
    assert isinstance(refused, NotDone), refused
    assert "Token is expired" in refused.reason
    gateway.instead = None
    assert done(port.poll("worker-1", ("clean",), 1)) == ()


@NO_TOKEN
def test_a_token_that_could_not_be_had_at_the_start_is_asked_for_again(
    operator: Operator, gateway: Gateway, certificates: Certificates, word: Word
) -> None:
    """The library takes a 404 for a server without users, for good; a proxy says it while the server starts."""
    gateway.instead = word
    with closing(opened(gateway, certificates, operator, SECRET)) as port:
        is_let_in_again(port, gateway)


@NO_TOKEN
def test_a_token_that_could_not_be_had_when_the_old_one_ended_is_asked_for_again(
    operator: Operator, gateway: Gateway, certificates: Certificates, word: Word
) -> None:
    with closing(opened(gateway, certificates, operator, SECRET)) as port:
        gateway.instead = word
        gateway.forget_tokens()
        is_let_in_again(port, gateway)


@NO_TOKEN
def test_a_token_that_could_not_be_renewed_before_its_end_is_asked_for_again(
    operator: Operator,
    gateway: Gateway,
    certificates: Certificates,
    word: Word,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(opened(gateway, certificates, operator, SECRET)) as port:
        gateway.instead = word
        later = time.time() + 3600  # the library renews after 45 minutes
        monkeypatch.setattr(time, "time", lambda: later)
        is_let_in_again(port, gateway)


def test_a_wrong_secret_is_not_done_and_is_never_told(
    operator: Operator, gateway: Gateway, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with closing(opened(gateway, certificates, operator, "not-the-secret")) as port:
        answer = port.poll("worker-1", ("clean",), 1)
    assert isinstance(answer, NotDone)
    assert "orchestrator.secret" in answer.reason
    assert "not-the-secret" not in caplog.text + repr(port) + repr(Access("https://c", KEY, "not-the-secret"))


def test_a_server_of_an_unknown_authority_is_not_talked_to(
    operator: Operator, gateway: Gateway, certificates: Certificates
) -> None:
    with closing(ConductorOrchestrator(gateway.url, domain=operator.domain)) as port:
        answer = port.poll("worker-1", ("clean",), 1)
    assert isinstance(answer, Unreachable)
    assert "certificate" in answer.reason.lower()
    assert gateway.asked == []
    assert certificates.ca.exists()
