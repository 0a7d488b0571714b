"""What must hold of processes that want one lock: S-23, S-24, S-25, L-04."""

from __future__ import annotations

from perago_core.answers import Done
from perago_core.lease import Phase
from perago_simulation.cluster.locks import Branch, Locks, Worker
from perago_simulation.cluster.model import Label, World
from perago_simulation.cluster.moments import BUDGET
from perago_simulation.cluster.search import Promise


def _exclusive(locks: Locks, _before: World, _label: Label, after: World) -> str | None:
    believers = [name for index, name in enumerate(locks.names) if locks.believes(after, index) is not None]
    return f"{' and '.join(believers)} both believe to hold the lock" if len(believers) > 1 else None


def _tokens_grow(locks: Locks, before: World, _label: Label, after: World) -> str | None:
    """Judge who begins to hold the lock: the number must be greater than that of anybody who ever looked or holds."""
    for index, name in enumerate(locks.names):
        held = locks.holds(after, index)
        if held is not None and locks.holds(before, index) is None:
            others = [locks.holds(before, each) for each in range(len(locks.names)) if each != index]
            newest = max([before.outside.looked, *(each.token for each in others if each is not None)])
            if held.token <= newest:
                return f"{name} holds the lock with token {held.token}, after token {newest}"
    return None


def _in_time(locks: Locks, before: World, label: Label, _after: World) -> str | None:
    if label.does != "sends":
        return None
    index = locks.names.index(label.actor)
    return None if locks.believes(before, index) is not None else f"{label.actor} sends after its own deadline"


def _nothing_lands_late(_locks: Locks, before: World, label: Label, after: World) -> str | None:
    branch: Branch = before.outside
    if not label.does.endswith("lands") or label.actor != "branch":
        return None
    (landed,) = {token for token, _ in branch.sent} - {token for token, _ in after.outside.sent}
    if landed < branch.looked:
        return f"a request of token {landed} lands after token {branch.looked} has looked"
    return None


def _lost_for_good(locks: Locks, before: World, label: Label, after: World) -> str | None:
    for index, name in enumerate(locks.names):
        old: Worker = before.processes[index]
        new: Worker = after.processes[index]
        if old.executions != new.executions or old.running is None or new.running is None:
            continue
        if old.running.state.phase is Phase.LOST and new.running != old.running:
            return f"{name} goes on after it has lost the lock"
        was_over = locks.holds(before, index) is not None and locks.believes(before, index) is None
        if was_over and locks.believes(after, index) is not None:
            return f"{name} holds again what was over"
        if label.actor == name and label.is_call("now") and _was_told(old) and locks.holds(after, index) is not None:
            return f"{name} was told that its lease is gone and goes on"
    return None


def _was_told(worker: Worker) -> bool:
    """Say whether the store has just said that the lease is gone, and only the clock is left to be read."""
    running = worker.running
    if running is None or running.state.phase is not Phase.RENEWAL:
        return False
    return any(isinstance(said, Done) and said.value is False for said in running.answers)


def _successor(locks: Locks, _before: World, _label: Label, after: World) -> str | None:
    branch: Branch = after.outside
    bound = BUDGET.lease_ttl + BUDGET.takeover_wait + locks.bounds.period
    others = zip(after.processes[1:], locks.bounds.executions[1:], strict=True)
    # Who has no execution left would have tried again; that it cannot is our bound and not its fault.
    waiting = all(not worker.looked and worker.executions < most for worker, most in others)
    if branch.since is not None and branch.since > bound and waiting:
        return f"{branch.since} moments after the holder's death nobody has its place"
    return None


PROMISES = (
    Promise("S-23", "two never both believe to hold one lock", _exclusive),
    Promise("S-23b", "who holds the lock has a greater token than everybody before", _tokens_grow),
    Promise("S-24", "nothing is sent after the sender's own deadline", _in_time),
    Promise("S-24b", "nothing lands once a later holder has looked", _nothing_lands_late),
    Promise("S-25", "a lost lock is lost for good", _lost_for_good),
    Promise("L-04", "after a holder's death another has its place within ttl, takeover wait and a period", _successor),
)
