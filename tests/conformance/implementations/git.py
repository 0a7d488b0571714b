"""The store on git joins the suites. A stranger is the git command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from attrs import frozen

from perago_conformance.harness import Recipe, StoreHarness, StoreTraits
from perago_core.answers import Done
from perago_core.plan import PlanKind
from perago_core.policy.messages import Capability
from perago_core.ports import Store
from perago_core.values import Backing, CommitRef, Target
from perago_local.git.store import GitStore
from tests.conformance.opener import Opener

TRAITS = StoreTraits(
    backings=frozenset(Backing),
    checks_head=frozenset(PlanKind),
    revocable=True,
    raises_claims=True,
    probe=Capability.ATOMIC,
    uncommitted=False,
    holds_runs=True,
)
STRANGER = {f"GIT_{role}_{what}": "stranger" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *arguments: str, given: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
    """Run git as a stranger would and give what it wrote."""
    command = ["git", f"--git-dir={folder}", *arguments]
    surroundings = {**os.environ, **STRANGER, **(environment or {})}
    done = subprocess.run(command, input=given, capture_output=True, check=False, env=surroundings)  # noqa: S603  no shell
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def commit_with_git(folder: Path, branch: str, files: Mapping[str, bytes | None]) -> CommitRef:
    """Commit on top of a branch with the git command line alone."""
    index = {"GIT_INDEX_FILE": str(folder / "stranger-index")}
    git(folder, "read-tree", branch, environment=index)
    for path, data in files.items():
        if data is None:
            git(folder, "rm", "--cached", "--quiet", path, environment={**index, "GIT_WORK_TREE": str(folder)})
        else:
            blob = git(folder, "hash-object", "-w", "--stdin", given=data).decode().strip()
            git(folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", environment=index)
    tree = git(folder, "write-tree", environment=index).decode().strip()
    commit = git(folder, "commit-tree", tree, "-p", branch, "-m", "by a stranger").decode().strip()
    git(folder, "update-ref", f"refs/heads/{branch}", commit)
    return CommitRef(commit)


@frozen
class GitHarness:
    root: Path
    port: GitStore
    traits: StoreTraits = TRAITS

    @property
    def recipe(self) -> Recipe[Store]:
        return partial(GitStore, self.root)

    def create(self, target: Target, files: Mapping[str, bytes]) -> CommitRef:
        made = self.port.create(target, files)
        assert isinstance(made, Done), made
        return made.value

    def stranger_commits(self, target: Target, files: Mapping[str, bytes | None]) -> CommitRef:
        return commit_with_git(self._folder(target.repository), target.branch, files)

    def stranger_leaves_uncommitted(self, target: Target) -> None:
        raise AssertionError(f"a bare repository carries nothing uncommitted: {target}")

    def branches(self, repository: str) -> frozenset[str]:
        listed = git(self._folder(repository), "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
        return frozenset(listed.decode().split())

    def read_file(self, repository: str, ref: str, path: str) -> bytes | None:
        folder = self._folder(repository)
        command = ["git", f"--git-dir={folder}", "cat-file", "blob", f"{ref}:{path}"]
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  no shell
        return done.stdout if done.returncode == 0 else None

    def _folder(self, repository: str) -> Path:
        return self.root / f"{repository}.git"


@contextmanager
def _opened(folder: Path) -> Generator[StoreHarness]:
    yield GitHarness(folder, GitStore(folder))


STORES: Mapping[str, Opener[StoreHarness]] = {"git": _opened}
