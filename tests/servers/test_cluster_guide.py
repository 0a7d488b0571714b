"""The configuration for a cluster as the guide shows it, and its commands in their order, on real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.docs.documents import blocks, text
from tests.support.servers.conductor import CONDUCTOR, Conductor
from tests.support.servers.etcd import Etcd
from tests.support.servers.lakefs import LAKEFS
from tests.support.servers.sharing import demand, shared_lakefs

pytestmark = pytest.mark.servers
PAGE = "specs/guide/howto/cluster.md"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """A project as ``perago init`` writes it, with the guide's configuration; only the addresses are others."""
    demand(LAKEFS)
    demand(CONDUCTOR)
    lakefs = shared_lakefs()
    folder = tmp_path / "project"
    # A Conductor of its own: what is proved is all that was ever accepted for lake/main, and tests that share one have
    # much accepted for it.
    with Etcd(folder=tmp_path / "etcd") as etcd, Conductor(folder=tmp_path / "conductor") as conductor:
        environment = {**os.environ, **lakefs.settings, "COLUMNS": "200", "NO_COLOR": "1"}
        # The addresses that the guide shows come from the file, as they do for its reader.
        environment.pop("LAKECTL_SERVER_ENDPOINT_URL")
        assert perago(tmp_path, environment, "init", str(folder)).returncode == 0
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
        made = {"name": "lake", "storage_namespace": f"{lakefs.namespaces}/cluster-guide"}
        answer = httpx.post(
            f"{lakefs.url}/api/v1/repositories",
            json=made,
            auth=(lakefs.access_key, lakefs.secret_key),
            timeout=60,
            trust_env=False,
        )
        assert answer.status_code == 201, answer.text
        yield folder, environment


def perago(folder: Path, environment: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_commands_of_the_guide_bring_a_pipeline_to_its_end_on_lakefs_conductor_and_etcd(
    project: tuple[Path, Mapping[str, str]],
) -> None:
    folder, environment = project
    lines = [line.partition("#")[0].split()[1:] for line in text(PAGE).splitlines() if line.startswith("perago ")]
    assert [words[0] for words in lines] == ["doctor", "init-repo", "register", "pipeline", "worker", "run"]
    with ExitStack() as ending:
        for words in lines:
            if words == ["worker"]:
                worker = subprocess.Popen(
                    [sys.executable, "-m", "perago_worker", "worker"],
                    cwd=folder,
                    env=environment,
                    stderr=subprocess.DEVNULL,
                )
                ending.callback(worker.wait)
                ending.callback(worker.kill)
                continue
            ran = perago(folder, environment, *words)
            # Before anything is registered a doctor finds what is missing, and says what to do.
            assert ran.returncode in ({0, 1} if words == ["doctor"] else {0}), ran.stdout + ran.stderr
            assert "Traceback" not in ran.stdout + ran.stderr
    shown = json.loads(perago(folder, environment, "runs", "orders", "--json").stdout)
    assert [each["status"] for each in shown] == ["COMPLETED"]
    proven = perago(folder, environment, "verify")
    assert proven.returncode == 0, proven.stdout + proven.stderr
    said = perago(folder, environment, "policy", "show", "--json")
    assert json.loads(said.stdout)["decision"]["backing"] == "conditional"
