"""What the first attempt of a task has read from outside, kept so that a later attempt can be held to it.

One key for each input of each logical task, made by whoever comes first. It goes with ``perago gc``, once the workflow
is long over: nobody retries it then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

from perago_core.answers import Answer, Done
from perago_core.names import escape, unescape
from perago_core.ports import Coordination, Entry
from perago_core.values import Attempt
from perago_worker.ops.gc import Authority, CollectError

_PREFIX: Final = "external/"


def pin_with(coordination: Coordination | None) -> Callable[[Attempt, str, str], Answer[str]]:
    """Return what keeps the identity of an input. Without a coordination store each attempt is on its own."""

    def pin(attempt: Attempt, path: str, identity: str) -> Answer[str]:
        if coordination is None:
            return Done(identity)
        key = f"{_PREFIX}{escape(attempt.logical_task)}/{hashlib.sha256(path.encode()).hexdigest()[:32]}"
        stood = coordination.create_if_absent(key, identity)
        return Done(stood.value.value) if isinstance(stood, Done) else stood

    return pin


def forget_inputs(
    coordination: Coordination | None, authority: Authority, *, older_than: float, dry_run: bool = False
) -> int:
    """Forget the inputs of tasks whose workflow is so long over; return how many."""
    if coordination is None:
        return 0
    listed = coordination.list(_PREFIX)
    if not isinstance(listed, Done):
        raise CollectError(f"inputs from outside could not be read: {listed.reason}. Nothing was removed")
    settled = authority.settled(frozenset(map(_task, listed.value)), older_than)
    going = [each for each in listed.value if _task(each) in settled]
    return len(going) if dry_run else sum(1 for _ in _removed(coordination, going))


def _task(entry: Entry) -> str:
    return unescape(entry.key.removeprefix(_PREFIX).rpartition("/")[0])


def _removed(coordination: Coordination, going: list[Entry]) -> Iterator[Entry]:
    for each in going:
        if isinstance(coordination.swap(each.key, each.value, None), Done):
            yield each
