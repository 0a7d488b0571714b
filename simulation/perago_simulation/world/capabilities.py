"""What a store can do, what each backing needs of it, and what a user therefore gets on his own store.

``best_backing`` only compares flags. What the backing then promises, and where it stops, is explored: see the ladder.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, fields, frozen

from perago_core.value import Value, flag
from perago_core.values import Backing


@frozen(cache_hash=True, repr=False, kw_only=True)
class Capabilities(Value):
    """What a store can do. The first three are what any versioned store with a coordination store beside it has.

    ``blind``: it merges and relocates without a condition; a store that does not refuses whatever it cannot check.
    ``claim``: it creates a record if there is none. ``lease``: somebody grants leases. ``revocable_names``: a request
    that names a deleted branch fails. ``barrier``: a call after which every update the store had begun starts again.
    ``conditional_merge`` and ``conditional_relocate``: the expected head is checked in the update.
    ``conditional_claim``: so is the claim, in the same step. ``overwrites`` is no ability: an update does not begin
    again when the branch has moved meanwhile, but lands on what it read and takes away what came between, as a put
    without a condition does.
    """

    blind: bool = field(default=True, validator=flag)
    claim: bool = field(default=True, validator=flag)
    lease: bool = field(default=True, validator=flag)
    revocable_names: bool = field(default=False, validator=flag)
    barrier: bool = field(default=False, validator=flag)
    conditional_merge: bool = field(default=False, validator=flag)
    conditional_relocate: bool = field(default=False, validator=flag)
    conditional_claim: bool = field(default=False, validator=flag)
    overwrites: bool = field(default=False, validator=flag)

    def lacks(self, needed: Capabilities) -> tuple[str, ...]:
        """Name what is needed and not there."""
        names = (each.name for each in fields(Capabilities))
        missing = tuple(name for name in names if getattr(needed, name) and not getattr(self, name))
        # `soft` promises nothing, so it also runs where nothing is safe; whoever needs more needs more than a lease.
        return ("swap", *missing) if self.overwrites and needed.claim else missing


def _exactly(*names: str) -> Capabilities:
    return Capabilities(**{each.name: each.name in names for each in fields(Capabilities)})


#: What each backing relies on, and nothing more; the strongest first. ``conditional`` and ``locked`` need a blind store
#: because their relocation has no condition: the one residual they have.
RELIES_ON: Mapping[Backing, Capabilities] = {
    Backing.ATOMIC: _exactly(
        "claim", "revocable_names", "conditional_merge", "conditional_relocate", "conditional_claim"
    ),
    Backing.CONDITIONAL: _exactly("blind", "claim", "revocable_names", "barrier", "conditional_merge"),
    Backing.LOCKED: _exactly("blind", "claim", "lease", "revocable_names", "barrier"),
    Backing.SOFT: _exactly("blind"),
}

#: What each backing is explored on: what it relies on, on a store that also acts without a condition. So a table that
#: forgets one is carried out and found, rather than refused by the store and excused.
NEEDS: Mapping[Backing, Capabilities] = {
    backing: evolve(needed, blind=True, claim=True, lease=True) for backing, needed in RELIES_ON.items()
}

#: What each missing flag would have been for, so that an answer teaches something.
_FOR: Mapping[str, str] = {
    "blind": "publications that carry no condition",
    "claim": "one execution per attempt may publish, and the owner of a head can be proven",
    "lease": "one holder per target at a time",
    "revocable_names": "a request of an older attempt fails once its name is deleted",
    "barrier": "updates the store had begun before the revocation do not land after it",
    "conditional_merge": "a merge lands on the head that was observed or not at all",
    "conditional_relocate": "a relocation removes the head that was observed or nothing",
    "swap": "an update that has begun lands on the head it was computed from, or begins again",
    "conditional_claim": "a newer attempt's claim stops an older one inside the store's own update",
}


@frozen(repr=False)
class Advice(Value):
    """The strongest backing a store carries (``None``: not even ``soft``), and what keeps it from each stronger one.

    ``checks_as``: it carries nothing that tells it the expected head, and would check it. This backing tells it; what
    it keeps of that backing's promises without the rest is explored, because no flag says so.
    """

    backing: Backing | None
    missing: tuple[tuple[Backing, tuple[str, ...]], ...]
    checks_as: Backing | None = None

    @property
    def asked(self) -> Backing:
        """Return the backing under which the store shows what it can."""
        return self.checks_as or self.backing or Backing.SOFT

    def lines(self) -> tuple[str, ...]:
        """Say it to a person: what he gets, then why not more."""
        got = "no backing at all" if self.backing is None else f"`{self.backing.value}`"
        return (
            f"This store carries {got}.",
            *(
                f"But it checks the head it is told to expect, which `soft` never tells it and `{each.value}` does."
                for each in (self.checks_as,)
                if each is not None
            ),
            *(
                f"Not `{backing.value}`: it lacks {name} ({_FOR[name]})."
                for backing, names in self.missing
                for name in names
            ),
        )


def best_backing(able: Capabilities) -> Advice:
    """Say which backing a store carries, and for each stronger one what is missing."""
    missing: list[tuple[Backing, tuple[str, ...]]] = []
    for backing, needed in RELIES_ON.items():
        lacking = able.lacks(needed)
        if not lacking:
            return Advice(backing, tuple(missing), _checks_as(able) if backing is Backing.SOFT else None)
        missing.append((backing, lacking))
    return Advice(None, tuple(missing), _checks_as(able))


def _checks_as(able: Capabilities) -> Backing | None:
    """Return the backing whose conditions on the head the store checks, all of them; ``None``: it checks none.

    Asked under ``soft``, whose plans carry no condition, a compare-and-set of the head counts for nothing.
    """
    if not able.conditional_merge:
        return None
    return Backing.ATOMIC if able.conditional_relocate else Backing.CONDITIONAL
