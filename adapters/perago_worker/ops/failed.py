"""What did not pass its gates, kept for a while so that people can look at it.

The staging name of a failed attempt is dropped, as always. What was staged is made a commit before, which no branch
shows, and a record in the coordination store says which, why it failed and until when it is kept. ``perago gc`` forgets
it then; on a bucket its objects go as well, on git with ``git gc``, on lakeFS with the server's own collection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final

from attrs import asdict, field, frozen

from perago_core.answers import Done
from perago_core.names import escape
from perago_core.ports import Coordination, Entry
from perago_core.values import Attempt, CommitRef
from perago_worker.logger import log
from perago_worker.ops.gc import CollectError
from perago_worker.stack import Stack

_PREFIX: Final = "failed/"
_DAY: Final = 24 * 3600 * 1000


def _tuple(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(found)


@frozen
class FailedGate:
    """One attempt whose rows did not pass. ``until``: milliseconds since the epoch."""

    task_id: str
    logical_task: str
    repository: str
    branch: str
    commit: str
    folders: tuple[str, ...] = field(converter=_tuple)
    reason: str
    until: int

    def places(self) -> tuple[str, ...]:
        """Say how each data set is read, by ``dataset(...)`` or Spark."""
        return tuple(f"{self.repository}/{self.branch}/{each.rstrip('/')}@{self.commit}" for each in self.folders)


def keep_with(stack: Stack, days: float) -> Callable[[Attempt, tuple[str, ...], str], None]:
    """Return what keeps the staging of an attempt that did not pass. What is in the way of that fails no task."""

    def keep(attempt: Attempt, folders: tuple[str, ...], reason: str) -> None:
        if stack.coordination is None or days <= 0:
            return
        message = f"{attempt.logical_task} attempt {attempt.number} ({attempt.task_id}) did not pass its gates"
        made = stack.store.commit(attempt.target, attempt.staging_name, message)
        if not isinstance(made, Done) or made.value is None:
            log.warning(
                "what %s staged is not kept: %s", attempt.task_id, getattr(made, "reason", "nothing was staged")
            )
            return
        record = FailedGate(
            attempt.task_id,
            attempt.logical_task,
            attempt.target.repository,
            attempt.target.branch,
            str(made.value.commit),
            folders,
            reason,
            stack.clock.wall() + int(days * _DAY),
        )
        kept = stack.coordination.create_if_absent(f"{_PREFIX}{escape(attempt.task_id)}", json.dumps(asdict(record)))
        if not isinstance(kept, Done):
            log.warning("what %s staged is not recorded: %s", attempt.task_id, kept.reason)

    return keep


def failed_gates(coordination: Coordination | None) -> tuple[FailedGate, ...]:
    """List what is kept, whether its time is over or not."""
    if coordination is None:
        return ()
    listed = coordination.list(_PREFIX)
    if not isinstance(listed, Done):
        raise CollectError(f"what did not pass its gates could not be read: {listed.reason}")
    return tuple(map(_read, listed.value))


def _read(entry: Entry) -> FailedGate:
    try:
        return FailedGate(**json.loads(entry.value))
    except (ValueError, TypeError):
        raise CollectError(f"expected a record of a failed gate under {entry.key}; found something else") from None


def kept_commits(stack: Stack) -> set[CommitRef]:
    """Return the commits that must not be collected yet."""
    now = stack.clock.wall()
    return {CommitRef(each.commit) for each in failed_gates(stack.coordination) if each.until > now}


def forget_failed(stack: Stack, *, dry_run: bool = False) -> int:
    """Forget those whose time is over; return how many."""
    if stack.coordination is None:
        return 0
    over = [each for each in failed_gates(stack.coordination) if each.until <= stack.clock.wall()]
    for each in () if dry_run else over:
        key = f"{_PREFIX}{escape(each.task_id)}"
        entry = stack.coordination.get(key)
        if isinstance(entry, Done) and entry.value is not None:
            stack.coordination.swap(key, entry.value.value, None)
    return len(over)
