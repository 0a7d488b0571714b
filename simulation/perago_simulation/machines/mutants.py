"""Mutants of the three machines: rows that lead elsewhere, lessons learnt wrongly, records overwritten.

Each names the promise that notices it, the scene in which it does, and who else notices it there.
"""

# ruff: noqa: E501  one mutant, one line
from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from attrs import evolve, field, frozen

from perago_core.answers import Answer, Done, Unknown
from perago_core.calls import Call, Conversation
from perago_core.lease import messages as lease_messages
from perago_core.ledger import Settlement
from perago_core.ledger.records import encode, settled_key
from perago_core.machine.engine import Table
from perago_core.machine.rows import Ask, Command, Definition, Fact, Row
from perago_core.policy import messages as policy_messages
from perago_core.policy.run import perform as policy_talk
from perago_core.policy.state import REMEMBER as POLICY_LESSONS
from perago_core.policy.state import Phase as PolicyPhase
from perago_core.policy.state import decision_key, encode_decision, proposal
from perago_core.recovery import messages as recovery_messages
from perago_core.recovery import table as recovery_table
from perago_core.recovery.run import perform as recovery_talk
from perago_core.recovery.state import Phase as RecoveryPhase
from perago_core.value import Value
from perago_simulation.machines.conversations import Perform
from perago_simulation.machines.model import Cluster
from perago_simulation.machines.scenes import scene
from perago_simulation.machines.search import explore


@frozen(repr=False)
class MachineMutant(Value):
    """One wrong machine, the promise that notices it, and where."""

    id: str
    says: str
    promise: str
    scene: str
    change: Callable[[Definition[Any, Any]], Definition[Any, Any]] = field(
        default=lambda definition: definition, eq=False
    )
    talk: Perform | None = field(default=None, eq=False)
    also: tuple[str, ...] = ()

    def noticing(self) -> set[str]:
        """Return every promise that notices it in its scene, but those that production breaks there too."""
        where = scene(self.scene)
        return {*explore(self._cluster(), where.kind.promises).found()} - {*where.breaks}

    def noticed(self) -> str | None:
        """Say how its promise notices it, or ``None`` if it does not."""
        where = scene(self.scene)
        promises = [each for each in where.kind.promises if each.id == self.promise]
        found = explore(self._cluster(), promises, first=True)
        return found.broken[0].problem if found.broken else None

    def _cluster(self) -> Cluster:
        where = scene(self.scene)
        return where.cluster(Table(self.change(where.kind.table.definition), check=False), self.talk)


def leads_as(identity: str, other: str) -> Callable[[Definition[Any, Any]], Definition[Any, Any]]:
    """Let one row lead where another leads."""

    def change(definition: Definition[Any, Any]) -> Definition[Any, Any]:
        rows = {each.id: each for each in definition.rows}
        return _with_row(definition, evolve(rows[identity], next=rows[other].next, ask=rows[other].ask))

    return change


def leads_to(identity: str, phase: Any, ask: Any = None) -> Callable[[Definition[Any, Any]], Definition[Any, Any]]:  # noqa: ANN401  phases differ by machine
    """Let one row lead to this phase and ask for this."""

    def change(definition: Definition[Any, Any]) -> Definition[Any, Any]:
        (found,) = [each for each in definition.rows if each.id == identity]
        return _with_row(definition, evolve(found, next=phase, ask=ask))

    return change


def _with_row(definition: Definition[Any, Any], changed: Row) -> Definition[Any, Any]:
    return evolve(definition, rows=tuple(changed if each.id == changed.id else each for each in definition.rows))


def always(fact: str, value: str) -> Callable[[Definition[Any, Any]], Definition[Any, Any]]:
    """Let a fact have one value whatever happens."""

    def change(definition: Definition[Any, Any]) -> Definition[Any, Any]:
        def read(_subject: object, _known: object, _event: object) -> str:
            return value

        facts = tuple(Fact(each.name, each.values, read) if each.name == fact else each for each in definition.facts)
        return evolve(definition, facts=facts)

    return change


def learns(event: type, lesson: Callable[[Any, Any], Any]) -> Callable[[Definition[Any, Any]], Definition[Any, Any]]:
    """Let an event teach something else."""
    return lambda definition: evolve(definition, remember={**definition.remember, event: lesson})


# ---------------------------------------------------------------------------------------------------------------------
# Lessons learnt wrongly, and writes that overwrite


def _same_token(state: Any, event: Any) -> Any:  # noqa: ANN401  a lesson of the lease machine
    return evolve(state.known, clean=event.record.released, standing=event.standing, token=event.record.token)


def _no_margin(state: Any, event: Any) -> Any:  # noqa: ANN401  a lesson of the lease machine
    return evolve(
        state.known,
        lease=event.lease,
        sent_at=event.sent_at,
        until=event.sent_at + state.subject.ttl + state.subject.margin,
    )


def _clean_anyway(state: Any, event: Any) -> Any:  # noqa: ANN401  a lesson of the lease machine
    return evolve(state.known, clean=True, standing=event.standing, token=event.record.token + 1)


def _skips_an_epoch(state: Any, _event: Any) -> Any:  # noqa: ANN401  a lesson of the policy machine
    return evolve(state.known, found=proposal(state.subject, evolve(state.known, found=None)))


def _keeps_its_own(state: Any, _event: Any) -> Any:  # noqa: ANN401  a lesson of the policy machine
    return evolve(state.known, stood=proposal(state.subject, state.known))


def _probe_spends_stores(state: Any, event: Any) -> Any:  # noqa: ANN401  a lesson of the policy machine
    known = POLICY_LESSONS[Unknown](state, event)
    return evolve(known, stores=known.stores + 1) if state.phase is PolicyPhase.PROBE else known


def _long_rest(_settings: object, _known: object, _event: object) -> Command:
    return policy_messages.BackOff(1000.0)


_REST_LONG = Ask(policy_messages.BackOff, _long_rest, "long_rest")


def _overwriting(key: str, text: str) -> Generator[Call, Answer[Any], None]:
    standing = yield Call("coordination", "get", (key,))
    assert isinstance(standing, Done)
    yield Call("coordination", "swap", (key, standing.value and standing.value.value, text))


def _overwriting_decision(command: Command, settings: Any) -> Conversation:  # noqa: ANN401  what the machine is about
    """Store a decision over whatever stands."""
    if not isinstance(command, policy_messages.StoreDecision):
        return (yield from policy_talk(command, settings))
    key, text = decision_key(command.decision.epoch), encode_decision(command.decision)
    yield from _overwriting(key, text)
    return policy_messages.DecisionStood(command.decision)


def _overwriting_settlement(command: Command, subject: Any) -> Conversation:  # noqa: ANN401  what the machine is about
    """Settle over whatever stands."""
    if not isinstance(command, recovery_messages.Settle):
        return (yield from recovery_talk(command, subject))
    settlement: Settlement = command.settlement
    key = settled_key(settlement.operation_id)
    yield from _overwriting(key, encode(settlement))
    return recovery_messages.SettlementStands(settlement)


def _first_target_only(command: Command, subject: Any) -> Conversation:  # noqa: ANN401  what the machine is about
    """Settle the first target of an intent by itself."""
    if isinstance(command, recovery_messages.Settle):
        settlement = command.settlement
        command = recovery_messages.Settle(evolve(settlement, movements=settlement.movements[:1]))
    return (yield from recovery_talk(command, subject))


_TWO, _SENDS, _PROMPT = (
    "two processes, one lock",
    "one sends, slowest and fastest clock",
    "nobody pauses, the holder dies",
)
_NODES, _ONE_NODE = "two nodes, one fault", "one node, production budgets, storing fails"
_SWEEP, _MOVING, _AT_WORK = (
    "one sweep of anything, one fault, death",
    "one exclusive recovery of anything, one fault, death",
    "the owner at work, one dies",
)

# fmt: off
MUTANTS = (
    MachineMutant("deadline past the end", "the local deadline lies after the lease's end (T-W13)", "S-23", _TWO, learns(lease_messages.Granted, _no_margin), also=("S-23b",)),
    MachineMutant("any lock is mine", "a lock that stands is taken for one's own (T-W12)", "S-23", _TWO, always("holder", "mine"), also=("S-23b",)),
    MachineMutant("same token", "the token of the last holder is used again (T-W5)", "S-23b", _SENDS, learns(lease_messages.TokenFound, _same_token)),
    MachineMutant("never unclean", "a holder that vanished counts as one that released (T-W14, W-24)", "S-24b", _SENDS, learns(lease_messages.TokenFound, _clean_anyway)),
    MachineMutant("K4 as K3", "a renewal answered after the deadline brings the lease back", "S-25", _TWO, leads_as("K4", "K3")),
    MachineMutant("K5 as K6", "who is told that the lease is gone goes on", "S-25", _TWO, leads_as("K5", "K6")),
    MachineMutant("H2 as H3", "nobody renews: a lease is given up when it is due", "L-04", _PROMPT, leads_as("H2", "H3")),
    MachineMutant("T8 resolves", "who could not store uses its own finding (W-14)", "S-28", _NODES, leads_to("T8", PolicyPhase.RESOLVED), also=("S-26",)),
    MachineMutant("keeps its own", "whoever finds another decision keeps its own (T-W9)", "S-27c", _NODES, learns(policy_messages.DecisionStood, _keeps_its_own), also=("S-26",)),
    MachineMutant("own beside another's", "two nodes use different backings", "S-26", _NODES, learns(policy_messages.DecisionStood, _keeps_its_own), also=("S-27c",)),
    MachineMutant("overwrites", "a decision is written over the one that stands (W-08)", "S-27", "two nodes, one dies", talk=_overwriting_decision, also=("S-26", "S-27c")),
    MachineMutant("skips an epoch", "the next epoch but one is written (T-W5)", "S-27b", _NODES, learns(policy_messages.DecisionAbsent, _skips_an_epoch)),
    MachineMutant("probes spend stores", "silent probes count as failed stores (W-13)", "S-29", _ONE_NODE, learns(Unknown, _probe_spends_stores)),
    MachineMutant("P5 as P8", "one silent probe is enough for a fallback (T-W1)", "S-29b", _NODES, leads_as("P5", "P8")),
    MachineMutant("long waits", "the wait after a failed store has no maximum (W-05)", "L-05b", _NODES, leads_to("T8", PolicyPhase.STORE_PAUSE, _REST_LONG)),
    MachineMutant("X1 rests", "after a failed store nobody stores again", "L-05", _NODES, leads_to("X1", PolicyPhase.STORE_PAUSE)),
    MachineMutant("D09 for ours", "an accepted result is settled as not published (D-6, T-O3)", "S-19", _SWEEP, leads_as("D06", "D09"), also=("S-19b", "S-19c")),
    MachineMutant("D10 as D09", "a plan that stands is not looked at (CW-29)", "S-19", "two exclusive ones", leads_as("D10", "D09")),
    MachineMutant("D06 as D07", "an accepted result that is there is called lost", "S-19b", _SWEEP, leads_as("D06", "D07")),
    MachineMutant("D09 as D11", "nothing was published, and it is called superseded", "S-19b", _SWEEP, leads_as("D09", "D11")),
    MachineMutant("D12 as D11", "a history nobody can read is settled (D-4, T-O1)", "S-19b", _SWEEP, leads_as("D12", "D11")),
    MachineMutant("settles at once", "nobody takes the dead owner's name before it looks (S-19)", "S-19c", _AT_WORK, leads_as("A4", "A2")),
    MachineMutant("partial is whole", "one target is enough (S-20, R-14)", "S-20", "two targets", leads_as("D07", "D06"), also=("S-19b",)),
    MachineMutant("first target only", "each target is settled by itself", "S-20", "two targets", talk=_first_target_only, also=("L-06",)),
    MachineMutant("overwrites a settlement", "the last settlement stands (D-9)", "S-21", "exclusive beside keeping, one dies", talk=_overwriting_settlement, also=("L-06", "S-21b")),
    MachineMutant("S1 closes", "an intent is closed without an audit record", "S-21b", _SWEEP, leads_to("S1", RecoveryPhase.CLOSING, recovery_table.close), also=("L-06", "L-07")),
    MachineMutant("D02 as D11", "an open task is settled (T-O9)", "S-22", _SWEEP, leads_as("D02", "D11"), also=("S-19", "S-19b")),
    MachineMutant("D06 as D15", "an accepted publication is taken back (K-02)", "S-22b", _MOVING, leads_as("D06", "D15"), also=("L-06", "S-19")),
    MachineMutant("E2 as E1", "a settled intent is left listed (R-04)", "L-06", _SWEEP, leads_as("E2", "E1")),
    MachineMutant("S1 ends", "nobody writes the audit record", "L-07", "two sweeps of anything", leads_to("S1", RecoveryPhase.SETTLED), also=("L-06",)),
    MachineMutant("D03 as D11", "an intent nobody can decide is settled", "L-08", "beside an intent nobody can decide", leads_as("D03", "D11")),
)
# fmt: on

#: By promise on safety, why no mutant here is noticed by it alone.
IMPLIED: Mapping[str, str] = {
    "S-20": "a target that is left out is not settled for what it is (S-19b), or not at all (L-06)",
    "S-21": "a settlement that changes does not agree with its audit record any more (S-21b)",
    "S-21b": "an intent that was closed without a record is one that no sweep settles any more (L-06, L-07)",
    "S-21c": "production breaks it in *the owner at work, one fault*, for the reason named there: the scene is its mutant",
    "S-22": "an open task that is settled is settled for what it is not (S-19)",
    "S-22b": "what is taken back although it was accepted is settled for what it is not (S-19)",
    "S-23": "of two who believe to hold one lock one has not the greatest token (S-23b)",
    "S-24": "no process can keep itself from being paused: *paused between deciding and sending* is its mutant. "
    "On the calls of a driver it is noticed alone",
    "S-26": "of two who use different backings at one epoch one does not use what is stored there (S-27c)",
    "S-27": "who used the decision that was overwritten does not use what is stored (S-27c)",
    "S-27c": "who does not use what is stored uses another backing than somebody who does (S-26)",
    "S-28": "who decides alone uses another backing than somebody who has asked (S-26)",
}
