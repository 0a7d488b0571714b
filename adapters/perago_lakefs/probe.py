"""Finding out by behaviour whether merges are conditioned on the head here (N-09), in the repositories that matter.

The plans are the fence's own, carried out on hidden branches made for that and removed afterwards. What must happen is
seen to happen, and what must not happen is tried: a server that runs no hooks merges everything.

A disproof ends the probing (T-W1), so only behaviour is one: a merge that must not be and was carried out. A hook that
is not there disproves nothing about the server: somebody has yet to install it, and the answer says how. A refusal
proves nothing, unless the hook itself speaks: the server may be away or busy, or somebody has cleared the names of the
trial away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from secrets import token_hex
from typing import TYPE_CHECKING, TypeVar

from perago_core import fence
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.fence import Standing
from perago_core.names import task_prefix
from perago_core.plan import PublishPlan
from perago_core.policy.messages import Capability
from perago_core.values import Attempt, Backing, CommitRef, OnAbandoned, StagedRef, Target, claim_of
from perago_lakefs import hook
from perago_lakefs.answers import Problem, answer, body_of, described, message_of
from perago_lakefs.client import Client, Connection
from perago_lakefs.publish import check_hook

if TYPE_CHECKING:
    from perago_lakefs.store import LakeFSStore

T = TypeVar("T")
#: No commit has this id.
_NO_HEAD = "0" * 64


class _Trouble(Exception):  # noqa: N818  it names what was met, not a mistake
    """The question could not be asked, or not to the end."""


class _Surprise(Exception):  # noqa: N818  it names what was found, not a mistake
    """Something happened that must not."""


def probe(store: LakeFSStore, connection: Connection, repositories: tuple[str, ...]) -> Answer[Capability]:
    """Publish, and try to publish what must be refused, in each repository."""
    client = Client(connection)
    try:
        found = repositories or _done(answer(client, client.repositories))
        for repository in found:
            _probe(store, client, repository)
    except _Surprise as surprise:
        return NotDone(str(surprise), client.sent)
    except _Trouble as trouble:
        return Unknown(str(trouble), client.sent)
    if not found:
        return Unknown("expected a repository to try it in, found none: create one, then run 'perago init-repo'")
    return Done(Capability.CONDITIONAL, client.sent)


def _probe(store: LakeFSStore, client: Client, repository: str) -> None:
    branch = _done(answer(client, lambda: client.default_branch(repository)))
    tip = None if branch is None else _done(answer(client, lambda: client.tip(repository, branch)))
    if tip is None:
        message = f"expected repository {repository}, found none: create it, then run 'perago init-repo {repository}'"
        raise _Trouble(message)
    _done(answer(client, lambda: check_hook(client, repository, tip.ref)))
    _Trial(store, client, repository, tip.ref).run()


class _Trial:
    """One trial on a hidden branch of one repository."""

    def __init__(self, store: LakeFSStore, client: Client, repository: str, at: CommitRef) -> None:
        self._store, self._client, self._at = store, client, at
        self._task = f"probe/{token_hex(8)}"
        # Named like a staging branch, so that it is hidden and a collector knows it for ours. No target has its prefix.
        self._target = Target(repository, f"{task_prefix(Target(repository, self._task), self._task)}target")
        self._attempts: list[Attempt] = []
        #: The branches that are there unless somebody else has removed them.
        self._standing: list[str] = []

    def run(self) -> None:
        """Carry it out and clear up."""
        target, client = self._target, self._client
        _done(answer(client, lambda: client.create_branch(target.repository, target.branch, self._at)))
        self._standing.append(target.branch)
        try:
            found = next(self._surprises(), None)
            if found is not None:
                self._check_undisturbed()
        finally:
            for attempt in self._attempts:
                self._store.drop(target, attempt.staging_name)
            self._store.drop(target, target.branch)
            self._store.remove_claims(target, self._task)
        if found is not None:
            message = f"repository {target.repository} did not behave: {found}"
            raise _Surprise(message)

    def _check_undisturbed(self) -> None:
        """Take nothing for a surprise that somebody has a hand in who clears names away, and then claims."""
        repository, client = self._target.repository, self._client
        found = _done(answer(client, lambda: {name: client.branch(repository, name) for name in self._standing}))
        for name, at in found.items():
            if at is None:
                raise _Trouble(_removed(name))

    def _surprises(self) -> Iterator[str]:
        """Say what was not as it must be. After the first such thing the rest means nothing."""
        store, target = self._store, self._target
        one, stranger, two = (self._attempt(number) for number in (1, 1, 2))
        staged, other = self._staged(one), self._staged(stranger)

        if _done(store.claim(claim_of(one, staged))).execution != one.execution:
            yield "the first claim did not stand"
        if _done(store.claim(claim_of(stranger, other))).execution != one.execution:
            yield "two executions won the claim of one attempt"
        waited = store.barrier(target)
        if self._head() != self._at:
            yield "a merge of the first commit moved the branch"
        _done(waited)

        mine, late = self._planned(one, staged), self._planned(stranger, other)
        if self._is_merged(one.staging_name, {hook.EXPECTED: _NO_HEAD}) or self._head() != self._at:
            yield "a merge onto no head was carried out: are hooks enabled on the server (actions.enabled)?"
        published = _done(store.publish(mine))
        if self._head() != published:
            yield "a merge was answered as done, and the head is elsewhere"
        metadata = {hook.EXPECTED: late.expected, hook.STAGED: late.commit}
        if (
            self._is_merged(stranger.staging_name, metadata)
            or _is_done(store.publish(late))
            or self._head() != published
        ):
            yield "a merge was carried out although the head was not the expected one"

        newer = self._staged(two)
        _done(store.claim(claim_of(two, newer)))
        replacing = self._planned(two, newer)
        self._drop(one)
        if _done(store.publish(replacing)) != newer.commit or self._head() != newer.commit:
            yield "a relocation was answered as done, and the head is elsewhere"
        self._drop(two)
        if _is_done(store.publish(replacing)):
            yield "a relocation by a name that had been deleted was carried out"

    def _attempt(self, number: int) -> Attempt:
        run = token_hex(8)
        made = Attempt(
            workflow_id="probe",
            task_id=f"task-{number}",
            retry_count=0,
            logical_task=self._task,
            number=number,
            execution=run,
            target=self._target,
            input=self._at,
            backing=Backing.CONDITIONAL,
            on_abandoned=OnAbandoned.REPLACE,
        )
        self._attempts.append(made)
        return made

    def _staged(self, attempt: Attempt) -> StagedRef:
        store, name = self._store, attempt.staging_name
        _done(store.open_staging(self._target, name, attempt.input))
        self._standing.append(name)
        sink = store.sink(self._target, name)
        # Each has a path of its own: a conflict would be refused without any hook.
        _done(sink.link((_done(sink.put(f"perago-probe/{name}", BytesIO(name.encode()))),)))
        staged = _done(store.commit(self._target, name, "probe"))
        if staged is None:
            raise _Trouble("a new object was nothing to commit")
        return staged

    def _drop(self, attempt: Attempt) -> None:
        self._standing.remove(attempt.staging_name)
        _done(self._store.drop(self._target, attempt.staging_name))

    def _planned(self, attempt: Attempt, staged: StagedRef) -> PublishPlan:
        claims = _done(self._store.claims(self._target, self._task))
        ended = tuple((claim.task_id, Standing.DEAD) for claim in claims)
        head = _done(self._store.head(self._target))
        decision = fence.decide(fence.Case(attempt, staged, head, claims=claims, standings=ended))
        if not isinstance(decision, fence.Allowed):
            message = f"the fence found the target unusable: {decision}"
            raise _Trouble(message)
        return decision.plan

    def _is_merged(self, name: str, said: Mapping[str, str]) -> bool:
        """Try a merge that the hook must refuse, and say whether it was carried out."""
        target = self._target
        try:
            self._client.merge(target.repository, name, target.branch, "probe", said)
        except Problem as problem:
            if hook.found_by(message_of(body_of(problem))) is None:
                message = f"expected the hook to refuse a merge in {target.repository}, found {described(problem)}"
                raise _Trouble(message) from problem
            return False
        return True

    def _head(self) -> CommitRef:
        head = _done(self._store.head(self._target))
        if head is None:
            raise _Trouble(_removed(self._target.branch))
        return head.commit.ref


def _removed(name: str) -> str:
    return f"expected the branch {name} of this trial, found that somebody has removed it: is 'perago gc' running?"


def _is_done(given: Answer[T]) -> bool:
    """Return whether something was done that must not be; not knowing is not enough."""
    if isinstance(given, Unknown):
        raise _Trouble(given.reason)
    return isinstance(given, Done)


def _done(given: Answer[T]) -> T:
    if isinstance(given, Done):
        return given.value
    raise _Trouble(given.reason)
