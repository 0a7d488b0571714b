"""What is explored: the backing, what the store can do, and how much may go wrong.

Every bound is a number the exploration prints. Within them it is exhaustive; beyond them it claims nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from perago_core.checks import a, count, flag
from perago_core.value import Value
from perago_core.values import Backing


@frozen(cache_hash=True, repr=False, kw_only=True)
class Capabilities(Value):
    """What a store can do. A store without any of these still has branches, merge, relocate and create-if-absent.

    ``revocable_names``: a request that names a deleted branch fails. ``barrier``: a call after which every update the
    store had begun starts again. ``conditional_merge`` and ``conditional_relocate``: the expected head is checked in
    the update. ``conditional_claim``: so is the claim.
    """

    revocable_names: bool = field(default=False, validator=flag)
    barrier: bool = field(default=False, validator=flag)
    conditional_merge: bool = field(default=False, validator=flag)
    conditional_relocate: bool = field(default=False, validator=flag)
    conditional_claim: bool = field(default=False, validator=flag)


#: What each backing relies on, and nothing more.
NEEDS: Mapping[Backing, Capabilities] = {
    Backing.SOFT: Capabilities(),
    Backing.ATOMIC: Capabilities(conditional_merge=True, conditional_relocate=True, conditional_claim=True),
    Backing.CONDITIONAL: Capabilities(revocable_names=True, barrier=True, conditional_merge=True),
    Backing.LOCKED: Capabilities(revocable_names=True, barrier=True),
}


@frozen(cache_hash=True, repr=False, kw_only=True)
class Setting(Value):
    """One configuration to explore.

    ``attempts`` counts the attempts of each workflow step, retries included. ``crashes``, ``losses`` (answers that do
    not arrive), ``duplicates`` (second deliveries of an attempt) and ``strangers`` (commits by somebody else) are
    budgets of the whole run. With ``pauses`` the orchestrator may give up an attempt whose worker still lives.
    """

    backing: Backing = field(validator=a(Backing))
    store: Capabilities = field(validator=a(Capabilities))
    ledger: bool = field(default=False, validator=flag)
    attempts: int = field(default=2, validator=count)
    steps: int = field(default=1, validator=count)
    crashes: int = field(default=1, validator=count)
    losses: int = field(default=0, validator=count)
    duplicates: int = field(default=0, validator=count)
    strangers: int = field(default=0, validator=count)
    pauses: bool = field(default=True, validator=flag)
    changes: bool = field(default=True, validator=flag)
    no_ops: bool = field(default=False, validator=flag)
    same_tree: bool = field(default=False, validator=flag)

    def bounds(self) -> str:
        """Say what was explored, in one line."""
        bodies = " or ".join(name for name, on in (("changed", self.changes), ("unchanged", self.no_ops)) if on)
        return (
            f"{self.backing.value}, ledger {'on' if self.ledger else 'off'}: {self.steps} step(s) of {self.attempts} "
            f"attempt(s), {self.crashes} crash(es), {self.losses} lost answer(s), {self.duplicates} duplicate(s), "
            f"{self.strangers} stranger's commit(s), {'pauses that resume' if self.pauses else 'no pauses'}, "
            f"bodies {bodies}{', equal trees' if self.same_tree else ''}"
        )


def setting(backing: Backing, **more: object) -> Setting:
    """Make a setting for a backing on a store that offers exactly what the backing needs."""
    given: dict[str, object] = {"store": NEEDS[backing], **more}
    return Setting(backing=backing, **given)  # type: ignore[arg-type]
