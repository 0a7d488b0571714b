"""A real Conductor on loopback, with everything it remembers in one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from attrs import define

from tests.servers.cache import Part
from tests.servers.server import Server
from tests.servers.toolchain import java

CONDUCTOR = Part("conductor", "3.32.3", "conductor-server-boot.jar")


@define(kw_only=True)
class Conductor(Server):
    """``with Conductor(folder=tmp_path) as server``: a server that knows no task and no workflow."""

    name: ClassVar[str] = "conductor"
    #: Without the switch for Elasticsearch below it is never healthy.
    health: ClassVar[str] = "/actuator/health"
    #: 15 to 50 s were seen, the latter at a load of 9 on two cores.
    patience: ClassVar[float] = 240.0

    @property
    def api(self) -> str:
        """Give the address that SDKs want."""
        return f"{self.url}/api"

    @property
    def database(self) -> Path:
        return self.folder / "conductor.db"

    @property
    def settings(self) -> Mapping[str, str]:
        return {"CONDUCTOR_SERVER_URL": self.api}

    def command(self) -> list[str]:
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        settings = {
            "server.port": self.port,
            "server.address": "127.0.0.1",
            "spring.datasource.url": f"jdbc:sqlite:{self.database}?busy_timeout=15000&journal_mode=WAL",
            "conductor.db.type": "sqlite",
            "conductor.queue.type": "sqlite",
            "conductor.indexing.type": "sqlite",
            "conductor.workflow-execution-lock.type": "local_only",
            "conductor.app.workflow-execution-lock-enabled": "true",
            "conductor.app.ownerEmailMandatory": "false",
            "conductor.integrations.ai.enabled": "false",
            "conductor.scheduler.enabled": "false",
            "management.health.elasticsearch.enabled": "false",
        }
        # One collector thread and the quick compiler: tests need a start in seconds, not a server for weeks.
        machine = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={scratch}"]
        return [java(), *machine, "-jar", str(CONDUCTOR.path), *(f"--{key}={each}" for key, each in settings.items())]

    def environment(self) -> Mapping[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)}
