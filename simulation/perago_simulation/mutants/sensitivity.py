"""For each property a mutant that it detects by itself, and where: a property that detects none would be idle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.mutants.kills import ENVIRONMENTS, mutants
from perago_simulation.world.model import Model
from perago_simulation.world.settings import setting

#: Where a publication that is sent again lands on itself: one attempt, one lost answer, nobody else.
ALONE_WITH_A_LOSS: Mapping[str, Any] = {"attempts": 1, "crashes": 0, "losses": 1, "pauses": False}


@frozen(repr=False)
class Detection(Value):
    """A mutant, and where it is noticed."""

    mutant: str
    backing: Backing
    where: str


_S, _A, _C, _L = Backing.SOFT, Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED

#: By property, a mutant it notices, and where.
DETECTIONS: Mapping[str, Detection] = {
    "S-01": Detection("no anchor", _C, "two crashes"),
    "S-02": Detection("relocate by id", _C, "two crashes"),
    "S-02b": Detection("revoke nothing", _C, "crash"),
    "S-03": Detection("sent again", _S, "alone with a loss"),
    "S-04": Detection("no READ_BACK", _L, "stranger"),
    "S-04b": Detection("head not checked", _C, "stranger"),
    "S-05": Detection("P6 as P3", _C, "lost answer"),
    "S-06": Detection("looked for at the head", _S, "equal trees, duplicate"),
    "S-06b": Detection("always ours", _C, "lost answer"),
    "S-11": Detection("target written", _C, "alone"),
    "S-12": Detection("SX2 as S1", _C, "lost answer"),
    "S-13": Detection("refusal completed", _C, "stranger"),
    "S-15": Detection("no owner rule", _C, "stranger"),
    "S-16": Detection("no owner rule", _C, "stranger"),
    "S-17": Detection("claim by existence", _C, "duplicate"),
    "S-18": Detection("no INTENT", _C, "ledger"),
    "S-19": Detection("ZA3 as ZA2", _C, "ledger, lost answer"),
    "S-24": Detection("no LEASE", _L, "alone"),
    "S-30": Detection("names not revocable", _L, "crash"),
    "S-32": Detection("another's name", _C, "crash"),
    "S-33": Detection("no CLEAN_UP", _C, "alone"),
    "S-33b": Detection("lease kept", _L, "alone"),
    "S-33c": Detection("no SETTLEMENT", _C, "ledger"),
    "S-33d": Detection("forgotten name", _C, "lost answer"),
    "S-34": Detection("eager collector", _C, "alone"),
    "S-40": Detection("claim by existence", _C, "duplicate"),
    "S-41": Detection("no-ops unseen", _C, "twins"),
    "C8": Detection("no OWN_HEAD", _C, "lost answer"),
    "L-01": Detection("waits for ever", _L, "crash"),
    "L-02": Detection("own claim counts", _C, "equal trees"),
    "L-02b": Detection("claims released", _A, "lost answer"),
    "L-03": Detection("own claim counts", _C, "equal trees"),
    "L-10": Detection("no REPORT", _C, "alone"),
}


def model_of(detection: Detection) -> Model:
    """Give the mutant in the setting in which it is detected."""
    bounds = ALONE_WITH_A_LOSS if detection.where == "alone with a loss" else ENVIRONMENTS[detection.where]
    return mutants()[detection.mutant].make(setting(detection.backing, **bounds))
