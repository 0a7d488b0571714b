"""Claims: tags, because exactly one of many creates a tag of one name (F-11), and a tag is never moved.

A tag says nothing but which commit it is at. So each claim is written first as a commit of its own that no branch is
at and that carries the claim as its metadata; its id is a digest of the claim. Equal claims are one commit, so writing
it again changes nothing, and whose claim stands is seen by looking at the tag alone. Whoever dies between the two has
claimed nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from attrs import frozen

from perago_core.errors import CodecError
from perago_core.machine.codec import dumps, loads
from perago_core.values import Claim, CommitRef, Target
from perago_lakefs.addresses import digest, parentless
from perago_lakefs.answers import Problem, Refused, status_of
from perago_lakefs.client import Wire

PREFIX = "perago-claim-"
_KEY = "perago_claim"
_EXISTS = 409
_KEPT = 10_000


@frozen
class _Record:
    """A claim as a commit."""

    ref: CommitRef
    message: str
    metadata: dict[str, str]


def tag_of(claim: Claim) -> str:
    """Name the tag of one attempt's claim. Every delivery of the attempt shares it: one of them publishes."""
    return f"{_task_prefix(claim.target, claim.logical_task)}{digest(claim.workflow_id, claim.task_id)}"


class Claims:
    """The claims of a server. What a record says never changes, so each is read once by a process."""

    def __init__(self) -> None:
        self._known: OrderedDict[CommitRef, Claim] = OrderedDict()

    def make(self, wire: Wire, claim: Claim) -> Claim:
        """Make this claim unless another stands; give the claim that stands."""
        repository, record = claim.target.repository, _record(claim)
        self._keep(record.ref, claim)
        _unless_it_exists(lambda: wire.create_record(repository, record.ref, record.message, "", record.metadata))
        if _unless_it_exists(lambda: wire.create_tag(repository, tag_of(claim), record.ref)):
            return claim
        standing = self.read(wire, claim)
        if standing is None:
            raise Refused("the claim that stood a moment ago has been removed: the task is settled")
        return standing

    def read(self, wire: Wire, claim: Claim) -> Claim | None:
        """Read the claim that stands for this claim's attempt."""
        at = wire.tag(claim.target.repository, tag_of(claim))
        return None if at is None else self._record_at(wire, claim.target.repository, at)

    def of_task(self, wire: Wire, target: Target, logical_task: str) -> tuple[Claim, ...]:
        """List the claims of one task, oldest attempt first."""
        found = self._under(wire, target.repository, _task_prefix(target, logical_task))
        return tuple(sorted(found, key=lambda claim: (claim.number, claim.task_id)))

    def every(self, wire: Wire, repository: str) -> tuple[Claim, ...]:
        """List the claims of all tasks."""
        return tuple(self._under(wire, repository, PREFIX))

    def remove(self, wire: Wire, target: Target, logical_task: str) -> tuple[Claim, ...]:
        """Remove the claims of a settled task whose names are gone and after which a barrier answered (RT-10)."""
        gone = self.of_task(wire, target, logical_task)
        for claim in gone:
            wire.delete_tag(target.repository, tag_of(claim))
        return gone

    def _under(self, wire: Wire, repository: str, prefix: str) -> Iterator[Claim]:
        return (self._record_at(wire, repository, tag.at) for tag in wire.tags(repository, prefix))

    def _record_at(self, wire: Wire, repository: str, at: CommitRef) -> Claim:
        if at not in self._known:
            self._keep(at, _read(wire, repository, at))
        return self._known[at]

    def _keep(self, at: CommitRef, claim: Claim) -> None:
        self._known[at] = claim
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)


def _task_prefix(target: Target, logical_task: str) -> str:
    return f"{PREFIX}{digest(target.branch, logical_task)}-"


def _record(claim: Claim) -> _Record:
    message = f"Claim of attempt {claim.number} of {claim.logical_task} by execution {claim.execution}"
    metadata = {_KEY: dumps(claim)}
    # The date is fixed: the same claim, written later, is the same commit.
    return _Record(parentless("perago", message, "", 0, metadata), message, metadata)


def _read(wire: Wire, repository: str, at: CommitRef) -> Claim:
    commit = wire.commit(repository, at)
    written = "" if commit is None else dict(commit.metadata).get(_KEY, "")
    try:
        return loads(written, Claim)
    except CodecError as problem:
        message = f"expected a claim in commit {at} of {repository}, found none: {problem}"
        raise Refused(message) from problem


def _unless_it_exists(create: Callable[[], None]) -> bool:
    try:
        create()
    except Problem as problem:
        if status_of(problem) == _EXISTS:
            return False
        raise
    return True
