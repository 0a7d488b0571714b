"""What a node is told, what it has learnt about the cluster's decision, and what each event teaches it.

Records only: nothing here chooses a way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from perago_core.answers import Event, NotDone, Unknown
from perago_core.errors import CodecError
from perago_core.machine import codec
from perago_core.machine.rows import State, Waiting
from perago_core.policy import messages as m
from perago_core.policy.messages import Decision, Policy
from perago_core.ports import Entry
from perago_core.value import Value, a, count, flag, maybe, text
from perago_core.values import Backing


class Phase(Waiting):
    """A phase is named after what is awaited; the last seven are the ends, each failure under its own name."""

    SETTINGS = "the settings"
    DECISION = "the stored decision"
    PROBE = "the store's behaviour"
    PROBE_PAUSE = "the end of the wait before another probe"
    STORED = "the decision that stands at our epoch"
    STORE_PAUSE = "the end of the wait before storing again"
    RESOLVED = "nothing more: the backing is known"
    UNCOORDINATED = "nothing more: the policy needs a coordination store and there is none"
    UNREADABLE = "nothing more: nobody knows what was decided"
    INCAPABLE = "nothing more: the store is proved unable of what is required"
    OVERRULED = "nothing more: the cluster decided against what this node asks for"
    UNPROVED = "nothing more: no probe came to an answer"
    UNAGREED = "nothing more: the decision could not be stored"


PREFIX = "decision/"


def decision_key(epoch: int) -> str:
    """Name the key of an epoch; padded, so that key order is epoch order."""
    return f"{PREFIX}{epoch:010d}"


def encode_decision(decision: Decision) -> str:
    """Write a decision as text."""
    return codec.dumps(decision)


def decode_decision(entry: Entry) -> Decision:
    """Read the decision an entry holds, or raise ``CodecError`` saying which key holds what instead."""
    try:
        decision = codec.loads(entry.value, Decision)
    except CodecError as problem:
        message = f"the decision at {entry.key} cannot be read: {problem}"
        raise CodecError(message) from problem
    if entry.key != decision_key(decision.epoch):
        message = f"the decision at {entry.key} cannot be read: it says epoch {decision.epoch}, its key does not"
        raise CodecError(message)
    return decision


def latest_decision(entries: Iterable[Entry]) -> Decision | None:
    """Read the decision with the highest epoch; ``None`` only if there is no entry at all.

    Only the latest is decoded, but every key must be one of ours: an unknown key may be the newest decision.
    """
    latest: tuple[int, Entry] | None = None
    for entry in entries:
        epoch = _epoch_of(entry.key)
        if latest is None or epoch > latest[0]:
            latest = (epoch, entry)
    return None if latest is None else decode_decision(latest[1])


def _epoch_of(key: str) -> int:
    digits = key.removeprefix(PREFIX)
    if not (digits.isascii() and digits.isdecimal()) or key != decision_key(int(digits)):
        message = f"{key!r} is not the key of a decision"
        raise CodecError(message)
    return int(digits)


PROBES_AUTO = 30
PROBES_ENABLE = 10
STORES = 10
BACKOFF_FIRST = 0.1
BACKOFF_MAX = 2.0


@frozen(cache_hash=True, repr=False)
class PolicySettings(Value):
    """What an operator configures on one node. ``node`` is the identity written into a decision it detects."""

    policy: m.Policy = field(validator=a(m.Policy))
    on_indeterminate: m.OnIndeterminate = field(validator=a(m.OnIndeterminate))
    coordination: bool = field(validator=flag)
    node: str = field(validator=text)


@frozen(cache_hash=True, repr=False)
class PolicyKnown(Value):
    """Everything learnt since the node started.

    ``found`` is the decision last read, ``stood`` the one that answered our own attempt to store. ``transcript`` has
    one line a probe, so its length is the number of probes; ``stores`` counts the attempts to store that failed.
    """

    found: m.Decision | None = None
    stood: m.Decision | None = None
    capability: m.Capability | None = None
    evidence: m.Evidence = m.Evidence.INDETERMINATE
    transcript: tuple[str, ...] = ()
    stores: int = 0
    trouble: str = ""


PolicyState: TypeAlias = State[PolicySettings, PolicyKnown]

_BACKINGS: Mapping[m.Capability | None, Backing] = {
    None: Backing.LOCKED,
    m.Capability.ATOMIC: Backing.ATOMIC,
    m.Capability.CONDITIONAL: Backing.CONDITIONAL,
}


def detected(known: PolicyKnown) -> Backing:
    """Return the backing this node's own probes speak for: ``locked`` unless one of them proved more."""
    return _BACKINGS[known.capability]


#: What is chosen, and so not detected.
CHOSEN: Mapping[Policy, Backing] = {Policy.SOFT: Backing.SOFT, Policy.DISABLE: Backing.LOCKED}


def proposal(settings: PolicySettings, known: PolicyKnown, why: str = "") -> m.Decision:
    """Make the decision this node would store: its choice or its own finding, at the epoch after the one it has read.

    An epoch that is taken is lost, never skipped (T-W5).
    """
    chosen = CHOSEN.get(settings.policy)
    return m.Decision(
        epoch=1 if known.found is None else known.found.epoch + 1,
        backing=detected(known) if chosen is None else chosen,
        evidence=known.evidence if chosen is None else m.Evidence.CHOSEN,
        detector=settings.node,
        policy=settings.policy,
        transcript=hashlib.sha256("\n".join(known.transcript).encode("utf-8", "surrogatepass")).hexdigest(),
        why=why or ("" if chosen is None else f"it starts with the policy {settings.policy.value}"),
    )


def fits(policy: Policy, decision: m.Decision) -> bool:
    """Whether a node with this policy may follow a decision: ``auto`` follows any, the others what they ask for."""
    match policy:
        case Policy.AUTO:
            return True
        case Policy.ENABLE:
            return decision.evidence is m.Evidence.PROVED
        case _:
            return decision.backing is CHOSEN[policy]


def backoff(tries: int) -> float:
    """Return the wait after so many tries, one or more: it doubles until it reaches its maximum (W-05)."""
    return min(BACKOFF_FIRST * 2.0 ** (tries - 1), BACKOFF_MAX)


def _probed(state: PolicyState, evidence: m.Evidence, told: str, capability: m.Capability | None = None) -> PolicyKnown:
    transcript = (*state.known.transcript, f"{evidence.value}: {told}")
    return evolve(state.known, capability=capability, evidence=evidence, transcript=transcript, trouble=told)


def _probe_proved(state: PolicyState, event: m.ProbeProved) -> PolicyKnown:
    return _probed(state, m.Evidence.PROVED, event.capability.value, event.capability)


def _failed(state: PolicyState, event: NotDone | Unknown) -> PolicyKnown:
    if state.phase is Phase.PROBE:
        evidence = m.Evidence.DISPROVED if isinstance(event, NotDone) else m.Evidence.INDETERMINATE
        return _probed(state, evidence, event.reason)
    stores = state.known.stores + (state.phase is Phase.STORED)
    return evolve(state.known, stores=stores, trouble=event.reason)


REMEMBER: Mapping[type[Event], Callable[[PolicyState, Any], PolicyKnown]] = {
    NotDone: _failed,
    Unknown: _failed,
    m.DecisionFound: lambda state, event: evolve(state.known, found=event.decision),
    m.DecisionAbsent: lambda state, _: evolve(state.known, found=None),
    m.DecisionUnreadable: lambda state, event: evolve(state.known, trouble=event.reason),
    m.ProbeProved: _probe_proved,
    m.DecisionStood: lambda state, event: evolve(state.known, stood=event.decision),
}


@frozen(cache_hash=True, repr=False)
class Resolved(Value):
    """The backing to use and the epoch to pin; 0 when nothing is stored, and then ``decision`` is ``None``.

    ``own`` says that the stored decision is this node's; ``disagreed`` that this node found something else than the
    decision it follows, which is worth a look and changes nothing.
    """

    decision: Decision | None = field(validator=maybe(a(Decision)))
    backing: Backing = field(validator=a(Backing))
    epoch: int = field(validator=count)
    own: bool = field(validator=flag)
    disagreed: bool = field(validator=flag)


@frozen(cache_hash=True, repr=False)
class PolicyFailed(Value):
    """The node must not start: why, and what an operator can do."""

    reason: str = field(validator=text)
    next_action: str = field(validator=text)


def outcome(state: PolicyState) -> Resolved | PolicyFailed | None:
    """Say how it ended; ``None`` while it has not."""
    if state.phase is Phase.RESOLVED:
        return _resolved(state)
    explain = _EXPLANATIONS.get(state.phase)
    return None if explain is None else explain(state)


def _resolved(state: PolicyState) -> Resolved:
    settings, known = state.subject, state.known
    if known.stood is not None:
        mine = proposal(settings, known)
        return Resolved(
            decision=known.stood,
            backing=known.stood.backing,
            epoch=known.stood.epoch,
            own=known.stood == mine,
            disagreed=known.stood.backing is not mine.backing,
        )
    if known.found is not None:
        return Resolved(known.found, known.found.backing, known.found.epoch, own=False, disagreed=False)
    return Resolved(None, CHOSEN.get(settings.policy, detected(known)), 0, own=False, disagreed=False)


def _uncoordinated(state: PolicyState) -> PolicyFailed:
    if state.subject.policy is Policy.DISABLE:
        return PolicyFailed(
            "policy disable uses a lease, and a lease needs a coordination store: none is configured",
            "Configure a coordination store, or choose the policy soft or enable.",
        )
    return PolicyFailed(
        "policy auto needs a coordination store to agree on: without one only explicit soft or enable starts",
        "Configure a coordination store, or choose the policy soft or enable.",
    )


def _unreadable(state: PolicyState) -> PolicyFailed:
    return PolicyFailed(
        f"indeterminate: the cluster's decision could not be read ({_trouble(state)}), and nobody decides without it",
        "Make the coordination store readable, or run a program that knows the record; then start again.",
    )


def _incapable(state: PolicyState) -> PolicyFailed:
    return PolicyFailed(
        f"required capability missing: the store is proved unable to condition a publication ({_trouble(state)})",
        "Enable the capability on the store, or choose the policy auto or disable.",
    )


def _overruled(state: PolicyState) -> PolicyFailed:
    policy, known = state.subject.policy, state.known
    against = [_words(decision) for decision in (known.stood, known.found) if decision is not None]
    if policy is Policy.ENABLE:
        return PolicyFailed(
            f"required capability missing: {against[0]}",
            "Follow it with the policy auto, or have the store probed again for the whole cluster: "
            "perago policy review --write --why '...'",
        )
    return PolicyFailed(
        f"the policy {policy.value} contradicts the cluster's: {against[0]}",
        f"Follow it with the policy auto, or change it for the whole cluster: perago policy set {policy.value} "
        "--why '...'",
    )


def _words(decision: Decision) -> str:
    verdict = f"{decision.backing.value}, {decision.evidence.value}"
    return f"the decision of epoch {decision.epoch} by {decision.detector} says {verdict}"


def _unproved(state: PolicyState) -> PolicyFailed:
    return PolicyFailed(
        f"indeterminate: none of {len(state.known.transcript)} probes came to an answer (last: {_trouble(state)}); "
        "nothing was stored",
        "Make the store reachable and start again, or choose another policy.",
    )


def _unagreed(state: PolicyState) -> PolicyFailed:
    return PolicyFailed(
        f"cannot agree: the decision was not stored in {state.known.stores} tries (last: {_trouble(state)}), "
        "and a node's own finding alone is never used",
        "Make the coordination store writable and start again.",
    )


def _trouble(state: PolicyState) -> str:
    return state.known.trouble or "no reason given"


_EXPLANATIONS: Mapping[Enum, Callable[[PolicyState], PolicyFailed]] = {
    Phase.UNCOORDINATED: _uncoordinated,
    Phase.UNREADABLE: _unreadable,
    Phase.INCAPABLE: _incapable,
    Phase.OVERRULED: _overruled,
    Phase.UNPROVED: _unproved,
    Phase.UNAGREED: _unagreed,
}
