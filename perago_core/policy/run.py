"""How each command of the policy machine becomes calls of the coordination store, the store and the clock."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from perago_core.answers import Answer, Event
from perago_core.calls import Call, Conversation, ask, charged, look, pause
from perago_core.errors import CodecError, ProtocolError
from perago_core.machine.rows import Command
from perago_core.policy import messages as m
from perago_core.policy.state import (
    PREFIX,
    PolicyFailed,
    PolicyKnown,
    PolicySettings,
    PolicyState,
    Resolved,
    decision_key,
    decode_decision,
    encode_decision,
    latest_decision,
    outcome,
)
from perago_core.policy.table import start, step
from perago_core.ports import Coordination, Entry, Store

CHARGE = "consensus"


def perform(command: Command, _settings: PolicySettings) -> Conversation:
    """Carry out one command and give the event that answers it; a foreign command raises ``ProtocolError``."""
    match command:
        case m.ReadDecision():
            talk = _read()
        case m.Probe():
            talk = _probe()
        case m.BackOff(seconds):
            talk = _back_off(seconds)
        case m.StoreDecision(decision):
            talk = _store(decision)
        case _:
            message = f"policy: {type(command).__name__} is not a command of this machine"
            raise ProtocolError(message)
    return (yield from talk)


def _read() -> Conversation:
    return look(charged(CHARGE, Coordination.list, PREFIX), _latest)


def _latest(entries: tuple[Entry, ...]) -> Event:
    try:
        decision = latest_decision(entries)
    except CodecError as problem:
        return m.DecisionUnreadable(str(problem))
    return m.DecisionAbsent() if decision is None else m.DecisionFound(decision)


def _probe() -> Conversation:
    return ask(charged(CHARGE, Store.probe), m.ProbeProved)


def _back_off(seconds: float) -> Conversation:
    yield from pause(seconds)
    return m.BackedOff()


def _store(decision: m.Decision) -> Conversation:
    written = (decision_key(decision.epoch), encode_decision(decision))
    asked = charged(CHARGE, Coordination.create_if_absent, *written)
    return ask(asked, _stood)


def _stood(standing: Entry) -> Event:
    try:
        return m.DecisionStood(decode_decision(standing))
    except CodecError as problem:
        return m.DecisionUnreadable(str(problem))


def resolve(settings: PolicySettings) -> Generator[Call, Answer[Any], Resolved | PolicyFailed]:
    """Carry a node from its settings to the cluster's decision, or to the reason why there is none."""
    ended = outcome((yield from _to_the_end(settings)))
    assert ended is not None
    return ended


def detect(node: str) -> Generator[Call, Answer[Any], PolicyKnown]:
    """Probe the store as ``enable`` does and give what that teaches; nothing is read or stored."""
    alone = PolicySettings(m.Policy.ENABLE, m.OnIndeterminate.FAIL, coordination=False, node=node)
    return (yield from _to_the_end(alone)).known


def _to_the_end(settings: PolicySettings) -> Generator[Call, Answer[Any], PolicyState]:
    state, commands = start(settings)
    while commands:
        (command,) = commands
        state, commands = step(state, (yield from perform(command, settings)))
    return state
