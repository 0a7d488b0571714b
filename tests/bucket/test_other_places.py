"""Other places than S3: a project on Azure, with the variables its users know; a disk, which is refused."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex

import pytest

from perago_bucket import Connection
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


def test_a_disk_is_refused_with_what_to_use_instead(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a disk cannot replace a file"):
        Connection("file:///data")
    project = Project(tmp_path / "project")
    refused = project.process("init", str(project.folder), "--store", "file:///data")
    assert refused.returncode == 2
    assert "leave --store out" in " ".join(refused.stderr.split())
    assert not (project.folder / "perago.toml").exists()
