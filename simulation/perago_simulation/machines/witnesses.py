"""Witnesses: for every promise a moment at which it could have failed, so that none of them holds for want of a case."""

# ruff: noqa: E501  one witness, one line
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from perago_core.ledger import SettlementKind
from perago_core.policy import Phase as PolicyPhase
from perago_core.value import Value
from perago_simulation.machines.locks import Locks
from perago_simulation.machines.model import ClusterWorld, Label
from perago_simulation.machines.policies import Policies, Stage, resolved
from perago_simulation.machines.recoveries import Recoveries, settlement
from perago_simulation.machines.scenes import scene
from perago_simulation.machines.search import BrokenPromise, Promise, explore

Sees = Callable[[Any, ClusterWorld, Label, ClusterWorld], bool]


@frozen(repr=False)
class Witness(Value):
    """What must be seen in a scene, and for which promise."""

    promise: str
    says: str
    scene: str
    sees: Sees

    def sighting(self) -> BrokenPromise | None:
        """Return the shortest way to it."""

        def judge(cluster: object, before: ClusterWorld, label: Label, after: ClusterWorld) -> str | None:
            return self.says if self.sees(cluster, before, label, after) else None

        found = explore(scene(self.scene).cluster(), [Promise(self.promise, self.says, judge)], first=True).broken
        return found[0] if found else None


def _outlived(locks: Locks, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> bool:
    """See one that no longer believes, while another does: the first was not told, its clock told it."""
    unbelieved = any(locks.holds(after, each) and not locks.believes(after, each) for each in range(len(locks.names)))
    return unbelieved and any(locks.believes(after, each) for each in range(len(locks.names)))


def _second_token(locks: Locks, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> bool:
    return any((held := locks.believes(after, each)) and held.token > 1 for each in range(len(locks.names)))


def _flying_while_another_waits(locks: Locks, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> bool:
    return bool(after.outside.sent) and locks.believes(after, 1) is not None


def _sent(_locks: Locks, _before: ClusterWorld, label: Label, _after: ClusterWorld) -> bool:
    return label.does == "sends"


def _late_renewal(_locks: Locks, before: ClusterWorld, label: Label, after: ClusterWorld) -> bool:
    return label.is_call("now") and any(
        old.running is not None and new.running is not None
        and old.running.state.phase.name == "RENEWAL" and new.running.state.phase.name == "LOST"
        for old, new in zip(before.processes, after.processes, strict=True)
    )  # fmt: skip


def _succeeded(_locks: Locks, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> bool:
    return after.outside.since is not None and after.processes[1].looked and after.outside.looked > 1


def _both_publish(_policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> bool:
    return all(node.stage is Stage.PUBLISHING for node in after.processes)


def _found_anothers(_policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> bool:
    return any(getattr(resolved(node.running), "disagreed", False) for node in after.processes)


def _second_epoch(_policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> bool:
    return len(after.shared.under("decision/")) > 1


def _in(phase: PolicyPhase) -> Sees:
    return lambda _policies, _before, _label, after: any(node.running.state.phase is phase for node in after.processes)


def _fallback(_policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> bool:
    return any(getattr(resolved(node.running), "own", False) and node.probes > 1 for node in after.processes)


def _settled(*kinds: SettlementKind) -> Sees:
    return lambda _cluster, _before, _label, after: (
        (found := settlement(after.shared)) is not None and found.kind in kinds
    )


def _lost_the_race(_recoveries: Recoveries, before: ClusterWorld, label: Label, after: ClusterWorld) -> bool:
    writes = label.is_call("create_if_absent") and label.call is not None and label.call.args[0] == "settled/op-1"
    return (
        writes
        and before.shared == after.shared
        and label.call is not None
        and before.shared.value("settled/op-1") != label.call.args[1]
    )


def _meets_a_live_one(recoveries: Recoveries, _before: ClusterWorld, label: Label, after: ClusterWorld) -> bool:
    return (
        label.is_call("reload")
        and label.actor != "owner"
        and after.outside.task == "running"
        and recoveries.bounds.owner
    )


_TWO, _SENDS = "two processes, one lock", "one sends, slowest and fastest clock"
_K = SettlementKind

# fmt: off
WITNESSES = (
    Witness("S-23", "one holds the lock while another has not noticed that its own is over", _TWO, _outlived),
    Witness("S-23b", "a second holder", _TWO, _second_token),
    Witness("S-24", "a publication is sent under the lock", _SENDS, _sent),
    Witness("S-24b", "a successor holds the lock while a request of its predecessor is on its way", "no takeover wait", _flying_while_another_waits),
    Witness("S-25", "a renewal is answered too late", _TWO, _late_renewal),
    Witness("L-04", "a successor takes a dead holder's place", "nobody pauses, the holder dies", _succeeded),
    Witness("S-26", "two nodes publish at the same time", "two nodes, one fault", _both_publish),
    Witness("S-27", "a node follows a decision that is not what it found itself", "two nodes, one fault", _found_anothers),
    Witness("S-27b", "a second epoch", "two workers, the policy changes", _second_epoch),
    Witness("S-27c", "a node follows a decision that is not what it found itself", "two nodes, one fault", _found_anothers),
    Witness("S-28", "a node that cannot read the decision does not start", "two nodes, one fault", _in(PolicyPhase.UNREADABLE)),
    Witness("S-29", "the budget of storing is spent", "one node, production budgets, storing fails", _in(PolicyPhase.UNAGREED)),
    Witness("S-29b", "a fallback is stored", "two nodes, one fault", _fallback),
    Witness("L-05", "every probe is silent and the node gives up", "two nodes that fail on silence", _in(PolicyPhase.UNPROVED)),
    Witness("L-05b", "the budget of storing is spent", "one node, production budgets, storing fails", _in(PolicyPhase.UNAGREED)),
    Witness("S-19", "an accepted result is rolled forward", "one sweep of anything, one fault, death", _settled(_K.ROLLED_FORWARD)),
    Witness("S-19b", "an intent is settled as superseded", "one sweep of anything, one fault, death", _settled(_K.SUPERSEDED)),
    Witness("S-20", "two targets are taken back", "two targets", _settled(_K.ROLLED_BACK)),
    Witness("S-21", "a sweep finds another settlement than it wanted to write", "exclusive beside keeping, one dies", _lost_the_race),
    Witness("S-21b", "a sweep finds another settlement than it wanted to write", "exclusive beside keeping, one dies", _lost_the_race),
    Witness("S-21c", "the owner settles", "the owner at work, one fault", _settled(_K.ACCEPTED)),
    Witness("S-22", "a sweep meets a live owner", "the owner at work, one dies", _meets_a_live_one),
    Witness("S-22b", "a dead task's publication is taken back", "one exclusive recovery of anything, one fault, death", _settled(_K.ROLLED_BACK)),
    Witness("S-19c", "an intent is settled as not published while its owner lives", "the owner at work, one fault", _settled(_K.NOT_PUBLISHED)),
    Witness("L-06", "an intent is settled as not published", "one sweep of anything, one fault, death", _settled(_K.NOT_PUBLISHED)),
    Witness("L-07", "a sweep finds another settlement than it wanted to write", "exclusive beside keeping, one dies", _lost_the_race),
    Witness("L-08", "an intent is settled beside one nobody can decide", "beside an intent nobody can decide", _settled(_K.ROLLED_FORWARD)),
)
# fmt: on
