"""What several processes do to one coordination store: race, agree, hold a lock and die. Each runs on any store.

Processes come from a fork server, so that they start quickly and inherit nothing from the test's own process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from multiprocessing.synchronize import Barrier
from typing import Any, Protocol, TypeAlias, TypeVar

from attrs import frozen

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.driver import Ports, run
from perago_core.lease import LeaseRequest
from perago_core.lease.run import Keeper
from perago_core.policy import OnIndeterminate, Policy, PolicySettings, Resolved, outcome, perform, start, step
from perago_core.policy.messages import Capability
from perago_core.ports import Coordination
from perago_core.values import Target

T = TypeVar("T")
Data: TypeAlias = Any

PROCESSES = multiprocessing.get_context("forkserver")
# Every process runs the main module's imports again, so pytest is among them.
PRELOADED = ["pytest", "tests.local.coordinating", "perago_local.coordination", "perago_etcd.coordination"]
PROCESSES.set_forkserver_preload(PRELOADED)
TARGET = Target("lake", "main")


class Opened(Coordination, Protocol):
    """A coordination store that this process has opened and has to close."""

    def close(self) -> None: ...


Recipe: TypeAlias = Callable[[], Opened]


class Pipe(Protocol):
    """One end of a pipe between two processes, as far as it is used here."""

    def send(self, obj: Data, /) -> None: ...
    def recv(self) -> Data: ...
    def poll(self, timeout: float, /) -> bool: ...


class RealClock:
    """The monotonic clock, which all processes of one machine share."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def together(count: int, work: Callable[..., object], *args: object) -> list[Any]:
    """Run work in so many processes at once; each is given its number, a barrier they share, and the arguments."""
    barrier = PROCESSES.Barrier(count)
    pipes = [PROCESSES.Pipe(duplex=False) for _ in range(count)]
    processes = [
        PROCESSES.Process(target=_send_back, args=(theirs, work, number, barrier, *args))
        for number, (_, theirs) in enumerate(pipes)
    ]
    for process, (_, theirs) in zip(processes, pipes, strict=True):
        process.start()
        theirs.close()
    results = [ours.recv() for ours, _ in pipes]
    for process, (ours, _) in zip(processes, pipes, strict=True):
        process.join()
        ours.close()
    return results


def _send_back(pipe: Pipe, work: Callable[..., object], *args: object) -> None:
    pipe.send(work(*args))


def race_to_create(number: int, barrier: Barrier, recipe: Recipe, rounds: int) -> list[tuple[bool, str]]:
    """Create the same key at the same moment, round after round; say whether it was ours, and what stands."""
    seen: list[tuple[bool, str]] = []
    with closing(recipe()) as coordination:
        for each in range(rounds):
            barrier.wait()
            entry = done(coordination.create_if_absent(f"race/{each:03}", f"process {number}"))
            seen.append((entry.value == f"process {number}", entry.value))
    return seen


def count_up(_number: int, barrier: Barrier, recipe: Recipe, times: int) -> int:
    """Add one, so many times, by swapping; say how often the swap was refused."""
    refused = 0
    with closing(recipe()) as coordination:
        barrier.wait()
        for _ in range(times):
            while not _add_one(coordination):
                refused += 1
    return refused


def _add_one(coordination: Coordination) -> bool:
    entry = done(coordination.get("counter"))
    standing = None if entry is None else entry.value
    return done(coordination.swap("counter", standing, str(int(standing or 0) + 1)))


@frozen
class Finding:
    """A store as one node sees it: what its probe finds."""

    answer: Answer[Capability]

    def probe(self) -> Answer[Capability]:
        return self.answer


def resolve_policy(number: int, barrier: Barrier, recipe: Recipe) -> Resolved:
    """Start as a node under the policy ``auto``; nodes see the store differently, and must still agree (W-08)."""
    findings: tuple[Answer[Capability], ...] = (
        Done(Capability.ATOMIC),
        NotDone("two racing updates were both applied"),
        Done(Capability.CONDITIONAL),
        Unknown("the probe was not answered"),
    )
    store: Any = Finding(findings[number % len(findings)])
    settings = PolicySettings(Policy.AUTO, OnIndeterminate.FALLBACK, coordination=True, node=f"node {number}")
    with closing(recipe()) as coordination:
        ports = Ports(orchestrator=None, store=store, workspace=None, clock=RealClock(), coordination=coordination)
        barrier.wait()
        state, commands = start(settings)
        while commands:
            state, commands = step(state, run(perform(commands[0], settings), ports))
    found = outcome(state)
    assert isinstance(found, Resolved), found
    return found


def lease_ports(coordination: Coordination) -> Ports:
    """Return the two ports a lease needs."""
    return Ports(orchestrator=None, store=None, workspace=None, clock=RealClock(), coordination=coordination)


def hold_until_killed(pipe: Pipe, recipe: Recipe, ttl: float, margin: float) -> None:
    """Take the lock and tend it; send the local deadline each time, which is when a holder stops acting."""
    ports, keeper = lease_ports(recipe()), Keeper(LeaseRequest(TARGET, "holder", ttl, margin))
    assert run(keeper.acquire(), ports), keeper.why
    while run(keeper.tend(), ports):
        assert keeper.held is not None
        pipe.send(keeper.held.until)
        time.sleep(ttl / 10)
    pipe.send(None)


@frozen
class Takeover:
    """What a contender saw after the holder was gone, in seconds of one clock.

    ``deadline``: until when the holder would have acted. ``taken_at``: the lock was ours. ``acting_at``: the wait after
    an unclean predecessor was over too.
    """

    killed_at: float
    deadline: float
    taken_at: float
    acting_at: float
    clean: bool
    token: int

    def __str__(self) -> str:
        taken, acting = self.taken_at - self.killed_at, self.acting_at - self.killed_at
        return f"lock free after {taken:.2f} s, acting after {acting:.2f} s"


def take_over(recipe: Recipe, ttl: float, margin: float, wait: float, fatal: signal.Signals) -> Takeover:
    """Stop a holder while it holds the lock, contend until the lock is ours, and wait as a successor must."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    holder = PROCESSES.Process(target=hold_until_killed, args=(theirs, recipe, ttl, margin))
    holder.start()
    theirs.close()
    deadlines = [ours.recv() for _ in range(12)]  # long enough for a few renewals
    assert None not in deadlines, "the holder got no processor time for so long that its lease ended"
    assert holder.pid is not None
    os.kill(holder.pid, fatal)
    killed_at = time.monotonic()
    try:
        deadline = max(deadlines + _rest(ours))
        with closing(recipe()) as coordination:
            ports = lease_ports(coordination)
            keeper = _contend(ports, ttl, margin)
            taken_at = time.monotonic()
            assert keeper.held is not None
            clean, token = keeper.held.clean, keeper.held.token
            while time.monotonic() < taken_at + wait:
                time.sleep(ttl / 10)
                assert run(keeper.tend(), ports), keeper.why
            found = Takeover(killed_at, deadline, taken_at, time.monotonic(), clean, token)
            if fatal is signal.SIGSTOP:
                os.kill(holder.pid, signal.SIGCONT)
                assert _last(ours) is None, "the woken holder still believes that it holds the lock"
            assert run(keeper.tend(), ports), "the heir lost the lock to the woken holder"
            assert run(keeper.release(), ports)
        return found
    finally:
        holder.kill()
        holder.join()


def _contend(ports: Ports, ttl: float, margin: float) -> Keeper:
    while True:
        keeper = Keeper(LeaseRequest(TARGET, "heir", ttl, margin))
        if run(keeper.acquire(), ports):
            return keeper
        time.sleep(0.02)


def _rest(pipe: Pipe) -> list[float]:
    """Give what is still in the pipe of a process that is dead or stopped."""
    found: list[float] = []
    with suppress(EOFError):
        while pipe.poll(0.1):
            found.append(pipe.recv())
    return found


def _last(pipe: Pipe) -> float | None:
    found: float | None = 0.0
    while found is not None:
        found = pipe.recv()
    return found


def done(answer: Answer[T]) -> T:
    """Return the value of an answer that must be there."""
    assert isinstance(answer, Done), answer
    return answer.value
