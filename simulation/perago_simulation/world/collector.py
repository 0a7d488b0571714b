"""The collector: removes what the rule of ``perago_core.garbage`` lets go, at any moment at which it may.

That rule says why a claim is needed longer than its attempt: the claims of a step go only once the step is settled, all
its names are gone and a barrier has answered. A paused duplicate may then still make its claim, but it has no name to
act by. Where no name can be revoked, the record of whoever raised the step's claim last stays for good; it is what
refuses the duplicate. This is enough as long as no task comes back under its old id: see the decision on a task that is
handed out again.

The data of a staged commit lives as long as the claims, for the same reason. Counterexample: the store has begun a
merge, the name is deleted, the data of the commit is removed since nothing holds it, and the merge is installed. Where
no barrier ends what was begun under a name, data waits until a newer claim is raised.
"""

from __future__ import annotations

from collections.abc import Iterator

from perago_core.garbage import Living, abandoned_names, settled_claims
from perago_simulation.world.history import chain, staged
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import (
    CLEAN,
    COMPLETED,
    NOBODY,
    OPEN,
    Run,
    World,
    attempt_of,
    branch_of,
    restarted,
    with_rare,
    without_name,
)
from perago_simulation.world.strangers import Move, Moves


def collect(setting: Setting, world: World, *, ended: bool) -> Moves:
    """Return what the collector may remove next; ``ended`` says that the orchestrator hands nothing out any more."""
    names = {_name(setting, world, run): run for run, _ in world.names}
    steps = range(setting.steps * setting.workflows)
    tasks = [_logical(step) for step in steps]
    for name in abandoned_names(names, tasks, _living(world)):
        yield ("collector", "drop name", f"e{names[name]}"), without_name(world, names[name])
    if setting.early_collector:
        yield from _too_early(setting, world)
        return
    for step in steps:
        if _is_settled(world, step, ended=ended) and not _has_names(world, step):
            yield from _remove(setting, world, step, tuple(names))


def _remove(setting: Setting, world: World, step: int, names: tuple[str, ...]) -> Moves:
    assert world.rare is not None
    going = settled_claims(world.claims, {_logical(step)}, names, _living(world))
    # Beyond the core's rule: a store without names to revoke keeps the record of whoever raised the claim last.
    claims = tuple(claim for claim in going if int(claim.execution[1:]) not in world.raised)
    unheld = [
        ref
        for run, ref in _unheld(setting, world)
        if _step(world, run) == step and (setting.store.barrier or _is_superseded(world, run))
    ]
    if step in world.rare.swept:
        if claims:
            kept = tuple(claim for claim in world.claims if claim not in claims)
            yield ("collector", "remove claims", f"step {step}"), world._replace(claims=kept)
        for ref in unheld:
            yield _emptied(world, ref)
    elif (claims or unheld) and (not setting.store.barrier or branch_of(world) is CLEAN):
        swept = with_rare(world, swept=tuple(sorted((*world.rare.swept, step))))
        yield ("collector", "barrier", f"step {step}"), restarted(swept) if setting.store.barrier else swept


def _unheld(setting: Setting, world: World) -> Iterator[tuple[int, str]]:
    """Return the staged commits that no branch, name, intent or result holds, each with its execution (S-34).

    Only those somebody may still act by: whether any other is there makes no difference to anybody.
    """
    if not setting.data_collector:
        return
    assert world.rare is not None
    own = {run: _staged(setting, world, run) for run in range(len(world.runs))}
    tips = {world.head, *(at for _, at in world.names), *(task.ref or task.input for task in world.tasks)}
    held = {ref for tip in (*tips, *(own[run] for run in world.intents)) for ref in chain(tip)}
    for run, ref in own.items():
        sent = any(request.plan.commit == ref for request in world.requests)
        if (sent or _may_act_by(world.runs[run], ref)) and ref not in held and ref not in world.rare.hollow:
            yield run, ref


def _is_superseded(world: World, run: int) -> bool:
    """Return whether an execution can never make its claim any more, or has lost it to a newer attempt."""
    holder = world.raised[_step(world, run)]
    if holder in {NOBODY, run}:
        return False
    return world.tasks[world.runs[holder].task].number >= world.tasks[world.runs[run].task].number


def _may_act_by(run: Run, ref: str) -> bool:
    known = None if run.state is None else run.state.known.staged
    return known is not None and known.commit == ref


def _staged(setting: Setting, world: World, run: int) -> str:
    return staged(run, world.tasks[world.runs[run].task].input, same_tree=setting.same_tree)


def _emptied(world: World, ref: str) -> Move:
    assert world.rare is not None
    return ("collector", "empty", ref), with_rare(world, hollow=tuple(sorted((*world.rare.hollow, ref))))


def _too_early(setting: Setting, world: World) -> Moves:
    """Remove the claim of any attempt that has ended, and unheld data at once. Wrong, and here to show who notices."""
    for _, ref in _unheld(setting, world):
        yield _emptied(world, ref)
    for claim in world.claims:
        if world.tasks[int(claim.task_id[1:])].status is not OPEN:
            kept = tuple(each for each in world.claims if each is not claim)
            run = int(claim.execution[1:])
            raised = tuple(NOBODY if each == run else each for each in world.raised)
            yield ("collector", "remove claim", claim.task_id), world._replace(claims=kept, raised=raised)


def _living(world: World) -> tuple[Living, ...]:
    return tuple(Living(_logical(task.step), task.number) for task in world.tasks if task.status is OPEN)


def _name(setting: Setting, world: World, run: int) -> str:
    index = world.runs[run].task
    return attempt_of(setting, world.tasks[index], index, run).staging_name


def _logical(step: int) -> str:
    return f"wf/step{step}"


def _is_settled(world: World, step: int, *, ended: bool) -> bool:
    tasks = [task for task in world.tasks if task.step == step]
    return any(task.status is COMPLETED for task in tasks) or (bool(tasks) and ended)


def _has_names(world: World, step: int) -> bool:
    return any(_step(world, run) == step for run, _ in world.names)


def _step(world: World, run: int) -> int:
    return world.tasks[world.runs[run].task].step
