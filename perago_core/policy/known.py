"""What a node is told, what it has learnt about the cluster's decision, and what each event teaches it.

Records only: nothing here chooses a way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from perago_core.checks import a, flag, text
from perago_core.policy import events as e
from perago_core.rows import Event, State
from perago_core.value import Value
from perago_core.values import Backing

PROBES_AUTO = 30
PROBES_ENABLE = 10
STORES = 10
BACKOFF_FIRST = 0.1
BACKOFF_MAX = 2.0


@frozen(cache_hash=True, repr=False)
class PolicySettings(Value):
    """What an operator configures on one node. ``node`` is the identity written into a decision it detects."""

    policy: e.Policy = field(validator=a(e.Policy))
    on_indeterminate: e.OnIndeterminate = field(validator=a(e.OnIndeterminate))
    coordination: bool = field(validator=flag)
    node: str = field(validator=text)


@frozen(cache_hash=True, repr=False)
class PolicyKnown(Value):
    """Everything learnt since the node started.

    ``found`` is the decision last read, ``stood`` the one that answered our own attempt to store. ``transcript`` has
    one line a probe, so its length is the number of probes; ``stores`` counts the attempts to store that failed.
    """

    found: e.Decision | None = None
    stood: e.Decision | None = None
    capability: e.Capability | None = None
    evidence: e.Evidence = e.Evidence.INDETERMINATE
    transcript: tuple[str, ...] = ()
    stores: int = 0
    trouble: str = ""


PolicyState: TypeAlias = State[PolicySettings, PolicyKnown]

_BACKINGS: Mapping[e.Capability | None, Backing] = {
    None: Backing.LOCKED,
    e.Capability.ATOMIC: Backing.ATOMIC,
    e.Capability.CONDITIONAL: Backing.CONDITIONAL,
}


def detected(known: PolicyKnown) -> Backing:
    """Give the backing this node's own probes speak for: ``locked`` unless one of them proved more."""
    return _BACKINGS[known.capability]


def proposal(settings: PolicySettings, known: PolicyKnown) -> e.Decision:
    """Make the decision this node would store: its own finding, at the epoch after the one it has read (T-W5)."""
    return e.Decision(
        epoch=1 if known.found is None else known.found.epoch + 1,
        backing=detected(known),
        evidence=known.evidence,
        detector=settings.node,
        policy=settings.policy,
        transcript=hashlib.sha256("\n".join(known.transcript).encode("utf-8", "surrogatepass")).hexdigest(),
    )


def backoff(tries: int) -> float:
    """Give the wait after so many tries, one or more: it doubles until it reaches its maximum (W-05)."""
    return min(BACKOFF_FIRST * 2.0 ** (tries - 1), BACKOFF_MAX)


def _probed(state: PolicyState, evidence: e.Evidence, told: str, capability: e.Capability | None = None) -> PolicyKnown:
    transcript = (*state.known.transcript, f"{evidence.value}: {told}")
    return evolve(state.known, capability=capability, evidence=evidence, transcript=transcript, trouble=told)


def _probe_proved(state: PolicyState, event: e.ProbeProved) -> PolicyKnown:
    return _probed(state, e.Evidence.PROVED, event.capability.value, event.capability)


def _probe_disproved(state: PolicyState, event: e.ProbeDisproved) -> PolicyKnown:
    return _probed(state, e.Evidence.DISPROVED, event.reason)


def _probe_unknown(state: PolicyState, event: e.ProbeUnknown) -> PolicyKnown:
    return _probed(state, e.Evidence.INDETERMINATE, event.reason)


def _not_stored(state: PolicyState, event: e.Because) -> PolicyKnown:
    return evolve(state.known, stores=state.known.stores + 1, trouble=event.reason)


def _troubled(state: PolicyState, event: e.Because) -> PolicyKnown:
    return evolve(state.known, trouble=event.reason)


REMEMBER: Mapping[type[Event], Callable[[PolicyState, Any], PolicyKnown]] = {
    e.DecisionFound: lambda state, event: evolve(state.known, found=event.decision),
    e.DecisionAbsent: lambda state, _: evolve(state.known, found=None),
    e.DecisionUnreadable: _troubled,
    e.DecisionReadUnknown: _troubled,
    e.ProbeProved: _probe_proved,
    e.ProbeDisproved: _probe_disproved,
    e.ProbeUnknown: _probe_unknown,
    e.DecisionStood: lambda state, event: evolve(state.known, stood=event.decision),
    e.StoringRefused: _not_stored,
    e.StoringUnknown: _not_stored,
}
