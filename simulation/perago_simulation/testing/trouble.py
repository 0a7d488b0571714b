"""What goes wrong, drawn before a run: whom it meets, where that one stands then, and what it is.

Left to chance alone nothing finds a bug that takes three things at three places: a random walk hits the moment between
observing and sending once in twenty moves, and each of the three is such a moment. So a run is drawn with its troubles:
the first execution crashes before its report, the second is held while its request is at the store, the third goes on.
Everything else is order, and is drawn move by move.

``HOLD`` is the trouble that needs no fault: an execution, or its request, does not move again before everybody else is
done. It is what a long pause is, and the orchestrator gives such an attempt up where it may.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from perago_core.attempt.state import Phase
from perago_simulation.runs.schedule import ALLOWS, CachedWorld
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import OPEN, RUNNING, World

HOLD = "hold"
#: Where a publication stands: decided and not sent, sent, and begun by the store.
SEND, BEGIN, INSTALL = "send", "begin", "install"

#: The places at which a trouble may meet an execution. Between observing and reporting is where most of it matters, and
#: before the claim, so those come first and more than once: what is first is also what a failure is shrunk to.
PLACES = (
    *(SEND, BEGIN, INSTALL, Phase.REPORT.name, Phase.HEAD.name, Phase.CLAIM.name) * 12,
    *(phase.name for phase in (Phase.READ_BACK, Phase.FENCE_2, Phase.REVOCATION, Phase.BARRIER) * 2),
    *(phase.name for phase in Phase if phase not in {Phase.WORKSPACE, Phase.BODY, Phase.PUBLICATION, Phase.DONE}),
)
#: What happens to the execution itself; every other fault happens to the world while the execution stands there.
_ITS_OWN = frozenset({"crash", *ALLOWS["losses"], *ALLOWS["interrupts"], *ALLOWS["refusals"], *ALLOWS["lateness"]})
#: What brings an execution of the same step beside the one that is there.
_BESIDE = ("duplicates", "twins")
#: So many executions are met at most: two crashes, or a hold each, and those who come after.
MET = 4


class Trouble(NamedTuple):
    """One thing that goes wrong with, or beside, one execution."""

    execution: int
    place: str
    kind: str


def troubles(of: Setting) -> st.SearchStrategy[list[Trouble]]:
    """Draw what is to go wrong in a setting, in a way that Hypothesis can shrink."""
    return st.randoms(use_true_random=False).map(lambda chance: some_troubles(of, chance))


def some_troubles(of: Setting, chance: Random) -> list[Trouble]:
    """Choose what is to go wrong in a setting: of the kinds it allows, one for most executions and some more."""
    beside = [kind for bound in _BESIDE if getattr(of, bound) for kind in ALLOWS[bound]]
    kinds = [
        kind for bound, allowed in ALLOWS.items() if getattr(of, bound) and bound not in _BESIDE for kind in allowed
    ]
    kinds += [HOLD] * max(1, len(kinds)) if of.pauses or of.abreast or beside or not kinds else []
    executions = min(MET, of.attempts * (of.workflows if of.abreast else 1) + of.duplicates + of.twins)
    met = [index for index in range(executions) if chance.choice((False, True, True, True))]
    met += [chance.randrange(MET) for _ in range(chance.choice((0, 1, 2)))]
    found = [Trouble(index, chance.choice(PLACES), chance.choice(kinds)) for index in met]
    # Whoever comes beside an execution comes where something happens to that one: held there, it is overtaken.
    return [Trouble(*found[0][:2], chance.choice(beside)), *found] if found and beside else found


def place_of(world: World, index: int) -> str | None:
    """Return where an execution stands, or ``None`` if it does not exist, or is over and has nothing on its way."""
    if index >= len(world.runs):
        return None
    for request in world.requests:
        if request.run == index:
            return INSTALL if request.begun else BEGIN
    state = world.runs[index].state
    if state is None:
        return None
    return SEND if state.phase is Phase.PUBLICATION else state.phase.name


class Plan:
    """The troubles ahead of one run, and who is held by those that have come."""

    def __init__(self, troubles: list[Trouble]) -> None:
        self._ahead = list(troubles)
        self._held: list[int] = []

    def next(self, node: CachedWorld) -> int | None:
        """Return the move that is a trouble whose moment has come, if one is; holds begin by the way."""
        world = node.world
        if world is None:
            return None
        for each in list(self._ahead):
            if place_of(world, each.execution) != each.place:
                continue
            if each.kind == HOLD:
                self._ahead.remove(each)
                self._held.append(each.execution)
                continue
            moves = [index for index, kind in enumerate(node.faults) if kind == each.kind and _meets(node, index, each)]
            if moves:
                self._ahead.remove(each)
                if each.kind == "crash":  # what it has on its way is held too, or it would be carried out at once
                    self._held.append(each.execution)
                return moves[0]
        return None

    def work(self, node: CachedWorld) -> list[int]:
        """Return the work of everybody who is not held; if there is none, an attempt is given up, or a hold ends."""
        while True:
            held = {f"e{index}" for index in self._held}
            work = [index for index, kind in enumerate(node.faults) if kind is None]
            free = [index for index in work if node.actors[index] not in held]
            if free or not self._held:
                return free
            given_up = [index for index, kind in enumerate(node.faults) if kind == "give up"]
            if given_up and self._nobody_works(node):
                return given_up
            self._held.pop(0)

    def _nobody_works(self, node: CachedWorld) -> bool:
        """Return whether everybody who works on the open attempt is held."""
        world = node.world
        assert world is not None
        last = len(world.tasks) - 1
        at_work = [index for index, run in enumerate(world.runs) if run.task == last and run.fate is RUNNING]
        return world.tasks[last].status is OPEN and all(index in self._held for index in at_work)


def _meets(node: CachedWorld, index: int, trouble: Trouble) -> bool:
    """Return whether a fault happens to the execution it was drawn for."""
    if trouble.kind not in _ITS_OWN:
        return True
    assert node.labels is not None
    who = f"e{trouble.execution}"
    return node.actors[index] == who or node.labels[index][2] == who
