"""What seldom happens, and may happen at any moment while its budget lasts.

Each is a function from a world to moves; ``RARITIES`` says which budget it spends; what goes wrong with one execution
is in ``troubles``. A model whose setting has none of
these budgets never comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from perago_simulation.world import recoveries, strangers
from perago_simulation.world.collector import collect
from perago_simulation.world.settings import RARE, Setting
from perago_simulation.world.state import CANCELED, NOBODY, OPEN, Rare, Rarities, World, by_run, with_rare, with_task
from perago_simulation.world.strangers import Moves
from perago_simulation.world.troubles import landings

if TYPE_CHECKING:
    from perago_simulation.world.model import Model

Rarity: TypeAlias = "Callable[[Model, World], Moves]"


def rare_of(setting: Setting) -> Rare | None:
    """Return what a world begins with: ``None`` where nothing rare may happen."""
    left = Rarities(**{name: getattr(setting, name) for name in RARE})
    return Rare(left) if any(left) or setting.collects or setting.maintenance else None


def rare_moves(model: Model, world: World) -> Moves:
    """Give everything rare that can happen next."""
    assert world.rare is not None
    left = world.rare.left
    for name, happens in RARITIES.items():
        if budget := getattr(left, name):
            yield from happens(model, with_rare(world, left=left._replace(**{name: budget - 1})))
    yield from strangers.tidy(world)
    yield from landings(model.setting, world)
    if model.setting.reverts:
        yield from recoveries.go_on(model, world)
    if model.setting.collects:
        yield from collect(model.setting, world, ended=model.has_ended(world))


def _requeue(model: Model, world: World) -> Moves:
    """Hand an open task out again. The first worker is not asked; only the number of polls tells the two apart."""
    last = len(world.tasks) - 1
    if world.tasks[last].status is OPEN:
        yield from model.deliver(_polled(world, last), last, "requeue")


def _rerun(model: Model, world: World) -> Moves:
    """Let a workflow that has ended, whichever way, begin again with its last task, under the same id.

    Whatever was accepted for that task is no longer: the operator has taken it back. From an earlier task it would only
    be refused, since the head is then no child of that task's input.
    """
    last = len(world.tasks) - 1
    if world.tasks[last].status is not OPEN and model.has_ended(world):
        yield from model.deliver(with_rare(_polled(world, last), terminated=False, swept=()), last, "rerun")


def _polled(world: World, at: int) -> World:
    task = world.tasks[at]
    return with_task(world, at, task._replace(status=OPEN, winner=NOBODY, ref="", polls=task.polls + 1))


def _terminate(model: Model, world: World) -> Moves:
    """End the workflow: an open task is cancelled, nothing is handed out, results that come later are ignored."""
    if not model.has_ended(world):
        last = len(world.tasks) - 1
        task = world.tasks[last]
        over = with_rare(world, terminated=True)
        yield (
            ("orchestrator", "terminate", f"t{last}"),
            with_task(over, last, task._replace(status=CANCELED)) if task.status is OPEN else over,
        )


def _resend(_model: Model, world: World) -> Moves:
    """Let the transport send a publication again that has not been answered; both may land.

    The sender gets the answer to the copy. Where neither has begun it makes no difference which of the two is called
    the copy, so this is also the copy nobody waits for that lands long after the answer.
    """
    for at, request in enumerate(world.requests):
        if request.awaited:
            others = (*world.requests[:at], *world.requests[at + 1 :])
            both = (request._replace(awaited=False), request._replace(begun=False, on=""))
            requests = tuple(sorted((*others, *both), key=by_run))
            yield ("fault", "resend", f"publication of e{request.run}"), world._replace(requests=requests)


def _schedule_twice(model: Model, world: World) -> Moves:
    """Schedule an open task once more, under another id: both are current, and the result of either counts."""
    task = world.tasks[-1]
    if task.status is OPEN:
        yield from model.hand_out(world, model.another(world, task)._replace(line=task.line + 1), "schedule twice")


def _decide_anew(_model: Model, world: World) -> Moves:
    """Store the next epoch of the policy: whoever settles intents from now on is told of it."""
    assert world.rare is not None
    epoch = world.rare.epoch + 1
    yield ("coordination", "new epoch", str(epoch)), with_rare(world, epoch=epoch)


def _by_a_stranger(happens: Callable[[World], Moves]) -> Rarity:
    return lambda _model, world: happens(world)


RARITIES: Mapping[str, Rarity] = {
    "requeues": _requeue,
    "reruns": _rerun,
    "terminations": _terminate,
    "resends": _resend,
    "foreign_merges": _by_a_stranger(strangers.merge),
    "foreign_resets": _by_a_stranger(strangers.reset),
    "recreations": _by_a_stranger(strangers.delete),
    "foreign_writes": _by_a_stranger(strangers.write),
    "epochs": _decide_anew,
    "twins": _schedule_twice,
    "reverts": recoveries.begin,
}
