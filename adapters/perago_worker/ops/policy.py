"""The decision of a cluster as an operator handles it: read with who works under it, probed again, changed."""

from __future__ import annotations

import getpass
import secrets
import socket

from attrs import evolve, frozen

from perago_core.answers import Answer, Done
from perago_core.driver import run
from perago_core.policy import (
    Change,
    Changed,
    Decision,
    Evidence,
    Member,
    OnIndeterminate,
    Policy,
    PolicyFailed,
    PolicyKnown,
    PolicySettings,
    change,
    detect,
    list_members,
    propose,
    read_decision,
)
from perago_core.values import Target
from perago_worker.stack import Stack

#: What is not chosen is found out.
_DETECTED = (Policy.AUTO, Policy.ENABLE)


@frozen
class Standing:
    """The stored decision, and the workers that are there."""

    decision: Decision | None
    workers: tuple[Member, ...]

    @property
    def behind(self) -> tuple[Member, ...]:
        """The workers that do not work under the stored decision yet."""
        epoch = 0 if self.decision is None else self.decision.epoch
        return tuple(each for each in self.workers if each.epoch != epoch)


def standing(stack: Stack) -> Answer[Standing]:
    """Read it."""
    decision = run(read_decision(), stack.ports())
    if not isinstance(decision, Done):
        return decision
    workers = run(list_members(), stack.ports())
    return Done(Standing(decision.value, workers.value)) if isinstance(workers, Done) else workers


def person() -> str:
    """Name whoever types this."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def next_decision(
    stack: Stack, policy: Policy, found: Decision | None, *, who: str, why: str
) -> Decision | PolicyFailed:
    """Make the decision that is to follow: a choice, or what the store proves now."""
    known = run(detect(who), stack.ports()) if policy in _DETECTED else PolicyKnown()
    settings = PolicySettings(policy, OnIndeterminate.FAIL, coordination=True, node=who)
    return propose(settings, evolve(known, found=found), why)


def says_the_same(found: Decision | None, wanted: Decision) -> bool:
    """Return whether nothing would change: the same backing, and a choice neither made nor taken back."""
    chosen = found is not None and (found.evidence is Evidence.CHOSEN) is (wanted.evidence is Evidence.CHOSEN)
    return found is not None and found.backing is wanted.backing and chosen


def write(
    stack: Stack, wanted: Decision, targets: tuple[Target, ...], *, patience: float, forced: bool
) -> Changed | PolicyFailed:
    """Announce it, wait until everybody rests, write it."""
    announced = Change(secrets.token_hex(8), wanted)
    return run(change(announced, targets, patience=patience, forced=forced), stack.ports())
