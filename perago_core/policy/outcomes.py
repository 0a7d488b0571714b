"""How a node's question ends: the backing it uses from now on, or why it must not start and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from attrs import field, frozen

from perago_core.checks import a, count, flag, maybe, text
from perago_core.policy.events import Decision, Policy
from perago_core.policy.known import PolicyState, detected, proposal
from perago_core.policy.phases import Phase
from perago_core.value import Value
from perago_core.values import Backing


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


_CHOSEN: Mapping[Policy, Backing] = {Policy.SOFT: Backing.SOFT, Policy.DISABLE: Backing.LOCKED}


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
    return Resolved(None, _CHOSEN.get(settings.policy, detected(known)), 0, own=False, disagreed=False)


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
    known = state.known
    against = [_words(decision) for decision in (known.stood, known.found) if decision is not None]
    return PolicyFailed(
        f"required capability missing: {against[0]}",
        "Follow it with the policy auto. If it is indeterminate, start again: a proof then replaces it at the next "
        "epoch. If it is disproved and the store has changed since, write the next epoch while nothing publishes.",
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
