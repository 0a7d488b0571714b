"""``perago import``: files onto a branch, as one publication like any other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_core.answers import Done
from tests.worker.isolated import files
from tests.worker.projects import MAIN, Project, new_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project") as made:
        yield made


def contents(project: Project) -> dict[str, bytes]:
    """Read all files of the branch."""
    stack = project.stack()
    head = stack.store.head(MAIN)
    assert isinstance(head, Done)
    assert head.value is not None
    return files(stack, head.value.commit.ref)


def test_files_are_published_with_a_record_of_what_they_were(project: Project, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    (raw / "day=1").mkdir(parents=True)
    (raw / "day=1" / "a.csv").write_text("id\n1\n")
    (tmp_path / "b.csv").write_text("id\n2\n")
    assert project.perago("run", "both", "--param", "text=x").code == 0
    ran = project.perago("import", str(raw), str(tmp_path / "b.csv"), "--to", "lake/main/raw/orders")
    assert ran.code == 0, ran.err
    found = contents(project)
    assert (found["raw/orders/day=1/a.csv"], found["raw/orders/b.csv"]) == (b"id\n1\n", b"id\n2\n")
    assert "data/0.txt" in found, "what was there stays"
    record = json.loads(found["raw/orders/_imported.json"])
    assert record["b.csv"] == {
        "path": str(tmp_path / "b.csv"),
        "size": 5,
        "sha256": hashlib.sha256(b"id\n2\n").hexdigest(),
    }
    assert project.perago("verify").code == 0, "it was accepted, as every publication is"
    assert "perago-import" in project.perago("runs").out

    (tmp_path / "b.csv").write_text("id\n3\n")
    assert project.perago("import", str(tmp_path / "b.csv"), "--to", "lake/main/raw/orders", "--replace").code == 0
    found = contents(project)
    assert found["raw/orders/b.csv"] == b"id\n3\n"
    assert "raw/orders/day=1/a.csv" not in found
    assert "data/0.txt" in found


def test_what_cannot_be_brought_is_said_before_anything_runs(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.touch()
    for words, says in (
        ((str(file), "--to", "lake/main"), "expected --to REPOSITORY/BRANCH/FOLDER"),
        ((str(tmp_path / "no"), "--to", "lake/main/raw"), "expected files or folders; found nothing at"),
    ):
        ran = project.perago("import", *words)
        assert ran.code == 2
        assert says in ran.err
    assert project.views() == ()


def test_two_files_of_one_name_fail_for_good(project: Project, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").touch()
    ran = project.perago("import", *(str(tmp_path / each) for each in ("one", "two")), "--to", "lake/main/raw")
    assert ran.code == 1
    assert "expected files of different names" in ran.out + ran.err
