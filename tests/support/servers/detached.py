"""Servers for people: they go on when the command ends, and are stopped by another one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from attrs import asdict, frozen

from tests.support.servers.azurite import Azurite
from tests.support.servers.buckets import MinIO, VersityGW
from tests.support.servers.cache import Report, home, locked, log_file
from tests.support.servers.conductor import Conductor
from tests.support.servers.etcd import Etcd
from tests.support.servers.fake_gcs import FakeGCS
from tests.support.servers.lakefs import LakeFS
from tests.support.servers.obtaining import OBTAIN
from tests.support.servers.processes import birth
from tests.support.servers.server import Server

KINDS: Mapping[str, type[Server]] = {
    "lakefs": LakeFS,
    "conductor": Conductor,
    "etcd": Etcd,
    "versitygw": VersityGW,
    "minio": MinIO,
    "azurite": Azurite,
    "fake-gcs": FakeGCS,
}
PATIENCE = 30.0


@frozen
class Running:
    """A server that was started here. Its number counts only together with its birth: numbers are given out again."""

    name: str
    pid: int
    born: str
    url: str
    folder: str
    log: str
    settings: Mapping[str, str]

    @property
    def lives(self) -> bool:
        return birth(self.pid) == self.born


def start(name: str, report: Report) -> Running:
    """Obtain and start it with no data, or give the one that runs."""
    OBTAIN[name](report)
    with _alone(name):
        found = _recorded(name)
        if found is not None and found.lives:
            return found
        folder = _place() / name
        shutil.rmtree(folder, ignore_errors=True)
        server = KINDS[name](folder=folder, log=log_file(name), detached=True)
        report("starting")
        server.start()
        born = birth(server.pid)
        assert born is not None, "it has just answered"
        running = Running(name, server.pid, born, server.url, str(folder), str(server.log), server.settings)
        _write(running)
        return running


def stop(name: str) -> Running | None:
    """Stop what was started and throw its data away; the log stays. ``None``: nothing of ours runs."""
    with _alone(name):
        found = _recorded(name)
        if found is None:
            return None
        lived = found.lives
        if lived:
            end(found)
        shutil.rmtree(found.folder, ignore_errors=True)
        _record(name).unlink()
        return found if lived else None


def end(found: Running) -> None:
    """End it as an operator would; one that will not end is killed."""
    os.kill(found.pid, signal.SIGTERM)
    until = time.monotonic() + PATIENCE
    while found.lives:
        if time.monotonic() > until:
            os.kill(found.pid, signal.SIGKILL)
        time.sleep(0.05)


def status(name: str) -> Running | None:
    """Give the one that runs."""
    found = _recorded(name)
    return found if found is not None and found.lives else None


def _place() -> Path:
    return home() / "running"


def _alone(name: str) -> AbstractContextManager[None]:
    return locked(_place() / f"{name}.lock")


def _record(name: str) -> Path:
    return _place() / f"{name}.json"


def _recorded(name: str) -> Running | None:
    path = _record(name)
    return Running(**json.loads(path.read_text("utf-8"))) if path.exists() else None


def _write(running: Running) -> None:
    """Write it whole or not at all, for nobody else to read: the keys of the server are in it."""
    half = _record(running.name).with_suffix(".half")
    half.unlink(missing_ok=True)
    half.touch(0o600)
    half.write_text(json.dumps(asdict(running), indent=1), "utf-8")
    half.replace(_record(running.name))
