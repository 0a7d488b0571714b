"""Revocation: who may not act on a target any more. The decision is here; a store lists names and drops single ones.

Under ``conditional`` and ``locked`` every publication acts by a name, and a request whose name is gone fails, however
late it is carried out. So whoever is about to observe a target first takes away every name by which somebody may move
it who has no right to any more, and then passes the barrier:

1. the names of older attempts of its own logical task;
2. every name of another task that has ended. Counterexample: attempt 1 of a workflow publishes M0 and is given up;
   attempt 2, the last, observes M0, sends *replace* and is given up: the workflow has failed. The next workflow starts
   from M0, publishes M2 and is accepted; the late replacement lands, and M2 is gone.
3. every name of a task the orchestrator has never heard of, be it purged or another orchestrator's: a live attempt
   whose name goes fails closed, a zombie whose name stays may destroy what was accepted.

The name of another task that is open stays: it belongs to a workflow that runs beside this one. An orchestrator that
does not answer for one name leaves it open whether that one may still act, and then nothing may be published.
"""

from __future__ import annotations

from attrs import field, frozen

from perago_core.answers import Done
from perago_core.calls import Talk, call, charged
from perago_core.names import (
    attempt_number,
    is_of_task,
    is_recovery_name,
    is_staging_name,
    target_prefix,
    task_id_of,
)
from perago_core.ports import Orchestrator, Store
from perago_core.value import Value, many, text
from perago_core.values import Head, Target, TaskSnapshot

CHARGE = "revoke"


@frozen(repr=False)
class Revoked(Value):
    """The names of a target that were dropped, and those of tasks that are open: they stay."""

    dropped: tuple[str, ...] = field(default=(), validator=many(text))
    at_work: tuple[str, ...] = field(default=(), validator=many(text))


def revoke(
    target: Target, own_task: str | None = None, number: int = 0, *, recovered: str | None = None, keep: str = ""
) -> Talk[Revoked]:
    """Drop every name by which somebody may move the target who has no right to, and say which stay.

    ``own_task`` and ``number``: whose older attempts go without asking, and whose others stay. Nobody's: ask about all.
    ``recovered``: a task whose publication is being taken back. The anchors of its recoveries are left alone: all of
    them make the same movement, and two that dropped each other's would both fail. ``keep``: the name of who asks,
    where it acts for a task that has ended.
    """
    listed = yield from charged(CHARGE, Store.staging_names, target.repository, target_prefix(target))
    if not isinstance(listed, Done):
        return listed
    found = [name for name in listed.value if is_staging_name(name) and name != keep]
    going: list[str] = []
    staying: list[str] = []
    tasks: dict[str | None, bool] = {None: True}
    for name in found:
        if recovered is not None and is_recovery_name(name, recovered):
            continue
        if own_task is not None and is_of_task(name, own_task):
            made_by = attempt_number(name, own_task)
            ended = made_by is not None and made_by < number
        else:
            task_id = task_id_of(name)
            if task_id is not None and task_id not in tasks:
                answer = yield from call(Orchestrator.reload, None, task_id)
                if not isinstance(answer, Done):
                    return answer
                tasks[task_id] = has_ended(answer.value)
            ended = tasks[task_id]
        (going if ended else staying).append(name)
    for name in going:
        dropped = yield from charged(CHARGE, Store.drop, target, name)
        if not isinstance(dropped, Done):
            return dropped
    return Done(Revoked(tuple(going), tuple(staying)))


def pin(target: Target) -> Talk[Head | None]:
    """Return the head a workflow may start from: read once nothing of the past can move it any more.

    Counterexample to reading it at once: the last attempt of a failed workflow has sent its publication; the next
    workflow takes the head for its input; the publication lands. For every attempt of the next workflow that commit is
    a stranger's, and all of them are refused, for ever. ``None``: there is no such branch.
    """
    found = yield from call(Store.head, target)
    if not isinstance(found, Done) or found.value is None:
        return found
    revoked = yield from revoke(target)
    if not isinstance(revoked, Done):
        return revoked
    passed = yield from charged(CHARGE, Store.barrier, target)
    if not isinstance(passed, Done):
        return passed
    return (yield from call(Store.head, target))


def has_ended(snapshot: TaskSnapshot | None) -> bool:
    """Whether nobody may act for a task any more; one that nobody has heard of is taken for ended (see above)."""
    return snapshot is None or not snapshot.status.is_open or not snapshot.workflow_running
