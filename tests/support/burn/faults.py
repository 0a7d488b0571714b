"""The nemesis's plan: which faults come when, drawn from a seed before anything runs.

A plan is a pure function of the seed, so a round that broke something is played again by its seed, and made smaller by
leaving faults out by their numbers. When exactly a signal or a lost answer meets a worker is not in it: that is the
machine's, and why a plan that broke something may have to be played more than once to do so again.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from enum import Enum

from attrs import evolve, frozen

from perago_core.failpoints import CATALOGUE


class Kind(Enum):
    """A class of faults, by the words that figures and schedules use."""

    KILL = "worker killed"
    KILL_AT = "worker killed at a port call"
    STOP = "worker stopped and resumed"
    STOP_AT = "worker stopped at a port call"
    UPGRADE = "workers replaced one after the other"
    TWICE = "task handed out twice"
    STRANGER = "stranger's commit"
    POLICY = "policy changed under way"
    FULL = "worker's disk full"
    CLOCK = "worker's monotonic clock shifted"
    WALL = "worker's wall clock jumped"
    PARTITION = "worker cut off from a server"
    ONE_WAY = "worker heard, and hears nothing"
    DELAY = "requests delayed"
    LOST_REQUEST = "requests lost"
    LOST_ANSWER = "answers lost"
    RESENT = "requests sent twice"
    FREEZE = "server stopped and resumed"
    RESTART = "server killed and started again"


#: What needs a network between worker and server.
NETWORK = frozenset(
    {
        *(Kind.PARTITION, Kind.ONE_WAY, Kind.DELAY, Kind.LOST_REQUEST, Kind.LOST_ANSWER, Kind.RESENT),
        *(Kind.FREEZE, Kind.RESTART),
    }
)
#: How often each comes, against the others. A server that starts again costs a Conductor's start.
_WEIGHTS = {Kind.KILL: 4, Kind.KILL_AT: 5, Kind.STOP: 3, Kind.STOP_AT: 4, Kind.RESTART: 1, Kind.POLICY: 1}
_USUAL = 2
SLOTS = 2
#: Calls an attempt makes; a worker that dies while it polls or probes is what ``KILL`` shows.
_POINTS = tuple(
    str(point)
    for point in CATALOGUE
    if point.port in {"store", "workspace", "orchestrator", "coordination"}
    and point.method not in {"poll", "probe", "extend", "keep_alive"}
)
#: Where a pause leaves a publication that is sent late, and a death one that nobody has reported.
LATE, ABANDONED = "store.publish.before", "store.publish.after"
_SHARPEST = (LATE, ABANDONED, "orchestrator.report.before", "store.claim.after")


@frozen
class Fault:
    """One fault. ``slot``: whose worker; ``server`` and ``branch`` are drawn wide and taken modulo what there is.

    ``first``: where the worker before dies, all others being away, so that the one that is stopped takes its place.
    """

    number: int
    at: float
    kind: Kind
    slot: int
    seconds: float
    point: str
    server: int
    branch: int
    first: str = ""

    def __str__(self) -> str:
        where = f" at {self.point}" if self.kind in {Kind.KILL_AT, Kind.STOP_AT} else ""
        where += f" after a death at {self.first}" if self.first else ""
        return f"{self.number}: {self.at:.1f} s, {self.kind.value}{where}, {self.seconds:.1f} s, slot {self.slot}"


def plan(seed: int, seconds: float, kinds: Collection[Kind], *, gap: float) -> tuple[Fault, ...]:
    """Draw the faults of one round: one every ``gap`` seconds on average; each kind once before any comes again."""
    return tuple(_draw(random.Random(seed), seconds, kinds, gap))


def late_replacements(seed: int, seconds: float, *, gap: float) -> tuple[Fault, ...]:
    """Draw what ``soft`` is registered to lose results to, and nothing else.

    A worker dies after it has published; the next one replaces that, is stopped before it sends the replacement, and
    wakes when somebody else's was accepted: what it sends then takes the accepted result off the branch (kill matrix,
    route *replacement*).
    """
    drawn = plan(seed, seconds, (Kind.STOP_AT,), gap=gap)
    return tuple(evolve(each, slot=0, point=LATE, first=ABANDONED) for each in drawn)


def _draw(chance: random.Random, seconds: float, kinds: Collection[Kind], gap: float) -> Iterator[Fault]:
    ordered = [kind for kind in Kind if kind in kinds]
    weights = [_WEIGHTS.get(kind, _USUAL) for kind in ordered]
    coming: list[Kind] = []
    at, number = 0.0, 0
    while True:
        at += chance.uniform(0.5, 1.5) * gap
        if at >= seconds or not ordered:
            return
        if not coming:
            coming = chance.sample(ordered, len(ordered)) + chance.choices(ordered, weights, k=len(ordered))
        point = chance.choice(_SHARPEST if chance.random() < 0.5 else _POINTS)
        yield Fault(
            number,
            at,
            coming.pop(0),
            chance.randrange(SLOTS),
            chance.choice((1.0, 3.0, 12.0)) * chance.uniform(0.7, 1.3),
            point,
            chance.randrange(1000),
            chance.randrange(1000),
        )
        number += 1
