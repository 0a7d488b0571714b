"""Finding out by behaviour what this store can condition a publication on (ST-7), on the disk it really is on.

The plans are the fence's own, carried out in a repository made for that and removed afterwards. What must happen is
seen to happen, and what must not happen is tried: a store that refuses nothing also publishes everything.

Only what happened and must not have is a disproof, because a disproof is final (T-W1). A call that was not done, or
nobody knows, is none: the disk may be full, or the folder swept away.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, TypeVar

from perago_core import fence
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.fence import Standing
from perago_core.plan import PublishPlan
from perago_core.policy.messages import Capability
from perago_core.values import Attempt, Backing, CommitRef, OnAbandoned, StagedRef, Target, claim_of

if TYPE_CHECKING:
    from perago_local.git.store import GitStore

T = TypeVar("T")


class _Trouble(Exception):  # noqa: N818  it names what was met, not a mistake
    """The question could not be asked to the end."""


def probe(open_at: Callable[[Path, float], GitStore], root: Path, patience: float) -> Answer[Capability]:
    """Publish, and try to publish what must be refused."""
    place = root / f".probe-{token_hex(8)}"
    try:
        place.mkdir(parents=True)
        found = next(_surprises(open_at(place, patience)), None)
    except (_Trouble, OSError) as problem:
        return Unknown(f"the store could not be tried in {root}: {problem}")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Done(Capability.ATOMIC) if found is None else NotDone(f"the store did not behave: {found}")


def _surprises(store: GitStore) -> Iterator[str]:
    """Yield each way in which the store misbehaved. After the first one the rest proves nothing."""
    target = Target("probe", "main")
    first = _done(store.create(target, {"file": b"0"}))
    one, two = (_attempt(number, target, first) for number in (1, 2))
    staged = _staged(store, one)

    unclaimed = _planned(store, one, staged)
    if _is_done(store.publish(unclaimed)):
        yield "a plan was carried out whose claim nobody had made"

    rival = _attempt(1, target, first)
    if _done(store.claim(claim_of(one, staged))).execution != one.execution:
        yield "the first claim did not stand"
    if _done(store.claim(claim_of(rival, None))).execution != one.execution:
        yield "two executions won the claim of one attempt"

    if _done(store.publish(unclaimed)) != staged.commit or _head(store, target) != staged.commit:
        yield "a plan whose conditions hold did not move the target to the staged commit"
    if _is_done(store.publish(unclaimed)):
        yield "a plan was carried out although the head was not the expected one"

    newer = _staged(store, two)
    _done(store.claim(claim_of(two, newer)))
    late = _planned(store, two, newer)
    three = _attempt(3, target, first)
    _done(store.claim(claim_of(three, None)))
    if _is_done(store.publish(late)) or _head(store, target) != staged.commit:
        yield "a plan was carried out although a newer attempt had raised the task's claim"
    if _done(store.claim(claim_of(two, newer))).execution != three.execution:
        yield "a claim was lowered"

    _done(store.open_staging(target, three.staging_name, first))
    if _done(store.publish(_planned(store, three, None))) != first or _head(store, target) != first:
        yield "the target did not return to the input"

    four = _attempt(4, target, first)
    last = _staged(store, four)
    _done(store.claim(claim_of(four, last)))
    revoked = _planned(store, four, last)
    _done(store.drop(target, four.staging_name))
    if _is_done(store.publish(revoked)) or _head(store, target) != first:
        yield "a plan was carried out although its staging name had been revoked"


def _attempt(number: int, target: Target, first: CommitRef) -> Attempt:
    run = token_hex(8)
    return Attempt(
        workflow_id="probe",
        task_id=f"task-{number}",
        retry_count=0,
        logical_task="probe/step",
        number=number,
        execution=run,
        target=target,
        input=first,
        backing=Backing.ATOMIC,
        on_abandoned=OnAbandoned.REPLACE,
    )


def _staged(store: GitStore, attempt: Attempt) -> StagedRef:
    name = attempt.staging_name
    _done(store.open_staging(attempt.target, name, attempt.input))
    sink = store.sink(attempt.target, name)
    _done(sink.link((_done(sink.put("file", BytesIO(name.encode()))),)))
    staged = _done(store.commit(attempt.target, name, "probe"))
    if staged is None:
        raise _Trouble("a changed file was nothing to commit")
    return staged


def _planned(store: GitStore, attempt: Attempt, staged: StagedRef | None) -> PublishPlan:
    claims = _done(store.claims(attempt.target, attempt.logical_task))
    ended = tuple((claim.task_id, Standing.DEAD) for claim in claims)
    head = _done(store.head(attempt.target))
    decision = fence.decide(fence.Case(attempt, staged, head, claims=claims, standings=ended))
    if not isinstance(decision, fence.Allowed):
        message = f"the fence found the target unusable: {decision}"
        raise _Trouble(message)
    return decision.plan


def _head(store: GitStore, target: Target) -> CommitRef:
    head = _done(store.head(target))
    if head is None:
        raise _Trouble("the branch that was made for it is gone")
    return head.commit.ref


def _is_done(answer: Answer[T]) -> bool:
    """Whether a call that must be refused was done. Raises ``_Trouble`` if that is unknown."""
    if isinstance(answer, Unknown):
        raise _Trouble(answer.reason)
    return isinstance(answer, Done)


def _done(answer: Answer[T]) -> T:
    if isinstance(answer, Done):
        return answer.value
    raise _Trouble(answer.reason)
