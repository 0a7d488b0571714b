"""``perago`` on lakeFS as a person types it: init-repo, doctor, run, history, gc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from tests.lakefs.scene import Scene
from tests.support.servers.lakefs import LakeFS

ROOT = Path(__file__).parents[2]
TASK = """
from pathlib import Path

from pydantic import BaseModel

from perago_worker import Workspace, task


class Nothing(BaseModel):
    pass


class Size(BaseModel):
    size: int


@task(name="append", workspace=Workspace(), timeout=60)
def append(workspace: Path, params: Nothing) -> Size:
    file = workspace / "data.txt"
    file.write_text(file.read_text() + "!")
    return Size(size=file.stat().st_size)
"""


@frozen
class Project:
    folder: Path
    environment: Mapping[str, str]

    def perago(self, *words: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "perago_worker", "--project", str(self.folder), *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603  our own code
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout if code != 2 else done.stderr

    def ask(self, *words: str, code: int = 0) -> Any:  # noqa: ANN401  JSON
        return json.loads(self.perago(*words, "--json", code=code))


@pytest.fixture
def project(bare: Scene, lakefs_server: LakeFS, tmp_path: Path) -> Project:
    """Give a project whose store is found by the names that lakectl's users already have."""
    (tmp_path / "appending.py").write_text(TASK, encoding="utf-8")
    (tmp_path / "perago.toml").write_text(
        'tasks = ["appending"]\n[store]\nkind = "lakefs"\n[pipelines.twice]\n'
        f'repository = "{bare.target.repository}"\n'
        'steps = [{ name = "one", task = "append" }, { name = "two", task = "append" }]\n',
        encoding="utf-8",
    )
    path = os.pathsep.join(str(ROOT / each) for each in (".", "adapters", "simulation"))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PERAGO_", "LAKECTL_"))}
    return Project(tmp_path, {**inherited, "PYTHONPATH": path, "COLUMNS": "500", **lakefs_server.settings})


def test_a_pipeline_runs_on_lakefs_from_init_repo_to_history(project: Project, bare: Scene) -> None:
    target = str(bare.target)
    refused = project.ask("init-repo", "--check", code=1)
    assert (refused["installed"], "perago init-repo" in refused["reason"]) == (False, True)
    assert project.ask("init-repo")["changed"] is True
    assert project.ask("init-repo", target)["changed"] is False
    assert "conditional" in project.perago("doctor")

    bare.input = bare.head()
    ran = project.ask("run", "twice")
    assert ran["status"] == "COMPLETED"
    assert bare.file() == b"of the input!!"
    assert len(bare.history()) == 3
    assert [each["ref"] for each in project.ask("history", "--limit", "3")] == bare.history()
    assert bare.stranger.branches(bare.target.repository) == {"main"}

    newest, before, _ = bare.history()
    why = project.ask("why", "data.txt")
    assert (why["commit"], why["inputs"][0]["commit"], why["accepted"]) == (newest, before, True)
    assert (why["attempt"]["logical_task"].rpartition("/")[2], why["params"], why["unknown"]) == ("two", {}, [])
    assert why["attempt"]["evidence"] == ["claim", "ledger", "orchestrator"]
    assert why["code"].startswith("sha256:")
    older = project.ask("why", "data.txt", "--at", before[:16])
    assert (older["commit"], older["code"]) == (before, why["code"])

    collected = project.ask("gc", "--older-than", "0")
    assert len(collected["claims"]) == 2
    assert project.ask("why", "data.txt")["attempt"]["evidence"] == ["ledger", "orchestrator"]
    assert set(bare.stranger.tags(bare.target.repository)) == {"perago-first-commit"}


def test_what_is_missing_is_said_in_one_line_with_the_name_to_set(project: Project, lakefs_server: LakeFS) -> None:
    without = {name: value for name, value in project.environment.items() if not name.startswith("LAKECTL_")}
    said = Project(project.folder, without).perago("history", code=2)
    assert "LAKECTL_SERVER_ENDPOINT_URL" in said
    assert lakefs_server.secret_key not in said
    other = project.perago("--set", "store.kind=local", "init-repo", code=2)
    assert "store.kind" in other
