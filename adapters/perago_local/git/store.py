"""The store port on git, and what its users need beside the port: making repositories, looking at history and names."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pygit2

from perago_core.answers import Answer, Done, NotDone, NotDoneError
from perago_core.landed import above, landed
from perago_core.names import branch_of_a_run, run_of
from perago_core.plan import PublishPlan
from perago_core.policy.messages import Capability
from perago_core.ports import BranchCreator, RunBranches, SeveralTargets
from perago_core.values import Claim, Commit, CommitRef, Head, Landed, StagedRef, Target
from perago_local.git import claims, objects, publish, staging, trees
from perago_local.git.access import GitSink, GitSource
from perago_local.git.answers import DAMAGED, answer
from perago_local.git.probe import probe
from perago_local.git.repository import (
    HEADS,
    PACKED,
    commit_at,
    create,
    described_commit,
    folder_of,
    head_ref,
    needed,
    new_commit,
    opened,
    refs_under,
    target_of,
)
from perago_local.git.tickets import Moves, exclusively, finish_moves

#: How many seconds one writer may keep the others waiting before they go on without it.
PATIENCE = 5.0


def _changed(path: Path) -> float:
    """Return the modification time; infinity for what its owner has just removed, so that it is left alone."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


class GitStore(BranchCreator, RunBranches, SeveralTargets):
    """The bare repositories in one folder: repository ``lake`` is ``<root>/lake.git``."""

    def __init__(self, root: Path, patience: float = PATIENCE) -> None:
        self._root = root.resolve()
        self._patience = patience

    def head(self, target: Target) -> Answer[Head | None]:
        """Read the tip of the target; a bare repository never carries uncommitted objects."""

        def work() -> Head | None:
            if not folder_of(self._root, target.repository).exists():
                return None
            repository = self._opened(target.repository)
            finish_moves(repository, self._patience)
            tip = target_of(repository, head_ref(target.branch))
            if tip is None:
                return None
            found = commit_at(repository, CommitRef(str(tip)))
            if found is None:
                message = f"{target} names commit {tip}, which is not there. {DAMAGED}"
                raise NotDoneError(message)
            return Head(described_commit(found))

        return answer(work)

    def look(self, repository: str, ref: CommitRef) -> Answer[Commit | None]:
        """Read one commit by its id."""

        def work() -> Commit | None:
            found = commit_at(self._opened(repository), ref)
            return None if found is None else described_commit(found)

        return answer(work)

    def since(
        self, repository: str, base: CommitRef, head: CommitRef, prefixes: tuple[str, ...]
    ) -> Answer[tuple[Landed, ...] | None]:
        """List what lies above a commit up to a head, each with paths under the prefixes that differ."""

        def work() -> tuple[Landed, ...] | None:
            opened = self._opened(repository)
            commits = above(base, head, lambda ref: described_commit(needed(opened, ref)))

            def differing(one: CommitRef, other: CommitRef) -> Iterator[str]:
                left, right = (needed(opened, ref).tree_id for ref in (one, other))
                for prefix in prefixes:
                    yield from trees.differing(opened, left, right, prefix)

            return None if commits is None else landed(commits, base, differing)

        return answer(work)

    def read(self, repository: str, ref: CommitRef) -> GitSource:
        """Open a commit for reading."""
        return GitSource(self._root, repository, ref)

    def sink(self, target: Target, name: str) -> GitSink:
        """Open a staging name for writing."""
        return GitSink(self._root, target.repository, name, self._patience)

    def open_staging(self, target: Target, name: str, at: CommitRef) -> Answer[None]:
        """Create the staging name at a commit; not done if the name exists, whoever made it (P-42)."""
        return answer(lambda: staging.make(self._opened(target.repository), name, at, self._patience))

    def commit(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit what the sink linked; ``None`` says there was nothing to commit (S-12)."""
        return answer(
            lambda: staging.commit(self._opened(target.repository), target.repository, name, message, self._patience)
        )

    def revert(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit, on a staging name, the content before the commit it stands at."""
        return answer(
            lambda: staging.revert(self._opened(target.repository), target.repository, name, message, self._patience)
        )

    def claim(self, claim: Claim) -> Answer[Claim]:
        """Create the attempt's claim if absent and raise the task's claim strictly upward."""
        return answer(lambda: claims.make(self._opened(claim.target.repository), claim, self._patience))

    def read_claim(self, claim: Claim) -> Answer[Claim | None]:
        """Read the claim that stands for this claim's attempt."""
        return answer(lambda: claims.record(self._opened(claim.target.repository), claim))

    def claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """List the claim records of one logical task."""
        return answer(lambda: claims.records(self._opened(target.repository), target, logical_task))

    def staging_names(self, repository: str, prefix: str = "") -> Answer[tuple[str, ...]]:
        """List the staging names that exist and begin with this."""
        return answer(lambda: staging.names(self._opened(repository), prefix))

    def barrier(self, target: Target) -> Answer[None]:
        """Take a turn: whoever began before has ended by then, or is revoked and cannot move anything (ST-5)."""

        def work(moves: Moves) -> None:
            if moves.read(head_ref(target.branch)) is None:
                message = f"expected branch {target}, found none: correct the target"
                raise NotDoneError(message)

        return answer(lambda: exclusively(self._opened(target.repository), (), work, self._patience))

    def publish(self, plan: PublishPlan) -> Answer[CommitRef]:
        """Move the target as the plan says and give the published commit."""
        together = self.moves_together((plan.target, *(each.target for each in plan.along)))
        if not isinstance(together, Done):
            return together
        return answer(lambda: publish.publish(self._opened(plan.target.repository), plan, self._patience))

    def moves_together(self, targets: tuple[Target, ...]) -> Answer[None]:
        """Say whether these branches can move in one step: a journal is of one repository."""
        repositories = sorted({each.repository for each in targets})
        if len(repositories) == 1:
            return Done(None)
        found = ", ".join(repositories)
        return NotDone(
            f"expected several targets to be branches of one repository on the store in local folders, found {found}: "
            "use branches of one of them, or a bucket as the store, which moves branches of several"
        )

    def drop(self, target: Target, name: str) -> Answer[None]:
        """Delete a staging name; done also when it is not there."""
        return answer(lambda: staging.drop(self._opened(target.repository), name, self._patience))

    def probe(self) -> Answer[Capability]:
        """Publish for real in a repository made for that, and see every publication refused that must be."""
        self.sweep()
        return probe(GitStore, self._root, self._patience)

    def create(self, target: Target, files: Mapping[str, bytes] | None = None) -> Answer[CommitRef]:
        """Make the branch at a first commit that holds these files, and its repository if there is none."""

        def work() -> CommitRef:
            folder = folder_of(self._root, target.repository)
            if not folder.exists():
                create(folder, target.branch)
            repository = opened(folder)
            blobs = {
                trees.split_path(path): objects.write(repository, io.BytesIO(data))[0]
                for path, data in (files or {}).items()
            }
            tree = trees.changed(repository, repository.TreeBuilder().write(), blobs)
            first = new_commit(repository, tree, [], f"Create {target.branch}", "perago")

            ref = head_ref(target.branch)

            def begin(moves: Moves) -> CommitRef:
                # Git cannot have ``a`` beside ``a/b``: one is a file where the other is a folder.
                taken = [each for each in refs_under(repository, HEADS) if f"{each}/".startswith(f"{ref}/")]
                taken += [each for each in refs_under(repository, HEADS) if ref.startswith(f"{each}/")]
                if taken:
                    message = (
                        f"branch {target} exists already, or {taken[0]} is in its way: use it, or take another name"
                    )
                    raise NotDoneError(message)
                moves.move(ref, first)
                return CommitRef(str(first))

            return exclusively(repository, (ref,), begin, self._patience)

        return answer(work)

    def branch_off(self, target: Target, at: CommitRef) -> Answer[None]:
        """Make the branch of a run at a commit; not done if there is one."""

        def work() -> None:
            repository, ref = self._opened(target.repository), head_ref(branch_of_a_run(target))
            commit = needed(repository, at)

            def begin(moves: Moves) -> None:
                if moves.read(ref) is not None:
                    message = f"branch {target} exists already: use it, or take another name"
                    raise NotDoneError(message)
                moves.move(ref, commit.id)

            exclusively(repository, (ref,), begin, self._patience)

        return answer(work)

    def run_branches(self, repository: str) -> Answer[tuple[str, ...]]:
        """List the branches of runs."""

        def work() -> tuple[str, ...]:
            found = (each.removeprefix(HEADS) for each in refs_under(self._opened(repository), HEADS))
            return tuple(each for each in found if run_of(each) is not None)

        return answer(work)

    def remove_branch(self, target: Target) -> Answer[None]:
        """Remove the branch of a run; done also when it is not there."""

        def work() -> None:
            ref = head_ref(branch_of_a_run(target))
            gone = self._opened(target.repository)
            exclusively(gone, (PACKED, ref), lambda moves: moves.delete((ref,)), self._patience)

        return answer(work)

    def history(self, target: Target, limit: int = 100, at: CommitRef | None = None) -> Answer[tuple[Commit, ...]]:
        """List the target's commits by first parent, newest first; ``at``: from this one down, not from the head."""

        def work() -> tuple[Commit, ...]:
            repository = self._opened(target.repository)
            finish_moves(repository, self._patience)
            tip = target_of(repository, head_ref(target.branch))
            found: list[Commit] = []
            here = at or (None if tip is None else str(tip))
            while here is not None and len(found) < limit:
                found.append(described_commit(needed(repository, here)))
                here = next(iter(found[-1].parents), None)
            return tuple(found)

        return answer(work)

    def all_claims(self, repository: str) -> Answer[tuple[Claim, ...]]:
        """List the claim records of all tasks, for whoever collects garbage."""
        return answer(lambda: claims.every(self._opened(repository)))

    def remove_claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """Remove the claims of a settled task whose names are gone and after which a barrier answered (RT-10)."""
        return answer(lambda: claims.remove(self._opened(target.repository), target, logical_task, self._patience))

    def sweep(self, older_than: float = 3600.0) -> tuple[str, ...]:
        """Remove what a killed process has left: of a probe, of a new repository, of a content it was writing."""
        latest = time.time() - older_than
        patterns = (".probe-*", ".making-*", f"*.git/objects/{objects.HALF}*")
        found = [each for pattern in patterns for each in self._root.glob(pattern)]
        stale = [each for each in found if _changed(each) <= latest]
        for each in stale:
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)
        return tuple(each.name for each in stale)

    def _opened(self, repository: str) -> pygit2.Repository:
        return opened(folder_of(self._root, repository))
