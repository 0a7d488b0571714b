"""A real Conductor on loopback, with everything it remembers in one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from attrs import define

from tests.support.servers.cache import Part
from tests.support.servers.server import Server
from tests.support.servers.toolchain import java, java_fingerprint

CONDUCTOR = Part("conductor", "3.32.3", "conductor-server-boot.jar")


def classes() -> Part:
    """Return the classes that Conductor loads, as this Java maps them: nearly half of a start is spent on loading them.

    Processor time to a healthy server: 20.1 and 21.0 s without, 11.6 and 11.7 s with it.
    """
    return Part("conductor-classes", f"{CONDUCTOR.version}-{java_fingerprint()}", "classes.jsa")


@define(kw_only=True)
class Conductor(Server):
    """``with Conductor(folder=tmp_path) as server``: a server that knows no task and no workflow."""

    name: ClassVar[str] = "conductor"
    #: Without the switch for Elasticsearch below it is never healthy.
    health: ClassVar[str] = "/actuator/health"
    #: Twelve seconds of processor time; a hundred seconds were seen, without the archive, at a load of 25 on two cores.
    patience: ClassVar[float] = 400.0

    #: What the machine is told beyond what every Conductor is told.
    machine: Sequence[str] = ()
    #: Whether it starts workflows by the clock.
    schedules: bool = False

    @property
    def api(self) -> str:
        """Return the address that SDKs want."""
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
            "conductor.scheduler.enabled": str(self.schedules).lower(),
            "management.health.elasticsearch.enabled": "false",
        }
        # One collector thread and the quick compiler: tests need a start in seconds, not a server for weeks.
        machine = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={scratch}"]
        if classes().is_there():
            machine.append(f"-XX:SharedArchiveFile={classes().path}")
        told = [f"--{key}={value}" for key, value in settings.items()]
        return [java(), *machine, *self.machine, "-jar", str(CONDUCTOR.path), *told]

    def environment(self) -> Mapping[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)}
