"""A whole run, or nothing, as a Conductor workflow over a real lakeFS: one commit, none, and one after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perago_core.answers import Answer, Done
from perago_core.names import run_branch
from perago_core.pipelines import PROMOTION, PipelineView
from perago_core.values import Commit, CommitRef, Target
from tests.conductor.deployment import Deployment, over_lakefs
from tests.support.conductor.operating import Operator, eventually
from tests.support.servers.conductor import Conductor
from tests.support.servers.fixtures import lakefs_server
from tests.support.servers.lakefs import LakeFS
from tests.worker.projects import environment

__all__ = ["lakefs_server"]


@pytest.fixture
def deployment(tmp_path: Path, conductor_server: Conductor, lakefs_server: LakeFS) -> Iterator[Deployment]:
    with over_lakefs(tmp_path, conductor_server.api, lakefs_server) as (deployed, _target):
        for pipeline in ("line", "fail"):
            heading = f"[pipelines.{deployed.named(pipeline)}]\n"
            deployed.change(heading, f'{heading}isolation = "run"\n')
        failing = f'task = "{deployed.named("fail")}" }}]'
        writing = (
            f'task = "{deployed.named("write")}" }}]\naudits = [{{ name = "audit", task = "{deployed.named("read")}" }}'
        )
        deployed.change(f'{{ name = "fail", {failing}', f'{{ name = "write", {writing}, {{ name = "fail", {failing}')
        deployed.change(f'@task(name="{deployed.named("fail")}", workspace=Workspace()', _read_only(deployed))
        deployed.register()
        yield deployed


def _read_only(deployment: Deployment) -> str:
    return f'@task(name="{deployment.named("fail")}", workspace=Workspace(read_only=True)'


def _main(deployment: Deployment) -> Target:
    return Target(deployment.settings.pipelines[deployment.named("line")].repository, "main")


def _commits(deployment: Deployment) -> tuple[Commit, ...]:
    found = deployment.stack.store.history(_main(deployment))
    assert isinstance(found, Done), found
    return found.value


def _files(deployment: Deployment, ref: CommitRef) -> dict[str, bytes]:
    source = deployment.stack.store.read(_main(deployment).repository, ref)
    found = source.list()
    assert isinstance(found, Done), found
    read: dict[str, bytes] = {}
    for each in found.value:
        opened = source.get(each.path)
        assert isinstance(opened, Done), opened
        with opened.value as data:
            read[each.path] = data.read()
    return read


def _run_branches(deployment: Deployment) -> tuple[str, ...]:
    store: Any = deployment.stack.store
    found: Answer[tuple[str, ...]] = store.run_branches(_main(deployment).repository)
    assert isinstance(found, Done), found
    return found.value


@contextmanager
def _worker(deployment: Deployment, failpoint: str = "") -> Generator[subprocess.Popen[bytes]]:
    with (deployment.project.folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603  our own interpreter and code
            [sys.executable, "-m", "perago_worker", "--project", str(deployment.project.folder), "worker"],
            env=environment(PERAGO_FAILPOINT=failpoint),
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _ended(deployment: Deployment, operator: Operator, workflow: str) -> PipelineView | None:
    """Let the server look for the dead now, not in minutes, and see whether the run has ended."""
    operator.decide()
    view = deployment.words().view(workflow)
    return None if view is None or view.running else view


def test_a_run_is_one_commit_or_none(deployment: Deployment) -> None:
    before = _commits(deployment)
    with _worker(deployment):
        ran = deployment.project.perago(
            "run", deployment.named("line"), "--param", "text=four", "--on", "conductor", "--json"
        )
        assert ran.code == 0, ran.out + ran.err
        failed = deployment.project.perago("run", deployment.named("fail"), "--on", "conductor", "--json")
    assert failed.code == 1, failed.out
    promoted, *rest = _commits(deployment)
    assert tuple(rest) == before
    assert _files(deployment, promoted.ref) == {"data/text.txt": b"four", "sum.txt": b"4"}
    assert ran.data["attempts"][-1]["ref"] == promoted.ref
    assert [each["status"] for each in failed.data["attempts"]][-1] == "FAILED_WITH_TERMINAL_ERROR"
    kept = run_branch(failed.data["workflow_id"])
    assert failed.data["branch"] == f"{_main(deployment).repository}/{kept}"
    assert deployment.project.perago("verify").code == 0
    assert deployment.project.perago("gc").code == 0
    assert _run_branches(deployment) == (kept,)


def test_a_promotion_killed_between_publishing_and_reporting_is_reported_by_the_next_attempt(
    deployment: Deployment, operator: Operator
) -> None:
    before = _commits(deployment)
    name = deployment.named("line")
    pipeline = deployment.settings.pipelines[name]
    workflow = deployment.words().start(name, pipeline, before[0].ref, {"text": "four"})
    with _worker(deployment, f"kill store.publish.after 1 {name}-promote") as victim:
        assert victim.wait(timeout=240) == -signal.SIGKILL
    published, *rest = _commits(deployment)
    assert tuple(rest) == before
    with _worker(deployment):
        view = eventually(lambda: _ended(deployment, operator, workflow), "the run to end")
    assert view.succeeded, view
    assert view.output[PROMOTION]["workspace"]["ref"] == published.ref
    assert _commits(deployment)[0] == published
    assert deployment.project.perago("verify").code == 0
