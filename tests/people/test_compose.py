"""What the compose file and the image say, played without an engine: its services as processes, by its own words.

The servers run with the variables of the file and answer its health checks; the image is the tree that the
Containerfile copies, with the packages that it pins and no other; its entry point runs as somebody who is not root in a
project that cannot be written to; and the commands are those at the top of the file, in their order. What only an
engine does is not seen here: pulling the images of others, their own configuration, networks, volumes, build steps.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import define, field, frozen

from tests.docs.documents import ROOT, text
from tests.people.conftest import Installed, build, installed
from tests.support.servers.conductor import CONDUCTOR, Conductor
from tests.support.servers.etcd import Etcd
from tests.support.servers.lakefs import LAKEFS, LakeFS
from tests.support.servers.sharing import demand

pytestmark = pytest.mark.servers

FILE = text("adapters/deploy/compose.yaml")
SERVICES: Mapping[str, Any] = yaml.safe_load(FILE)["services"]
CONTAINERFILE = text("adapters/deploy/Containerfile").splitlines()
USER = next(line.split()[1] for line in reversed(CONTAINERFILE) if line.startswith("USER "))
#: Who runs a command: a user of this number who owns what we own and may do nothing that only root may.
UNPRIVILEGED = ("unshare", "--user", f"--map-user={USER}", f"--map-group={USER}")


def variables(service: str, **known: str) -> dict[str, str]:
    """Give the variables of a service; those that the file takes from its user are these."""
    said: Mapping[str, str] = SERVICES[service].get("environment", {})
    return {name: re.sub(r"\$\{(\w+):[^}]*\}", lambda asked: known[asked[1]], value) for name, value in said.items()}


@define(kw_only=True)
class ComposedLakeFS(LakeFS):
    """lakeFS with the variables of the file, its home and its port being others."""

    def environment(self) -> Mapping[str, str]:
        own = variables("lakefs", LAKEFS_ACCESS_KEY=self.access_key, LAKEFS_SECRET_KEY=self.secret_key)
        assert all("/home/lakefs" not in value or "PATH" in name for name, value in own.items())
        there = {name: value.replace("/home/lakefs", str(self.folder)) for name, value in own.items()}
        return {**there, "HOME": str(self.folder), "LAKEFS_LISTEN_ADDRESS": f"127.0.0.1:{self.port}"}


@define(kw_only=True)
class ComposedEtcd(Etcd):
    """etcd with the variables of the file and no argument but where its data and its peers are."""

    def command(self) -> list[str]:
        own = ("--data-dir", "--listen-peer-urls", "--initial-advertise-peer-urls", "--initial-cluster=")
        return [word for at, word in enumerate(super().command()) if not at or word.startswith(own)]

    def environment(self) -> Mapping[str, str]:
        there = {"http://0.0.0.0:2379": self.url, "http://etcd:2379": self.url}
        return {**super().environment(), **{name: there[value] for name, value in variables("etcd").items()}}


@frozen
class Composed:
    """A worker's image beside the servers, and the project that is mounted into it."""

    image: Installed
    project: Path
    environment: Mapping[str, str]
    started: list[subprocess.Popen[str]] = field(factory=list[subprocess.Popen[str]])

    def start(self, *words: str, output: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start the image with these words behind its entry point."""
        (entry,) = [json.loads(line.partition(" ")[2]) for line in CONTAINERFILE if line.startswith("ENTRYPOINT")]
        command = [*UNPRIVILEGED, str(self.image.folder / "bin" / entry[0]), *entry[1:], *words]
        where = self.image.environment(**self.environment)
        process = subprocess.Popen(  # noqa: S603  what we installed
            command, cwd=self.project, env=where, text=True, stdout=output, stderr=subprocess.STDOUT
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """End whatever still runs."""
        for each in self.started:
            if each.poll() is None:
                each.kill()
                each.wait()

    def run(self, *words: str) -> str:
        """Run a command to its end."""
        said, _ = self.start(*words, output=subprocess.PIPE).communicate(timeout=400)
        assert self.started[-1].returncode == 0, (words, said)
        return said


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Make what the Containerfile makes: our package from nothing but what it copies, and what it pins."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
    for line in CONTAINERFILE:
        if line.startswith("COPY ") and "--from" not in line:
            *copied, to = line.split()[1:]
            for each in copied:
                if (ROOT / each).is_dir():
                    shutil.copytree(ROOT / each, source / to, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    target = source / to / Path(each).name if to.endswith("/") else source / to
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / each, target)
    build(source, out, "wheel")
    pinned = re.findall(r"^([\w.-]+)==", text("requirements/image.txt"), re.MULTILINE)
    return installed(next(out.glob("*.whl")), tmp_path_factory.mktemp("image"), pinned)


@pytest.fixture
def composed(image: Installed, tmp_path: Path) -> Iterator[Composed]:
    demand(LAKEFS)
    demand(CONDUCTOR)
    with ExitStack() as running:
        lakefs = running.enter_context(ComposedLakeFS(folder=tmp_path / "lakefs"))
        etcd = running.enter_context(ComposedEtcd(folder=tmp_path / "etcd"))
        conductor = running.enter_context(Conductor(folder=tmp_path / "conductor"))
        real = {"http://lakefs:8000": lakefs.url, "http://etcd:2379": etcd.url}
        real |= {"http://conductor:8080/api": conductor.api, "/tmp/perago": str(tmp_path / "perago")}  # noqa: S108  theirs
        environment = variables("worker", LAKEFS_ACCESS_KEY=lakefs.access_key, LAKEFS_SECRET_KEY=lakefs.secret_key)
        for name, value in environment.items():
            for shown, instead in real.items():
                environment[name] = environment[name].replace(shown, instead)
            assert environment[name] != value or not value.startswith(("http", "/tmp")), name  # noqa: S108  as above
        for service, server in {"lakefs": lakefs, "conductor": conductor}.items():
            _kind, *check = SERVICES[service]["healthcheck"]["test"]
            asked = [re.sub(r"http://127\.0\.0\.1:\d+", server.url, word) for word in check]
            assert subprocess.run(asked, capture_output=True, check=False).returncode == 0, asked  # noqa: S603  the file's
        yield _with_a_project(image, tmp_path / "project", environment, running)


def _with_a_project(image: Installed, project: Path, environment: Mapping[str, str], running: ExitStack) -> Composed:
    project.mkdir()
    assert image(project, "perago", "init", ".").returncode == 0
    for each in project.iterdir():
        each.chmod(0o444)
    project.chmod(0o555)
    made = Composed(image, project, environment)
    running.callback(made.end)
    running.callback(project.chmod, 0o755)
    return made


def test_the_commands_of_the_file_bring_a_pipeline_to_its_end_as_nobody_in_a_project_that_is_only_read(
    composed: Composed,
) -> None:
    lines = [line.lstrip("# ") for line in FILE.splitlines() if line.startswith("#   docker compose")]
    orders = [shlex.split(each) for line in lines for each in line.split("&&")]
    begun = time.monotonic()
    for _docker, _compose, what, *words in orders:
        if what == "run":
            composed.run(*("orders" if word == "PIPELINE" else word for word in words[2:]))
        elif words[-1] == "worker":
            (default,) = [json.loads(line.partition(" ")[2]) for line in CONTAINERFILE if line.startswith("CMD")]
            composed.start(*default)
    print(f"from servers that are healthy to the end of the first run: {time.monotonic() - begun:.0f} s")  # noqa: T201
    assert [each["status"] for each in json.loads(composed.run("runs", "orders", "--json"))] == ["COMPLETED"]
    assert "accepted" in composed.run("verify")
    worker = next(each for each in composed.started if each.poll() is None)
    worker.terminate()
    assert worker.wait(timeout=int(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))) == 0
    assert sorted(each.name for each in composed.project.iterdir()) == ["perago.toml", "pipeline.py"]


def test_whoever_runs_it_is_not_root_and_cannot_write_to_the_project(image: Installed, tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    script = "import os; print(os.getuid()); open('there', 'w')"
    command = [*UNPRIVILEGED, str(image.folder / "bin" / "python"), "-c", script]
    tried = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603  our own
    tmp_path.chmod(0o755)
    assert tried.stdout.strip() == USER
    assert "PermissionError" in tried.stderr
