"""Finding out by behaviour whether merges are conditioned on the head here (N-09), in the repositories that matter.

The plans are the fence's own, carried out on hidden branches made for that and removed afterwards. What must happen is
seen to happen, and what must not happen is tried: a server that runs no hooks merges everything. Only behaviour is a
disproof. A server that is away, or busy, has proved nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from secrets import token_hex
from typing import TYPE_CHECKING, TypeVar

from perago_core import fence
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.names import task_prefix
from perago_core.owner import Standing
from perago_core.plan import PublishPlan
from perago_core.policy.events import Capability
from perago_core.values import Attempt, Backing, CommitRef, StagedRef, Target, claim_of
from perago_lakefs.answers import answer
from perago_lakefs.connection import Connection
from perago_lakefs.publish import check_hook
from perago_lakefs.wire import Wire

if TYPE_CHECKING:
    from perago_lakefs.store import LakeFSStore

T = TypeVar("T")


class _Trouble(Exception):  # noqa: N818  it names what was met, not a mistake
    """The question could not be asked."""


class _Surprise(Exception):  # noqa: N818  it names what was found, not a mistake
    """Something did not behave as it must."""


def probe(store: LakeFSStore, connection: Connection, repositories: tuple[str, ...]) -> Answer[Capability]:
    """Publish, and try to publish what must be refused, in each repository."""
    wire = Wire(connection)
    try:
        found = repositories or _done(answer(wire, wire.repositories))
        for repository in found:
            _probe(store, wire, repository)
    except _Surprise as surprise:
        return NotDone(str(surprise), wire.sent)
    except _Trouble as trouble:
        return Unknown(str(trouble), wire.sent)
    if not found:
        return Unknown("expected a repository to try it in, found none: create one, then run 'perago init-repo'")
    return Done(Capability.CONDITIONAL, wire.sent)


def _probe(store: LakeFSStore, wire: Wire, repository: str) -> None:
    branch = _done(answer(wire, lambda: wire.default_branch(repository)))
    tip = None if branch is None else _done(answer(wire, lambda: wire.tip(repository, branch)))
    if tip is None:
        message = f"expected repository {repository}, found none: create it, then run 'perago init-repo {repository}'"
        raise _Trouble(message)
    fenced = answer(wire, lambda: check_hook(wire, repository, tip.ref))
    if isinstance(fenced, NotDone):
        raise _Surprise(fenced.reason)
    _done(fenced)
    _Trial(store, wire, repository, tip.ref).run()


class _Trial:
    """One trial on a hidden branch of one repository."""

    def __init__(self, store: LakeFSStore, wire: Wire, repository: str, at: CommitRef) -> None:
        self._store, self._wire, self._at = store, wire, at
        self._task = f"probe/{token_hex(8)}"
        self._target = Target(repository, f"{task_prefix(self._task)}target")
        self._attempts: list[Attempt] = []

    def run(self) -> None:
        """Carry it out and clear up."""
        target, wire = self._target, self._wire
        _done(answer(wire, lambda: wire.create_branch(target.repository, target.branch, self._at)))
        try:
            found = next(self._surprises(), None)
        finally:
            for attempt in self._attempts:
                self._store.drop(target, attempt.staging_name)
            self._store.drop(target, target.branch)
            self._store.remove_claims(target, self._task)
        if found is not None:
            message = f"repository {target.repository} did not behave: {found}"
            raise _Surprise(message)

    def _surprises(self) -> Iterator[str]:
        """Say what was not as it must be. After the first such thing the rest means nothing."""
        store, target = self._store, self._target
        one, stranger, two = (self._attempt(number) for number in (1, 1, 2))
        staged, other = self._staged(one), self._staged(stranger)

        if _done(store.claim(claim_of(one, staged))).execution != one.execution:
            yield "the first claim did not stand"
        if _done(store.claim(claim_of(stranger, other))).execution != one.execution:
            yield "two executions won the claim of one attempt"
        if isinstance(store.barrier(target), NotDone):
            yield "a merge of the first commit was not answered with 'no changes'"

        mine, late = self._planned(one, staged), self._planned(stranger, other)
        unconditioned = self._merged_without_condition(one.staging_name)
        if not isinstance(unconditioned, NotDone) or self._head() != self._at:
            yield "a merge without an expected head was carried out: are hooks enabled on the server (actions.enabled)?"
        published = self._moved(store.publish(mine), "a merge onto the expected head")
        if self._head() != published:
            yield "a merge was answered as done, and the head is elsewhere"
        for _ in range(2):
            if isinstance(store.publish(late), Done) or self._head() != published:
                yield "a merge was carried out although the head was not the expected one"

        newer = self._staged(two)
        _done(store.claim(claim_of(two, newer)))
        replacing = self._planned(two, newer)
        _done(store.drop(target, one.staging_name))
        if self._moved(store.publish(replacing), "a relocation") != newer.commit or self._head() != newer.commit:
            yield "a relocation was answered as done, and the head is elsewhere"
        _done(store.drop(target, two.staging_name))
        if isinstance(store.publish(replacing), Done):
            yield "a relocation by a name that had been deleted was carried out"

    def _attempt(self, number: int) -> Attempt:
        run = token_hex(8)
        made = Attempt(
            "probe", f"task-{number}", 0, self._task, number, run, self._target, self._at, Backing.CONDITIONAL
        )
        self._attempts.append(made)
        return made

    def _staged(self, attempt: Attempt) -> StagedRef:
        store, name = self._store, attempt.staging_name
        _done(store.open_staging(self._target, name, attempt.input))
        sink = store.sink(self._target, name)
        _done(sink.link((_done(sink.put("perago-probe", BytesIO(name.encode()))),)))
        staged = _done(store.commit(self._target, name, "probe"))
        if staged is None:
            raise _Surprise("a new object was nothing to commit")
        return staged

    def _planned(self, attempt: Attempt, staged: StagedRef) -> PublishPlan:
        claims = _done(self._store.claims(self._target, self._task))
        ended = tuple((claim.task_id, Standing.DEAD) for claim in claims)
        head = _done(self._store.head(self._target))
        decision = fence.decide(fence.Case(attempt, staged, head, claims=claims, standings=ended))
        if not isinstance(decision, fence.Allowed):
            message = f"the fence found the target unusable: {decision}"
            raise _Surprise(message)
        return decision.plan

    def _merged_without_condition(self, name: str) -> Answer[CommitRef]:
        wire, target = self._wire, self._target
        return answer(wire, lambda: wire.merge(target.repository, name, target.branch, "probe", {}))

    def _moved(self, published: Answer[CommitRef], what: str) -> CommitRef:
        if isinstance(published, NotDone):
            message = f"{what} was refused: {published.reason}"
            raise _Surprise(message)
        return _done(published)

    def _head(self) -> CommitRef | None:
        head = _done(self._store.head(self._target))
        return None if head is None else head.commit.ref


def _done(given: Answer[T]) -> T:
    if isinstance(given, Done):
        return given.value
    raise _Trouble(given.reason)
