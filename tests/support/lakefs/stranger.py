"""Somebody who works on the same server past everything of ours: raw requests, no protocol, no courtesy."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
from attrs import field, frozen

from perago_core.values import CommitRef, Target
from perago_lakefs import Connection, hook


@frozen
class Reply:
    """What the server said."""

    status: int
    body: Any

    @property
    def words(self) -> str:
        return json.dumps(self.body)


@frozen
class Stranger:
    connection: Connection
    http: urllib3.PoolManager = field(eq=False, repr=False, factory=lambda: urllib3.PoolManager(retries=False))

    def ask(self, method: str, path: str, query: Mapping[str, object] | None = None, body: object = None) -> Reply:
        """Send one request; ``body`` is bytes, or becomes JSON."""
        who = urllib3.make_headers(basic_auth=f"{self.connection.access_key}:{self.connection.secret_key}")
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        url = f"{self.connection.api}{path}?{urlencode(query or {})}"
        reply = self.http.request(method, url, body=data, headers={**who, "Content-Type": kind}, timeout=60.0)
        try:
            return Reply(reply.status, json.loads(reply.data))
        except ValueError:
            return Reply(reply.status, reply.data)

    def get(self, method: str, path: str, query: Mapping[str, object] | None = None, body: object = None) -> Any:  # noqa: ANN401  JSON
        """Send a request that must succeed, and give what it gave."""
        reply = self.ask(method, path, query, body)
        assert reply.status < 400, (method, path, reply)
        return reply.body

    def create_repository(self, name: str, branch: str, namespace: str) -> None:
        wanted = {"name": name, "storage_namespace": namespace, "default_branch": branch}
        self.get("POST", "/repositories", body=wanted)

    def repositories(self) -> frozenset[str]:
        return frozenset(each["id"] for each in self.get("GET", "/repositories", {"amount": 1000})["results"])

    def create_branch(self, target: Target, source: str) -> None:
        wanted = {"name": target.branch, "source": source}
        self.get("POST", f"/repositories/{target.repository}/branches", body=wanted)

    def branches(self, repository: str) -> frozenset[str]:
        listed = self.get("GET", f"/repositories/{repository}/branches", {"amount": 1000, "show_hidden": "true"})
        return frozenset(each["id"] for each in listed["results"])

    def tags(self, repository: str) -> dict[str, str]:
        listed = self.get("GET", f"/repositories/{repository}/tags", {"amount": 1000})
        return {each["id"]: each["commit_id"] for each in listed["results"]}

    def log(self, target: Target) -> list[dict[str, Any]]:
        query = {"amount": 1000, "first_parent": "true"}
        found: list[dict[str, Any]] = self.get("GET", f"{_repository(target)}/refs/{target.branch}/commits", query)[
            "results"
        ]
        return found

    def head(self, target: Target) -> CommitRef:
        return CommitRef(self.get("GET", f"{_branch(target)}")["commit_id"])

    def first_commit(self, repository: str) -> str:
        branch = self.get("GET", f"/repositories/{repository}")["default_branch"]
        return str(self.log(Target(repository, branch))[-1]["id"])

    def writes(self, target: Target, path: str, data: bytes) -> None:
        self.get("POST", f"{_branch(target)}/objects", {"path": path}, data)

    def write_hook(self, target: Target) -> None:
        self.writes(target, hook.PATH, hook.LENIENT)

    def deletes(self, target: Target, path: str) -> None:
        self.get("DELETE", f"{_branch(target)}/objects", {"path": path})

    def commits(self, target: Target, files: Mapping[str, bytes | None], message: str = "by a stranger") -> CommitRef:
        for path, data in files.items():
            if data is None:
                self.deletes(target, path)
            else:
                self.writes(target, path, data)
        made = self.get("POST", f"{_branch(target)}/commits", body={"message": message})
        return CommitRef(made["id"])

    def merges(self, target: Target, source: str, metadata: Mapping[str, str] | None = None, **more: object) -> Reply:
        """Merge as the peer does: as one commit, onto whatever the head is."""
        body = {"squash_merge": True, "metadata": dict(metadata or {}), **more}
        return self.ask("POST", f"{_repository(target)}/refs/{source}/merge/{target.branch}", body=body)

    def resets(self, target: Target, ref: str) -> Reply:
        return self.ask("PUT", f"{_branch(target)}/hard_reset", {"ref": ref})

    def protects(self, target: Target) -> None:
        """Protect a branch, and wait until the server has noticed: it looks at the rules every few seconds."""
        rules = [{"pattern": target.branch}]
        self.get("PUT", f"{_repository(target)}/settings/branch_protection", body=rules)
        until = time.monotonic() + 60.0
        while self.resets(target, self.head(target)).status != 403:
            assert time.monotonic() < until, "the server does not protect the branch"
            time.sleep(0.1)

    def reads(self, repository: str, ref: str, path: str) -> bytes | None:
        who = urllib3.make_headers(basic_auth=f"{self.connection.access_key}:{self.connection.secret_key}")
        url = f"{self.connection.api}/repositories/{repository}/refs/{ref}/objects?path={quote(path, safe='')}"
        reply = self.http.request("GET", url, headers=who)
        return reply.data if reply.status == 200 else None


def _repository(target: Target) -> str:
    return f"/repositories/{target.repository}"


def _branch(target: Target) -> str:
    return f"{_repository(target)}/branches/{target.branch}"
