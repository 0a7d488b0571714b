"""Everything the policy machine may ask for. Imperative, frozen; each names its possible answers."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from perago_core.checks import a, seconds
from perago_core.policy import events as e
from perago_core.rows import Answers, Command


class ReadDecision(Command):
    """Read the stored decision with the highest epoch."""

    __slots__ = ()
    answers: ClassVar = Answers(
        (e.DecisionFound, e.DecisionAbsent),
        (e.DecisionReadUnknown,),
        (e.DecisionUnreadable,),
        repeatable=True,
    )


class Probe(Command):
    """Find out by behaviour what the store can do (W-15)."""

    __slots__ = ()
    answers: ClassVar = Answers((e.ProbeProved,), (e.ProbeUnknown,), (e.ProbeDisproved,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class BackOff(Command):
    """Wait before another try. A wait cannot fail."""

    seconds: float = field(validator=seconds)
    answers: ClassVar = Answers((e.BackedOff,), (), repeatable=True)


@frozen(cache_hash=True, repr=False)
class StoreDecision(Command):
    """Create the decision at its epoch, unless one stands there already."""

    decision: e.Decision = field(validator=a(e.Decision))
    answers: ClassVar = Answers(
        (e.DecisionStood,),
        (e.StoringUnknown,),
        (e.StoringRefused, e.DecisionUnreadable),
        repeatable=True,
    )
