"""Servers that lie, stall, drip and flood: no call crashes, none hangs, and none says done that is not.

``PERAGO_MATRIX=full`` throws as many as the page in ``specs/``; otherwise a sample with a seed of its own, which
``PERAGO_CRASH_SEED`` repeats.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from typing import Any
from unittest.mock import MagicMock

import pytest
from pydantic import ValidationError

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_core.answers import Answer
from perago_etcd import EtcdCoordination
from perago_lakefs import Connection
from perago_worker.config.settings import StoreSettings
from tests.support.crash.seeds import FULL, seed
from tests.support.hostile.answers import Right, Wrong, right
from tests.support.hostile.page import AMOUNT, PROTOCOLS, opened, thrown

SAMPLE = 300
SECRET = "never to be seen"  # noqa: S105  it is none
#: Each byte comes in a tenth of the time a whole answer has, and there is no last one.
HEADERS = Wrong("headers in drops", b"HTTP/1.1 200 OK\r\nX: ", endless=b"y", pause=0.03)
BODY = Wrong("a body in drops", right(Right(200), length=10**6), endless=b" ", pause=0.03)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Wrong tokens and headers are logged by libraries, some hundred times here."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_wrong_answer_crashes_hangs_or_is_taken_for_done(protocol: str) -> None:
    figures = thrown(protocol, AMOUNT if FULL else SAMPLE, seed())
    print(figures)  # noqa: T201  shown where it fails, and in the full run
    assert figures.broken == [], figures


@pytest.mark.parametrize("drops", [HEADERS, BODY], ids=["headers", "body"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_has_one_time_for_all_its_bytes(protocol: str, drops: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counterexample, seen: a byte each half second kept a request of 3 s for 46 s, and a heartbeat with it.

    These drops never end: where each byte had a time of its own, these calls would not return.
    """
    monkeypatch.setattr("tests.support.hostile.server.wrong", MagicMock(return_value=drops))
    with opened(protocol) as (server, calls), ThreadPoolExecutor(len(calls)) as pool:
        server.turns(0)
        running = {name: pool.submit(call) for name, call in calls.items()}
        try:
            hanging = [name for name, each in running.items() if not _ended(each)]
        finally:
            server.stop()
    assert hanging == []


def _ended(running: Future[Answer[Any]]) -> bool:
    try:
        running.result(60)
    except StillRunning:
        return False
    return True


@pytest.mark.parametrize(
    "address",
    ["http://lakefs.example:8000", "http://10.0.0.7:8000", "http://127.0.0.1.example", "http://[2001:db8::1]"],
)
def test_no_secret_crosses_a_network_in_clear_text_unless_somebody_says_so(address: str) -> None:
    """Counterexample, seen: the keys of lakeFS went to any address, and nobody said a word."""
    with pytest.raises(ValueError, match=r"clear text .* store.insecure"):
        Connection(address, "key", "secret")
    with pytest.raises(ValueError, match=r"clear text .* orchestrator.insecure"):
        ConductorOrchestrator(address, key="key", secret=SECRET)
    with pytest.raises(ValueError, match=r"clear text .* coordination.insecure"):
        EtcdCoordination((address,), user="user", password=SECRET)
    Connection(address, "key", "secret", insecure=True)
    ConductorOrchestrator(address, key="key", secret=SECRET, insecure=True).close()
    EtcdCoordination((address,), user="user", password=SECRET, insecure=True).close()


@pytest.mark.parametrize(
    "address", ["https://lakefs.example", "http://127.0.0.1:8000", "http://[::1]", "http://localhost"]
)
def test_over_tls_and_on_this_machine_secrets_are_sent(address: str) -> None:
    Connection(address, "key", "secret")
    ConductorOrchestrator(address, key="key", secret=SECRET).close()
    EtcdCoordination((address,), user="user", password=SECRET).close()


@pytest.mark.parametrize("address", ["https://host/api?key=secret-word", "https://me:secret-word@host/api"])
def test_an_address_holds_no_secret_and_is_not_quoted_if_it_does(address: str) -> None:
    """Addresses are logged, and are part of reasons."""
    with pytest.raises(ValueError, match="apart from it") as refused:
        ConductorOrchestrator(address)
    assert "secret-word" not in str(refused.value)
    with pytest.raises(ValidationError) as refused_setting:
        StoreSettings(url=address)
    assert "secret-word" not in str(refused_setting.value).partition("input_value")[0]
