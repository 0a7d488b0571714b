"""The sweep: every open intent of one target through the machine, one after the other, in the order of their keys.

It runs when a worker starts and before each publication, never moving a branch then (K-12). Its cost is bounded by the
open intents of this one target; another target's cannot stand in the way (L-08).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from attrs import evolve, field, frozen

from perago_core import ledger
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Call, wall_clock
from perago_core.checks import a, count, many, text
from perago_core.ledger.calls import Talk
from perago_core.recovery.calls import perform
from perago_core.recovery.known import Mode, Recovery
from perago_core.recovery.outcomes import RecoveryOutcome, outcome
from perago_core.recovery.table import start, step
from perago_core.value import Value
from perago_core.values import Maintained, Target


@frozen(cache_hash=True, repr=False)
class Swept(Value):
    """What a sweep found and left: one outcome for each intent, and what a publication must know of the target.

    A writer never goes around an intent in ``unresolved`` (R-21). ``maintained`` and ``epoch`` are read after the
    intents were settled, so they include what the sweep itself has found accepted.
    """

    outcomes: tuple[RecoveryOutcome, ...] = field(validator=many(a(RecoveryOutcome)))
    unresolved: tuple[str, ...] = field(validator=many(text))
    maintained: tuple[Maintained, ...] = field(validator=many(a(Maintained)))
    epoch: int = field(validator=count)

    @property
    def alarms(self) -> tuple[str, ...]:
        """One sentence for each accepted result that is not on its branch. The caller must tell a person."""
        return _alarms(self.outcomes)


def sweep(target: Target, mode: Mode, actor: str, grounds: str = "") -> Talk[Swept]:
    """Recover the open intents of one target.

    ``Done`` names the ones that stay unresolved; no failure of one keeps the others from being tried. Any other answer
    says that the ledger could not be listed, and then nothing is known about the target.
    """
    listed = yield from ledger.list_open(target)
    if not isinstance(listed, Done):
        return listed
    outcomes: list[RecoveryOutcome] = []
    for operation_id in listed.value:
        at = yield from wall_clock()
        outcomes.append((yield from recover(Recovery(operation_id, target, mode, actor, at, grounds))))
    maintained = yield from ledger.maintained(target)
    if not isinstance(maintained, Done):
        return _with_alarms(maintained, outcomes)
    epoch = yield from ledger.read_epoch()
    if not isinstance(epoch, Done):
        return _with_alarms(epoch, outcomes)
    unresolved = tuple(each.operation_id for each in outcomes if not each.ending.resolves)
    return Done(Swept(tuple(outcomes), unresolved, maintained.value, epoch.value))


def _alarms(outcomes: Iterable[RecoveryOutcome]) -> tuple[str, ...]:
    return tuple(f"intent {each.operation_id}: {each.reason}. {each.next_action}" for each in outcomes if each.alarm)


def _with_alarms(answer: NotDone | Unknown, outcomes: Iterable[RecoveryOutcome]) -> NotDone | Unknown:
    """Put the alarms into the reason: their intents are closed by now, so that no later sweep raises them again."""
    return evolve(answer, reason="; ".join((answer.reason, *_alarms(outcomes))))


def recover(subject: Recovery) -> Generator[Call, Answer[Any], RecoveryOutcome]:
    """Carry one recovery from its first command to its end."""
    state, commands = start(subject)
    while commands:
        (command,) = commands
        event = yield from perform(command, subject)
        state, commands = step(state, event)
    ended = outcome(state)
    assert ended is not None
    return ended
