"""Key and secret, tokens that end, and TLS with an authority of one's own."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from attrs import define, field

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_conductor.transport import Access, Unreachable
from perago_conformance.support import done
from perago_core.answers import NotDone
from perago_core.attempt.state import is_accepted
from perago_worker.config.load import load
from perago_worker.stack import StackError, open_stack
from tests.conductor.attempts import FIRST_REF, MAIN, completed, polled, reload, wide
from tests.conductor.front import Asked, Word, fronted
from tests.support.conductor.operating import Operator
from tests.support.etcd.server import Certificates
from tests.support.servers.conductor import Conductor

KEY, SECRET = "the-key", "the-secret"


@define
class Gateway:
    """What the door knows: which tokens are good, what was asked for. ``instead``: what it answers for a token."""

    url: str = ""
    tokens: set[str] = field(factory=set[str])
    asked: list[str] = field(factory=list[str])
    instead: Word | None = None

    def forget_tokens(self) -> None:
        """Let all tokens end."""
        self.tokens.clear()

    def says(self, asked: Asked) -> Word | None:
        """Give tokens, and let those pass who have one."""
        self.asked.append(str(asked))
        if asked.path == "/api/token":
            return self.instead or self._token(json.loads(asked.body))
        if asked.headers.get("X-Authorization") in self.tokens:
            return None
        return Word(401, json.dumps({"error": "EXPIRED_TOKEN", "message": "Token is expired"}))

    def _token(self, said: dict[str, str]) -> Word:
        if (said["keyId"], said["keySecret"]) != (KEY, SECRET):
            return Word(401, json.dumps({"error": "INVALID_CREDENTIALS"}))
        self.tokens.add(token := secrets.token_hex(16))
        return Word(200, json.dumps({"token": token}))


@contextmanager
def guarded(upstream: str, certificates: Certificates) -> Generator[Gateway]:
    """Put a door in front of a server."""
    gateway = Gateway()
    with fronted(upstream, gateway.says, certificates) as gateway.url:
        yield gateway


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


# ---- How a project says that its orchestrator is Conductor, with the names that Conductor's users already have.


def test_conductors_own_names_are_enough_and_the_secret_is_never_shown(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "perago.toml").write_text('[orchestrator]\nkind = "conductor"\n', encoding="utf-8")
    environment = {
        "CONDUCTOR_SERVER_URL": operator.url,
        "CONDUCTOR_AUTH_KEY": "a-key",
        "CONDUCTOR_AUTH_SECRET": "a-secret",
        "PERAGO_ORCHESTRATOR__DOMAIN": operator.domain,
    }
    settings = load(tmp_path, {}, environment)
    assert "a-secret" not in repr(settings)
    orchestrator = open_stack(settings).orchestrator
    assert isinstance(orchestrator, ConductorOrchestrator)
    operator.start(("clean",), MAIN, FIRST_REF)
    # A server without users has nobody to give a token: key and secret are then not needed, and do no harm.
    assert polled(orchestrator).snapshot.workflow_id in operator.started
    orchestrator.close()


def test_an_address_with_a_password_in_it_is_refused_without_telling_it() -> None:
    """Addresses are part of every reason; etcd's are refused alike."""
    with pytest.raises(ValueError, match="'conductor/api'") as caught:
        ConductorOrchestrator("https://me:hunter2@conductor/api")
    assert "hunter2" not in str(caught.value)


def test_a_missing_address_is_told_with_the_name_to_set(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="CONDUCTOR_SERVER_URL"):
        open_stack(load(tmp_path, {"orchestrator": {"kind": "conductor"}}, {}))
