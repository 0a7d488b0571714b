"""Witnesses against vacuous truth: for each property a reachable world in which it could be violated.

A witness says "this never happens" of something that must happen sometimes. It is explored like any property; what the
explorer then calls a violation is the witness, with the shortest way to it. A property whose witness is found nowhere
would hold of anything.
"""

# ruff: noqa: E501  one witness, one line
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from perago_core import fence
from perago_core.attempt import AttemptState
from perago_core.attempt import messages as m
from perago_core.attempt.state import Phase
from perago_core.ledger.records import SettlementKind
from perago_core.machine.rows import Command
from perago_core.plan import PlanKind
from perago_core.results import Completed
from perago_core.values import Backing
from perago_simulation.explore.exploration import Violation
from perago_simulation.explore.search import explore
from perago_simulation.properties.publication import revoked_and_overtaken
from perago_simulation.properties.safety import Judge, Property, When, accepted
from perago_simulation.world.history import ROOT, commit, maker
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import COMPLETED, DEAD, NOBODY, RUNNING, World

Sight: TypeAlias = Callable[[World], bool]

#: Where the witnesses are looked for, the smallest first.
PLACES: tuple[Setting, ...] = (
    setting(Backing.LOCKED, crashes=1, pauses=False, no_ops=True, ledger=True),
    setting(Backing.LOCKED, crashes=0, losses=1, attempts=1, duplicates=1),
    setting(Backing.CONDITIONAL, crashes=0, strangers=1, ledger=True),
    setting(Backing.CONDITIONAL, crashes=0, attempts=1, duplicates=1, collector=True),
    setting(Backing.ATOMIC, crashes=0, attempts=1, pauses=False, twins=1, adopts=True),
    *(
        setting(Backing.ATOMIC, crashes=0, attempts=1, pauses=False, workflows=2, abreast=True, scopes=scopes)
        for scopes in ("disjoint", "overlapping")
    ),
)


def _a_result_is_accepted(_setting: Setting, world: World) -> str | None:
    return "found" if accepted(world) else None


#: Where this is found nowhere, nothing was ever promised: whatever holds there holds vacuously.
ACCEPTED = Property("accepted", "no result is ever accepted", When.ALWAYS, _a_result_is_accepted)


def _sighted(sight: Sight, says: str) -> Judge:
    return lambda _setting, world: says if sight(world) else None


def _is(identity: str, says: str, sight: Sight, when: When = When.ALWAYS) -> Property:
    return Property(identity, says, when, _sighted(sight, says))


def _asking(world: World, *kinds: type[Command]) -> Iterator[tuple[int, AttemptState, Any]]:
    """Return the executions that are about to ask for one of these, with what they know and ask."""
    for index, run in enumerate(world.runs):
        if run.state is not None and type(run.state.pending[0]) in kinds:
            yield index, run.state, run.state.pending[0]


def _completing(world: World) -> Iterator[tuple[int, AttemptState, Completed]]:
    for index, state, asked in _asking(world, m.Report):
        if isinstance(asked.result, Completed):
            yield index, state, asked.result


def _relocations(world: World) -> bool:
    return any(request.plan.kind is not PlanKind.MERGE for request in world.requests)


def _dead_left(world: World) -> list[int]:
    return [run for run, _ in world.names if world.runs[run].fate is DEAD]


def _holds_dead(world: World) -> bool:
    return world.lease.holder != NOBODY and world.runs[world.lease.holder].fate is DEAD


def _claimed_by_another(world: World) -> bool:
    owners = {claim.task_id: claim.execution for claim in world.claims}
    return any(
        run.fate is RUNNING and owners.get(f"t{run.task}", f"e{index}") != f"e{index}"
        for index, run in enumerate(world.runs)
    )


def _two_at_work_on_one(world: World) -> bool:
    sending = {world.runs[request.run].task: request.run for request in world.requests}
    return any(run.fate is RUNNING and sending.get(run.task, index) != index for index, run in enumerate(world.runs))


def _joined(world: World) -> Iterator[tuple[str, str]]:
    """Return what was published onto, and what it was made from, of everything accepted with a declared scope."""
    for _, ref in accepted(world):
        onto, *staged = commit(ref).parents or (ROOT,)
        if staged and not ref.startswith("F"):
            yield onto, commit(staged[0]).parents[0]


# fmt: off
WITNESSES = (
    _is("S-01", "a result is accepted while another execution's publication is on its way", lambda w: bool(accepted(w) and w.requests)),
    _is("S-02", "an abandoned publication lies on the branch at rest", lambda w: not accepted(w) and maker(w.head) != NOBODY, When.AT_REST),
    _is("S-02b", "a workflow is done that needed more than one attempt", lambda w: bool(accepted(w)) and len(w.tasks) > 1, When.AT_REST),
    _is("S-03", "an accepted result stands in the place of an abandoned one", lambda w: any(ref.startswith("C") for _, ref in accepted(w))),
    _is("S-04", "a publication is accepted", lambda w: any(ref != source for source, ref in accepted(w))),
    _is("S-15", "a relocation is on its way while a stranger's commit is on the branch", lambda w: bool(w.strangers) and _relocations(w)),
    _is("S-04b", "a publication lies on the branch that is not accepted yet", lambda w: not accepted(w) and maker(w.head) != NOBODY),
    _is("S-05", "an execution does not know whether it has published", lambda w: any(run.state is not None and run.state.known.uncertain for run in w.runs)),
    _is("S-06", "a later execution than the first wins with what it made", lambda w: any(task.status is COMPLETED and task.winner > 0 and task.ref != task.input for task in w.tasks)),
    _is("S-06b", "who changed something reports success", lambda w: any(state.known.changed for _, state, _ in _completing(w))),
    _is("S-11", "an execution commits under a staging name", lambda w: any(_asking(w, m.CommitStaging))),
    _is("S-12", "a no-op has sent the branch back to its input", lambda w: any(request.plan.kind is PlanKind.RETURN for request in w.requests)),
    _is("S-13", "an execution refuses the head", lambda w: any(run.state is not None and isinstance(run.state.known.decision, fence.Refused) for run in w.runs)),
    _is("S-16", "a relocation is on its way", _relocations),
    _is("S-17", "an execution works on an attempt for which another has sent a publication", _two_at_work_on_one),
    _is("S-18", "an intent stands while its publication is on its way", lambda w: any(request.run in w.intents for request in w.requests)),
    _is("S-19", "an intent is about to be settled as not published", lambda w: any(asked.kind is SettlementKind.NOT_PUBLISHED for _, _, asked in _asking(w, m.SettleIntent))),
    _is("S-24", "a publication is about to be sent after a lease that was not given back", lambda w: any(state.known.token is not None and any(run.fate is DEAD for run in w.runs) for _, state, _ in _asking(w, m.Publish))),
    _is("S-30", "a request is on its way whose name is gone, and a newer attempt has published", lambda w: bool(revoked_and_overtaken(w))),
    _is("S-32", "an execution cleans up while another one's name exists", lambda w: any(any(run != index for run, _ in w.names) for index, _, _ in _asking(w, m.CleanUp))),
    _is("S-33", "a dead execution's name is left at rest", lambda w: bool(_dead_left(w)), When.AT_REST),
    _is("S-33b", "a dead execution's lease is left at rest", _holds_dead, When.AT_REST),
    _is("S-33c", "a dead execution's intent is left at rest", lambda w: bool(w.intents), When.AT_REST),
    _is("S-33d", "an execution that made a name cleans up", lambda w: any(index in dict(w.names) for index, _, _ in _asking(w, m.CleanUp))),
    _is("S-34", "the collector has met a barrier while an execution still works", lambda w: w.rare is not None and bool(w.rare.swept) and any(run.fate is RUNNING for run in w.runs)),
    _is("S-40", "an execution works on an attempt that another has claimed", _claimed_by_another),
    _is("S-41", "two tasks of one step are accepted", lambda w: len({task.step for task in w.tasks}) < len(accepted(w))),
    _is("S-42", "accepted work stands on what another workflow has published since it began", lambda w: any(onto != source for onto, source in _joined(w))),
    _is("S-43", "accepted work was made from what another workflow has published", lambda w: any(source != ROOT for _, source in _joined(w))),
    _is("L-02", "a second attempt completes", lambda w: w.tasks[-1].number > 1 and w.tasks[-1].status is COMPLETED, When.AT_REST),
    _is("L-10", "an execution ends without a word", lambda w: any(state.known.result is None for _, state, _ in _asking(w, m.CleanUp))),
    _is("C8", "an execution finds its publication after the answer was lost", lambda w: any(run.state is not None and run.state.phase is Phase.OWN_FENCE and maker(w.head) == index for index, run in enumerate(w.runs))),
)
# fmt: on


def sightings() -> dict[str, tuple[Setting, Violation]]:
    """Explore until every witness is found, and give where, and the shortest way there."""
    found: dict[str, tuple[Setting, Violation]] = {}
    for of in PLACES:
        wanted = [each for each in WITNESSES if each.id not in found]
        found.update((each.property, (of, each)) for each in explore(of, wanted).violations)
    return found
