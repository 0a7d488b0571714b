"""A campaign on a cluster, by giving ``--master``: what it comes to is what processes of this machine come to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.servers import PATIENCE, Standalone

pytest.importorskip("pyspark")

ASKED = ("--backing", "soft", "--crashes", "1", "--no-ops", "--schedules", "4000", "--piece", "250")


def campaign(out: Path, *more: str) -> dict[str, Any]:
    command = (sys.executable, "-m", "perago_worker", "campaign", *ASKED, "--out", str(out), "--json", *more)
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)  # noqa: S603  our own
    # 1: a property is broken, as it must be under the plain head check.
    assert told.returncode == 1, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_a_campaign_has_one_digest_on_two_workers_and_in_processes(cluster: Standalone, tmp_path: Path) -> None:
    """Acceptance 10. The workers have the project installed in the Python that is named; nothing else is sent."""
    conf = {
        "spark.pyspark.python": sys.executable,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    told = (word for key, value in conf.items() for word in ("--conf", f"{key}={value}"))
    before = cluster.applications()
    on_cluster = campaign(tmp_path / "cluster", "--on", "spark", "--master", cluster.url, *told)
    new = [after - known for after, known in zip(cluster.applications(), before, strict=True)]
    assert len(new[0]) == 1, "one application"
    assert new[0] == new[1], "on both workers"
    in_processes = campaign(tmp_path / "processes", "--on", "processes", "--processes", "2")
    assert on_cluster["schedules"] == 4000
    assert on_cluster["broken"] != []
    assert on_cluster == in_processes
