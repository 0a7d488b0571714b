"""The configuration for a cluster as the guide shows it, and its commands in order: the wheel, on real servers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from attrs import frozen

from tests.docs.documents import blocks, text
from tests.people.conftest import Installed
from tests.support.servers.conductor import CONDUCTOR, Conductor
from tests.support.servers.etcd import Etcd
from tests.support.servers.lakefs import LAKEFS
from tests.support.servers.sharing import demand, shared_lakefs

pytestmark = pytest.mark.servers
PAGE = "specs/guide/howto/cluster.md"


@frozen
class Production:
    """A project on a cluster, and the package as it is installed where it runs."""

    installed: Installed
    folder: Path
    keys: Mapping[str, str]

    def perago(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.installed(self.folder, "perago", *words, **self.keys)

    def worker(self) -> subprocess.Popen[bytes]:
        """Start one in the background; whoever asked for it ends it."""
        command = [str(self.installed.folder / "bin" / "perago"), "worker"]
        return subprocess.Popen(  # noqa: S603  what we installed
            command, cwd=self.folder, env=self.installed.environment(**self.keys), stderr=subprocess.DEVNULL
        )


@pytest.fixture
def production(install: Callable[..., Installed], tmp_path: Path) -> Iterator[Production]:
    """A project as ``perago init`` writes it, with the guide's configuration; only the addresses are others."""
    demand(LAKEFS)
    demand(CONDUCTOR)
    lakefs = shared_lakefs()
    # A Conductor of its own: what is proved is all that was ever accepted for lake/main, and tests that share one have
    # much accepted for it.
    with Etcd(folder=tmp_path / "etcd") as etcd, Conductor(folder=tmp_path / "conductor") as conductor:
        # The addresses that the guide shows come from the file, as they do for its reader.
        keys = {name: value for name, value in lakefs.settings.items() if name != "LAKECTL_SERVER_ENDPOINT_URL"}
        folder = tmp_path / "project"
        made = Production(install("worker", "lakefs", "conductor", "etcd"), folder, keys)
        folder.mkdir()
        assert made.perago("init", ".").returncode == 0
        (configuration,) = [block for block in blocks(PAGE, "toml") if "lakefs" in block]
        for shown, real in {
            "http://127.0.0.1:8000": lakefs.url,
            "http://127.0.0.1:8080/api": conductor.api,
            "http://127.0.0.1:2379": etcd.url,
        }.items():
            assert shown in configuration
            configuration = configuration.replace(shown, real)
        with (folder / "perago.toml").open("a", encoding="utf-8") as file:
            file.write(f"\n{configuration}")
        answer = httpx.post(
            f"{lakefs.url}/api/v1/repositories",
            json={"name": "lake", "storage_namespace": f"{lakefs.namespaces}/cluster-guide"},
            auth=(lakefs.access_key, lakefs.secret_key),
            timeout=60,
            trust_env=False,
        )
        assert answer.status_code == 201, answer.text
        yield made


def test_the_commands_of_the_guide_bring_a_pipeline_to_its_end_on_lakefs_conductor_and_etcd(
    production: Production,
) -> None:
    lines = [line.partition("#")[0].split()[1:] for line in text(PAGE).splitlines() if line.startswith("perago ")]
    assert [words[0] for words in lines] == ["doctor", "init-repo", "register", "pipeline", "worker", "run"]
    with ExitStack() as ending:
        for words in lines:
            if words == ["worker"]:
                worker = production.worker()
                ending.callback(worker.wait)
                ending.callback(worker.kill)
                continue
            ran = production.perago(*words)
            # Before anything is registered a doctor finds what is missing, and says what to do.
            assert ran.returncode in ({0, 1} if words == ["doctor"] else {0}), ran.stdout + ran.stderr
            assert "Traceback" not in ran.stdout + ran.stderr
    shown = json.loads(production.perago("runs", "orders", "--json").stdout)
    assert [each["status"] for each in shown] == ["COMPLETED"]
    proven = production.perago("verify")
    assert proven.returncode == 0, proven.stdout + proven.stderr
    said = production.perago("policy", "show", "--json")
    assert json.loads(said.stdout)["decision"]["backing"] == "conditional"
