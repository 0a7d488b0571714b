"""That every property bites: for each a wrong protocol that it notices, by itself, and where.

A property that notices nothing is idle, and a reader would trust it for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.explore.first_violation import hunt
from perago_simulation.mutants.kills import ENVIRONMENTS, mutants
from perago_simulation.properties.liveness import heal
from perago_simulation.properties.register import JUDGED
from perago_simulation.world.settings import setting

#: Where a publication that is sent again lands on itself: one attempt, one lost answer, nobody else.
ALONE_WITH_A_LOSS: Mapping[str, Any] = {"attempts": 1, "crashes": 0, "losses": 1, "pauses": False}


@frozen(repr=False)
class Bite(Value):
    """A mutant, and where it is noticed."""

    mutant: str
    backing: Backing
    where: str


_S, _A, _C, _L = Backing.SOFT, Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED

#: By property, a mutant it notices, and where.
BITES: Mapping[str, Bite] = {
    "S-01": Bite("no anchor", _C, "two crashes"),
    "S-02": Bite("relocate by id", _C, "two crashes"),
    "S-02b": Bite("revoke nothing", _C, "crash"),
    "S-03": Bite("sent again", _S, "alone with a loss"),
    "S-04": Bite("no READ_BACK", _L, "stranger"),
    "S-04b": Bite("head not checked", _C, "stranger"),
    "S-05": Bite("P6 as P3", _C, "lost answer"),
    "S-06": Bite("P1 as P5", _S, "equal trees, duplicate"),
    "S-06b": Bite("always ours", _C, "lost answer"),
    "S-11": Bite("target written", _C, "alone"),
    "S-12": Bite("SX2 as S1", _C, "lost answer"),
    "S-13": Bite("refusal completed", _C, "stranger"),
    "S-15": Bite("no owner rule", _C, "stranger"),
    "S-16": Bite("no owner rule", _C, "stranger"),
    "S-17": Bite("claim by existence", _C, "duplicate"),
    "S-18": Bite("no INTENT", _C, "ledger"),
    "S-19": Bite("ZA3 as ZA2", _C, "ledger, lost answer"),
    "S-24": Bite("no LEASE", _L, "alone"),
    "S-30": Bite("names not revocable", _L, "crash"),
    "S-32": Bite("another's name", _C, "crash"),
    "S-33": Bite("no CLEAN_UP", _C, "alone"),
    "S-33b": Bite("lease kept", _L, "alone"),
    "S-33c": Bite("no SETTLEMENT", _C, "ledger"),
    "S-33d": Bite("forgotten name", _C, "lost answer"),
    "S-34": Bite("eager collector", _C, "alone"),
    "S-40": Bite("claim by existence", _C, "duplicate"),
    "C8": Bite("no OWN_HEAD", _C, "lost answer"),
    "L-01": Bite("waits for ever", _L, "crash"),
    "L-02": Bite("own claim counts", _C, "equal trees"),
    "L-02b": Bite("claims released", _A, "lost answer"),
    "L-03": Bite("own claim counts", _C, "equal trees"),
    "L-10": Bite("no REPORT", _C, "alone"),
}


def bitten(clause: str) -> int | None:
    """Give in how many steps the property, and nothing else, notices its mutant; ``None`` if it does not."""
    bite = BITES[clause]
    bounds = ALONE_WITH_A_LOSS if bite.where == "alone with a loss" else ENVIRONMENTS[bite.where]
    model = mutants()[bite.mutant].make(setting(bite.backing, **bounds))
    judged = [each for each in JUDGED if each.id == clause]
    if not judged:
        return heal(model).broken().get(clause)
    found = hunt(model, judged)
    return len(found.trace) if found is not None and found.property == clause else None
