"""Other places than S3: a project on Azure, with the variables its users know; one in a folder."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex

import pytest

from tests.support.servers.sharing import shared_azurite
from tests.worker.projects import Project


@pytest.mark.servers
def test_a_project_that_is_made_for_azure_runs_there(tmp_path: Path) -> None:
    settings, project = shared_azurite().settings, Project(tmp_path / "project")
    made = project.process("init", str(project.folder), "--store", f"az://perago/{token_hex(8)}")
    assert made.returncode == 0, made.stderr
    ran = project.process("run", "orders", **settings)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    verified = project.process("verify", "lake/main", **settings)
    assert "3 accepted results are there, in order, once" in verified.stdout


def test_a_project_that_is_made_for_a_folder_runs_there(tmp_path: Path) -> None:
    """Named from the project: whoever moves the project moves its data."""
    project = Project(tmp_path / "a project")
    made = project.process("init", str(project.folder), "--store", "file:data/lake")
    assert made.returncode == 0, made.stderr
    ran = project.process("run", "orders")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    moved = Project(project.folder.rename(tmp_path / "moved"))
    verified = moved.process("verify", "lake/main")
    assert "3 accepted results are there, in order, once" in verified.stdout, verified.stderr
    found = {each.name for each in (moved.folder / "data" / "lake").iterdir()}
    assert found == {".aside", ".coordination", "lake"}
    assert list((moved.folder / "data" / "lake" / ".aside").iterdir()) == []
