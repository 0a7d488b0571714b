"""The plan of a publication: one movement, and what must still be true when the store makes it.

It is of one target, or of several that move in the same step.
"""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen

from perago_core.value import DECLARED, Value
from perago_core.values import Claim, CommitRef, Operation, Target


class PlanKind(Enum):
    """The three ways a target may move."""

    MERGE = "merge"
    REPLACE = "replace"
    RETURN = "return"


class Condition(Enum):
    """What the store checks in the same step that moves the branch."""

    NONE = "none"
    HEAD = "head"
    HEAD_AND_CLAIM = "head and claim"


@frozen(cache_hash=True, repr=False)
class Along(Value):
    """How a further target moves in the same step: from ``expected`` to ``commit``, at which ``name`` must stand.

    The two may be equal: then it stays, and must still be where it was.
    """

    target: Target
    expected: CommitRef
    commit: CommitRef
    name: str


@frozen(cache_hash=True, repr=False, slots=False, getstate_setstate=True)
class PublishPlan(Value):
    """One movement. Made only by ``fence``, consumed only by ``Store.publish``.

    ``name`` is the revocable name to act by: once it is deleted, a delayed request that names it fails, whereas one
    that names a commit id lands. It is ``None`` where the seed acts by commit id.
    ``tree`` is what the published commit must contain; ``None`` where that cannot be said in advance.
    ``joins``: merged three ways onto whatever is expected, and the staged commit is its second parent, or it itself.
    ``over``: the publications at or below what is expected that nobody has accepted, the newest first. Where there are
    any, a commit is made that joins, also on what was staged on, and its message says so (``names.over_message``).
    ``along``: further targets. A store moves all of them with the first in one step, or none; one that cannot refuses.
    """

    kind: PlanKind
    target: Target
    expected: CommitRef
    commit: CommitRef
    condition: Condition
    name: str | None = None
    tree: str | None = None
    claim: Claim | None = None
    token: int | None = None
    epoch: int = 0
    operation: Operation = Operation.LOGICAL
    joins: bool = field(default=False, metadata=DECLARED)
    over: tuple[CommitRef, ...] = field(default=(), metadata=DECLARED)
    along: tuple[Along, ...] = field(default=(), metadata=DECLARED)
