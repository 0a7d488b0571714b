"""A policy changes: everybody rests, what is open is settled, and then the next epoch is written.

Theory of operation
-------------------
1. A worker enrols before it reads the decision, says which epoch it works under, and looks before each poll. So whoever
   announces a change and then lists the workers sees each one that could have read the old decision.
2. A change is announced under a lease. Who sees it takes no new task, and when nothing of it runs any more it says that
   it rests *for this change*. That it rested for an earlier one says nothing. If whoever announced it dies, the
   announcement goes with the lease, and everybody goes on.
3. The next epoch is written when every worker rests and no intent is open: nobody publishes under two policies at a
   time, and no attempt is lost to the change. Forced, it is written all the same; an attempt under way then compares
   its epoch before it publishes and fails closed.

What does not fit: a worker that was cut off longer than its record lives, and had compared its epoch before that. Its
intent is open, so that the change is not quiet; without a ledger nobody can know of it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from attrs import evolve, field, frozen

from perago_core.answers import Answer, Done, NotDone
from perago_core.calls import Call, Talk, charged, clock, pause
from perago_core.errors import CodecError
from perago_core.machine import codec
from perago_core.names import escape
from perago_core.policy import messages as m
from perago_core.policy.run import CHARGE
from perago_core.policy.state import (
    PREFIX,
    PolicyFailed,
    PolicyKnown,
    PolicySettings,
    decision_key,
    decode_decision,
    encode_decision,
    latest_decision,
    proposal,
)
from perago_core.ports import Coordination, Entry
from perago_core.value import Value, a, count, flag, line, many, maybe, text
from perago_core.values import Target

MEMBERS = "policy/worker/"
CHANGE = "policy/change"
#: Seconds an announcement outlives whoever made it, and seconds between two looks at who is behind.
CHANGE_TTL = 30.0
LOOK_AGAIN = 0.5


@frozen(cache_hash=True, repr=False)
class Member(Value):
    """A worker: its policy, the epoch it works under (0: not known yet), and the change it rests for, if any."""

    name: str = field(validator=text)
    policy: m.Policy = field(validator=a(m.Policy))
    epoch: int = field(default=0, validator=count)
    rests_for: str = field(default="", validator=line)


@frozen(cache_hash=True, repr=False)
class Change(Value):
    """An announcement: the decision that is to be written when everybody rests. ``id`` is nobody else's."""

    id: str = field(validator=text)
    decision: m.Decision = field(validator=a(m.Decision))


@frozen(cache_hash=True, repr=False)
class Stance(Value):
    """What a worker may do now: nothing under its epoch any more, rest for a change, or work."""

    moved: bool = field(validator=flag)
    change: Change | None = field(default=None, validator=maybe(a(Change)))

    @property
    def works(self) -> bool:
        """Say whether new tasks may be taken."""
        return not self.moved and self.change is None


@frozen(cache_hash=True, repr=False)
class Behind(Value):
    """Who and what a change waits for; ``trouble`` is what kept us from knowing."""

    workers: tuple[Member, ...] = field(default=(), validator=many(a(Member)))
    intents: tuple[str, ...] = field(default=(), validator=many(text))
    trouble: str = field(default="", validator=line)

    @property
    def quiet(self) -> bool:
        """Say whether nobody works and nothing is open."""
        return not (self.workers or self.intents or self.trouble)

    def __str__(self) -> str:
        parts = [f"worker {each.name} of epoch {each.epoch} still works" for each in self.workers]
        parts += [f"intent {each} is open" for each in self.intents]
        return "; ".join([*parts, *([self.trouble] if self.trouble else [])]) or "nobody"


@frozen(cache_hash=True, repr=False)
class Changed(Value):
    """The next epoch stands; ``behind`` is not empty only if it was forced."""

    decision: m.Decision = field(validator=a(m.Decision))
    behind: Behind = field(validator=a(Behind))


K = TypeVar("K", Member, Change)
Dialogue: TypeAlias = Generator[Call, Answer[Any], Changed | PolicyFailed]


# ---------------------------------------------------------------------------------------------------------------------
# A worker


def member_key(name: str) -> str:
    """Name the record of a worker."""
    return MEMBERS + escape(name)


def enrol(member: Member, lease: str) -> Talk[Entry]:
    """Write that this worker is there, for as long as its lease lives."""
    return charged(CHARGE, Coordination.create_if_absent, member_key(member.name), codec.dumps(member), lease)


def restate(before: Member, after: Member) -> Talk[bool]:
    """Write what has become of this worker; ``False`` says that its record is not there any more."""
    key = member_key(before.name)
    return charged(CHARGE, Coordination.swap, key, codec.dumps(before), codec.dumps(after))


def stance(epoch: int) -> Talk[Stance]:
    """Look what a worker of this epoch may do.

    The announcement is read first. In the other order a change that ends in between is seen as none: the epoch was not
    written yet, the announcement is gone already.
    """
    announced = yield from charged(CHARGE, Coordination.get, CHANGE)
    if not isinstance(announced, Done):
        return announced
    following = yield from charged(CHARGE, Coordination.get, decision_key(epoch + 1))
    if not isinstance(following, Done):
        return following
    if following.value is not None:
        return Done(Stance(moved=True))
    if announced.value is None:
        return Done(Stance(moved=False))
    try:
        return Done(Stance(moved=False, change=codec.loads(announced.value.value, Change)))
    except CodecError as problem:
        return NotDone(f"the announced change cannot be read: {problem}")


# ---------------------------------------------------------------------------------------------------------------------
# Whoever changes it


def read_decision() -> Talk[m.Decision | None]:
    """Read the decision with the highest epoch; one that cannot be read is not done, and says why."""
    listed = yield from charged(CHARGE, Coordination.list, PREFIX)
    if not isinstance(listed, Done):
        return listed
    try:
        return Done(latest_decision(listed.value))
    except CodecError as problem:
        return NotDone(str(problem))


def list_members() -> Talk[tuple[Member, ...]]:
    """List the workers that are there; a record that cannot be read refuses them all: it may be of one at work."""
    listed = yield from charged(CHARGE, Coordination.list, MEMBERS)
    if not isinstance(listed, Done):
        return listed
    try:
        return Done(tuple(codec.loads(each.value, Member) for each in listed.value))
    except CodecError as problem:
        return NotDone(f"the record of a worker cannot be read: {problem}")


def propose(settings: PolicySettings, known: PolicyKnown, why: str) -> m.Decision | PolicyFailed:
    """Make the next decision a person asks for, of what stands (``known.found``) and of what probes have found.

    ``enable`` needs a proof. ``auto`` takes what was found, but not silence: whoever is there to ask can mend the store
    or choose ``disable``, which a worker at its start cannot.
    """
    wanted = proposal(settings, known, why)
    unproved = settings.policy is m.Policy.ENABLE and wanted.evidence is not m.Evidence.PROVED
    if unproved or wanted.evidence is m.Evidence.INDETERMINATE:
        return PolicyFailed(
            f"the store is not proved able to condition a publication: {known.trouble or 'it was not probed'}",
            "Do what it says and try again, or choose a lease: perago policy set disable --why '...'",
        )
    return wanted


def change(wanted: Change, targets: tuple[Target, ...], *, patience: float, forced: bool = False) -> Dialogue:
    """Announce a decision, wait until everybody rests, and write it; if somebody is behind, only if it is forced."""
    lease = yield from charged(CHARGE, Coordination.grant, CHANGE_TTL)
    if not isinstance(lease, Done):
        return _unanswered(lease.reason)
    ended = yield from _changing(wanted, targets, lease.value, patience=patience, forced=forced)
    yield from charged(CHARGE, Coordination.revoke, lease.value)
    return ended


def _changing(wanted: Change, targets: tuple[Target, ...], lease: str, *, patience: float, forced: bool) -> Dialogue:
    announced = yield from charged(CHARGE, Coordination.create_if_absent, CHANGE, codec.dumps(wanted), lease)
    if not isinstance(announced, Done):
        return _unanswered(announced.reason)
    if announced.value.value != codec.dumps(wanted):
        return PolicyFailed("another change is under way", "Wait for it: perago policy show")
    ends = (yield from clock()) + patience
    while True:
        behind = yield from find_behind(wanted, targets)
        alive = yield from charged(CHARGE, Coordination.keep_alive, lease)
        if not isinstance(alive, Done) or not alive.value:
            return _unanswered("our announcement is gone, or nobody knows")
        if behind.quiet or (yield from clock()) >= ends:
            break
        yield from pause(LOOK_AGAIN)
    if not behind.quiet and not forced:
        return PolicyFailed(
            f"it is not quiet: {behind}",
            "Wait for them or stop them (SIGTERM), settle intents with perago recover --settle; or force it: --force",
        )
    return (yield from _write(wanted.decision, behind))


def find_behind(wanted: Change, targets: tuple[Target, ...]) -> Generator[Call, Answer[Any], Behind]:
    """Settle what is over on these targets, and give who does not rest for this change and what stays open."""
    from perago_core.recovery import Mode, sweep  # noqa: PLC0415  a change is rare, and everybody reads policies

    members = yield from list_members()
    if not isinstance(members, Done):
        return Behind(trouble=members.reason)
    working = tuple(each for each in members.value if each.rests_for != wanted.id)
    intents: list[str] = []
    for target in targets:
        swept = yield from sweep(target, Mode.SETTLE_ONLY, wanted.decision.detector)
        if not isinstance(swept, Done):
            return Behind(working, trouble=swept.reason)
        intents += swept.value.unresolved
    return Behind(working, tuple(intents))


def _write(decision: m.Decision, behind: Behind) -> Dialogue:
    if not behind.quiet:
        decision = evolve(decision, why=f"{decision.why} (forced: {behind})")
    written = (decision_key(decision.epoch), encode_decision(decision))
    stood = yield from charged(CHARGE, Coordination.create_if_absent, *written)
    if not isinstance(stood, Done):
        return _unanswered(stood.reason)
    try:
        standing = decode_decision(stood.value)
    except CodecError as problem:
        return PolicyFailed(str(problem), "Run a program that knows the record.")
    if standing != decision:
        return PolicyFailed(
            f"{standing.detector} has written epoch {standing.epoch} meanwhile", "Look at it: perago policy show"
        )
    return Changed(decision, behind)


def _unanswered(reason: str) -> PolicyFailed:
    return PolicyFailed(
        f"indeterminate: the coordination store did not answer ({reason})",
        "Look whether it was written, and try again: perago policy show",
    )
