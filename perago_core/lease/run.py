"""How each command of the lease machine becomes calls of the coordination store and the clock."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeAlias

from perago_core.answers import Answer, Done, Event, NotDone, Unknown
from perago_core.calls import Call, Conversation, ask, charged, clock, look, pause
from perago_core.errors import CodecError, ProtocolError
from perago_core.lease import messages as m
from perago_core.lease.state import (
    LeaseEnd,
    LeaseRequest,
    LeaseState,
    Phase,
    decode_holder,
    decode_token,
    encode_holder,
    encode_token,
    hold,
    lock_key,
    outcome,
    token_key,
)
from perago_core.lease.table import start, step
from perago_core.machine.rows import Command
from perago_core.ports import Coordination, Entry
from perago_core.values import Target

CHARGE = "lock"
_OVERTAKEN = "another holder has taken the next token"
#: So often in its time to live a lease is tended beside the work under it.
TICKS = 10
#: Seconds between two looks whether a renewal that is on its way has been answered, before the lock is given back.
RELEASE_PAUSE = 0.02


def perform(command: Command, request: LeaseRequest) -> Conversation:
    """Carry out one command and give the event that answers it; a foreign command raises ``ProtocolError``."""
    match command:
        case m.Grant(ttl):
            talk = _grant(ttl)
        case m.CreateLock(lease):
            talk = _create_lock(request, lease)
        case m.ReadToken():
            talk = _read_token(request.target)
        case m.TakeToken():
            talk = _take_token(request.target, command)
        case m.KeepAlive(lease):
            talk = _keep_alive(lease)
        case m.MarkReleased(record):
            talk = _mark_released(request.target, record)
        case m.Revoke(lease):
            talk = _revoke(lease)
        case _:
            message = f"lease: {type(command).__name__} is not a command of this machine"
            raise ProtocolError(message)
    return (yield from talk)


def _grant(ttl: float) -> Conversation:
    sent_at = yield from clock()
    asked = charged(CHARGE, Coordination.grant, ttl)
    return (yield from ask(asked, lambda lease: m.Granted(lease, sent_at)))


def _create_lock(request: LeaseRequest, lease: str) -> Conversation:
    written = (lock_key(request.target), encode_holder(request.owner, lease), lease)
    asked = charged(CHARGE, Coordination.create_if_absent, *written)
    return ask(asked, _lock_stood)


def _lock_stood(standing: Entry) -> Event:
    try:
        return m.LockStood(*decode_holder(standing.value))
    except CodecError:
        # Whoever wrote this has the lock; that it cannot be read makes it no less theirs.
        return m.LockStood("", "")


def _read_token(target: Target) -> Conversation:
    return look(charged(CHARGE, Coordination.get, token_key(target)), _token_read)


def _token_read(standing: Entry | None) -> Event:
    if standing is None:
        return m.TokenAbsent()
    try:
        return m.TokenFound(decode_token(standing.value), standing.value)
    except CodecError as problem:
        return NotDone(str(problem))


def _take_token(target: Target, command: m.TakeToken) -> Conversation:
    args = (token_key(target), command.standing, encode_token(command.record))
    answer = yield from charged(CHARGE, Coordination.swap, *args)
    match answer:
        case Done(True):
            return m.TokenTaken((yield from clock()))
        case Done():
            return NotDone(_OVERTAKEN)
        case _:
            return answer


def _keep_alive(lease: str) -> Conversation:
    sent_at = yield from clock()
    answer = yield from charged(CHARGE, Coordination.keep_alive, lease)
    now = yield from clock()
    match answer:
        case Done(True):
            return m.KeptAlive(sent_at, now)
        case Done():
            return NotDone("the coordination store says that the lease is gone")
        case NotDone():
            return answer
        case _:
            return Unknown(answer.reason, answer.operations, now=now)


def _mark_released(target: Target, record: m.TokenRecord) -> Conversation:
    released = m.TokenRecord(record.token, record.owner, released=True)
    args = (token_key(target), encode_token(record), encode_token(released))
    return ask(charged(CHARGE, Coordination.swap, *args), _marked)


def _marked(swapped: bool) -> Event:  # noqa: FBT001 - the port's answer
    return m.ReleaseMarked() if swapped else NotDone(_OVERTAKEN)


def _revoke(lease: str) -> Conversation:
    asked = charged(CHARGE, Coordination.revoke, lease)
    return ask(asked, lambda _: m.LeaseRevoked())


Talk: TypeAlias = Generator[Call, Answer[Any], bool]


class Background(Protocol):
    """What keeps a lease alive beside the line of calls that works under it: a thread, or a task of an event loop."""

    def lock(self) -> AbstractContextManager[object]:
        """Return what two lines must hold to change one lease; lines that share a thread need nothing."""
        ...

    def keep(self, keeper: Keeper) -> None:
        """Begin to tend the lease, every ``interval`` seconds for as long as it is ``kept``, and return at once."""
        ...


class Keeper:
    """One lock of one execution, from the wish to have it to its end. Two lines may tend it at the same time.

    ``need``: for how long whoever works under the lease wants to be sure of it.
    """

    def __init__(
        self, request: LeaseRequest, need: float = 0.0, lock: AbstractContextManager[object] | None = None
    ) -> None:
        self._state: LeaseState
        self._commands: tuple[Command, ...]
        self._state, self._commands = start(request)
        self._need = need
        self._lock = nullcontext() if lock is None else lock
        self._let_go = False

    def acquire(self) -> Talk:
        """Try to get the lock and say whether it is held; if not, ``why`` says why."""
        return (yield from self._settle(self._commands))

    def tend(self) -> Talk:
        """Renew the lease if that is due and nobody else is at it, and say whether the lock is still held."""
        now = yield from clock()
        return (yield from self._settle(self._feed(m.Ticked(now, self._need))))

    def release(self) -> Talk:
        """Return the lock back and say whether that is certain; a lock that is not held needs no release."""
        while self._state.phase is Phase.RENEWAL:
            # The other line has a renewal on its way. Its answer, or the deadline, comes soon.
            yield from pause(RELEASE_PAUSE)
            self._feed(m.Ticked((yield from clock())))
        if self.held is None:
            return True
        yield from self._settle(self._feed(m.ReleaseWanted()))
        ended = outcome(self._state)
        return ended is not None and ended.end is LeaseEnd.RELEASED and not ended.reason

    def let_go(self) -> None:
        """Have nobody tend it any more. A lock that is still held then runs out, and its successor waits."""
        self._let_go = True

    @property
    def kept(self) -> bool:
        """Return whether the lock is held and somebody still works under it."""
        return self.held is not None and not self._let_go

    @property
    def interval(self) -> float:
        """Give after how many seconds to tend it again: soon enough to repeat a renewal that went unanswered."""
        return self._state.subject.ttl / TICKS

    @property
    def held(self) -> m.LeaseHold | None:
        """Return what is held, or ``None``."""
        return hold(self._state)

    @property
    def end(self) -> LeaseEnd | None:
        """Return how it ended, or ``None``."""
        ended = outcome(self._state)
        return None if ended is None else ended.end

    @property
    def why(self) -> str:
        """Say why the lock is not held."""
        ended = outcome(self._state)
        return "the lease is not held" if ended is None or not ended.reason else ended.reason

    def _feed(self, event: Event) -> tuple[Command, ...]:
        """Tell the machine and give what it asks for: nothing once it has ended, which is absorbing."""
        with self._lock:
            if hold(self._state) is None:
                return ()
            self._state, commands = step(self._state, event)
            return commands

    def _settle(self, commands: tuple[Command, ...]) -> Talk:
        """Carry out commands until the machine waits for the next tick or has ended."""
        while commands:
            (command,) = commands
            event = yield from perform(command, self._state.subject)
            with self._lock:
                if command not in self._state.pending:
                    break  # the other line has found the deadline passed meanwhile: the answer comes too late
                self._state, commands = step(self._state, event)
        return self.held is not None
