"""Publishing one changed file among 2,000 on the embedded store, beside the same steps with the git command line.

Ours does more: it claims, checks head and claim in the step that moves the branch, and survives being stopped there.

.venv/bin/python -m tests.bench.git_store
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from attrs import frozen

from perago_conformance.harness import StoreHarness
from perago_conformance.support import attempt_at, done, head_of, plan_for, stage
from perago_core.values import Attempt, Backing, CommitRef, Target
from perago_local.git.store import GitStore
from tests.conformance.implementations.git import GitHarness, git

FILES = {f"part-{index % 40}/{index}.csv": b"%d\n" % index for index in range(2000)}
CHANGED = "part-7/1007.csv"
ROUNDS = 30


@frozen
class Figures:
    """Median milliseconds of one publication, and ours as a multiple of git's."""

    ours: float
    git: float

    @property
    def ratio(self) -> float:
        return self.ours / self.git


def publish_with_git(folder: Path, name: str, data: bytes) -> None:
    """Do it with the fewest git commands that stage on a branch of their own and move the target conditionally."""
    index = {"GIT_INDEX_FILE": str(folder / "bench-index")}
    head = _ask(folder, "rev-parse", "refs/heads/main")
    git(folder, "update-ref", f"refs/heads/{name}", head, "")
    blob = git(folder, "hash-object", "-w", "--stdin", given=data).decode().strip()
    git(folder, "read-tree", head, environment=index)
    git(folder, "update-index", "--cacheinfo", f"100644,{blob},{CHANGED}", environment=index)
    tree = git(folder, "write-tree", environment=index).decode().strip()
    commit = _ask(folder, "commit-tree", tree, "-p", head, "-m", "staged")
    git(folder, "update-ref", f"refs/heads/{name}", commit, head)
    git(folder, "update-ref", "refs/heads/main", commit, head)
    git(folder, "update-ref", "-d", f"refs/heads/{name}")


def _ask(folder: Path, *arguments: str) -> str:
    return git(folder, *arguments).decode().strip()


def publish_with_ours(harness: StoreHarness, target: Target, number: int, data: bytes) -> None:
    """Do what an attempt does under ``atomic``: open, put, link, commit, claim, observe, publish, drop."""
    attempt: Attempt = attempt_at(
        CommitRef(head_of(harness, target)), backing=Backing.ATOMIC, task=f"wf/{number}", target=target
    )
    plan = plan_for(harness, attempt, stage(harness, attempt, {CHANGED: data}))
    done(harness.port.publish(plan))
    done(harness.port.drop(target, attempt.staging_name))


def figures(rounds: int = ROUNDS) -> Figures:
    """Measure both in turns, so that noise hits both alike."""
    with TemporaryDirectory() as root:
        harness = GitHarness(Path(root), GitStore(Path(root)))
        ours, theirs = Target("ours", "main"), Target("theirs", "main")
        for target in (ours, theirs):
            harness.create(target, FILES)
        folder = Path(root) / "theirs.git"
        taken: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            data = b"changed %d\n" % number
            taken[0].append(milliseconds(lambda: publish_with_ours(harness, ours, number, data)))  # noqa: B023  runs now
            taken[1].append(milliseconds(lambda: publish_with_git(folder, f"bench-{number}", data)))  # noqa: B023  runs now
        return Figures(median(taken[0]), median(taken[1]))


def milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def main() -> None:
    """Print the figures."""
    found = figures()
    print("publish one changed file among 2,000, embedded store:")
    print(f"  git command line {found.git:6.2f} ms")
    print(f"  ours             {found.ours:6.2f} ms = {found.ratio:4.2f}x")


if __name__ == "__main__":
    main()
