"""What a worker settles before its first poll: who it is, the backing its cluster agrees on, what was left open."""

from __future__ import annotations

import os
import secrets
import socket
from typing import TypeVar

from perago_core.answers import Done
from perago_core.calls import Dialogue
from perago_core.driver import run
from perago_core.policy import OnIndeterminate, Policy, PolicyFailed, PolicySettings, resolve
from perago_core.ports import Leaseless, Overwriting
from perago_core.unanswered import asking_again
from perago_core.values import Backing
from perago_worker.api.errors import UserError
from perago_worker.config.settings import Settings, rolls_back, targets_of
from perago_worker.logger import log
from perago_worker.ops.recover import tidy_up
from perago_worker.runtime.attempt import Node
from perago_worker.runtime.telemetry import Instruments
from perago_worker.stack import Stack

#: Seconds for which a worker that starts asks a coordination store again that does not answer.
UNANSWERED_START = 30.0


T = TypeVar("T")


class StartError(UserError):
    """The worker must not start; the message says why and what to do."""


def worker_id() -> str:
    """Name this process. Unique per start, so that a restarted worker is never taken for its predecessor."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def settle_policy(stack: Stack, settings: Settings, name: str) -> Node:
    """Agree with the other workers on a backing. Nobody decides alone in silence (S-28).

    A coordination store that does not answer is asked again for a while: it may only be electing a leader.
    """
    wanted = PolicySettings(
        policy=Policy(settings.fence.policy),
        on_indeterminate=OnIndeterminate(settings.fence.on_indeterminate),
        coordination=stack.coordination is not None,
        node=name,
    )
    until = stack.clock.now() + UNANSWERED_START
    resolved = run(asking_again(_telling(resolve(wanted)), lambda: until), stack.ports())
    if isinstance(resolved, PolicyFailed):
        raise StartError(f"{resolved.reason}. {resolved.next_action}")
    if resolved.backing is Backing.LOCKED and isinstance(stack.coordination, Leaseless):
        raise StartError(
            "the cluster has decided for leases, because the store was not proved able to condition a publication, "
            f"and its coordination store has none: {stack.coordination.instead_of_leases()}"
        )
    if resolved.backing is Backing.LOCKED and isinstance(stack.store, Overwriting):
        log.warning("the cluster has decided for leases, and %s", stack.store.despite_leases())
    if resolved.disagreed:
        log.warning("this worker found something else than the stored decision it follows: %s", resolved.decision)
    return Node(name, resolved.backing, resolved.epoch, stack.coordination is not None, settings.budget.budget())


def _telling(resolving: Dialogue[T]) -> Dialogue[T]:
    """Tell what the first probe without a result says: it may name what to do, and thirty of them take a minute."""
    warned = False
    try:
        call = next(resolving)
        while True:
            answer = yield call
            if call.method == "probe" and not isinstance(answer, Done) and not warned:
                warned = True
                log.warning("the store is not proved able to fence, and will be probed again: %s", answer.reason)
            call = resolving.send(answer)
    except StopIteration as end:
        found: T = end.value
        return found


def settle_open_intents(stack: Stack, settings: Settings, actor: str, instruments: Instruments) -> None:
    """Settle what earlier workers left open, and take back what failed workflows left unaccepted, unless told not to.

    What stays open only blocks its own target (L-08).
    """
    if stack.coordination is None:
        return
    for target in targets_of(settings):
        swept = tidy_up(stack, target, actor, roll_back=rolls_back(settings, target), instruments=instruments)
        if not isinstance(swept, Done):
            log.warning("open intents of %s could not be settled: %s; publishing to it waits", target, swept.reason)
