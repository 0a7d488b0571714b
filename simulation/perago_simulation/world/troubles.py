"""What goes wrong with one execution, where a setting allows it: interruptions, refusals, clocks, late requests.

Each takes from a budget of ``Rarities``. An execution is interrupted at any moment, rightly or not: a heartbeat that
was told something wrong must do no harm either. A request that was not answered may land at any later time, also after
its sender has ended and others have gone on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import AttemptState, Phase
from perago_core.attempt import messages as m
from perago_simulation.world import bodies
from perago_simulation.world.effects import EFFECTS, LOST
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import HeldUp, Run, World, one_less, with_budget, with_rare
from perago_simulation.world.strangers import Move, Moves

if TYPE_CHECKING:
    from perago_simulation.world.model import Model

#: The budgets they take from.
TROUBLES = ("interrupts", "refusals", "lateness", "late_landings")
#: The interruptions, by how a label tells of them.
INTERRUPTS: dict[str, Event] = {
    "lose attempt": m.AttemptLost("somebody else has the task"),
    "run out of time": m.DeadlineExceeded("the time is over"),
    "lose lease": m.LeaseLost("somebody else has the lease"),
}
REFUSED, LATE, SHORT, HELD_UP = "refused", "late", "lease too short", "held up"
_OVER = 1.0


def troubles(model: Model, world: World, index: int, run: Run) -> Moves:
    """Give everything that may go wrong next with an execution."""
    state = run.state
    assert state is not None
    assert world.rare is not None
    left = world.rare.left
    if left.interrupts:
        yield from _interrupted(model, _spent(world, "interrupts"), index, state)
    if left.refusals:
        yield from _failed(model, _spent(world, "refusals"), index, state)
    if left.lateness:
        yield from _late(model, _spent(world, "lateness"), index, state)
    (command,) = state.pending
    if left.late_landings and world.budget.losses and type(command) in EFFECTS and command.answers.not_done:
        spent = with_budget(_spent(world, "late_landings"), one_less(world.budget, "losses"))
        held = tuple(sorted((*world.rare.held, HeldUp(index, command)), key=lambda each: each.run))
        after = model.tell(with_rare(spent, held=held), index, LOST[type(command)])
        yield (f"e{index}", type(command).__name__, HELD_UP), after


def _spent(world: World, what: str) -> World:
    assert world.rare is not None
    left = world.rare.left
    return with_rare(world, left=left._replace(**{what: getattr(left, what) - 1}))


def _interrupted(model: Model, world: World, index: int, state: AttemptState) -> Moves:
    """Interrupt it. While its publication is on its way it stops waiting for the answer, and the request goes on.

    Only who has had the lease can lose it.
    """
    if state.phase is Phase.PUBLICATION:
        requests = tuple(each._replace(awaited=False) if each.run == index else each for each in world.requests)
        world = world._replace(requests=requests)
    for what, event in INTERRUPTS.items():
        if not isinstance(event, m.LeaseLost) or state.known.token is not None:
            yield ("fault", what, f"e{index}"), model.tell(world, index, event)


def _failed(model: Model, world: World, index: int, state: AttemptState) -> Moves:
    (command,) = state.pending
    who, what = f"e{index}", type(command).__name__
    if isinstance(command, m.RunBody | m.ResumeBody):
        for about, event in bodies.failed(state):
            yield (who, what, about), model.tell(world, index, event)
        for about, event in bodies.of_another():
            # The true answer counts as lost, as in the driver: nothing is asked twice because of another's.
            yield (who, what, about), model.tell(model.tell(world, index, event), index, LOST[type(command)])
    elif type(command) in EFFECTS and command.answers.not_done:
        refusal = _LEFT if isinstance(command, m.CleanUp) else _REFUSED
        yield (who, what, REFUSED), model.tell(world, index, refusal)


_REFUSED, _LEFT = NotDone("refused"), NotDone("refused", left=("something",))


def _late(model: Model, world: World, index: int, state: AttemptState) -> Moves:
    """Let a clock show that the attempt's deadline is over, or that the lease is too short for a publication."""
    (command,) = state.pending
    who, what = f"e{index}", type(command).__name__
    if isinstance(command, m.ReadHead):
        _, seen = EFFECTS[m.ReadHead](model.setting, world, index, command)
        assert isinstance(seen, m.HeadSeen)
        for about, event in _looks(seen):
            yield (who, what, f"HeadSeen, {about}"), model.tell(world, index, event)
    elif isinstance(command, m.ReloadTask) and world.budget.losses:
        spent = with_budget(world, one_less(world.budget, "losses"))
        yield (who, what, f"dropped, {LATE}"), model.tell(spent, index, _UNREAD)


_UNREAD = Unknown("no answer", now=_OVER, until=_OVER)


@cache
def _looks(seen: m.HeadSeen) -> tuple[tuple[str, Event], ...]:
    late = m.HeadSeen(seen.head, now=_OVER, attempt_until=_OVER)
    short = m.HeadSeen(seen.head, now=_OVER, lease_until=_OVER)
    return (LATE, late), (SHORT, short)


def landings(setting: Setting, world: World) -> Iterator[Move]:
    """Let a request land that nobody waits for any more."""
    assert world.rare is not None
    held = world.rare.held
    for at, (run, command) in enumerate(held):
        rest = with_rare(world, held=(*held[:at], *held[at + 1 :]))
        after, _ = EFFECTS[type(command)](setting, rest, run, command)
        yield ("network", "land", f"{type(command).__name__} of e{run}"), after
