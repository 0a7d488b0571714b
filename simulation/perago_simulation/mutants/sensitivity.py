"""For each clause a mutant that it notices alone, and where; or the reason why another one always notices too.

A clause that notices nothing alone could be taken away, and nobody would miss it; unless it shows the same mistake in a
shorter way. "Alone" is meant of everything that is judged in the setting named, explored to its end, and of the clauses
on the order of steps; what the production table is known to break there does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from perago_core.attempt import messages as m
from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.explore.search import explore
from perago_simulation.mutants.kills import ENVIRONMENTS, Mutant, baseline, clauses, possible_mutants
from perago_simulation.mutants.wrong_actions import learning
from perago_simulation.mutants.wrong_learning import doubt_kept
from perago_simulation.properties.register import JUDGED
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting

_NO_OPS: Mapping[str, Any] = {"changes": False, "no_ops": True}

#: The environments of the mutants, and some in which one clause is alone.
PLACES: Mapping[str, Mapping[str, Any]] = {
    **ENVIRONMENTS,
    # A publication that is sent again lands on itself: one attempt, one lost answer, nobody else.
    "alone with a loss": {"attempts": 1, "crashes": 0, "losses": 1, "pauses": False},
    "nothing changes, stranger": {"attempts": 1, "crashes": 0, "pauses": False, "strangers": 1, **_NO_OPS},
    # Whose commits lie above whose is not judged here (S-02), and under a lease not on what they stand (S-04b).
    "side by side, crash": {"workflows": 2, "abreast": True, "crashes": 1, "pauses": False},
}

#: A mutant nobody else needs: what it reports is right, and it does not know.
DOUBT_KEPT = Mutant(
    "doubt kept", "alone", "", "who finds its publication after the answer was lost still doubts it",
    (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED), learning(m.TaskReloaded, doubt_kept),
)  # fmt: skip


@frozen(repr=False)
class Detection(Value):
    """A mutant, and where it is noticed."""

    mutant: str
    backing: Backing
    where: str


_S, _A, _C, _L = Backing.SOFT, Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED

#: By property, a mutant it notices, and where; unless the property is ``IMPLIED``, it is the only one that does.
DETECTIONS: Mapping[str, Detection] = {
    "S-01": Detection("relocation not checked", _A, "side by side, crash"),
    "S-02": Detection("relocate by id", _C, "two crashes"),
    "S-02b": Detection("head only", _A, "lost answer"),
    "S-03": Detection("sent again", _S, "alone with a loss"),
    "S-04": Detection("no READ_BACK", _L, "stranger"),
    "S-04b": Detection("head not checked", _C, "stranger"),
    "S-05": Detection("doubt kept", _C, "lost answer"),
    "S-06": Detection("looked for at the head", _S, "equal trees, duplicate"),
    "S-06b": Detection("always ours", _C, "lost answer"),
    "S-11": Detection("target written", _C, "stranger"),
    "S-12": Detection("SX2 as S1", _C, "lost answer"),
    "S-13": Detection("refusal completed", _C, "nothing changes, stranger"),
    "S-15": Detection("relocation not checked", _A, "stranger, crash"),
    "S-16": Detection("no owner rule", _A, "retry"),
    "S-17": Detection("claim by existence", _A, "duplicate, crash"),
    "S-18": Detection("no INTENT", _C, "ledger"),
    "S-19": Detection("ZA3 as ZA2", _C, "ledger, lost answer"),
    "S-24": Detection("no LEASE", _L, "alone"),
    "S-30": Detection("names not revocable", _L, "side by side, crash"),
    "S-32": Detection("another's name", _C, "lost answer"),
    "S-33": Detection("no CLEAN_UP", _C, "alone"),
    "S-33b": Detection("lease kept", _L, "alone"),
    "S-33c": Detection("no SETTLEMENT", _C, "ledger"),
    "S-33d": Detection("forgotten name", _C, "lost answer"),
    "S-34": Detection("revoke everything", _C, "stranger"),
    "S-40": Detection("K2 as KX1", _A, "duplicate"),
    "S-41": Detection("no-ops unseen", _C, "twins"),
    "S-42": Detection("reads not counted", _A, "shared, crossed"),
    "S-43": Detection("pinned at the head", _A, "shared, overlapping"),
    "C8": Detection("no OWN_HEAD", _C, "lost answer"),
    "L-01": Detection("waits for ever", _L, "crash"),
    "L-02": Detection("own claim counts", _C, "equal trees"),
    "L-02b": Detection("claims released", _A, "lost answer"),
    "L-03": Detection("own claim counts", _C, "equal trees"),
    "L-10": Detection("no REPORT", _C, "alone"),
}


#: By property, why there is no mutant that it alone notices.
IMPLIED: Mapping[str, str] = {
    "S-02": (
        "implied by S-04b and S-01: of two commits of ours above what was accepted the upper one stands on the lower "
        "and not on its input, or what was accepted is not on the branch"
    ),
    "S-03": "implied by S-04: what lies between an accepted result and its input is what the result stands on",
}

#: By clause on the order of steps, a mutant that nobody else notices: no property does in the setting named.
ORDERED: Mapping[str, Detection] = {
    "S-07": Detection("asks for ever", _C, "alone"),
    "S-08": Detection("no FENCE_2", _C, "crash"),
    "S-08c": Detection("no FENCE_3", _L, "alone"),
    "S-18b": Detection("no INTENTS", _C, "ledger"),
    "S-24b": Detection("no TAKEOVER", _L, "crash"),
}

_CALLS = "; on the calls of a driver it is noticed alone"
#: By clause on the order of steps, why no mutant of the table breaks it alone.
ORDER_IMPLIED: Mapping[str, str] = {
    "S-05b": "a success nobody may know of is one that S-05 sees in a world, or the machine gives up" + _CALLS,
    "S-08a": "what is staged without a fence is published without one later than the name (S-08)" + _CALLS,
    "S-08b": "a way without any fence is one without a fence later than the name (S-08), if there is a name" + _CALLS,
    "S-09": "a row that publishes from elsewhere than the head skips or repeats a step (S-05b, S-08)" + _CALLS,
}


def setting_of(detection: Detection) -> Setting:
    """Give where a mutant is detected."""
    return setting(detection.backing, **PLACES[detection.where])


def mutant_of(detection: Detection) -> Mutant:
    """Return the mutant itself."""
    return DOUBT_KEPT if detection.mutant == DOUBT_KEPT.id else possible_mutants()[detection.mutant]


def model_of(detection: Detection) -> Model:
    """Return the mutant in the setting in which it is detected."""
    return mutant_of(detection).make(setting_of(detection))


def noticing(detection: Detection) -> frozenset[str]:
    """Return all that notices the mutant there, but what the production table breaks there too."""
    of = setting_of(detection)
    broken = explore(model_of(detection), JUDGED)
    assert broken.complete
    return frozenset({*broken.broken(), *clauses(mutant_of(detection))} - baseline(of).broken)
