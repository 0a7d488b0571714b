"""Claims: tags, because exactly one of many creates a tag of one name (F-11), and a tag is never moved.

A tag says nothing but which commit it is at. So each claim is written first as a commit of its own that no branch is
at and that carries the claim as its metadata; its id is a digest of the claim. Equal claims are one commit, so writing
it again changes nothing, and whose claim stands is seen by looking at the tag alone. Whoever dies between the two has
claimed nothing.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

from attrs import frozen

from perago_core.answers import NotDoneError
from perago_core.errors import CodecError
from perago_core.machine.codec import dumps, loads
from perago_core.values import Claim, CommitRef, Target
from perago_lakefs.answers import Problem, is_conflict
from perago_lakefs.client import Client

PREFIX = "perago-claim-"
_KEY = "perago_claim"
_REMEMBERED = 10_000
#: Marks in lakeFS's digest of a commit (``commit:v1``, part of its format since its beginning). lakeFS checks it when a
#: commit is written by its id, so a mistake here is refused, never believed.
_BYTES, _STRING, _INT, _STRINGS, _MAP, _EMBEDDED = range(6)


@frozen
class _Record:
    """A claim as a commit."""

    ref: CommitRef
    message: str
    metadata: dict[str, str]


def tag_of(claim: Claim) -> str:
    """Name the tag of one attempt's claim. Every delivery of the attempt shares it: one of them publishes."""
    return f"{_task_prefix(claim.target, claim.logical_task)}{_digest(*claim.key)}"


class Claims:
    """The claims of a server. What a record says never changes, so each is read once by a process."""

    def __init__(self) -> None:
        self._known: OrderedDict[CommitRef, Claim] = OrderedDict()

    def make(self, client: Client, claim: Claim) -> Claim:
        """Make this claim unless another stands; give the claim that stands."""
        repository, record = claim.target.repository, _record(claim)
        self._keep(record.ref, claim)
        _unless_it_exists(lambda: client.create_record(repository, record.ref, record.message, "", record.metadata))
        if _unless_it_exists(lambda: client.create_tag(repository, tag_of(claim), record.ref)):
            return claim
        standing = self.read(client, claim)
        if standing is None:
            raise NotDoneError("the claim that stood a moment ago has been removed: the task is settled")
        return standing

    def read(self, client: Client, claim: Claim) -> Claim | None:
        """Read the claim that stands for this claim's attempt."""
        at = client.tag(claim.target.repository, tag_of(claim))
        return None if at is None else self._record_at(client, claim.target.repository, at)

    def of_task(self, client: Client, target: Target, logical_task: str) -> tuple[Claim, ...]:
        """List the claims of one task, oldest attempt first."""
        found = self._under(client, target.repository, _task_prefix(target, logical_task))
        return tuple(sorted(found, key=lambda claim: (claim.rank, claim.task_id)))

    def every(self, client: Client, repository: str) -> tuple[Claim, ...]:
        """List the claims of all tasks."""
        return tuple(self._under(client, repository, PREFIX))

    def remove(self, client: Client, target: Target, logical_task: str) -> tuple[Claim, ...]:
        """Remove the claims of a settled task whose names are gone and after which a barrier answered (RT-10)."""
        gone = self.of_task(client, target, logical_task)
        for claim in gone:
            client.delete_tag(target.repository, tag_of(claim))
        return gone

    def _under(self, client: Client, repository: str, prefix: str) -> Iterator[Claim]:
        return (self._record_at(client, repository, tag.at) for tag in client.tags(repository, prefix))

    def _record_at(self, client: Client, repository: str, at: CommitRef) -> Claim:
        if at not in self._known:
            self._keep(at, _read(client, repository, at))
        return self._known[at]

    def _keep(self, at: CommitRef, claim: Claim) -> None:
        self._known[at] = claim
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def _task_prefix(target: Target, logical_task: str) -> str:
    return f"{PREFIX}{_digest(target.branch, logical_task)}-"


def _record(claim: Claim) -> _Record:
    message = f"Claim of attempt {claim.number} of {claim.logical_task} by execution {claim.execution}"
    metadata = {_KEY: dumps(claim)}
    # The date is fixed: the same claim, written later, is the same commit.
    return _Record(_parentless("perago", message, "", 0, metadata), message, metadata)


def _read(client: Client, repository: str, at: CommitRef) -> Claim:
    commit = client.commit(repository, at)
    written = "" if commit is None else dict(commit.metadata).get(_KEY, "")
    try:
        return loads(written, Claim)
    except CodecError as problem:
        message = f"expected a claim in commit {at} of {repository}, found none: {problem}"
        raise NotDoneError(message) from problem


def _unless_it_exists(create: Callable[[], None]) -> bool:
    try:
        create()
    except Problem as problem:
        if is_conflict(problem):
            return False
        raise
    return True


def _digest(*parts: str) -> str:
    """Return a short name for a list of texts, another one for every other list."""
    joined = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _parentless(committer: str, message: str, tree: str, created: int, metadata: Mapping[str, str]) -> CommitRef:
    """Return the id of a commit without parents."""
    said = b"".join(
        (
            _string("commit:v1"),
            _string(committer),
            _string(message),
            _string(tree),
            _int(created),
            bytes((_MAP,)) + _int(len(metadata)),
            *(_string(key) + _string(metadata[key]) for key in sorted(metadata)),
            bytes((_EMBEDDED,)) + _bytes(hashlib.sha256(bytes((_STRINGS,)) + _int(0)).digest()),
        )
    )
    return CommitRef(hashlib.sha256(said).hexdigest())


def _int(value: int) -> bytes:
    return bytes((_INT, 8)) + value.to_bytes(8, "big", signed=True)


def _bytes(value: bytes) -> bytes:
    return bytes((_BYTES,)) + _int(len(value)) + value


def _string(value: str) -> bytes:
    said = value.encode()
    return bytes((_STRING,)) + _int(len(said)) + said
