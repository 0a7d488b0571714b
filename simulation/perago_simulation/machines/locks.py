"""Processes that want one lock: they acquire it, keep it, wait after an unclean predecessor, look, send, give it back.

The lease machine is the production one. Around it stands what an execution under ``locked`` does, in the order of the
attempt's table: held, takeover wait if unclean, look at the head, let ``fence.decide`` judge the time left, send.

A process's clock runs at a rate of its own, and it may be paused between any two calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from attrs import frozen

from perago_core.answers import Answer, Done
from perago_core.calls import Call
from perago_core.lease import LEASE, LeaseHold, LeaseKnown, LeaseRequest, Phase, ReleaseWanted, Ticked, perform
from perago_core.machine.engine import Table
from perago_core.value import Value
from perago_simulation.machines.conversations import Perform, Runner
from perago_simulation.machines.lease_times import BUDGET, FLIGHT, NOW, TARGET, Leasing, ended, held_by, may_send, older
from perago_simulation.machines.model import Cluster, ClusterWorld, Label, Left, Moves
from perago_simulation.machines.search import Promise
from perago_simulation.machines.store import Shared, later


class Worker(NamedTuple):
    """One process, working off one execution after the other.

    ``looks_from`` is when, by its own clock, it may look at the head; ``looked``, ``decided`` and ``sent`` say how far
    it is since. ``wakes`` is when a prompt process tries again.
    """

    executions: int = 0
    running: Leasing | None = None
    looks_from: float | None = None
    looked: bool = False
    decided: bool = False
    sent: bool = False
    wakes: float = 0.0


class LockedBranch(NamedTuple):
    """The branch under the lock: requests on their way with the moments they have left, and who has looked.

    ``since`` counts the moments since the first process died, for who never pauses.
    """

    sent: tuple[tuple[int, int], ...] = ()
    looked: int = 0
    since: int | None = None


@frozen(repr=False)
class LockBounds(Value):
    """How much is explored. ``prompt``: nobody is paused, and who was refused tries again one ``period`` later.

    ``senders`` is how many of the processes publish. ``pausing`` lets one be paused also between its decision and the
    sending. ``waits`` is the takeover wait. ``stragglers`` lets requests arrive late also where nobody is paused.
    """

    rates: tuple[float, ...] = (1.0, 1.0)
    executions: tuple[int, ...] = (1, 1)
    faults: int = 0
    crashes: int = 0
    senders: int = 0
    releases: bool = True
    pausing: bool = False
    prompt: bool = False
    period: int = 1
    waits: float = BUDGET.takeover_wait
    stragglers: bool = False


class Locks(Cluster):
    """Processes that want one lock."""

    def __init__(
        self, bounds: LockBounds, table: Table[LeaseRequest, LeaseKnown] = LEASE, talk: Perform = perform
    ) -> None:
        super().__init__(tuple(f"p{index}" for index in range(len(bounds.rates))))
        self.bounds = bounds
        self.runner = Runner(table, talk)
        self.clocks = tuple(NOW * rate for rate in bounds.rates)

    def beginnings(self) -> Iterator[ClusterWorld]:
        """Nobody has begun."""
        workers = (Worker(),) * len(self.names)
        yield ClusterWorld(Shared(), LockedBranch(), workers, Left(self.bounds.faults, self.bounds.crashes))

    def holds(self, world: ClusterWorld, index: int) -> LeaseHold | None:
        """Return what a process would say it holds, if it did not look at its clock."""
        running = world.processes[index].running
        return None if running is None else held_by(running)

    def believes(self, world: ClusterWorld, index: int) -> LeaseHold | None:
        """Return what a process believes to hold now, by its own clock."""
        held = self.holds(world, index)
        return held if held is not None and self.clocks[index] < held.until else None

    # -----------------------------------------------------------------------------------------------------------------
    # What a process does

    def call(self, world: ClusterWorld, index: int) -> Call | None:
        """Return the next call of the lease machine."""
        running = world.processes[index].running
        return None if running is None else self.runner.call(running)

    def serve(self, world: ClusterWorld, index: int, call: Call) -> Iterator[tuple[Answer[Any], ClusterWorld]]:
        """Answer from the process's own clock, or from the store."""
        if call.port == "clock":
            yield Done(self.clocks[index], operations=0), world
        else:
            yield from super().serve(world, index, call)

    def answered(self, world: ClusterWorld, index: int, answer: Answer[Any]) -> Worker:
        """Go on with the machine; a lock that is held may have to be waited for."""
        worker: Worker = world.processes[index]
        assert worker.running is not None
        return self._noted(worker, self.runner.answer(worker.running, answer), index)

    def _noted(self, worker: Worker, running: Leasing, index: int) -> Worker:
        now = self.clocks[index]
        held = held_by(running)
        if held is not None and worker.looks_from is None:
            return worker._replace(running=running, looks_from=now if held.clean else now + self.bounds.waits)
        if self.runner.table.is_terminal(running.state):
            wakes = now + self.bounds.period if self.bounds.prompt else 0.0
            return Worker(worker.executions, ended(running), wakes=wakes)
        return worker._replace(running=running)

    def mortal(self, world: ClusterWorld, index: int) -> bool:
        """Only who has begun can die; whoever has ended has nothing to lose. Among the prompt, the first one dies."""
        running = world.processes[index].running
        begun = running is not None and not self.runner.table.is_terminal(running.state)
        return begun and not (self.bounds.prompt and index)

    def died(self, world: ClusterWorld, index: int) -> ClusterWorld:
        """Forget everything but how many executions there were."""
        after = world.with_process(index, Worker(world.processes[index].executions))
        return after._replace(outside=world.outside._replace(since=0)) if self.bounds.prompt else after

    def own_moves(self, world: ClusterWorld, index: int) -> Moves:
        """Begin, tend, release, look, decide, send."""
        worker: Worker = world.processes[index]
        held = self.holds(world, index)
        if held is None or worker.running is None:
            yield from self._begin(world, index, worker)
            return
        name = self.names[index]
        ticked = self.runner.feed(worker.running, Ticked(self.clocks[index]))
        tended = self._noted(worker, self._clock_read(ticked, worker.running, index), index)
        if tended != worker:
            yield Label(name, "tends"), world.with_process(index, tended)
        # What is on its way has to end before the release: its outcome must be known.
        in_flight = any(token == held.token for token, _ in world.outside.sent)
        if self.bounds.releases and worker.running.state.phase is Phase.HELD and not in_flight and not worker.decided:
            released = worker._replace(running=self.runner.feed(worker.running, ReleaseWanted()))
            yield Label(name, "releases"), world.with_process(index, released)
        yield from self._publish(world, index, worker, held)

    def _clock_read(self, running: Leasing, before: Leasing, index: int) -> Leasing:
        """Read the clock before a request in the move that wants the request: a pause in between is a later wish."""
        call = self.runner.call(running)
        fresh = call is not None and call.port == "clock" and not running.answers and running != before
        return self.runner.answer(running, Done(self.clocks[index], operations=0)) if fresh else running

    def _begin(self, world: ClusterWorld, index: int, worker: Worker) -> Moves:
        over = worker.running is None or self.runner.table.is_terminal(worker.running.state)
        early = self.clocks[index] < worker.wakes
        if over and not early and worker.executions < self.bounds.executions[index]:
            owner = f"{self.names[index]}-{worker.executions + 1}"
            request = LeaseRequest(TARGET, owner, BUDGET.lease_ttl, BUDGET.lease_margin)
            begun = self.runner.begin(request)
            # Not yet `_clock_read`: nothing was there before, so the machine differs from it.
            running = self.runner.answer(begun, Done(self.clocks[index], operations=0))
            yield Label(self.names[index], "begins"), world.with_process(index, Worker(worker.executions + 1, running))

    def _publish(self, world: ClusterWorld, index: int, worker: Worker, held: LeaseHold) -> Moves:
        now, name = self.clocks[index], self.names[index]
        branch: LockedBranch = world.outside
        if not worker.looked and worker.looks_from is not None and now >= worker.looks_from:
            seen = world.with_process(index, worker._replace(looked=True))
            yield Label(name, "looks"), seen._replace(outside=branch._replace(looked=max(branch.looked, held.token)))
        if index >= self.bounds.senders or not worker.looked or worker.sent:
            return
        if worker.decided or (not self.bounds.pausing and may_send(now, held.until)):
            sent = (*branch.sent, (held.token, FLIGHT))
            after = world.with_process(index, worker._replace(decided=False, sent=True))
            yield Label(name, "sends"), after._replace(outside=branch._replace(sent=sent))
        elif may_send(now, held.until):
            yield Label(name, "decides"), world.with_process(index, worker._replace(decided=True))

    # -----------------------------------------------------------------------------------------------------------------
    # What happens by itself

    def surroundings(self, world: ClusterWorld) -> Moves:
        """Requests land or are lost, and time passes, but not past the moment by which a request must have landed."""
        sent: tuple[tuple[int, int], ...] = world.outside.sent
        for number, (token, _) in enumerate(sent):
            rest = world.outside._replace(sent=(*sent[:number], *sent[number + 1 :]))
            yield Label("branch", f"request of token {token} lands"), world._replace(outside=rest)
        if all(left for _, left in sent) and not (self.bounds.prompt and self._busy(world)):
            yield Label("time", "passes"), self._later(world)

    def _later(self, world: ClusterWorld) -> ClusterWorld:
        branch: LockedBranch = world.outside
        since = None if branch.since is None else min(branch.since + 1, 2 * NOW)
        outside = LockedBranch(tuple((token, left - 1) for token, left in branch.sent), branch.looked, since)
        workers = tuple(
            _waiting(each, rate, now)
            for each, rate, now in zip(world.processes, self.bounds.rates, self.clocks, strict=True)
        )
        return world._replace(shared=later(world.shared), outside=outside, processes=workers)

    def _busy(self, world: ClusterWorld) -> bool:
        """Return whether anybody has something to do; who is never paused does it at once."""
        return (bool(world.late) and not self.bounds.stragglers) or any(
            self.call(world, index) is not None or any(True for _ in self.own_moves(world, index))
            for index in range(len(self.names))
        )


def _waiting(worker: Worker, by: float, now: float) -> Worker:
    """Return a process a moment later."""
    looks = worker.looks_from
    if looks is not None:
        looks = looks - by if looks - by > now else 0.0
    running = worker.running
    if running is not None and (running.state.pending or held_by(running) is not None):
        running = older(running, by, now)
    wakes = worker.wakes - by if worker.wakes - by > now else 0.0
    return worker._replace(running=running, looks_from=looks, wakes=wakes)


# What must hold of processes that want one lock: S-23, S-24, S-25, L-04.


def _exclusive(locks: Locks, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    believers = [name for index, name in enumerate(locks.names) if locks.believes(after, index) is not None]
    return f"{' and '.join(believers)} both believe to hold the lock" if len(believers) > 1 else None


def _tokens_grow(locks: Locks, before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    """Judge who begins to hold the lock: the number must be greater than that of anybody who ever looked or holds."""
    for index, name in enumerate(locks.names):
        held = locks.holds(after, index)
        if held is not None and locks.holds(before, index) is None:
            others = [locks.holds(before, each) for each in range(len(locks.names)) if each != index]
            newest = max([before.outside.looked, *(each.token for each in others if each is not None)])
            if held.token <= newest:
                return f"{name} holds the lock with token {held.token}, after token {newest}"
    return None


def _in_time(locks: Locks, before: ClusterWorld, label: Label, _after: ClusterWorld) -> str | None:
    if label.does != "sends":
        return None
    index = locks.names.index(label.actor)
    return None if locks.believes(before, index) is not None else f"{label.actor} sends after its own deadline"


def _nothing_lands_late(_locks: Locks, before: ClusterWorld, label: Label, after: ClusterWorld) -> str | None:
    branch: LockedBranch = before.outside
    if not label.does.endswith("lands") or label.actor != "branch":
        return None
    (landed,) = {token for token, _ in branch.sent} - {token for token, _ in after.outside.sent}
    if landed < branch.looked:
        return f"a request of token {landed} lands after token {branch.looked} has looked"
    return None


def _lost_for_good(locks: Locks, before: ClusterWorld, label: Label, after: ClusterWorld) -> str | None:
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
    """Return whether the store has just said that the lease is gone, and only the clock is left to be read."""
    running = worker.running
    if running is None or running.state.phase is not Phase.RENEWAL:
        return False
    return any(isinstance(said, Done) and said.value is False for said in running.answers)


def _successor(locks: Locks, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    branch: LockedBranch = after.outside
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
