"""Processes that want one lock: they acquire it, keep it, wait after an unclean predecessor, look, send, give it back.

The lease machine is the production one. Around it stands what an execution under ``locked`` does, in the order of the
attempt's table: held, takeover wait if unclean, look at the head, let ``fence.decide`` judge the time left, send. True
time is a whole number. A process's clock runs at a rate of its own, and it may be paused between any two calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from attrs import evolve, frozen

from perago_core import fence
from perago_core.answers import Answer, Done
from perago_core.budget import PublishBudget
from perago_core.calls import Call
from perago_core.engine import Table
from perago_core.lease import LEASE, LeaseHold, LeaseKnown, LeaseRequest, Phase, ReleaseWanted, Ticked, hold, perform
from perago_core.value import Value
from perago_core.values import Attempt, Backing, Commit, CommitRef, Head, StagedRef, Target
from perago_simulation.cluster.model import Cluster, Label, Left, Moves, World
from perago_simulation.cluster.store import Shared, later
from perago_simulation.cluster.talks import Runner, Running

TARGET = Target("repo", "main")
#: A time to live of 4 and a margin of 1 let a clock be slow by a quarter, and make a renewal due after 2.
BUDGET = PublishBudget(
    publish_timeout=1.0, publish_p99=0.0, margin=1.0, lease_ttl=4.0, lease_margin=1.0, takeover_wait=3.0
)
#: How long a request may be on its way before it lands: what the takeover wait has to outlast.
FLIGHT = int(BUDGET.publish_timeout + BUDGET.margin)
_HEAD = Head(Commit(CommitRef("a0"), (CommitRef("root"),), "t0"))
_STAGED = StagedRef("repo", "staged", CommitRef("c1"), "t1")


@frozen(cache_hash=True, repr=False)
class Worker(Value):
    """One process, working off one execution after the other.

    ``looks_from`` is when, by its own clock, it may look at the head; ``looked`` and ``decided`` say how far it is
    since. ``wakes`` is when a prompt process tries again.
    """

    executions: int = 0
    running: Running[LeaseRequest, LeaseKnown] | None = None
    looks_from: float | None = None
    looked: bool = False
    decided: bool = False
    sent: bool = False
    wakes: float = 0.0


class Branch(NamedTuple):
    """The branch under the lock: requests on their way, with the latest time they land, and who has looked."""

    sent: tuple[tuple[int, int], ...] = ()
    looked: int = 0
    died: int | None = None


@frozen(repr=False)
class Bounds(Value):
    """How much is explored. ``prompt``: nobody is paused, and who was refused tries again one ``period`` later.

    ``pausing`` lets a process be paused also between its decision and the sending. ``waits`` is the takeover wait.
    """

    rates: tuple[float, ...] = (1.0, 1.0)
    executions: int = 1
    horizon: int = 7
    faults: int = 0
    crashes: int = 1
    sends: bool = True
    releases: bool = True
    pausing: bool = False
    prompt: bool = False
    period: int = 1
    waits: float = BUDGET.takeover_wait


@cache
def may_send(now: float, until: float) -> bool:
    """Ask the fence whether there is time enough to publish."""
    attempt = Attempt("w", "t1", 0, "w/step", 1, "e1", TARGET, _HEAD.commit.ref, Backing.LOCKED, budget=BUDGET)
    case = fence.Case(attempt, _STAGED, _HEAD, now=now, lease_until=until)
    return isinstance(fence.decide(case), fence.Allowed)


class Locks(Cluster):
    """Processes that want one lock."""

    def __init__(self, bounds: Bounds, table: Table[LeaseRequest, LeaseKnown] = LEASE) -> None:
        super().__init__(tuple(f"p{index}" for index in range(len(bounds.rates))))
        self.bounds = bounds
        self.runner = Runner(table, perform)

    def beginnings(self) -> Iterator[World]:
        """Nobody has begun."""
        workers = (Worker(),) * len(self.names)
        yield World(Shared(), Branch(), workers, Left(self.bounds.faults, self.bounds.crashes))

    # -- what is so

    def clock(self, world: World, index: int) -> float:
        """Give what a process's own clock shows."""
        return world.shared.at * self.bounds.rates[index]

    def holds(self, world: World, index: int) -> LeaseHold | None:
        """Give what a process would say it holds, if it did not look at its clock."""
        running = world.processes[index].running
        return None if running is None else hold(running.state)

    def believes(self, world: World, index: int) -> LeaseHold | None:
        """Give what a process believes to hold now, by its own clock."""
        held = self.holds(world, index)
        return held if held is not None and self.clock(world, index) < held.until else None

    # -- what a process does

    def call(self, world: World, index: int) -> Call | None:
        """Give the next call of the lease machine."""
        running = world.processes[index].running
        return None if running is None else self.runner.call(running)

    def serve(self, world: World, index: int, call: Call) -> Iterator[tuple[Answer[Any], World]]:
        """Answer from the process's own clock, or from the store."""
        if call.port == "clock":
            yield Done(self.clock(world, index), operations=0), world
        else:
            yield from super().serve(world, index, call)

    def answered(self, world: World, index: int, answer: Answer[Any]) -> Worker:
        """Go on with the machine; a lock that is held may have to be waited for."""
        worker: Worker = world.processes[index]
        assert worker.running is not None
        return self._noted(worker, self.runner.answer(worker.running, answer), self.clock(world, index))

    def _noted(self, worker: Worker, running: Running[LeaseRequest, LeaseKnown], now: float) -> Worker:
        held = hold(running.state)
        if held is not None and worker.looks_from is None:
            return evolve(worker, running=running, looks_from=now if held.clean else now + self.bounds.waits)
        if self.runner.table.is_terminal(running.state):
            return evolve(worker, running=running, wakes=now + self.bounds.period)
        return evolve(worker, running=running)

    def alive(self, process: Worker) -> bool:
        """Only who has begun can die; whoever has ended has nothing to lose."""
        return process.running is not None and not self.runner.table.is_terminal(process.running.state)

    def died(self, world: World, index: int) -> Worker:
        """Forget everything but how many executions there were."""
        return Worker(world.processes[index].executions)

    def own_moves(self, world: World, index: int) -> Moves:
        """Begin, tend, release, look, decide, send."""
        worker: Worker = world.processes[index]
        held = self.holds(world, index)
        if held is None:
            yield from self._begin(world, index, worker)
            return
        assert worker.running is not None
        now, name = self.clock(world, index), self.names[index]
        tended = self._noted(worker, self.runner.feed(worker.running, Ticked(now)), now)
        if tended != worker:
            yield Label(name, "tends"), world.with_process(index, tended)
        # Between the look and the send nothing is asked (S-09), and what is on its way has to end before the release.
        in_flight = any(token == held.token for token, _ in world.outside.sent)
        if self.bounds.releases and not in_flight and not worker.decided:
            released = evolve(worker, running=self.runner.feed(worker.running, ReleaseWanted()))
            yield Label(name, "releases"), world.with_process(index, released)
        yield from self._publish(world, index, worker, held)

    def _begin(self, world: World, index: int, worker: Worker) -> Moves:
        now, name = self.clock(world, index), self.names[index]
        ended = worker.running is None or self.runner.table.is_terminal(worker.running.state)
        due = not self.bounds.prompt or (now >= worker.wakes and world.outside.died in {None, *self._elsewhere(index)})
        if ended and due and worker.executions < self.bounds.executions:
            owner = f"{name}-{worker.executions + 1}"
            request = LeaseRequest(TARGET, owner, BUDGET.lease_ttl, BUDGET.lease_margin)
            begun = Worker(worker.executions + 1, self.runner.begin(request))
            yield Label(name, "begins"), world.with_process(index, begun)

    def _publish(self, world: World, index: int, worker: Worker, held: LeaseHold) -> Moves:
        now, name = self.clock(world, index), self.names[index]
        branch: Branch = world.outside
        if not worker.looked and worker.looks_from is not None and now >= worker.looks_from:
            seen = world.with_process(index, evolve(worker, looked=True))
            yield Label(name, "looks"), seen._replace(outside=branch._replace(looked=max(branch.looked, held.token)))
        if not self.bounds.sends or not worker.looked or worker.sent:
            return
        if not worker.decided and may_send(now, held.until):
            decided = evolve(worker, decided=True)
            if self.bounds.pausing:
                yield Label(name, "decides"), world.with_process(index, decided)
            else:
                yield Label(name, "sends"), self._sent(world, index, decided, held.token)
        elif worker.decided:
            yield Label(name, "sends"), self._sent(world, index, worker, held.token)

    def _sent(self, world: World, index: int, worker: Worker, token: int) -> World:
        sent = (*world.outside.sent, (token, world.shared.at + FLIGHT))
        after = world.with_process(index, evolve(worker, decided=False, sent=True))
        return after._replace(outside=world.outside._replace(sent=sent))
