"""How each command of the policy machine becomes calls of the coordination store, the store and the clock."""

from __future__ import annotations

from perago_core.calls import Call, Conversation, ask, pause
from perago_core.errors import CodecError, ProtocolError
from perago_core.policy import commands as c
from perago_core.policy import events as e
from perago_core.policy.known import PolicySettings
from perago_core.policy.records import PREFIX, decision_key, decode_decision, encode_decision, latest_decision
from perago_core.ports import Entry
from perago_core.rows import Command, Event

CHARGE = "consensus"


def perform(command: Command, _settings: PolicySettings) -> Conversation:
    """Carry out one command and give the event that answers it; a foreign command raises ``ProtocolError``."""
    match command:
        case c.ReadDecision():
            talk = _read()
        case c.Probe():
            talk = _probe()
        case c.BackOff(seconds):
            talk = _back_off(seconds)
        case c.StoreDecision(decision):
            talk = _store(decision)
        case _:
            message = f"policy: {type(command).__name__} is not a command of this machine"
            raise ProtocolError(message)
    return (yield from talk)


def _read() -> Conversation:
    # A refused read shows as little as a lost one: whether a decision stands is not known (D-2).
    return ask(Call("coordination", "list", (PREFIX,), CHARGE), _latest, e.DecisionReadUnknown)


def _latest(entries: tuple[Entry, ...]) -> Event:
    try:
        decision = latest_decision(entries)
    except CodecError as problem:
        return e.DecisionUnreadable(str(problem))
    return e.DecisionAbsent() if decision is None else e.DecisionFound(decision)


def _probe() -> Conversation:
    return ask(Call("store", "probe", (), CHARGE), e.ProbeProved, e.ProbeUnknown, e.ProbeDisproved)


def _back_off(seconds: float) -> Conversation:
    yield from pause(seconds)
    return e.BackedOff()


def _store(decision: e.Decision) -> Conversation:
    written = (decision_key(decision.epoch), encode_decision(decision))
    call = Call("coordination", "create_if_absent", written, CHARGE)
    return ask(call, _stood, e.StoringUnknown, e.StoringRefused)


def _stood(standing: Entry) -> Event:
    try:
        return e.DecisionStood(decode_decision(standing))
    except CodecError as problem:
        return e.DecisionUnreadable(str(problem))
