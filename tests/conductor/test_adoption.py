"""On a real lakeFS and a real Conductor: nothing is computed twice after a crash, and a step scheduled twice is one.

A sample by default; ``PERAGO_MATRIX=full`` kills a hundred workers and forges a hundred pairs of twins, on several
branches at once.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import uuid
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import evolve, frozen

from perago_core.answers import Done
from perago_core.values import CommitRef, Target
from perago_lakefs import Connection
from perago_lakefs.install import install
from perago_worker.config.load import load
from perago_worker.stack import open_stack
from tests.conductor.front import Asked, Word, fronted
from tests.specs.evidence import note_count
from tests.support.conductor.operating import Operator, eventually
from tests.support.crash.seeds import FULL
from tests.support.lakefs.stranger import Stranger
from tests.support.servers.conductor import Conductor
from tests.support.servers.fixtures import lakefs_server
from tests.support.servers.lakefs import LakeFS
from tests.worker.projects import running_worker

__all__ = ["lakefs_server"]

#: Rounds in all, and sites on which they are played side by side.
ROUNDS = int(os.environ.get("PERAGO_ADOPTION_ROUNDS", "100" if FULL else "2"))
ABREAST = int(os.environ.get("PERAGO_ADOPTION_ABREAST", "4" if FULL else "1"))
#: Seconds of silence after which a task is given up: a machine that is busy with other tests is slow.
PATIENCE = 6 if FULL else 10
_FILE = "tests/conductor/test_adoption.py"
#: Why twins failed on the way.
BURNT: list[str] = []

TASKS = '''
"""A task that leaves a line outside its workspace each time its body runs."""

from pathlib import Path

from pydantic import BaseModel

from perago_worker import Workspace, task


class Round(BaseModel):
    number: int


@task(name="{task}", workspace=Workspace(prefix="data"), retries=9, retry_delay=0, response_timeout={patience})
def write(workspace: Path, params: Round) -> Round:
    with (Path(__file__).parent / f"runs-{{params.number}}").open("a") as runs:
        runs.write("run\\n")
    (workspace / "number.txt").write_text(str(params.number))
    return params
'''

CONFIGURATION = """
tasks = ["{module}"]

[store]
kind = "lakefs"
url = "{lakefs.url}"
access_key = "{lakefs.access_key}"
secret_key = "{lakefs.secret_key}"
repositories = ["{repository}"]

[orchestrator]
kind = "conductor"
url = "{url}"
domain = "{domain}"
on_drift = "warn"
poll_wait = 0.5
timeout = 30

[budget]
heartbeat_interval = 1.0
completion_reserve = 2
"""


@frozen
class Site:
    """A project on both servers, with a repository, a task and a domain of its own."""

    folder: Path
    task: str
    target: Target
    operator: Operator

    def configure(self, url: str, server: LakeFS) -> None:
        """Write the project; workers meet Conductor at this address."""
        module = f"adopting_{self.operator.domain}"
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{module}.py").write_text(TASKS.format(task=self.task, patience=PATIENCE), encoding="utf-8")
        text = CONFIGURATION.format(
            module=module, lakefs=server, repository=self.target.repository, url=url, domain=self.operator.domain
        )
        (self.folder / "perago.toml").write_text(text, encoding="utf-8")

    def head(self) -> CommitRef:
        """Give the head of the branch."""
        with closing(open_stack(load(self.folder, {}, {}))) as stack:
            found = stack.store.head(self.target)
        assert isinstance(found, Done)
        assert found.value is not None
        return found.value.commit.ref

    def parents(self, ref: CommitRef) -> tuple[CommitRef, ...]:
        """Give the parents of a commit."""
        with closing(open_stack(load(self.folder, {}, {}))) as stack:
            found = stack.store.look(self.target.repository, ref)
        assert isinstance(found, Done)
        assert found.value is not None
        return found.value.parents

    def bodies(self, number: int) -> int:
        """Count how often the body of a round ran."""
        return len((self.folder / f"runs-{number}").read_text().splitlines())

    def place(self, ref: CommitRef) -> dict[str, str]:
        """Give the workspace a workflow is started with."""
        return {
            "repository": self.target.repository,
            "branch": self.target.branch,
            "refType": "commit",
            "ref": ref,
        }

    def worker(self, failpoint: str = "", capacity: int = 1) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Let a worker work until the end of the block."""
        return running_worker(self.folder, "--set", f"worker.capacity={capacity}", PERAGO_FAILPOINT=failpoint)

    def branches(self, stranger: Stranger, count: int) -> list[Site]:
        """Give the same project on so many branches of its repository."""
        first = self.head()
        targets = [Target(self.target.repository, f"branch{number}") for number in range(count)]
        for target in targets:
            stranger.create_branch(target, first)
        return [evolve(self, target=target) for target in targets]


@pytest.fixture
def sites(tmp_path: Path, conductor_server: Conductor, lakefs_server: LakeFS) -> Iterator[list[Site]]:
    connection = Connection(lakefs_server.url, lakefs_server.access_key, lakefs_server.secret_key)
    made: list[Site] = []
    with ExitStack() as closing_all:
        for number in range(ABREAST):
            domain = uuid.uuid4().hex[:12]
            operator = closing_all.enter_context(closing(Operator(conductor_server.api, domain)))
            target = Target(f"adopt-{domain}", "main")
            installed = install(connection, target, namespace=f"{lakefs_server.namespaces}/adopt-{domain}")
            assert isinstance(installed, Done), installed
            operator.register(f"write-{domain}", retries=9, response_timeout=PATIENCE)
            made.append(Site(tmp_path / f"project{number}", f"write-{domain}", target, operator))
        yield made


def _abreast(sites: list[Site], play: Callable[[Site, int], None]) -> None:
    """Play the rounds, each site its share of them one after the other."""

    def all_of(number: int) -> None:
        for each in range(number, ROUNDS, len(sites)):
            play(sites[number], each)

    with ThreadPoolExecutor(len(sites)) as pool:
        for ended in [pool.submit(all_of, number) for number in range(len(sites))]:
            ended.result()


def _simple(task: str, reference: str, number: int) -> dict[str, Any]:
    given = {"workspace": "${workflow.input.workspace}", "params": {"number": number}}
    return {"name": task, "taskReferenceName": reference, "type": "SIMPLE", "inputParameters": given}


def _completed(site: Site, workflow: str) -> dict[str, Any] | None:
    found = site.operator.workflow(workflow)
    assert found["status"] in {"RUNNING", "COMPLETED"}, found["reasonForIncompletion"]
    return found if found["status"] == "COMPLETED" else None


def _killed_and_adopted(site: Site, number: int) -> None:
    before = site.head()
    workflow = site.operator.begin([_simple(site.task, "write", number)], {}, {"workspace": site.place(before)})
    with site.worker(f"kill store.publish.after 1 {site.task}") as victim:
        assert victim.wait(timeout=120) == -signal.SIGKILL
    published, ran = site.head(), site.bodies(number)
    assert site.parents(published) == (before,)
    with site.worker():
        eventually(partial(_completed, site, workflow), "the workflow to complete")
    accepted = [each for each in site.operator.tasks(workflow) if each["status"] == "COMPLETED"]
    assert [each["outputData"]["workspace"]["ref"] for each in accepted] == [published]
    assert accepted[0]["outputData"]["result"] == {"number": number}
    assert site.head() == published
    assert site.bodies(number) == ran


def test_a_worker_killed_between_publishing_and_reporting_costs_no_second_computation_and_no_commit(
    sites: list[Site], conductor_server: Conductor, lakefs_server: LakeFS
) -> None:
    for site in sites:
        site.configure(conductor_server.api, lakefs_server)
    _abreast(sites, _killed_and_adopted)
    note_count(
        f"{_FILE}::a_worker_killed",
        f"{ROUNDS} workers killed between publishing and reporting on lakeFS and Conductor: 0 bodies ran again, "
        "0 commits were replaced, all workflows completed",
    )


@contextmanager
def _two_of_one(conductor_server: Conductor) -> Generator[str]:
    """Make twins of two tasks side by side: what the server calls ``write_again`` workers see as ``write``."""
    upstream = conductor_server.api.removesuffix("/api")
    client = httpx.Client(base_url=upstream, timeout=60.0, trust_env=False)

    def says(asked: Asked) -> Word:
        kind = {"Content-Type": asked.headers.get("Content-Type", "application/json")}
        answer = client.request(asked.method, asked.path, content=asked.body, headers=kind)
        told = re.sub(r'"write_again"', '"write"', answer.text)
        return Word(answer.status_code, told, answer.headers.get("Content-Type", "text/plain"))

    with closing(client), fronted(upstream, says) as address:
        yield address


def _twins(site: Site, number: int) -> None:
    before = site.head()
    both = [[_simple(site.task, "write", number)], [_simple(site.task, "write_again", number)]]
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": both}
    join = {
        "name": "join",
        "taskReferenceName": "join",
        "type": "JOIN",
        "joinOn": ["write", "write_again"],
        # Conductor counts the silence of a join that it has not touched yet from 1970.
        "taskDefinition": {"name": "join", "responseTimeoutSeconds": 4_000_000_000, "timeoutSeconds": 0},
    }
    workflow = site.operator.begin([fork, join], {}, {"workspace": site.place(before)})
    eventually(partial(_completed, site, workflow), "both twins to complete")
    ended = [each for each in site.operator.tasks(workflow) if each["taskType"] == site.task]
    completed = [each for each in ended if each["status"] == "COMPLETED"]
    refs = {each["outputData"]["workspace"]["ref"] for each in completed}
    assert len(completed) == 2
    assert refs == {site.head()}
    assert site.parents(site.head()) == (before,)
    burnt = [each.get("reasonForIncompletion", "") for each in ended if each["status"].startswith("FAILED")]
    # Known (specs/adr/0044): its name was dropped by the newer twin before it had staged all. It is tried again.
    assert all(each.startswith("staging-failed") for each in burnt), f"a twin burnt an attempt: {burnt}"
    BURNT.extend(burnt)


@pytest.mark.clause("S-41")
def test_a_step_scheduled_twice_is_completed_twice_with_one_commit(
    sites: list[Site], conductor_server: Conductor, lakefs_server: LakeFS
) -> None:
    """conductor-oss #924, #208: two tasks of one step, both current. One failing would fail the workflow."""
    site, count = sites[0], 2 * ABREAST if FULL else 1
    stranger = Stranger(Connection(lakefs_server.url, lakefs_server.access_key, lakefs_server.secret_key))
    with _two_of_one(conductor_server) as address:
        site.configure(address, lakefs_server)
        with site.worker(capacity=count), site.worker(capacity=count):
            _abreast(site.branches(stranger, count), _twins)
    note_count(
        f"{_FILE}::a_step_scheduled_twice",
        f"{ROUNDS} steps scheduled twice on lakeFS and Conductor: {ROUNDS} workflows COMPLETED, one commit each; "
        f"{len(BURNT)} attempt(s) failed on the way, their name dropped by the newer twin while they staged",
    )
