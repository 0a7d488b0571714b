"""What can happen while a cluster agrees on its fence backing, and the values these facts speak of.

Past tense, frozen, no behaviour. The order is the order in which they happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

from attrs import field, frozen

from perago_core.answers import Event
from perago_core.machine.rows import Command, certain, effect, read
from perago_core.value import Value, a, count, line, seconds, text
from perago_core.values import Backing


class Policy(Enum):
    """What the operator asks for (W-04). There is no fifth value and no default for a misspelt one."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"
    SOFT = "soft"


class OnIndeterminate(Enum):
    """What ``auto`` does when every probe stayed unanswered (K-06)."""

    FALLBACK = "fallback"
    FAIL = "fail"


class Capability(Enum):
    """What a store's behaviour proves it can condition a publication on."""

    ATOMIC = "atomic"
    CONDITIONAL = "conditional"


class Evidence(Enum):
    """Why a decision says what it says. Silence is not a disproof (T-W1), and a choice is no finding."""

    PROVED = "proved"
    DISPROVED = "disproved"
    INDETERMINATE = "indeterminate"
    CHOSEN = "chosen"


_NEVER_PROVED = frozenset({Evidence.DISPROVED, Evidence.INDETERMINATE, Evidence.CHOSEN})
#: On what evidence each backing can be decided.
_GROUNDS: Mapping[Backing, frozenset[Evidence]] = {
    Backing.ATOMIC: frozenset({Evidence.PROVED}),
    Backing.CONDITIONAL: frozenset({Evidence.PROVED}),
    Backing.LOCKED: _NEVER_PROVED,
    Backing.SOFT: frozenset({Evidence.CHOSEN}),
}


@frozen(cache_hash=True, repr=False)
class Decision(Value):
    """One cluster-wide decision, as it is stored: which backing, since which epoch, on what evidence, by whom and why.

    A decision for ``atomic`` or ``conditional`` is always proved and one for ``locked`` never is; ``soft`` is chosen,
    never detected. Anything else is a ``ValueError``. ``detector`` is who decided: a worker that probed, or a person.
    """

    epoch: int = field(validator=count)
    backing: Backing = field(validator=a(Backing))
    evidence: Evidence = field(validator=a(Evidence))
    detector: str = field(validator=text)
    policy: Policy = field(validator=a(Policy))
    transcript: str = field(validator=text)
    why: str = field(default="", validator=line)

    def __attrs_post_init__(self) -> None:
        if self.epoch < 1:
            message = f"Decision.epoch must be 1 or more, not {self.epoch}: 0 means that nothing is stored"
            raise ValueError(message)
        if self.evidence not in _GROUNDS[self.backing]:
            message = f"Decision.backing {self.backing.value} cannot follow from evidence {self.evidence.value}"
            raise ValueError(message)


@frozen(cache_hash=True, repr=False)
class DecisionFound(Event):
    """The decision with the highest epoch was read."""

    decision: Decision = field(validator=a(Decision))


class DecisionAbsent(Event):
    """The coordination store answered, and holds no decision."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class DecisionUnreadable(Event):
    """A decision stands and this program cannot read it: malformed, or written by a newer one."""

    reason: str = field(validator=line)


class ReadDecision(Command):
    """Read the stored decision with the highest epoch."""

    __slots__ = ()
    answers: ClassVar = read(DecisionFound, DecisionAbsent, DecisionUnreadable)


@frozen(cache_hash=True, repr=False)
class ProbeProved(Event):
    """The store behaved as a capable one does, also where it had to refuse."""

    capability: Capability = field(validator=a(Capability))


class Probe(Command):
    """Find out by behaviour what the store can do (W-15)."""

    __slots__ = ()
    answers: ClassVar = effect(ProbeProved, repeatable=True)


class BackedOff(Event):
    """The wait before another try is over."""

    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class BackOff(Command):
    """Wait before another try. A wait cannot fail."""

    seconds: float = field(validator=seconds)
    answers: ClassVar = certain(BackedOff)


@frozen(cache_hash=True, repr=False)
class DecisionStood(Event):
    """A decision stands at the epoch this node wanted to write; it may be its own or another node's."""

    decision: Decision = field(validator=a(Decision))


@frozen(cache_hash=True, repr=False)
class StoreDecision(Command):
    """Create the decision at its epoch, unless one stands there already."""

    decision: Decision = field(validator=a(Decision))
    answers: ClassVar = effect(DecisionStood, DecisionUnreadable, repeatable=True)


class Begun(Event):
    """The node has its settings and wants to know its backing."""

    __slots__ = ()
