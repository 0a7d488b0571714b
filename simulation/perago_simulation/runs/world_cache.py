"""A cache of the worlds that runs pass through: what is wrong in each, its moves, and which of them are faults.

Runs through known worlds are quick; in a big setting most worlds are new, and a run costs what exploring them costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perago_simulation.explore.first_violation import STUCK
from perago_simulation.properties.safety import PROPERTIES, Property, When
from perago_simulation.world.model import Label, Model
from perago_simulation.world.state import World

#: What may go wrong by itself, by the bound of the setting that allows it; everything else is work.
ALLOWS: Mapping[str, tuple[str, ...]] = {
    "crashes": ("crash",),
    "losses": ("dropped", "answer lost", "stops waiting"),
    "duplicates": ("deliver again",),
    "pauses": ("give up", "expire"),
    "strangers": ("commit",),
    "foreign_merges": ("merge",),
    "foreign_resets": ("reset",),
    "foreign_writes": ("write",),
    "recreations": ("delete",),
    "requeues": ("requeue",),
    "reruns": ("rerun",),
    "terminations": ("terminate",),
    "resends": ("resend",),
    "interrupts": ("lose attempt", "run out of time", "lose lease"),
    "refusals": ("refused",),
    "bodies": ("fails", "fails for good", "another's answer"),
    "lateness": ("late", "lease too short"),
    "late_landings": ("held up",),
    "epochs": ("new epoch",),
}
FAULTS = tuple(kind for kinds in ALLOWS.values() for kind in kinds)
#: The kinds that the end of a label tells: an execution asked for something, and this came of it.
_ANSWERS = tuple(
    kind for bound in ("losses", "refusals", "bodies", "lateness", "late_landings") for kind in ALLOWS[bound]
)
_ORDERS = frozenset({"give up", "deliver again", "requeue", "rerun", "terminate"})


def fault_of(label: Label) -> str | None:
    """Name the kind of fault a move is, or ``None`` if it is work that has to be done anyway."""
    who, what, about = label
    if who in {"fault", "stranger", "coordination"} or what in _ORDERS:
        return what
    return next((kind for kind in _ANSWERS if about.endswith(kind)), None)


def actor_of(label: Label) -> str:
    """Name who moves. The store moves for whoever sent the request."""
    return label[2].split(":")[0] if label[0] == "store" else label[0]


class CachedWorld:
    """A world with what is wrong in it and, once somebody has been there, what can happen next."""

    __slots__ = ("actors", "children", "faults", "labels", "world", "wrong")

    def __init__(self, world: World | None, wrong: tuple[str, str] | None) -> None:
        self.world = world
        self.wrong = wrong
        self.labels: tuple[Label, ...] | None = None
        self.children: tuple[CachedWorld, ...] = ()
        self.faults: tuple[str | None, ...] = ()
        self.actors: tuple[str, ...] = ()


class WorldCache:
    """The worlds met so far, at most about ``limit``: beyond that the cache is emptied before the next run begins."""

    def __init__(self, model: Model, properties: Sequence[Property] = PROPERTIES, limit: int = 300_000) -> None:
        self.model = model
        self.limit = limit
        self.root = CachedWorld(None, None)
        self._nodes: dict[World, CachedWorld] = {}
        self._always = [each for each in properties if each.when is When.ALWAYS]
        self._resting = [each for each in properties if each.when is When.AT_REST]

    def known(self) -> int:
        """Count the worlds that are remembered."""
        return len(self._nodes)

    def begin(self) -> CachedWorld:
        """Give where every run begins: nothing has happened, and the moves are the beginnings."""
        if len(self._nodes) > self.limit:
            self._nodes.clear()
            self.root = CachedWorld(None, None)
        return self.root

    def expand(self, node: CachedWorld) -> None:
        """Find out what can happen next. A table, store or runtime that gives up is something wrong with this world."""
        world = node.world
        try:
            moves = list(self.model.beginnings() if world is None else self.model.moves(world))
        except Exception as error:  # noqa: BLE001  whatever somebody's own runtime raises, the run that led here is told
            node.wrong, moves = (STUCK, f"{type(error).__name__}: {error}"), []
        node.children = tuple(self._node(after) for _, after in moves)
        node.faults = tuple(fault_of(label) for label, _ in moves)
        node.actors = tuple(actor_of(label) for label, _ in moves)
        node.labels = tuple(label for label, _ in moves)

    def _node(self, world: World) -> CachedWorld:
        node = self._nodes.get(world)
        if node is None:
            node = self._nodes[world] = CachedWorld(world, self._wrong(world))
        return node

    def _wrong(self, world: World) -> tuple[str, str] | None:
        resting = self._resting if self._resting and self.model.at_rest(world) else ()
        for each in (*self._always, *resting):
            problem = each.judge(self.model.setting, world)
            if problem is not None:
                return each.id, problem
        return None
