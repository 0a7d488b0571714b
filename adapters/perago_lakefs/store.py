"""The store port on lakeFS: one method, one call of the port, and how many requests it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from perago_core.answers import Answer, NotDoneError
from perago_core.landed import above, landed
from perago_core.names import EVERY, RUNS, branch_of_a_run, is_staging_name, run_of
from perago_core.plan import PublishPlan
from perago_core.policy.messages import Capability
from perago_core.ports import RunBranches, Sink, Source
from perago_core.values import Claim, Commit, CommitRef, Head, Landed, StagedRef, Target
from perago_lakefs import barrier, probe, publish
from perago_lakefs.answers import Problem, answer, is_without_changes
from perago_lakefs.claims import Claims
from perago_lakefs.client import Client, Connection
from perago_lakefs.objects.sink import LakeFSSink, scratch_name
from perago_lakefs.objects.source import LakeFSSource

T = TypeVar("T")

_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,219}")
_COMMIT = re.compile(r"[0-9a-f]{64}")
#: Commits read at once on the way down to an input; seldom more than a few are needed.
_LOG_PAGE = 64


class LakeFSStore(RunBranches):
    """Branches of repositories on a lakeFS server.

    ``repositories``: those in which the probe tries what the server can do; none: all that we may see.
    """

    def __init__(self, connection: Connection, repositories: tuple[str, ...] = ()) -> None:
        self._connection = connection
        self._repositories = repositories
        self._claims = Claims()
        self._first: dict[str, CommitRef] = {}

    def head(self, target: Target) -> Answer[Head | None]:
        """Read the tip in one request, after one that tells whether the branch is dirty: the tip is the later one."""

        def work(client: Client) -> Head | None:
            dirty = client.is_dirty(target.repository, target.branch)
            tip = None if dirty is None else client.tip(target.repository, target.branch)
            return None if dirty is None or tip is None else Head(tip, dirty)

        return self._answer(work)

    def look(self, repository: str, ref: CommitRef) -> Answer[Commit | None]:
        """Read one commit by its id."""
        return self._answer(lambda client: client.commit(repository, ref) if _is_commit_id(ref) else None)

    def since(
        self, repository: str, base: CommitRef, head: CommitRef, prefixes: tuple[str, ...]
    ) -> Answer[tuple[Landed, ...] | None]:
        """List what lies above a commit up to a head, each with paths under the prefixes that differ.

        For disjoint writers that is one page of the log and one comparison for each prefix.
        """

        def work(client: Client) -> tuple[Landed, ...] | None:
            history = client.history(repository, _commit_id(head), _LOG_PAGE)
            commits = above(_commit_id(base), head, lambda _ref: next(history))

            def differing(one: CommitRef, other: CommitRef) -> Iterator[str]:
                for prefix in prefixes:
                    yield from client.differing(repository, one, other, prefix)

            return None if commits is None else landed(commits, base, differing)

        return self._answer(work)

    def read(self, repository: str, ref: CommitRef) -> Source:
        """Return the reader of an immutable commit."""
        return LakeFSSource(self._connection, repository, ref)

    def sink(self, target: Target, name: str) -> Sink:
        """Return the writer of a staging name."""
        return LakeFSSink(self._connection, target.repository, name)

    def open_staging(self, target: Target, name: str, at: CommitRef) -> Answer[None]:
        """Create a hidden branch at a commit; not done if the name exists, whoever made it (P-42)."""
        return self._answer(
            lambda client: client.create_branch(target.repository, _branch_name(name), _commit_id(at)),
        )

    def commit(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit what the sink linked; ``None`` says there was nothing to commit (S-12)."""

        def work(client: Client) -> StagedRef | None:
            # The name makes the commit's id unique: executions that stage the same within a second still differ.
            metadata = {"perago_name": _staging_name(name)}
            try:
                made = client.commit_branch(target.repository, name, message, metadata)
            except Problem as problem:
                if is_without_changes(problem):
                    return None
                raise
            return StagedRef(target.repository, name, made.ref, made.tree)

        return self._answer(work)

    def revert(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit, on a staging name, the content before the commit it stands at: lakeFS takes a tree by its id."""

        def work(client: Client) -> StagedRef | None:
            at = client.tip(target.repository, _staging_name(name))
            before = None if at is None or not at.parents else client.commit(target.repository, at.parents[0])
            if at is None or before is None:
                found = "no such name" if at is None else f"{at.ref}, the first one"
                wrong = f"expected {name} at a commit with something before it, found {found}"
                raise NotDoneError(wrong)
            if before.tree == at.tree:
                return None
            made = client.commit_branch(target.repository, name, message, {"perago_name": name}, before.tree)
            return StagedRef(target.repository, name, made.ref, made.tree)

        return self._answer(work)

    def claim(self, claim: Claim) -> Answer[Claim]:
        """Create the attempt's claim if absent and give the one that stands."""
        return self._answer(lambda client: self._claims.make(client, claim))

    def read_claim(self, claim: Claim) -> Answer[Claim | None]:
        """Read the claim that stands for this claim's attempt."""
        return self._answer(lambda client: self._claims.read(client, claim))

    def claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """List the claim records of one logical task."""
        return self._answer(lambda client: self._claims.of_task(client, target, logical_task))

    def staging_names(self, repository: str, prefix: str = EVERY) -> Answer[tuple[str, ...]]:
        """List the staging names that exist and begin with this."""
        return self._answer(
            lambda client: tuple(
                each.name for each in client.branches(repository, prefix) if is_staging_name(each.name)
            )
        )

    def barrier(self, target: Target) -> Answer[None]:
        """Merge the first commit, which changes nothing; not done on a dirty target."""
        return self._answer(lambda client: barrier.barrier(client, target, self._first_of(client, target)))

    def publish(self, plan: PublishPlan) -> Answer[CommitRef]:
        """Move the target as the plan says and give the published commit."""
        return self._answer(lambda client: publish.publish(client, plan), within=self._connection.publish_timeout)

    def drop(self, target: Target, name: str) -> Answer[None]:
        """Delete a staging name and then its scratch branch, which only the name lets anybody make again."""

        def work(client: Client) -> None:
            client.delete_branch(target.repository, _staging_name(name))
            client.delete_branch(target.repository, scratch_name(name))

        return self._answer(work)

    def probe(self) -> Answer[Capability]:
        """Merge for real on branches made for that, and see every merge refused that must be."""
        return probe.probe(self, self._connection, self._repositories)

    def branch_off(self, target: Target, at: CommitRef) -> Answer[None]:
        """Make the branch of a run at a commit, hidden; not done if there is one."""
        return self._answer(
            lambda client: client.create_branch(
                target.repository, _branch_name(branch_of_a_run(target)), _commit_id(at)
            )
        )

    def run_branches(self, repository: str) -> Answer[tuple[str, ...]]:
        """List the branches of runs."""
        return self._answer(
            lambda client: tuple(
                each.name for each in client.branches(repository, RUNS) if run_of(each.name) is not None
            )
        )

    def remove_branch(self, target: Target) -> Answer[None]:
        """Remove the branch of a run; done also when it is not there."""
        return self._answer(lambda client: client.delete_branch(target.repository, branch_of_a_run(target)))

    def history(self, target: Target, limit: int = 100, at: CommitRef | None = None) -> Answer[tuple[Commit, ...]]:
        """Return the target's commits by first parent, newest first; ``at``: from this one down, not from the head."""

        def work(client: Client) -> tuple[Commit, ...]:
            start = target.branch if at is None else _commit_id(at)
            return tuple(islice(client.history(target.repository, start, limit), limit))

        return self._answer(work)

    def all_claims(self, repository: str) -> Answer[tuple[Claim, ...]]:
        """List the claim records of all tasks, for whoever collects garbage."""
        return self._answer(lambda client: self._claims.every(client, repository))

    def remove_claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """Remove the claims of a settled task whose names are gone and after which a barrier answered (RT-10)."""
        return self._answer(lambda client: self._claims.remove(client, target, logical_task))

    def _first_of(self, client: Client, target: Target) -> CommitRef:
        if target.repository not in self._first:
            self._first[target.repository] = barrier.first_commit(client, target).ref
        return self._first[target.repository]

    def _answer(self, work: Callable[[Client], T], within: float | None = None) -> Answer[T]:
        client = Client(self._connection, within)
        return answer(client, lambda: work(client))


def _branch_name(name: str) -> str:
    """Return a name that a branch may have, or refuse."""
    if _BRANCH.fullmatch(name) is None:
        message = f"{name!r} is no branch name on lakeFS: use letters, digits, '_' and '-', at most 220"
        raise NotDoneError(message)
    return name


def _staging_name(name: str) -> str:
    """Return a name that is ours to write and delete, or refuse: a target is moved by publishing only."""
    if not is_staging_name(name):
        message = f"{name!r} is no staging name: only names made for an execution are written, committed or deleted"
        raise NotDoneError(message)
    return _branch_name(name)


def _is_commit_id(ref: str) -> bool:
    """Return whether this is the full id of a commit. A branch name is none: it means whatever it is at by then."""
    return _COMMIT.fullmatch(ref) is not None


def _commit_id(ref: str) -> CommitRef:
    """Return the full id of a commit, or refuse."""
    if not _is_commit_id(ref):
        message = f"{ref!r} is no commit id: give the 64 digits of a commit, since a branch may move meanwhile"
        raise NotDoneError(message)
    return CommitRef(ref)
