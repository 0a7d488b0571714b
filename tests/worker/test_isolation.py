"""Where the system has namespaces, a body finds nothing of the worker: no keys, no databases, no store, no memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_worker.bodies import isolation
from tests.worker.projects import Project, new_project

TRIES = '''
"""A body that looks around."""

import os
from pathlib import Path

from pydantic import BaseModel

from perago_worker import Workspace, task


class Where(BaseModel):
    project: Path


def tried(look):
    try:
        return repr(look())
    except OSError as error:
        return type(error).__name__


@task(name="spy", workspace=Workspace(prefix="data"), response_timeout=20)
def spy(workspace: Path, params: Where) -> dict[str, str]:
    """Try to read and to write what is not its own."""
    ours = params.project / ".perago"
    worker = next(pid for pid in ancestors() if "perago" in command(pid) and "run" in command(pid))
    (workspace / "mine.txt").write_text("written")
    (params.project / "outside.txt").write_text("its own business")
    return {
        "ours": tried(lambda: sorted(each.name for each in ours.iterdir())),
        "sandboxes": tried(lambda: len(list((ours / "work").iterdir()))),
        "keys": tried(lambda: (params.project / ".env").read_text()),
        "settings": tried(lambda: (params.project / "perago.toml").read_text()),
        "environment": tried(lambda: Path(f"/proc/{worker}/environ").read_bytes()),
        "memory": tried(lambda: open(f"/proc/{worker}/mem", "rb").close()),
        "write": tried(lambda: (ours / "left-behind").write_text("x")),
        "uncover": str(umount(str(ours))),
    }


def umount(path):
    import ctypes
    return ctypes.CDLL(None).umount2(path.encode(), 2)


def ancestors():
    pid = os.getpid()
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def command(pid):
    return Path(f"/proc/{pid}/cmdline").read_text()
'''


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project", TRIES) as made:
        (made.folder / ".env").write_text("PERAGO_STORE__SECRET_KEY=the-secret-word\n", encoding="utf-8")
        yield made


def spied(project: Project, *words: str) -> dict[str, str]:
    params = json.dumps({"project": str(project.folder)})
    ran = project.process(*words, "run", "spy", "--target", "lake/main", "--params", params, "--json")
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout)["output"]["spy"]["result"])


def test_a_body_finds_nothing_of_the_worker(project: Project) -> None:
    if obstacle := isolation.trouble():
        pytest.skip(f"this system cannot isolate bodies: {obstacle}")
    found = spied(project)
    assert found == {
        "ours": "['work']",
        "sandboxes": "1",
        "keys": "''",
        "settings": "''",
        "environment": "PermissionError",
        "memory": "PermissionError",
        "write": "OSError",
        "uncover": "-1",
    }
    assert (project.folder / "outside.txt").read_text(encoding="utf-8") == "its own business"
    history = project.perago("history", "--json")
    assert history.code == 0, history.err


def test_without_isolation_a_body_can_do_what_the_worker_can(project: Project) -> None:
    """What the README says; and that the test above can fail."""
    found = spied(project, "--set", "worker.isolation=never")
    assert "the-secret-word" in found["keys"]
    assert "store" in found["ours"]
    assert found["environment"] != "PermissionError"
    assert found["write"] == "1"


def test_where_isolation_is_required_and_there_is_none_nothing_is_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "trouble", lambda: "no namespaces here")
    ran = project.perago("--set", "worker.isolation=required", "run", "spy", "--target", "lake/main")
    assert ran.code == 2
    assert "cannot isolate bodies: no namespaces here" in ran.err
    doctor = project.perago("doctor", width=200)
    assert "bodies can read whatever the worker can" in doctor.out
