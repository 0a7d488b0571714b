"""The times of the lease scenes, and what becomes of a lease machine while time passes.

Every clock shows the same reading for ever; what it was read for earlier grows older instead. To a machine that only
compares times that is the same, and it makes worlds that differ only in the date one world.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

from attrs import evolve

from perago_core import fence
from perago_core.answers import Answer, Done
from perago_core.budget import PublishBudget
from perago_core.lease import LeaseHold, LeaseKnown, LeaseRequest, hold
from perago_core.lease.state import RENEWAL_PART
from perago_core.machine.rows import State
from perago_core.values import Attempt, Backing, Commit, CommitRef, Head, StagedRef, Target
from perago_simulation.machines.conversations import Running

TARGET = Target("repo", "main")
#: A time to live of 4 and a margin of 1 let a clock be slow by a quarter, and make a renewal due after 2.
BUDGET = PublishBudget(
    publish_timeout=1.0, publish_p99=0.0, margin=1.0, lease_ttl=4.0, lease_margin=1.0, takeover_wait=3.0
)
#: How long a request may be on its way before it lands: what the takeover wait has to outlast.
FLIGHT = int(BUDGET.publish_timeout + BUDGET.margin)
#: The moment it always is. Whatever is older than that is as old as that: every lease is over by then.
NOW = 8
_HEAD = Head(Commit(CommitRef("a0"), (CommitRef("root"),), "t0"))
_STAGED = StagedRef("repo", "staged", CommitRef("c1"), "t1")
Leasing: TypeAlias = Running[LeaseRequest, LeaseKnown]


@cache
def may_send(now: float, until: float) -> bool:
    """Ask the fence whether there is time enough to publish."""
    attempt = Attempt("w", "t1", 0, "w/step", 1, "e1", TARGET, _HEAD.commit.ref, Backing.LOCKED, budget=BUDGET)
    case = fence.Case(attempt, _STAGED, _HEAD, now=now, lease_until=until)
    return isinstance(fence.decide(case), fence.Allowed)


@cache
def held_by(running: Leasing) -> LeaseHold | None:
    """Return what a process would say it holds, if it did not look at its clock."""
    return hold(running.state)


@cache
def older(running: Leasing, by: float, now: float) -> Leasing:
    """Return a machine as it is so much later by its own clock: what it read earlier is older by that.

    What is over is forgotten: a deadline that has passed has passed for ever, a renewal that is due stays due.
    """
    state, known = running.state, running.state.known
    due = now - (known.sent_at - by) > state.subject.ttl * RENEWAL_PART
    aged = evolve(
        known,
        sent_at=0.0 if due else known.sent_at - by,
        until=known.until - by if known.until - by > now else 0.0,
        until_before=0.0,  # only looked at in the step that sets it
    )
    answers = tuple(_older(each, by, now) for each in running.answers)
    return Running(State(state.phase, state.subject, aged, state.pending), answers)


def _older(answer: Answer[Any], by: float, now: float) -> Answer[Any]:
    """Return an answer as it is later; only a clock's, the only one that costs no operation, says when it was given."""
    if not isinstance(answer, Done) or answer.operations:
        return answer
    read = answer.value - by
    return Done(read if read + BUDGET.lease_ttl - BUDGET.lease_margin > now else 0.0, operations=0)


def ended(running: Leasing) -> Leasing:
    """Forget what an ended machine knew: nobody asks it any more."""
    return Running(State(running.state.phase, running.state.subject, LeaseKnown()))
