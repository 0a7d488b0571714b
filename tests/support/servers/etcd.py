"""A real etcd on loopback for people; the tests of the adapter have one that also does TLS and users."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

from attrs import define, field

from tests.support.servers.cache import Part
from tests.support.servers.server import Server, free_port

ETCD = Part("etcd", "3.7.3", "etcd")


@define(kw_only=True)
class Etcd(Server):
    """``with Etcd(folder=tmp_path) as server``: a cluster of one, without users."""

    name: ClassVar[str] = "etcd"
    health: ClassVar[str] = "/health"

    peer_port: int = field(factory=free_port)

    @property
    def settings(self) -> Mapping[str, str]:
        return {"ETCDCTL_ENDPOINTS": self.url}

    def command(self) -> list[str]:
        peer = f"http://127.0.0.1:{self.peer_port}"
        return [
            str(ETCD.path),
            f"--data-dir={self.folder / 'data'}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=error",
        ]

    def environment(self) -> Mapping[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)}
