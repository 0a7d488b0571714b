"""A policy changes: everybody rests, what is open is settled, and then the next epoch is written.

Theory of operation
-------------------
1. A worker enrols before it reads the decision, says which epoch it works under, and looks before each poll. So whoever
   announces a change and then lists the workers sees each one that could have read the old decision.
2. A change is announced. Who sees it takes no new task, and when nothing of it runs any more it says that it rests *for
   this change*. That it rested for an earlier one says nothing. Whoever announced it says under a lease that he is
   there; once he is not, anybody who looks withdraws the announcement and goes on.
3. When every worker rests and no intent is open, the announcement is marked as decided: nobody publishes under two
   policies at a time, and no attempt is lost to the change. Forced, it is marked all the same; an attempt under way
   then compares its epoch before it publishes and fails closed.
4. Whoever sees a decided change writes its epoch, and only then takes the announcement away. Decided and withdrawn
   exclude each other, both being swaps of the same text. Counterexample without the mark: the author asks for the next
   epoch and dies; his announcement ends, and a worker publishes under the old epoch; the request lands, and another
   worker publishes under the new one (S-26). Now that request finds the announcement gone, and changes nothing.

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
#: What is announced, and the signs of life of those who announced it: both are read in one look.
CHANGES = "policy/change/"
ANNOUNCED = CHANGES + "announced"
#: Seconds whoever changes a policy counts as there after his last sign, and seconds between two looks at who is behind.
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
    """An announcement: the decision that is to be written when everybody rests. ``id`` is nobody else's.

    ``decided``: everybody rested, or it was forced, so that anybody may write it and nobody may withdraw it.
    """

    id: str = field(validator=text)
    decision: m.Decision = field(validator=a(m.Decision))
    decided: bool = field(default=False, validator=flag)


@frozen(cache_hash=True, repr=False)
class Stance(Value):
    """What a worker may do now: nothing under its epoch any more, rest for a change, or work."""

    moved: bool = field(validator=flag)
    change: Change | None = field(default=None, validator=maybe(a(Change)))

    @property
    def works(self) -> bool:
        """Return whether new tasks may be taken."""
        return not self.moved and self.change is None


@frozen(cache_hash=True, repr=False)
class Behind(Value):
    """Who and what a change waits for; ``trouble`` is what kept us from knowing."""

    workers: tuple[Member, ...] = field(default=(), validator=many(a(Member)))
    intents: tuple[str, ...] = field(default=(), validator=many(text))
    trouble: str = field(default="", validator=line)

    @property
    def quiet(self) -> bool:
        """Return whether nobody works and nothing is open."""
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
    announced = yield from _attend()
    if not isinstance(announced, Done):
        return announced
    following = yield from charged(CHARGE, Coordination.get, decision_key(epoch + 1))
    if not isinstance(following, Done):
        return following
    moved = following.value is not None
    return Done(Stance(moved, None if moved else announced.value))


def author_key(change_id: str) -> str:
    """Name the sign of life of whoever announced a change."""
    return f"{CHANGES}author/{escape(change_id)}"


def _attend() -> Talk[Change | None]:
    """Give the change that is under way. One that was decided is carried out first, and one without an author goes."""
    found = yield from charged(CHARGE, Coordination.list, CHANGES)
    if not isinstance(found, Done):
        return found
    entries: dict[str, str] = {each.key: each.value for each in found.value}
    if ANNOUNCED not in entries:
        return Done(None)
    try:
        announced = codec.loads(entries[ANNOUNCED], Change)
    except CodecError as problem:
        return NotDone(f"the announced change cannot be read: {problem}")
    if announced.decided:
        written = yield from _carry_out(announced)
        return Done(None) if isinstance(written, Done) else written
    if author_key(announced.id) in entries:
        return Done(announced)
    withdrawn = yield from _replace(announced, None)
    if isinstance(withdrawn, Done) and not withdrawn.value:
        return NotDone("a change was decided while it was being withdrawn; look again")
    return Done(None) if isinstance(withdrawn, Done) else withdrawn


def _carry_out(decided: Change) -> Talk[Entry]:
    """Write the decision of a decided change, then take the announcement away; give what stands at its epoch."""
    decision = decided.decision
    written = (decision_key(decision.epoch), encode_decision(decision))
    stood = yield from charged(CHARGE, Coordination.create_if_absent, *written)
    if isinstance(stood, Done):
        yield from _replace(decided, None)  # if that fails, whoever looks next does both again
    return stood


def _replace(before: Change, after: Change | None) -> Talk[bool]:
    value = None if after is None else codec.dumps(after)
    return charged(CHARGE, Coordination.swap, ANNOUNCED, codec.dumps(before), value)


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
    before = yield from _attend()
    if not isinstance(before, Done):
        return _unanswered(before.reason)
    if before.value is not None:
        return _ANOTHER
    lease = yield from charged(CHARGE, Coordination.grant, CHANGE_TTL)
    if not isinstance(lease, Done):
        return _unanswered(lease.reason)
    ended = yield from _announcing(wanted, targets, lease.value, patience=patience, forced=forced)
    yield from charged(CHARGE, Coordination.revoke, lease.value)
    return ended


def _announcing(wanted: Change, targets: tuple[Target, ...], lease: str, *, patience: float, forced: bool) -> Dialogue:
    author = (author_key(wanted.id), wanted.decision.detector, lease)
    there = yield from charged(CHARGE, Coordination.create_if_absent, *author)
    if not isinstance(there, Done):
        return _unanswered(there.reason)
    announced = yield from charged(CHARGE, Coordination.create_if_absent, ANNOUNCED, codec.dumps(wanted))
    if not isinstance(announced, Done):
        return _unanswered(announced.reason)
    if announced.value.value != codec.dumps(wanted):
        return _ANOTHER
    ended = yield from _changing(wanted, targets, lease, patience=patience, forced=forced)
    if isinstance(ended, PolicyFailed):
        yield from _replace(wanted, None)  # if that fails, the next look of anybody does it: the author has gone
    return ended


_ANOTHER = PolicyFailed("another change is under way", "Wait for it: perago policy show")


def _changing(wanted: Change, targets: tuple[Target, ...], lease: str, *, patience: float, forced: bool) -> Dialogue:
    ends = (yield from clock()) + patience
    while True:
        behind = yield from find_behind(wanted, targets)
        alive = yield from charged(CHARGE, Coordination.keep_alive, lease)
        if not isinstance(alive, Done) or not alive.value:
            return _unanswered("nobody knows any more that we are there")
        if behind.quiet or (yield from clock()) >= ends:
            break
        yield from pause(LOOK_AGAIN)
    if not behind.quiet and not forced:
        return PolicyFailed(
            f"it is not quiet: {behind}",
            "Wait for them or stop them (SIGTERM), settle intents with perago recover --settle; or force it: --force",
        )
    return (yield from _decide(wanted, behind))


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


def _decide(wanted: Change, behind: Behind) -> Dialogue:
    decision = wanted.decision
    if not behind.quiet:
        decision = evolve(decision, why=f"{decision.why} (forced: {behind})")
    decided = evolve(wanted, decision=decision, decided=True)
    marked = yield from _replace(wanted, decided)
    if not isinstance(marked, Done):
        return _unanswered(marked.reason)
    if not marked.value:
        return _unanswered("our announcement was withdrawn")
    stood = yield from _carry_out(decided)
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
