"""The scenes: small worlds with printed bounds, what is promised there, and what is known not to hold.

A scene whose ``breaks`` is not empty shows what a promise rests on: without it, the promise must fail. A test demands
exactly those failures, no more and no fewer.
"""

# ruff: noqa: E501  one scene, one line
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from perago_core.lease import LEASE
from perago_core.lease.run import perform as lease_talk
from perago_core.policy import POLICY, OnIndeterminate, Policy
from perago_core.policy.run import perform as policy_talk
from perago_core.recovery import RECOVERY, Mode
from perago_core.recovery.run import perform as recovery_talk
from perago_core.value import Value
from perago_simulation.machines import changes as change_promises
from perago_simulation.machines import locks as lock_promises
from perago_simulation.machines import policies as policy_promises
from perago_simulation.machines import recoveries as recovery_promises
from perago_simulation.machines.changes import ChangeBounds, Changes
from perago_simulation.machines.lake import COMMITS, EU, MAIN, TASKS
from perago_simulation.machines.locks import LockBounds, Locks
from perago_simulation.machines.model import Cluster
from perago_simulation.machines.policies import ANYTHING, PROVED, SILENT, Policies, PolicyBounds
from perago_simulation.machines.recoveries import Recoveries, RecoveryBounds
from perago_simulation.machines.search import Explored, Promise, explore


@frozen(repr=False)
class MachineKind(Value):
    """One kind of processes: the production machine, how it talks, and what is promised of it."""

    name: str
    table: Any
    talk: Any
    make: Callable[..., Cluster] = field(eq=False)
    promises: tuple[Promise, ...] = field(eq=False)


LOCK = MachineKind("lease", LEASE, lease_talk, Locks, lock_promises.PROMISES)
AGREEMENT = MachineKind("policy", POLICY, policy_talk, Policies, policy_promises.PROMISES)
CHANGING = MachineKind("change", POLICY, policy_talk, Changes, change_promises.PROMISES)
SWEEPING = MachineKind("recovery", RECOVERY, recovery_talk, Recoveries, recovery_promises.PROMISES)


@frozen(repr=False)
class Scene(Value):
    """One world to be explored. ``full`` ones take longer than a test should."""

    name: str
    kind: MachineKind
    bounds: Any
    breaks: Mapping[str, str] = field(factory=dict[str, str])
    full: bool = False

    def cluster(self, table: Any = None, talk: Any = None) -> Cluster:  # noqa: ANN401  the machine of the kind
        """Return the world with the production machine, or with another."""
        return self.kind.make(self.bounds, table or self.kind.table, talk or self.kind.talk)

    def explore(self) -> Explored:
        """Visit all of it."""
        return explore(self.cluster(), self.kind.promises)


_AUTO, _ENABLE, _DISABLE, _SOFT = Policy.AUTO, Policy.ENABLE, Policy.DISABLE, Policy.SOFT
_SETTLE, _KEEP, _EXCLUSIVE, _PROBE = Mode.SETTLE_ONLY, Mode.KEEP, Mode.EXCLUSIVE, Mode.PROBE
_EVERY = tuple((task, (head,)) for task in TASKS for head in COMMITS)
_SLOWEST, _FASTEST = 0.75, 1.5
_BEYOND = "a clock slower than the margin allows outlives its lease (N-10)"
_STRAGGLER = "the last request of a dead holder takes longer than its lease and takes the token from the successor, whose own lease then runs out unused: one more time to live"
_LATE_RECORD = "the first of two equal requests arrives after the second was answered and the intent was closed; the record is then read by nobody (a leak, no wrong verdict)"
_FORCED = "an attempt that had compared its epoch publishes while a worker that started anew publishes under the next one: that is what the grounds are asked for"

# fmt: off
SCENES = (
    Scene("two processes, one lock", LOCK, LockBounds()),
    Scene("two processes, one dies", LOCK, LockBounds(crashes=1, releases=False)),
    Scene("one process, two executions, one fault, death", LOCK, LockBounds(rates=(1.0,), executions=(2,), faults=1, crashes=1)),
    Scene("five renewals unanswered", LOCK, LockBounds(rates=(1.0,), executions=(1,), faults=5, releases=False)),
    Scene("one sends, slowest and fastest clock", LOCK, LockBounds(rates=(_SLOWEST, _FASTEST), senders=1, releases=False)),
    Scene("nobody pauses, the holder dies", LOCK, LockBounds(executions=(1, 12), releases=False, crashes=1, prompt=True)),
    Scene("nobody pauses, a dead holder's request straggles", LOCK, LockBounds(executions=(1, 14), releases=False, crashes=1, prompt=True, stragglers=True), {"L-04": _STRAGGLER}),
    Scene("a clock beyond the bound", LOCK, LockBounds(rates=(0.5, 1.0), releases=False), {"S-23": _BEYOND, "S-23b": _BEYOND}),
    Scene("no takeover wait", LOCK, LockBounds(rates=(_SLOWEST, _FASTEST), senders=1, releases=False, waits=0.0), {"S-24b": "without the wait, what a dead holder sent lands after its successor has looked (T-W14)"}),
    Scene("paused between deciding and sending", LOCK, LockBounds(senders=1, releases=False, pausing=True),
          {"S-24": "no process can make sure that it is not paused there; only the store's barrier stops what it sends then", "S-24b": "as S-24"}),
    Scene("two processes, one answer lost, late or refused", LOCK, LockBounds(faults=1, releases=False), full=True),
    Scene("two processes, both send, one dies", LOCK, LockBounds(crashes=1, senders=2), full=True),

    Scene("one node, production budgets, storing fails", AGREEMENT, PolicyBounds((_AUTO,), ((PROVED, SILENT),), faults=11)),
    Scene("one node that requires it, production budgets", AGREEMENT, PolicyBounds((_ENABLE,), (ANYTHING,), faults=11)),
    Scene("requires it, no coordination store", AGREEMENT, PolicyBounds((_ENABLE,), (ANYTHING,), coordination=False)),
    Scene("two nodes, one fault", AGREEMENT, PolicyBounds((_AUTO, _AUTO), (ANYTHING,) * 2, faults=1, probes=2, stores=2)),
    Scene("two nodes, one dies", AGREEMENT, PolicyBounds((_AUTO, _AUTO), (ANYTHING,) * 2, crashes=1, probes=1, stores=1)),
    Scene("two nodes that fail on silence", AGREEMENT, PolicyBounds((_AUTO, _AUTO), (ANYTHING,) * 2, silent=OnIndeterminate.FAIL, faults=1, probes=2, stores=2)),
    Scene("two nodes that require it", AGREEMENT, PolicyBounds((_ENABLE, _ENABLE), (ANYTHING,) * 2, faults=1, probes=2, stores=2)),
    Scene("three nodes, any probe", AGREEMENT, PolicyBounds((_AUTO, _AUTO, _AUTO), (ANYTHING,) * 3, probes=1, stores=2)),
    Scene("auto beside enable", AGREEMENT, PolicyBounds((_AUTO, _ENABLE), (ANYTHING,) * 2, faults=1, probes=2, stores=2)),
    Scene("auto beside disable", AGREEMENT, PolicyBounds((_AUTO, _DISABLE), (ANYTHING,) * 2, probes=2, stores=2)),
    Scene("disable beside soft", AGREEMENT, PolicyBounds((_DISABLE, _SOFT), ((),) * 2, faults=1, stores=2)),
    Scene("a choice, no coordination store", AGREEMENT, PolicyBounds((_DISABLE, _SOFT), ((),) * 2, coordination=False)),
    Scene("two workers, the policy changes", CHANGING, ChangeBounds((_AUTO, _AUTO), (_DISABLE,))),
    Scene("one worker, the policy changes, one fault", CHANGING, ChangeBounds((_AUTO,), (_DISABLE,), faults=1)),
    Scene("one worker, the policy changes, one dies", CHANGING, ChangeBounds((_AUTO,), (_DISABLE,), crashes=1)),
    Scene("two workers, the policy changes, one dies", CHANGING, ChangeBounds((_AUTO, _AUTO), (_DISABLE,), looks=0, crashes=1), full=True),
    Scene("two people change the policy", CHANGING, ChangeBounds((), (_DISABLE, _SOFT), looks=0, crashes=1)),
    Scene("two people change the policy beside a worker", CHANGING, ChangeBounds((_AUTO,), (_DISABLE, _SOFT)), full=True),
    Scene("the policy changes by force", CHANGING, ChangeBounds((_AUTO, _AUTO), (_DISABLE,), forced=True, looks=0), {"S-26": _FORCED}),
    Scene("two nodes, production budgets, nothing answers", AGREEMENT, PolicyBounds((_AUTO, _AUTO), ((SILENT,), (SILENT,))), full=True),
    Scene("three nodes, two probes each", AGREEMENT, PolicyBounds((_AUTO, _AUTO, _AUTO), (ANYTHING,) * 3, probes=2, stores=2), full=True),

    Scene("one sweep of anything, one fault, death", SWEEPING, RecoveryBounds(((MAIN, _SETTLE),), _EVERY, faults=1, crashes=1)),
    Scene("one exclusive recovery of anything, one fault, death", SWEEPING, RecoveryBounds(((MAIN, _EXCLUSIVE),), _EVERY, faults=1, crashes=1)),
    Scene("confirmed, exclusive, one fault, death", SWEEPING, RecoveryBounds(((MAIN, _EXCLUSIVE),), _EVERY, confirmed=True, faults=1, crashes=1)),
    Scene("looking at anything", SWEEPING, RecoveryBounds(((MAIN, _PROBE),), _EVERY, faults=1)),
    Scene("two sweeps of anything", SWEEPING, RecoveryBounds(((MAIN, _SETTLE), (MAIN, _SETTLE)), _EVERY)),
    Scene("two sweeps, one dies", SWEEPING, RecoveryBounds(((MAIN, _SETTLE), (MAIN, _SETTLE)), (("ours", ("p1",)), ("dead", ("p1",))), crashes=1)),
    Scene("two sweeps, one fault, one dies", SWEEPING, RecoveryBounds(((MAIN, _SETTLE), (MAIN, _SETTLE)), (("ours", ("p1",)), ("dead", ("p1",))), faults=1, crashes=1), full=True),
    Scene("exclusive beside keeping, one dies", SWEEPING, RecoveryBounds(((MAIN, _EXCLUSIVE), (MAIN, _KEEP)), (("dead", ("p1",)),), crashes=1)),
    Scene("two exclusive ones", SWEEPING, RecoveryBounds(((MAIN, _EXCLUSIVE), (MAIN, _EXCLUSIVE)), (("dead", ("p1",)),))),
    Scene("two exclusive ones, one fault", SWEEPING, RecoveryBounds(((MAIN, _EXCLUSIVE), (MAIN, _EXCLUSIVE)), (("dead", ("p1",)),), faults=1), full=True),
    Scene("two targets", SWEEPING, RecoveryBounds(((MAIN, _EXCLUSIVE), (EU, _SETTLE)), tuple((task, heads) for task in ("dead", "ours") for heads in (("p1", "p1"), ("p1", "a0"), ("a0", "p1"))))),
    Scene("the owner at work, one dies", SWEEPING, RecoveryBounds(((MAIN, _SETTLE),), (("running", ("a0",)),), owner=True, crashes=1)),
    Scene("the owner at work, one fault", SWEEPING, RecoveryBounds(((MAIN, _SETTLE),), (("running", ("a0",)),), owner=True, faults=1), {"S-21c": _LATE_RECORD}),
    Scene("beside an intent nobody can decide", SWEEPING, RecoveryBounds(((MAIN, _SETTLE),), (("dead", ("p1",)), ("ours", ("p1",))), blocked=MAIN)),
    Scene("another target's intent nobody can decide", SWEEPING, RecoveryBounds(((MAIN, _SETTLE), (EU, _SETTLE)), (("dead", ("p1",)), ("ours", ("p1",))), blocked=EU)),
    Scene("three sweeps, one of them exclusive", SWEEPING, RecoveryBounds(((MAIN, _SETTLE), (MAIN, _SETTLE), (MAIN, _EXCLUSIVE)), (("dead", ("p1",)),)), full=True),
    Scene("the owner and two sweeps", SWEEPING, RecoveryBounds(((MAIN, _SETTLE), (MAIN, _SETTLE)), (("running", ("a0",)),), owner=True, crashes=1), full=True),
)
# fmt: on


def scene(name: str) -> Scene:
    """Return a scene by its name."""
    (found,) = [each for each in SCENES if each.name == name]
    return found
