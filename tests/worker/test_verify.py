"""``perago verify`` proves the main promise on a branch of the embedded stack."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_core.verification import Kind
from tests.worker.projects import Project, new_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path) as made:
        assert made.perago("run", "both", "--param", "text=a").code == 0
        yield made


def test_a_branch_is_verified_from_the_servers_alone(project: Project) -> None:
    said = project.perago("verify", width=200)
    assert (said.code, "2 accepted results are there, in order, once" in said.out) == (0, True)
    assert project.perago("run", "both", "--param", "text=b").code == 0
    found = project.perago("verify", "--json").data
    assert found["holds"]
    assert [each["kind"] for each in found["commits"]] == [Kind.ACCEPTED.value] * 3, "the second total changes nothing"

    head, before, *_ = [each["ref"] for each in found["commits"]]
    _git(f"--git-dir={project.folder}/.perago/store/lake.git", "update-ref", "refs/heads/main", before)
    broken = project.perago("verify", width=400)
    assert broken.code == 1
    assert f"was accepted with {head}, which is not on lake/main" in broken.out


def _git(*words: str) -> None:
    subprocess.run(["git", *words], check=True)  # noqa: S603, S607  the user's own git, as a stranger would
