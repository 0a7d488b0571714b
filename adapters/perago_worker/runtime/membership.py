"""What others see of this worker when they want to change the policy, and what it does about that.

A worker enrols before it reads the decision, says the epoch it works under, and looks before it polls. While a change
is announced it takes no task, and when nothing runs any more it says that it rests. When the next epoch stands it ends,
and whoever started it starts it again: everything it has settled before its first poll is settled anew.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from attrs import evolve

from perago_core.answers import Answer, Done
from perago_core.driver import run
from perago_core.policy import Member, Policy, Stance, enrol, restate, stance
from perago_core.ports import Coordination
from perago_worker.logger import log
from perago_worker.stack import Stack

#: Seconds a worker's record outlives it, and seconds for which a look holds.
RECORD_TTL = 20.0
LOOK_HOLDS = 0.5


class Membership:
    """The record of one worker, kept alive beside it.

    Without a coordination store there is nobody to see it. One without leases has no changes either: a change waits for
    everybody who is there, and whoever announces one needs a lease.
    """

    def __init__(self, stack: Stack, name: str, policy: str) -> None:
        self._coordination: Coordination | None = stack.leasing
        self._ports = stack.ports()
        self._clock = stack.clock
        self._member = Member(name, Policy(policy))
        self._lease: str | None = None
        self._stands = False
        self._ending = threading.Event()
        self._looked = -LOOK_HOLDS
        self._free = False
        #: Whether the policy has changed, so that this worker has to be started again.
        self.moved = False
        #: Whether a change is announced or nobody knows, so that no task is taken.
        self.rests = False

    @contextmanager
    def open(self) -> Generator[None]:
        """Be there until this is left; then the record is taken away."""
        self._enrol()
        keeper = threading.Thread(target=self._keep_alive, name="membership", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            self._ending.set()
            keeper.join()
            if self._coordination is not None and self._lease is not None:
                self._coordination.revoke(self._lease)

    def settle(self, epoch: int) -> None:
        """Say which epoch was read. If that cannot be said now, the next look says it before anything is polled."""
        self._state(evolve(self._member, epoch=epoch))

    def may_take(self, *, idle: bool) -> bool:
        """Look whether tasks may be taken, no oftener than needed; ``idle``: nothing of this worker runs."""
        if self._coordination is None:
            return True
        if self._clock.now() < self._looked + LOOK_HOLDS:
            return self._free
        self._looked = self._clock.now()
        self._free = self._look(idle=idle)
        self.rests = not self._free
        return self._free

    def _look(self, *, idle: bool) -> bool:
        # Our record first: whoever announces a change and then lists the workers must see us, or we see the change.
        if not self._stands and not self._enrol():
            log.warning("taking no task: the record of this worker cannot be written")
            return False
        found: Answer[Stance] = run(stance(self._member.epoch), self._ports)
        if not isinstance(found, Done):
            log.warning("taking no task: nobody can say whether the policy changes: %s", found.reason)
            return False
        self.moved = found.value.moved
        if found.value.change is not None and idle:
            self._rest_for(found.value.change.id)
        return found.value.works

    def _rest_for(self, change: str) -> None:
        if self._member.rests_for != change:
            log.info("resting: the policy of the cluster is about to change")
            self._state(evolve(self._member, rests_for=change))

    def _enrol(self) -> bool:
        """Write the record anew, under a lease of its own; say whether it stands."""
        coordination = self._coordination
        if coordination is None:
            return True
        if self._lease is not None:
            coordination.revoke(self._lease)
        granted = coordination.grant(RECORD_TTL)
        self._lease = granted.value if isinstance(granted, Done) else None
        if self._lease is not None:
            written = run(enrol(self._member, self._lease), self._ports)
            self._stands = isinstance(written, Done)
        return self._stands

    def _state(self, said: Member) -> None:
        before, self._member = self._member, said
        if self._coordination is not None:
            stated = run(restate(before, said), self._ports)
            self._stands = isinstance(stated, Done) and stated.value

    def _keep_alive(self) -> None:
        while not self._ending.wait(RECORD_TTL / 4):
            lease = self._lease
            if self._coordination is None or lease is None:
                continue
            try:
                kept = self._coordination.keep_alive(lease)
            except Exception as error:  # noqa: BLE001  whatever it was, there is another turn before the lease ends
                log.debug("the record of this worker was not renewed: %s", error)
                continue
            if isinstance(kept, Done) and not kept.value:
                self._stands = False
