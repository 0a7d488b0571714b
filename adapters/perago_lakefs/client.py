"""The requests we send to lakeFS: one method, one request, typed, counted, each with a time-out.

What is missing is ``None`` where a call asks for it; every other answer than the good one is raised, for ``answers`` to
judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Any, TypeVar

from attrs import frozen
from lakefs_sdk.models.branch_creation import BranchCreation
from lakefs_sdk.models.commit_creation import CommitCreation
from lakefs_sdk.models.commit_record_creation import CommitRecordCreation
from lakefs_sdk.models.merge import Merge
from lakefs_sdk.models.repository_creation import RepositoryCreation
from lakefs_sdk.models.tag_creation import TagCreation

from perago_core.values import Commit, CommitRef
from perago_lakefs.answers import Problem, Refused, is_missing
from perago_lakefs.connection import Connection

T = TypeVar("T")

#: The most lakeFS gives at once.
PAGE = 1000


@frozen
class Named:
    """A branch or a tag, and the commit it is at."""

    name: str
    at: CommitRef


class Wire:
    """Sends the requests of one call of the port. Made for each call, so that its requests can be counted.

    ``within``: seconds that all of them have together, from now on. Then each is sent once, reads too, and none later.
    """

    def __init__(self, connection: Connection, within: float | None = None) -> None:
        self._began = monotonic()
        self._within = within
        self._connection = connection
        self._clients = connection.clients() if within is None else connection.clients().once()
        self.sent = 0

    # Reading

    def commit(self, repository: str, ref: str) -> Commit | None:
        """Read one commit."""
        return self._found(lambda: _commit(self._read(self._clients.reads.commits_api.get_commit, repository, ref)))

    def tip(self, repository: str, branch: str) -> Commit | None:
        """Read the commit a branch is at, with its parents and its tree, in one go."""
        found = self._found(lambda: self.log(repository, branch, amount=1))
        return found[0] if found else None

    def log(self, repository: str, ref: str, *, amount: int = PAGE, after: str = "") -> tuple[Commit, ...]:
        """Give commits by first parent, newest first."""
        given = {"amount": amount, "after": after, "first_parent": True, "limit": True}
        listed = self._read(self._clients.reads.refs_api.log_commits, repository, ref, **given)
        return tuple(map(_commit, listed.results))

    def history(self, repository: str, ref: str, limit: int) -> Iterator[Commit]:
        """Give commits by first parent, newest first, down to the first one, in pages as large as they are needed."""
        at: str | None = ref
        while at is not None:
            page = self.log(repository, at, amount=min(limit, PAGE))
            yield from page
            at = page[-1].parents[0] if page[-1].parents else None

    def is_dirty(self, repository: str, branch: str) -> bool | None:
        """Say whether a branch carries uncommitted objects; ``None``: there is no such branch."""
        diff = self._clients.reads.branches_api.diff_branch
        return self._found(lambda: bool(self._read(diff, repository, branch, amount=1).results))

    def checksum(self, repository: str, ref: str, path: str) -> str | None:
        """Give the checksum of an object."""
        stat = self._clients.reads.objects_api.stat_object
        return self._found(lambda: str(self._read(stat, repository, ref, path, user_metadata=False).checksum))

    def tag(self, repository: str, name: str) -> CommitRef | None:
        """Give the commit a tag is at."""
        get = self._clients.reads.tags_api.get_tag
        return self._found(lambda: CommitRef(self._read(get, repository, name).commit_id))

    def tags(self, repository: str, prefix: str) -> Iterator[Named]:
        """List the tags whose name begins like this."""
        return self._listed(self._clients.reads.tags_api.list_tags, repository, prefix)

    def branch(self, repository: str, name: str) -> CommitRef | None:
        """Give the commit a branch is at."""
        get = self._clients.reads.branches_api.get_branch
        return self._found(lambda: CommitRef(self._read(get, repository, name).commit_id))

    def branches(self, repository: str, prefix: str = "") -> Iterator[Named]:
        """List the branches whose name begins like this, hidden ones too."""
        return self._listed(self._clients.reads.branches_api.list_branches, repository, prefix, show_hidden=True)

    def default_branch(self, repository: str) -> str | None:
        """Name the branch a repository was made with."""
        get = self._clients.reads.repositories_api.get_repository
        return self._found(lambda: str(self._read(get, repository).default_branch))

    def repositories(self) -> tuple[str, ...]:
        """Name the repositories we may see, as many as come at once."""
        found = self._read(self._clients.reads.repositories_api.list_repositories, amount=PAGE)
        return tuple(str(each.id) for each in found.results)

    def protected(self, repository: str) -> tuple[str, ...]:
        """Give the patterns of the branches that are protected."""
        found = self._read(self._clients.reads.repositories_api.get_branch_protection_rules, repository)
        return tuple(str(each.pattern) for each in found)

    # Changing

    def create_repository(self, name: str, namespace: str, branch: str) -> None:
        """Create a repository whose data lies in a namespace of its own."""
        creation = RepositoryCreation(
            name=name,
            storage_id=None,
            storage_namespace=namespace,
            default_branch=branch,
            sample_data=None,
            read_only=None,
        )
        self._change(self._clients.changes.repositories_api.create_repository, creation)

    def create_branch(self, repository: str, name: str, at: str) -> None:
        """Create a hidden branch at a commit."""
        creation = BranchCreation(name=name, source=at, hidden=True)
        self._change(self._clients.changes.branches_api.create_branch, repository, creation)

    def delete_branch(self, repository: str, name: str) -> None:
        """Delete a branch; if it is not there, it need not be."""
        delete = self._clients.changes.branches_api.delete_branch
        self._found(lambda: self._change(delete, repository, name))

    def create_tag(self, repository: str, name: str, at: str) -> None:
        """Create a tag at a commit."""
        self._change(self._clients.changes.tags_api.create_tag, repository, TagCreation(id=name, ref=at))

    def delete_tag(self, repository: str, name: str) -> None:
        """Delete a tag; if it is not there, it need not be."""
        delete = self._clients.changes.tags_api.delete_tag
        self._found(lambda: self._change(delete, repository, name))

    def create_record(self, repository: str, ref: str, message: str, tree: str, metadata: Mapping[str, str]) -> None:
        """Write a commit that no branch is at; its id must be what its content says."""
        record = CommitRecordCreation(
            commit_id=ref,
            version=1,
            committer="perago",
            message=message,
            metarange_id=tree,
            creation_date=0,
            parents=[],
            metadata=dict(metadata),
            generation=1,
        )
        self._change(self._clients.changes.internal_api.create_commit_record, repository, record)

    def upload(self, repository: str, branch: str, path: str, content: bytes) -> None:
        """Write one small object."""
        upload = self._clients.changes.objects_api.upload_object
        self._change(upload, repository, branch, path, content=content)

    def commit_branch(self, repository: str, branch: str, message: str, metadata: Mapping[str, str]) -> Commit:
        """Commit what a branch carries uncommitted."""
        creation = CommitCreation(message=message, metadata=dict(metadata), date=None, allow_empty=None)
        return _commit(self._change(self._clients.changes.commits_api.commit, repository, branch, creation))

    def merge(self, repository: str, source: str, branch: str, message: str, metadata: Mapping[str, str]) -> CommitRef:
        """Merge into a branch as one commit whose only parent is the branch's head."""
        said = dict(metadata)
        merge = Merge(message=message, metadata=said, strategy=None, force=None, allow_empty=None, squash_merge=True)
        send = self._clients.changes.refs_api.merge_into_branch
        return CommitRef(self._move(send, repository, source, branch, merge).reference)

    def hard_reset(self, repository: str, branch: str, to: str) -> None:
        """Move a branch to wherever a name is, whatever it was at before."""
        send = self._clients.changes.experimental_api.hard_reset_branch
        self._move(send, repository, branch, to)

    # How

    def _listed(self, call: Callable[..., Any], repository: str, prefix: str, **given: object) -> Iterator[Named]:
        after, more = "", True
        while more:
            page = self._read(call, repository, prefix=prefix, after=after, amount=PAGE, **given)
            yield from (Named(str(each.id), CommitRef(each.commit_id)) for each in page.results)
            after, more = page.pagination.next_offset, page.pagination.has_more

    def _found(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Problem as problem:
            if is_missing(problem):
                return None
            raise

    def _read(self, call: Callable[..., Any], *given: object, **named: object) -> Any:  # noqa: ANN401  as the SDK
        return self._send(self._connection.timeout, call, *given, **named)

    def _change(self, call: Callable[..., Any], *given: object, **named: object) -> Any:  # noqa: ANN401  as the SDK
        return self._send(self._connection.timeout, call, *given, **named)

    def _move(self, call: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401  as the SDK
        return self._send(self._connection.publish_timeout, call, *given)

    def _send(self, timeout: float, call: Callable[..., Any], *given: object, **named: object) -> Any:  # noqa: ANN401  as the SDK
        if self._within is not None:
            timeout = min(timeout, self._left(self._within))
        self.sent += 1
        return call(*given, **named, _request_timeout=timeout)

    def _left(self, within: float) -> float:
        left = within - (monotonic() - self._began)
        if left <= 0:
            message = (
                f"expected a check that leaves time to send what it is for within {within:g} s, found them used up: it "
                "was not sent. Try again; if this repeats, raise publish_timeout, or find out why lakeFS is slow"
            )
            raise Refused(message)
        return left


def _commit(found: Any) -> Commit:  # noqa: ANN401  as the SDK
    parents = tuple(CommitRef(parent) for parent in found.parents)
    said: dict[str, str] = found.metadata or {}
    metadata = tuple(sorted(said.items()))
    return Commit(CommitRef(found.id), parents, found.meta_range_id or "-", found.message, metadata)
