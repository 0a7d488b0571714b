"""A repository of its own for each test of the sync, and a stranger who works on it past the port."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
from attrs import evolve, field, frozen

from perago_core.names import staging_name
from perago_core.ports import Stored
from perago_core.values import CommitRef, Target
from perago_lakefs.client import Connection
from perago_lakefs.objects.sink import LakeFSSink, scratch_name
from perago_lakefs.objects.source import LakeFSSource
from perago_worker.folders.cache import Cache
from perago_worker.folders.folder import Folder, Origin
from perago_worker.folders.sandboxes import Sandboxes
from perago_worker.folders.transfer_progress import MovedListener, nobody
from tests.support.servers.lakefs import LakeFS

WIDTH = 8


def _execution() -> str:
    return secrets.token_hex(8)


@frozen
class Lake:
    """One repository with a branch ``main``."""

    connection: Connection
    repository: str
    http: urllib3.PoolManager = field(eq=False, factory=lambda: urllib3.PoolManager(maxsize=WIDTH, retries=False))

    @classmethod
    def on(cls, server: LakeFS) -> Lake:
        lake = cls(Connection(server.url, server.access_key, server.secret_key), f"sync-{secrets.token_hex(6)}")
        about = {
            "name": lake.repository,
            "storage_namespace": f"{server.namespaces}/{lake.repository}",
            "default_branch": "main",
        }
        lake.ask("POST", "/repositories", body=about)
        return lake

    def through(self, url: str) -> Lake:
        """Give the same repository, reached another way."""
        return evolve(self, connection=evolve(self.connection, url=url))

    # The stranger

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # noqa: ANN401  JSON
        """Ask the server past everything of ours; ``body`` is bytes, or becomes JSON."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = {} if isinstance(body, bytes | None) else {"Content-Type": "application/json"}
        who = urllib3.make_headers(basic_auth=f"{self.connection.access_key}:{self.connection.secret_key}")
        url = f"{self.connection.api}{path}?{urlencode(query or {})}"
        reply = self.http.request(method, url, body=data, headers={**who, **kind, **(headers or {})})
        assert reply.status < 400, (reply.status, reply.data)
        return json.loads(reply.data) if "json" in reply.headers.get("Content-Type", "") else None

    @property
    def place(self) -> str:
        return f"/repositories/{self.repository}"

    def upload(self, path: str, data: bytes, branch: str = "main", **headers: str) -> None:
        self.ask("POST", f"{self.place}/branches/{branch}/objects", {"path": path}, data, headers)

    def commit(self, files: Mapping[str, bytes], branch: str = "main") -> CommitRef:
        """Commit these files on top of a branch."""

        def one(path: str) -> None:
            self.upload(path, files[path], branch)

        with ThreadPoolExecutor(WIDTH) as pool:
            list(pool.map(one, files))
        return self.committed(branch)

    def committed(self, branch: str = "main") -> CommitRef:
        made = self.ask("POST", f"{self.place}/branches/{branch}/commits", body={"message": "by a stranger"})
        return CommitRef(made["id"])

    def head(self, branch: str = "main") -> CommitRef:
        return CommitRef(self.ask("GET", f"{self.place}/branches/{branch}")["commit_id"])

    def about(self, ref: str, path: str) -> Any:  # noqa: ANN401  JSON
        return self.ask("GET", f"{self.place}/refs/{ref}/objects/stat", {"path": path})

    def read(self, ref: str, path: str) -> bytes:
        who = urllib3.make_headers(basic_auth=f"{self.connection.access_key}:{self.connection.secret_key}")
        url = f"{self.connection.api}{self.place}/refs/{ref}/objects?path={quote(path, safe='')}"
        return self.http.request("GET", url, headers=who).data

    def branches(self) -> frozenset[str]:
        listed = self.ask("GET", f"{self.place}/branches", {"show_hidden": "true", "amount": 1000})
        return frozenset(each["id"] for each in listed["results"])

    def drop(self, sink: LakeFSSink) -> None:
        """Do what dropping a staging name does."""
        for name in {sink.name, scratch_name(sink.name)} & self.branches():
            self.ask("DELETE", f"{self.place}/branches/{name}")

    # Ours

    def source(self, ref: CommitRef) -> LakeFSSource:
        return LakeFSSource(self.connection, self.repository, ref)

    def sink(self, at: CommitRef | None = None) -> LakeFSSink:
        """Open a staging name of an execution of its own, and give its sink."""
        name = staging_name(Target(self.repository, "main"), "wf/step", 1, 0, "task-1", _execution())
        creation = {"name": name, "source": at or self.head(), "hidden": True}
        self.ask("POST", f"{self.place}/branches", body=creation)
        return LakeFSSink(self.connection, self.repository, name)

    def folder(
        self, at: Path, ref: CommitRef, prefix: str = "", *, cache: Cache | None = None, moved: MovedListener = nobody
    ) -> Folder:
        """Make a workspace folder, as a worker does."""
        room = Sandboxes(at / "rooms").enter(_execution())
        origin = Origin(self.source(ref), self.repository, ref, prefix, read_only=False)
        return Folder.make(
            room, origin, cache or Cache(at / "cache", 1 << 34), width=WIDTH, trusts_times=False, moved=moved
        )


def numbered(count: int, size: int = 16, prefix: str = "d/") -> dict[str, bytes]:
    """Make files whose contents all differ."""
    return {f"{prefix}{index:05d}.bin": f"{index:08d}".encode() * (size // 8) for index in range(count)}


def paths(found: tuple[Stored, ...]) -> list[str]:
    return [each.path for each in found]
