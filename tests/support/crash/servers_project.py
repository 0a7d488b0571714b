"""A project to break on a cluster of its own: a real lakeFS, a real Conductor and a real etcd."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import define, field

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_worker.config.load import load
from perago_worker.stack import open_stack
from tests.support.crash.lakefs_project import LakeFSProject
from tests.support.servers.conductor import Conductor
from tests.support.servers.etcd import Etcd

_TEMPLATE = Path(__file__).with_name("breakable.py")
_CONFIGURATION = """
[orchestrator]
kind = "conductor"
url = "{conductor}"
on_drift = "warn"
poll_wait = 0.5

[coordination]
kind = "etcd"
endpoints = ["{etcd}"]
prefix = "perago/"
"""
#: A server that shares two cores with its clients is slower than a rename, and hears of each worker more seldom.
_SLOWER = {
    "publish_timeout": 3.0,
    "publish_p99": 1.0,
    "margin": 0.5,
    "heartbeat_interval": 1.0,
    "lease_ttl": 6.0,
    "lease_margin": 1.0,
    "takeover_wait": 4.0,
    "poll_interval": 0.2,
}


@define
class ServersProject(LakeFSProject):
    """All three are killed with the project, and nobody else is on them."""

    conductor: Conductor = field(init=False)
    etcd: Etcd = field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        # Beside the project: whoever names its folder on the command line is taken for a worker that was left.
        beside = self.folder.with_name(f"servers-of-{self.folder.name}")
        self.conductor = Conductor(folder=beside / "conductor")
        self.etcd = Etcd(folder=beside / "etcd")
        self.etcd.start()
        self.conductor.start()
        path = self.folder / "perago.toml"
        text = path.read_text(encoding="utf-8")
        for name, value in _SLOWER.items():
            text, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
            assert count == 1, name
        more = _CONFIGURATION.format(conductor=self.conductor.api, etcd=self.etcd.url)
        path.write_text(text + more, encoding="utf-8")
        # Whoever judges waits longer than a worker: a server on a busy machine is slow, not broken.
        self.stack = open_stack(
            load(self.folder, {"store": {"timeout": 120.0}, "orchestrator": {"timeout": 120.0}}, {})
        )

    def __exit__(self, *trouble: object) -> None:
        orchestrator = self.stack.orchestrator
        assert isinstance(orchestrator, ConductorOrchestrator)
        orchestrator.close()
        super().__exit__(*trouble)
        self.conductor.kill()
        self.etcd.kill()

    def add_task(self, name: str, constants: Mapping[str, object] | None = None, source: Path = _TEMPLATE) -> None:
        """Write a task module; ``perago register`` makes it known."""
        self.write_task(name, constants or {}, source)
