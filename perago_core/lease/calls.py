"""How each command of the lease machine becomes calls of the coordination store and the clock."""

from __future__ import annotations

from perago_core.answers import Done, NotDone
from perago_core.calls import Call, Conversation, ask, clock
from perago_core.errors import CodecError, ProtocolError
from perago_core.lease import commands as c
from perago_core.lease import events as e
from perago_core.lease.known import LeaseRequest
from perago_core.lease.records import (
    decode_holder,
    decode_token,
    encode_holder,
    encode_token,
    lock_key,
    token_key,
)
from perago_core.ports import Entry
from perago_core.rows import Command, Event
from perago_core.values import Target

CHARGE = "lock"
_OVERTAKEN = "another holder has taken the next token"


def perform(command: Command, request: LeaseRequest) -> Conversation:
    """Carry out one command and give the event that answers it; a foreign command raises ``ProtocolError``."""
    match command:
        case c.Grant(ttl):
            talk = _grant(ttl)
        case c.CreateLock(lease):
            talk = _create_lock(request, lease)
        case c.ReadToken():
            talk = _read_token(request.target)
        case c.TakeToken():
            talk = _take_token(request.target, command)
        case c.KeepAlive(lease):
            talk = _keep_alive(lease)
        case c.MarkReleased(record):
            talk = _mark_released(request.target, record)
        case c.Revoke(lease):
            talk = _revoke(lease)
        case _:
            message = f"lease: {type(command).__name__} is not a command of this machine"
            raise ProtocolError(message)
    return (yield from talk)


def _grant(ttl: float) -> Conversation:
    sent_at = yield from clock()
    call = Call("coordination", "grant", (ttl,), CHARGE)
    return (yield from ask(call, lambda lease: e.Granted(lease, sent_at), e.GrantUnknown, e.GrantRefused))


def _create_lock(request: LeaseRequest, lease: str) -> Conversation:
    written = (lock_key(request.target), encode_holder(request.owner, lease), lease)
    call = Call("coordination", "create_if_absent", written, CHARGE)
    return ask(call, _lock_stood, e.LockUnknown, e.LockRefused)


def _lock_stood(standing: Entry) -> Event:
    try:
        return e.LockStood(*decode_holder(standing.value))
    except CodecError:
        # Whoever wrote this has the lock; that it cannot be read makes it no less theirs.
        return e.LockStood("", "")


def _read_token(target: Target) -> Conversation:
    return ask(Call("coordination", "get", (token_key(target),), CHARGE), _token_read, e.TokenReadUnknown)


def _token_read(standing: Entry | None) -> Event:
    if standing is None:
        return e.TokenAbsent()
    try:
        return e.TokenFound(decode_token(standing.value), standing.value)
    except CodecError as problem:
        return e.TokenUnreadable(str(problem))


def _take_token(target: Target, command: c.TakeToken) -> Conversation:
    args = (token_key(target), command.standing, encode_token(command.record))
    answer = yield Call("coordination", "swap", args, CHARGE)
    match answer:
        case Done(True):
            return e.TokenTaken((yield from clock()))
        case Done():
            return e.TokenRefused(_OVERTAKEN)
        case NotDone(reason):
            return e.TokenRefused(reason)
        case _:
            return e.TokenUnknown(answer.reason)


def _keep_alive(lease: str) -> Conversation:
    sent_at = yield from clock()
    answer = yield Call("coordination", "keep_alive", (lease,), CHARGE)
    now = yield from clock()
    match answer:
        case Done(True):
            return e.KeptAlive(sent_at, now)
        case Done():
            return e.LeaseGone("the coordination store says that the lease is gone")
        case NotDone(reason):
            return e.LeaseGone(reason)
        case _:
            return e.KeepAliveUnknown(answer.reason, now)


def _mark_released(target: Target, record: e.TokenRecord) -> Conversation:
    released = e.TokenRecord(record.token, record.owner, released=True)
    args = (token_key(target), encode_token(record), encode_token(released))
    return ask(Call("coordination", "swap", args, CHARGE), _marked, e.ReleaseUnknown, e.ReleaseRefused)


def _marked(swapped: bool) -> Event:  # noqa: FBT001 - the port's answer
    return e.ReleaseMarked() if swapped else e.ReleaseRefused(_OVERTAKEN)


def _revoke(lease: str) -> Conversation:
    call = Call("coordination", "revoke", (lease,), CHARGE)
    return ask(call, lambda _: e.LeaseRevoked(), e.LeaseRevokeUnknown, e.LeaseRevokeRefused)
