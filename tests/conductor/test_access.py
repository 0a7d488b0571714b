"""Key and secret, tokens that end, and TLS with an authority of one's own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perago_conductor import ConductorOrchestrator
from perago_conductor.connection import Unreachable
from perago_conductor.sdk import Access
from perago_core.answers import NotDone
from perago_core.attempt.known import is_accepted
from tests.conductor.attempts import FIRST_REF, MAIN, completed, polled, reload, wide
from tests.conductor.gateway import KEY, SECRET, Gateway, guarded
from tests.conductor.operating import Operator
from tests.conformance.support import done
from tests.etcd.server import Certificates
from tests.servers.conductor import Conductor


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
