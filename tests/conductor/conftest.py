"""One real server for the run, and for each test a domain of its own: nobody else's tasks are handed out in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from perago_conductor.orchestrator import ConductorOrchestrator
from tests.support.conductor.operating import Operator
from tests.support.servers.conductor import Conductor
from tests.support.servers.fixtures import conductor_server

__all__ = ["conductor_server"]


@pytest.fixture
def operator(conductor_server: Conductor) -> Iterator[Operator]:
    with closing(Operator(conductor_server.api, uuid.uuid4().hex[:12])) as person:
        yield person


@pytest.fixture
def port(operator: Operator) -> Iterator[ConductorOrchestrator]:
    with closing(ConductorOrchestrator(operator.url, domain=operator.domain, timeout=60.0)) as opened:
        yield opened
