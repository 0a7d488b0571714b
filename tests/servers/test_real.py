"""The servers that tests are given work, and remember everything when they are killed."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.servers.conductor import CONDUCTOR, Conductor
from tests.support.servers.lakefs import LAKEFS, LakeFS
from tests.support.servers.sharing import demand

pytestmark = pytest.mark.servers


@contextmanager
def client(address: str, auth: tuple[str, str] | None = None) -> Generator[httpx.Client]:
    with httpx.Client(base_url=address, auth=auth, timeout=60, trust_env=False, verify=False) as made:  # noqa: S501  loopback
        yield made


def test_lakefs_knows_its_administrator_and_nobody_else_and_keeps_its_data(tmp_path: Path) -> None:
    demand(LAKEFS)
    with LakeFS(folder=tmp_path) as server:
        assert server.secret_key not in repr(server)
        wanted = {"name": "lake", "storage_namespace": f"{server.namespaces}/lake"}
        with client(f"{server.url}/api/v1", (server.access_key, server.secret_key)) as api:
            assert api.post("/repositories", json=wanted).status_code == 201
        server.restart()
        with client(f"{server.url}/api/v1", (server.access_key, server.secret_key)) as api:
            kept: list[Mapping[str, str]] = api.get("/repositories").json()["results"]
            assert [each["id"] for each in kept] == ["lake"]
        with client(f"{server.url}/api/v1", (server.access_key, "wrong")) as api:
            assert api.get("/repositories").status_code == 401


def test_conductor_keeps_what_it_was_told(tmp_path: Path) -> None:
    demand(CONDUCTOR)
    with Conductor(folder=tmp_path) as server:
        with client(server.api) as api:
            task = {
                "name": "greet",
                "ownerEmail": "tests@example.org",
                "timeoutSeconds": 60,
                "responseTimeoutSeconds": 30,
            }
            assert api.post("/metadata/taskdefs", json=[task]).is_success
        assert server.database.exists()
        server.restart()
        with client(server.api) as api:
            assert api.get("/metadata/taskdefs/greet").json()["responseTimeoutSeconds"] == 30
