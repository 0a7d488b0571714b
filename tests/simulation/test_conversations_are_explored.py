"""An attempt is explored through the conversations that run: a wrong one is found as a wrong table is."""

from __future__ import annotations

from typing import Any, cast

import pytest

from perago_core.answers import Done
from perago_core.attempt import messages as m
from perago_core.attempt import run
from perago_core.calls import Conversation, call
from perago_core.ports import Store
from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.properties.liveness import heal
from perago_simulation.properties.register import JUDGED
from perago_simulation.world.effects import EFFECTS, converse
from perago_simulation.world.settings import setting

NOT_PINNED: dict[str, Any] = {"attempts": 2, "crashes": 2, "pauses": False, "workflows": 2, "pinned": False}
#: Their records are in the coordination store, which the world tells in short.
TOLD_IN_SHORT = {m.SettleIntents, m.AcquireLease, m.AwaitTakeover, m.ArmIntent, m.ConfirmIntent, m.SettleIntent}


def replaced(patch: pytest.MonkeyPatch, command: type, perform: object) -> None:
    patch.setitem(cast("dict[type, object]", run.PERFORM), command, perform)


def _revokes_nothing(x: run.Execution, _command: m.RevokeOlder) -> Conversation:
    listed = yield from call(Store.staging_names, x.attempt.target.repository, "")
    assert isinstance(listed, Done)
    return m.Revoked(())


def _asks_nobody(x: run.Execution, _command: m.ReadOwners) -> Conversation:
    yield from call(Store.head, x.attempt.target)
    return m.OwnersRead(())


def _takes_a_claim_for_its_own(_x: run.Execution, command: m.MakeClaim) -> Conversation:
    yield from call(Store.claim, command.claim)
    return m.ClaimStands(command.claim)


def test_a_revocation_that_drops_nothing_loses_what_was_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """S-01: the conversation lists names, asks about their tasks and drops them; all three are explored."""
    of = setting(Backing.CONDITIONAL, **NOT_PINNED)
    assert "S-01" not in explore(of).broken()
    replaced(monkeypatch, m.RevokeOlder, _revokes_nothing)
    assert "S-01" in explore(of).broken()


def test_owners_that_are_not_read_block_the_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-03: without the orchestrator's word nobody is proven dead, and what was abandoned is never replaced."""
    of = setting(Backing.ATOMIC, crashes=1, pauses=False)
    assert "L-03" not in heal(of).broken()
    replaced(monkeypatch, m.ReadOwners, _asks_nobody)
    assert "L-03" in heal(of).broken()


def test_a_claim_that_is_not_read_lets_two_deliveries_publish(monkeypatch: pytest.MonkeyPatch) -> None:
    """S-17: whose claim stands is the store's word; who takes it for its own publishes beside the winner."""
    of = setting(Backing.CONDITIONAL, attempts=1, crashes=0, duplicates=1)
    assert explore(of, JUDGED).broken() == {}
    replaced(monkeypatch, m.MakeClaim, _takes_a_claim_for_its_own)
    assert "S-17" in explore(of, JUDGED).broken()


def test_every_command_but_those_of_the_coordination_store_is_a_conversation() -> None:
    """A second implementation of a command would be a second protocol."""
    assert {kind for kind, effect in EFFECTS.items() if effect is not converse} == {*TOLD_IN_SHORT, m.CleanUp}
