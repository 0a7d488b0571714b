"""Recoveries that revert: what nobody accepted on a shared branch is undone, one call at a time.

A recovery holds its production conversation (``perago_core.revert``), and anything may happen between two of its calls.
It is the answers it was given so far: the next call is found by holding the conversation anew with them. Whatever comes
after an attempt that has ended is a rerun here: to a recovery the workflow of such an attempt looks as if it had ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve

from perago_core import revert
from perago_core.answers import Answer, Done, NotDone
from perago_core.calls import Call
from perago_core.revert import Unaccepted
from perago_core.values import CommitRef, StagedRef, Target
from perago_simulation.machines.conversations import Concluded
from perago_simulation.world.history import commit, undone
from perago_simulation.world.ports import Served, serve
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import (
    DEAD,
    NOBODY,
    TARGET,
    Recovering,
    Request,
    Run,
    World,
    by_run,
    snapshot_of,
    with_rare,
)
from perago_simulation.world.strangers import Moves

if TYPE_CHECKING:
    from perago_simulation.world.model import Model


def begin(model: Model, world: World) -> Moves:
    """Let somebody find a publication that nobody accepted and nobody will, and set out to revert it.

    It may go on or not, as whoever dies: so it is dead from the beginning, and what it leaves is excused.
    """
    assert world.rare is not None
    answers: tuple[Answer[Any], ...] = ()
    while isinstance(found := model.talks.next("look", answers, lambda: revert.unaccepted(TARGET)), Call):
        _, answer = _serve(model.setting, world, NOBODY, found)
        answers = (*answers, answer)
    looked: Answer[tuple[Unaccepted, ...]] = found.value
    assert isinstance(looked, Done)
    for seen in looked.value:
        if seen.stays:
            continue
        at = max(index for index, task in enumerate(world.tasks) if f"wf/step{task.step}" == seen.task)
        run = len(world.runs)
        begun = (*world.rare.recoveries, Recovering(run, seen.commit.ref, seen.task))
        after = with_rare(world._replace(runs=(*world.runs, Run(at, DEAD, None))), recoveries=begun)
        yield ("recovery", "recover", f"r{run}: {seen.commit.ref}"), after


def go_on(model: Model, world: World) -> Moves:
    """Let each recovery make its next call. What becomes of its publication it does not wait for."""
    assert world.rare is not None
    for at, each in enumerate(world.rare.recoveries):
        asked = _next_call(model, each)
        if each.answers is None or not isinstance(asked, Call):
            continue
        others = world.rare.recoveries
        if asked.method == "publish":
            (plan,) = asked.args
            sent = tuple(sorted((*world.requests, Request(each.run, plan, awaited=False)), key=by_run))
            over = (*others[:at], each._replace(answers=None), *others[at + 1 :])
            yield ("recovery", "publish", f"r{each.run}"), with_rare(world._replace(requests=sent), recoveries=over)
            continue
        after, answer = _serve(model.setting, world, each.run, asked)
        told = (*others[:at], each._replace(answers=(*each.answers, answer)), *others[at + 1 :])
        label = ("recovery", asked.method, f"r{each.run}: {type(answer).__name__}")
        yield label, with_rare(after, recoveries=told)


def _next_call(model: Model, recovering: Recovering) -> Call | Concluded | None:
    run, ref, task, answers = recovering
    if answers is None:
        return None
    return model.talks.next((run, ref, task), answers, lambda: revert.revert(TARGET, commit(ref), task, f"e{run}"))


def _reload(_setting: Setting, world: World, _index: int, _workflow: str | None, task_id: str) -> Served:
    at = int(task_id[1:])
    snapshot = snapshot_of(world.tasks[at], at)
    return world, Done(evolve(snapshot, workflow_running=snapshot.status.is_open))


def _open_staging(_setting: Setting, world: World, index: int, _target: Target, _name: str, at: CommitRef) -> Served:
    return world._replace(names=tuple(sorted((*world.names, (index, at))))), Done(None)


def _revert(_setting: Setting, world: World, index: int, _target: Target, name: str, _message: str) -> Served:
    names = dict(world.names)
    if index not in names:
        return world, NotDone("the staging branch is gone")
    made = undone(index, names[index])
    staged = StagedRef(TARGET.repository, name, made, commit(made).tree)
    return world._replace(names=tuple(sorted({**names, index: made}.items()))), Done(staged)


_OWN: Mapping[tuple[str, str], Callable[..., Served]] = {
    ("orchestrator", "reload"): _reload,
    ("store", "open_staging"): _open_staging,
    ("store", "revert"): _revert,
}


def _serve(setting: Setting, world: World, index: int, asked: Call) -> Served:
    own = _OWN.get((asked.port, asked.method))
    return serve(setting, world, index, asked) if own is None else own(setting, world, index, *asked.args)
