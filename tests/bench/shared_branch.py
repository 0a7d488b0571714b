"""How many publications a second one branch takes from many writers that declare what they read and write.

Beside it, on the same server and in one run: merges alone, one after the other, of work that was staged before, which
is as fast as a branch can move; whole publications (branch, upload, commit, merge, delete), one after the other;
and as many writers with ``transact`` of the ``lakefs`` package. On the embedded store: git's command line.

.venv/bin/python -m tests.bench.shared_branch
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Any

from attrs import define, field

from perago_clock import MachineClock
from perago_conformance.support import done
from perago_core import Attempt, Completed, Ports, drive
from perago_core.answers import Answer
from perago_core.ports import Sink, Store
from perago_core.results import Failed
from perago_core.values import Backing, CommitRef, Scope, Target, TaskStatus
from perago_local.git.store import GitStore
from perago_worker.folders.transfer import Direct
from perago_worker.runtime.turns import ProcessTurns
from tests.bench.git_store import publish_with_git
from tests.bench.lakefs_others import others
from tests.conformance.implementations.git import GitHarness
from tests.lakefs.scene import Body, Scene, ToldOrchestrator
from tests.support.lakefs.lake import Lake
from tests.support.servers.environments import PackagesMissingError
from tests.support.servers.lakefs import LAKEFS, LakeFS

WRITERS, EACH = 16, 8
#: Seconds an attempt has; nobody here comes near.
_LONG = 600.0
_TRIES = 50


class Written(Body):
    """A body whose files are sent as a worker sends them: in one request where the sink can, else put and linked."""

    def upload(self, attempt: Attempt, sink: Sink) -> Answer[None]:
        if isinstance(sink, Direct):
            return super().upload(attempt, sink)
        return sink.link(tuple(done(sink.put(path, BytesIO(data))) for path, data in self.files.items()))


@define
class Writers:
    """Writers of one branch, each with a folder of its own, and what became of their attempts."""

    store: Store
    target: Target
    first: CommitRef
    backing: Backing
    orchestrator: ToldOrchestrator = field(factory=ToldOrchestrator)
    refused: Counter[str] = field(factory=Counter[str])
    turns: ProcessTurns = field(factory=ProcessTurns)

    def publish_all(self) -> float:
        """Let each publish its share, all at once, and give publications a second."""
        begun = time.perf_counter()
        with ThreadPoolExecutor(WRITERS) as pool:
            for ended in [pool.submit(self._publish_share, number) for number in range(WRITERS)]:
                ended.result()
        return WRITERS * EACH / (time.perf_counter() - begun)

    def _publish_share(self, number: int) -> None:
        ref = self.first
        for turn in range(EACH):
            ref = self._publish(f"w{number}", f"wf{number}/step{turn}", ref)

    def _publish(self, folder: str, task: str, ref: CommitRef) -> CommitRef:
        number, orchestrator, workspace = 0, self.orchestrator, Written({f"{folder}/file": token_hex(8).encode()})
        ports_of: Any = {"orchestrator": orchestrator, "workspace": workspace}
        while number < _TRIES:
            number += 1
            attempt = Attempt(
                workflow_id="wf",
                # An id that a staging name can hold: of another one nobody knows whether its task has ended.
                task_id=f"{task.replace('/', '-')}-{number}",
                retry_count=number - 1,
                logical_task=task,
                number=number,
                execution=token_hex(8),
                target=self.target,
                input=ref,
                backing=self.backing,
                scope=Scope((), (f"{folder}/",)),
            )
            orchestrator.assign(attempt)
            until = time.monotonic() + _LONG
            ports = Ports(store=self.store, clock=MachineClock(), **ports_of)
            result = drive(attempt, ports, attempt_until=lambda: until, turns=self.turns).result  # noqa: B023  over before the next one
            if isinstance(result, Completed):
                return result.ref
            assert isinstance(result, Failed), result
            self.refused[result.refusal.classification.value] += 1
            orchestrator.end(attempt.task_id, TaskStatus.FAILED)
        message = f"{task} was refused {number} times: {dict(self.refused)}"
        raise AssertionError(message)


def _staged(scene: Scene, number: int) -> Target:
    """Stage one file on a branch, as anybody does."""
    branch = Target(scene.target.repository, f"raw-{number}")
    scene.stranger.create_branch(branch, scene.target.branch)
    # A path of its own: all of them begin at one commit, where who writes the same again would conflict.
    scene.stranger.commits(branch, {f"raw{number}/file": token_hex(8).encode()})
    return branch


def _merge(scene: Scene, branch: Target) -> None:
    place = f"/repositories/{branch.repository}/refs/{branch.branch}/merge/{scene.target.branch}"
    scene.stranger.get("POST", place, body={})


def raw_merges(scene: Scene) -> float:
    """Merge what was staged before, one after the other, with nothing else in between; give merges a second."""
    branches = [_staged(scene, number) for number in range(WRITERS * EACH)]
    begun = time.perf_counter()
    for each in branches:
        _merge(scene, each)
    return len(branches) / (time.perf_counter() - begun)


def raw_publications(scene: Scene) -> float:
    """Stage, merge and delete, one after the other; give publications a second."""
    begun = time.perf_counter()
    for number in range(WRITERS * EACH):
        branch = _staged(scene, number)
        _merge(scene, branch)
        scene.stranger.get("DELETE", f"/repositories/{branch.repository}/branches/{branch.branch}")
    return WRITERS * EACH / (time.perf_counter() - begun)


def transactions(server: LakeFS) -> float:
    """Let as many writers publish with ``transact``, all at once; give publications a second."""
    lake = Lake.on(server)
    ref = lake.commit({f"w{number}/file": b"first" for number in range(WRITERS)})
    with others() as order:
        return WRITERS * EACH / order("transact_abreast", lake, ref, {"writers": WRITERS, "each": EACH})


def on_lakefs(server: LakeFS) -> None:
    """Print every way on one server, each in a repository of its own."""
    scene = Scene.on(server)
    writers = Writers(scene.store, scene.target, scene.input, Backing.CONDITIONAL)
    ours = writers.publish_all()
    assert len(scene.history()) == WRITERS * EACH + 1
    ways: dict[str, Callable[[], float]] = {
        "merges alone, one by one": lambda: raw_merges(Scene.on(server, hooked=False)),
        "publications, one by one": lambda: raw_publications(Scene.on(server, hooked=False)),
        f"transact, {WRITERS} writers": lambda: transactions(server),
    }
    print(f"{WRITERS * EACH} publications by {WRITERS} writers onto one branch of lakeFS:")
    print(f"  ours, {WRITERS} writers         {ours:7.1f}/s, tried again {dict(writers.refused)}")
    for name, way in ways.items():
        try:
            theirs = way()
        except PackagesMissingError as missing:
            print(f"  {name:<24} not measured: {missing}")
        else:
            print(f"  {name:<24} {theirs:7.1f}/s, ours is {ours / theirs:5.2f}x")


def on_git() -> None:
    """Print the same on the embedded store, beside git's command line one by one."""
    with tempfile.TemporaryDirectory() as root:
        harness = GitHarness(Path(root), GitStore(Path(root)))
        ours, theirs = Target("ours", "main"), Target("theirs", "main")
        for target in (ours, theirs):
            harness.create(target, {"part-7/1007.csv": b"first"})
        head = harness.port.head(ours)
        first: Any = head
        writers = Writers(harness.port, ours, first.value.commit.ref, Backing.ATOMIC)
        found = writers.publish_all()
        begun = time.perf_counter()
        for number in range(WRITERS * EACH):
            publish_with_git(Path(root) / "theirs.git", f"bench-{number}", b"%d" % number)
        plain = WRITERS * EACH / (time.perf_counter() - begun)
    print(f"{WRITERS * EACH} publications by {WRITERS} writers onto one branch of the embedded store:")
    print(f"  ours, {WRITERS} writers         {found:7.1f}/s, tried again {dict(writers.refused)}")
    print(f"  git's command line       {plain:7.1f}/s, ours is {found / plain:5.2f}x")


def main() -> None:
    """Print every figure."""
    on_git()
    if not LAKEFS.is_there():
        print("lakeFS is not measured: it was never obtained here. Run: make servers")
        return
    with tempfile.TemporaryDirectory() as folder, LakeFS(folder=Path(folder)) as server:
        on_lakefs(server)


if __name__ == "__main__":
    main()
