"""The image and the compose file, as far as they can be judged without an engine to start them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from perago_worker.config.load import load
from tests.docs.documents import ROOT, text
from tests.support.servers.conductor import CONDUCTOR
from tests.support.servers.lakefs import LAKEFS

CONTAINERFILE = "adapters/deploy/Containerfile"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(text("adapters/deploy/compose.yaml"))
    found: dict[str, Any] = document["services"]
    return found


def test_the_image_is_made_of_files_that_exist_and_pins_that_are_checked_and_nobody_in_it_is_root() -> None:
    lines = text(CONTAINERFILE).splitlines()
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert copied
    assert all((ROOT / each).exists() for each in copied), copied
    assert "--require-hashes" in text(CONTAINERFILE)
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert users[-1].isdigit()
    assert int(users[-1]) > 0


def test_the_pins_of_the_image_hold_every_extra_of_a_worker_and_all_are_hashed() -> None:
    """Everything its adapters import is there; Spark is not: whoever needs it makes an image from this one."""
    extras: dict[str, list[str]] = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    names: list[str] = re.findall(r"^([\w.-]+)==", text("requirements/image.txt"), re.MULTILINE)
    pinned = {name.lower().replace("_", "-") for name in names}
    wanted = {
        re.split(r"[\[<>=]", each)[0].lower()
        for extra in ("worker", "lakefs", "conductor", "etcd", "telemetry")
        for each in extras[extra]
    }
    assert wanted | {"hatchling", "attrs", "transitions"} <= pinned
    blocks = re.split(r"\n(?=\S)", text("requirements/image.txt").strip())
    assert all("--hash=sha256:" in block for block in blocks if "==" in block)


def test_the_servers_are_the_releases_of_the_tests_and_listen_on_this_machine_only(services: dict[str, Any]) -> None:
    assert services["lakefs"]["image"].endswith(f":{LAKEFS.version}")
    assert services["conductor"]["image"].endswith(f":{CONDUCTOR.version}")
    ports = [each for service in services.values() for each in service.get("ports", ())]
    assert len(ports) == 3
    assert all(each.startswith("127.0.0.1:") for each in ports)
    secret = [
        value
        for service in services.values()
        for key, value in service.get("environment", {}).items()
        if "SECRET" in key
    ]
    assert all(each.startswith("${") for each in secret), "a secret is nobody's default"


def test_the_worker_is_configured_for_the_servers_beside_it(services: dict[str, Any], tmp_path: Path) -> None:
    """Every variable is a setting that exists, and every address names a service and its port."""
    worker = services["worker"]
    settings = load(tmp_path, {}, worker["environment"])
    assert (settings.store.kind, settings.orchestrator.kind, settings.coordination.kind) == (
        "lakefs",
        "conductor",
        "etcd",
    )
    for address in (settings.store.url, settings.orchestrator.url, *settings.coordination.endpoints):
        host, port = re.fullmatch(r"http://(\w+):(\d+)(?:/api)?", address).groups()  # type: ignore[union-attr]
        assert any(each.endswith(f":{port}") for each in services[host]["ports"])
    assert set(worker["depends_on"]) == set(services) - {"worker"}
    assert int(worker["stop_grace_period"].removesuffix("s")) > settings.worker.drain_limit
    assert (ROOT / "adapters/deploy" / worker["build"]["context"] / worker["build"]["dockerfile"]).is_file()
