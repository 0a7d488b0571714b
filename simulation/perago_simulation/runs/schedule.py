"""Random runs: schedulers choose what happens next among the moves the explorer takes all of; a failing run is shrunk.

A run *is* its list of choices: the index of the beginning, then the index of each move among what could happen. The
worlds that runs pass through are cached, with what is wrong in each, its moves, and which of them are faults. Runs
through known worlds are quick; in a big setting most worlds are new, and a run costs what exploring them costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Protocol

from attrs import field, frozen

from perago_core.value import Value
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
    "twins": ("schedule twice",),
    "reverts": ("recover",),
}
FAULTS = tuple(kind for kinds in ALLOWS.values() for kind in kinds)
#: The kinds that the end of a label tells: an execution asked for something, and this came of it.
_ANSWERS = tuple(
    kind for bound in ("losses", "refusals", "bodies", "lateness", "late_landings") for kind in ALLOWS[bound]
)
_ORDERS = frozenset({"give up", "deliver again", "requeue", "rerun", "terminate", "schedule twice", "recover"})


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
        """Return where every run begins: nothing has happened, and the moves are the beginnings."""
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


Chooser = Callable[[CachedWorld], int]


class Scheduler(Protocol):
    """Gives a chooser for each run. A chooser picks the index of a move, or -1 to end the run."""

    def run(self, number: int) -> Chooser:
        """Begin the run of this number; the same number makes the same choices."""
        ...


@frozen(repr=False)
class Weighted(Value):
    """Seeded random choice: a fault with probability ``faults`` if one can happen, else any work alike."""

    seed: int = 0
    faults: float = 0.1

    def run(self, number: int) -> Chooser:
        """Begin a run."""
        return _weighted(_seeded(self.seed, number), self.faults, frozenset())


@frozen(repr=False)
class Swarm(Value):
    """Weighted, but each run leaves out each kind of fault with probability one half."""

    seed: int = 0
    faults: float = 0.1

    def run(self, number: int) -> Chooser:
        """Begin a run."""
        random = _seeded(self.seed, number)
        left_out = frozenset(kind for kind in FAULTS if random.random() < _HALF)
        return _weighted(random, self.faults, left_out)


@frozen(repr=False)
class Pct(Value):
    """Probabilistic concurrency testing: who has the highest priority moves, and ``depth - 1`` times that changes.

    An ordering bug of depth d among n actors and k steps is found with probability at least 1/(n k^(d-1)) per run.
    Faults are drawn as in ``Swarm``: they are not a matter of order.
    """

    seed: int = 0
    depth: int = 3
    steps: int = 40
    faults: float = 0.1

    def run(self, number: int) -> Chooser:
        """Begin a run."""
        random = _seeded(self.seed, number)
        left_out = frozenset(kind for kind in FAULTS if random.random() < _HALF)
        changes = {random.randrange(self.steps) for _ in range(self.depth - 1)}
        priorities: dict[str, float] = {}
        at = 0

        def choose(node: CachedWorld) -> int:
            nonlocal at
            fault = _fault(random, node, self.faults, left_out)
            if fault >= 0:
                return fault
            work = [index for index, kind in enumerate(node.faults) if kind is None]
            if not work:
                return _any_fault(random, node, left_out)
            best = max(work, key=lambda index: priorities.setdefault(node.actors[index], 1.0 + random.random()))
            if at in changes:
                priorities[node.actors[best]] = random.random() / (1 + at)
            at += 1
            return best

        return choose


_HALF = 0.5
_TELL_EVERY = 100


def _seeded(seed: int, number: int) -> Random:
    return Random(f"{seed}/{number}")  # noqa: S311  repeatable, not secret


def _weighted(random: Random, faults: float, left_out: frozenset[str]) -> Chooser:
    pick, below = random.random, random.randrange

    def choose(node: CachedWorld) -> int:
        kinds = node.faults
        if pick() >= faults:
            work = [index for index, kind in enumerate(kinds) if kind is None]
            if work:
                return work[below(len(work))] if len(work) > 1 else work[0]
        return _any_fault(random, node, left_out, work=True)

    return choose


def _fault(random: Random, node: CachedWorld, faults: float, left_out: frozenset[str]) -> int:
    return _any_fault(random, node, left_out) if random.random() < faults else -1


def _any_fault(random: Random, node: CachedWorld, left_out: frozenset[str], *, work: bool = False) -> int:
    """Choose among the faults that are not left out; if there is none, among the work, if that is wanted."""
    possible = [index for index, kind in enumerate(node.faults) if kind is not None and kind not in left_out]
    if not possible and work:
        possible = [index for index, kind in enumerate(node.faults) if kind is None]
    # An attempt nobody works on any more is given up sooner or later, whatever a run leaves out.
    if not possible:
        possible = [index for index, kind in enumerate(node.faults) if kind == "give up"]
    return random.choice(possible) if possible else -1


@frozen(repr=False)
class Replay(Value):
    """Makes the same choices again."""

    choices: tuple[int, ...]

    def run(self, number: int) -> Chooser:  # noqa: ARG002  every run is the same
        """Begin a run."""
        left = iter(self.choices)
        return lambda node: next(left, -1)  # noqa: ARG005  a replay does not look


@frozen(repr=False)
class Failure(Value):
    """A run that broke a property: its choices, up to where it did."""

    property: str
    problem: str
    choices: tuple[int, ...]
    labels: tuple[Label, ...]


@frozen(repr=False)
class Simulation(Value):
    """What a number of runs came to. ``worlds`` counts the different ones that are remembered."""

    runs: int
    steps: int
    seconds: float
    worlds: int
    failures: tuple[Failure, ...] = field(default=())


def simulate(
    model: Model | WorldCache,
    scheduler: Scheduler,
    runs: int,
    steps: int = 200,
    stop_after: int = 1,
    *,
    progress: Callable[[int], object] | None = None,
) -> Simulation:
    """Make this many runs, of at most so many steps each, and stop early after so many failures."""
    worlds = WorldCache(model) if isinstance(model, Model) else model
    begun, taken, number = time.monotonic(), 0, 0
    failures: list[Failure] = []
    while number < runs and len(failures) < stop_after:
        node, choices = walk(worlds, scheduler.run(number), steps)
        number += 1
        taken += len(choices)
        if progress is not None and number % _TELL_EVERY == 0:
            progress(number)
        if node.wrong is not None:
            failures.append(Failure(*node.wrong, tuple(choices), _labels(worlds, choices)))
    return Simulation(number, taken, time.monotonic() - begun, worlds.known(), tuple(failures))


def carry_out(worlds: WorldCache, choices: Sequence[int]) -> tuple[CachedWorld, tuple[Label, ...]]:
    """Make these choices and give where they end; those after the first wrong world are not made."""
    # One step more than there are choices: only looking further shows whether somebody gives up there.
    node, made = walk(worlds, Replay(tuple(choices)).run(0), len(choices) + 1)
    return node, _labels(worlds, made)


def walk(worlds: WorldCache, choose: Chooser, steps: int) -> tuple[CachedWorld, list[int]]:
    """Make one run of at most so many steps; give where it ends, and its choices."""
    node = worlds.begin()
    choices: list[int] = []
    for _ in range(steps):
        if node.labels is None:
            worlds.expand(node)
            if node.wrong is not None:
                break
        index = choose(node)
        if not 0 <= index < len(node.children):
            break
        choices.append(index)
        node = node.children[index]
        if node.wrong is not None:
            break
    return node, choices


def _labels(worlds: WorldCache, choices: Sequence[int]) -> tuple[Label, ...]:
    node, labels = worlds.root, list[Label]()
    for index in choices:
        assert node.labels is not None
        labels.append(node.labels[index])
        node = node.children[index]
    return tuple(labels)


# ---- Make a failing run easier to read: fewer faults first, then fewer switches between actors, then fewer steps.
#
# It works on labels, not on indices: taking one choice out would change what every later index means. A label that is
# not possible any more is passed over. A smaller run counts only if it breaks the same property.


def cost(labels: Sequence[Label]) -> tuple[int, int, int]:
    """Return what is to become less: faults, switches, steps."""
    actors = [actor_of(label) for label in labels]
    switches = sum(one != other for one, other in pairwise(actors))
    return sum(fault_of(label) is not None for label in labels), switches, len(labels)


def shrink(worlds: WorldCache, failure: Failure, tries: int = 20_000) -> Failure:
    """Return the smallest run found that breaks the same property; the given one, if none is smaller."""
    best = failure
    left = tries
    while left > 0:
        for labels in _smaller(best.labels):
            left -= 1
            tried = follow(worlds, labels)
            if tried is not None and tried.property == best.property and cost(tried.labels) < cost(best.labels):
                best = tried
                break
            if left <= 0:
                return best
        else:
            return best
    return best


def follow(worlds: WorldCache, labels: Sequence[Label]) -> Failure | None:
    """Take the labels that are possible, in order, until something is wrong; ``None`` if nothing becomes wrong."""
    node = worlds.begin()
    choices: list[int] = []
    taken: list[Label] = []
    for label in (*labels, None):
        if node.labels is None:
            worlds.expand(node)
        assert node.labels is not None
        if label is not None and label in node.labels:
            index = node.labels.index(label)
            choices.append(index)
            taken.append(label)
            node = node.children[index]
        if node.wrong is not None:
            return Failure(*node.wrong, tuple(choices), tuple(taken))
    return None


def _smaller(labels: tuple[Label, ...]) -> Iterator[tuple[Label, ...]]:
    """Return shorter runs, long cuts first, then runs in which an actor goes on for longer before another's turn."""
    size = len(labels) // 2
    while size:
        for start in range(0, len(labels), size):
            yield labels[:start] + labels[start + size :]
        size //= 2
    actors = [actor_of(label) for label in labels]
    for actor in dict.fromkeys(actors):
        yield tuple(label for label in labels if actor_of(label) != actor)
    for at in range(1, len(labels)):
        for earlier in range(at - 1, 0, -1):
            if actors[earlier - 1] == actors[at] and actors[earlier] != actors[at]:
                yield (*labels[:earlier], labels[at], *labels[earlier:at], *labels[at + 1 :])
        for later in range(at + 1, len(labels)):
            if actors[later] == actors[at] and actors[at + 1] != actors[at]:
                yield (*labels[:at], *labels[at + 1 : later], labels[at], *labels[later:])
