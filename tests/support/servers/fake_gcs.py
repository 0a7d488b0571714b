"""An emulator of Google Cloud Storage on loopback. Google has none of its own; this is the one that people use."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import ClassVar

import urllib3
from attrs import define

from tests.support.servers.buckets import BUCKET
from tests.support.servers.cache import Part
from tests.support.servers.server import Server

FAKE_GCS = Part("fake-gcs-server", "1.56.1", "fake-gcs-server")


@define(kw_only=True)
class FakeGCS(Server):
    """A server with one bucket, ``perago``, in memory; it believes anybody."""

    name: ClassVar[str] = "fake-gcs"
    health: ClassVar[str] = "/_internal/healthcheck"

    @property
    def settings(self) -> Mapping[str, str]:
        return {"GOOGLE_BASE_URL": self.url, "GOOGLE_BEARER_TOKEN": "anybody"}

    def command(self) -> list[str]:
        where = ["-scheme=http", "-host=127.0.0.1", f"-port={self.port}", f"-public-host=127.0.0.1:{self.port}"]
        return [str(FAKE_GCS.path), *where, "-backend=memory", "-log-level=error"]

    def environment(self) -> Mapping[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)}

    def start(self) -> None:
        super().start()
        made = urllib3.request("POST", f"{self.url}/storage/v1/b", body=json.dumps({"name": BUCKET}))
        assert made.status in {200, 409}, made.data
