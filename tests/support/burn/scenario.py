"""From faults that broke something on real systems to a run of the simulator that breaks the same promise.

Each kind of fault is one of the simulator's, or none of its. The explorer is given as many of them as were injected, on
the same backing, and looks for the shortest run that breaks one of the promises that were broken. If there is one, the
machine is wrong, or known to be, and the run can be told step by step, kept and replayed without any server. If every
world within these bounds holds, the loss is below the ports: in an adapter, in a server, or in the burn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from perago_core.values import Backing
from perago_simulation.cli.data import choices
from perago_simulation.explore.first_violation import ViolationSearch
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.runs.replay import command_of
from perago_simulation.world.capabilities import RELIES_ON
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting
from tests.support.burn.faults import Fault, Kind

#: The bound of the simulator that each kind of fault is one of. Delays and pauses of a worker or a server are all the
#: same to it: whoever is waited for too long is given up, and goes on later.
BOUNDS: Mapping[Kind, str] = {
    Kind.KILL: "crashes",
    Kind.KILL_AT: "crashes",
    Kind.STOP: "pauses",
    Kind.STOP_AT: "pauses",
    Kind.UPGRADE: "interrupts",
    Kind.TWICE: "requeues",
    Kind.STRANGER: "strangers",
    Kind.POLICY: "epochs",
    Kind.FULL: "refusals",
    Kind.CLOCK: "lateness",
    Kind.PARTITION: "losses",
    Kind.ONE_WAY: "losses",
    Kind.LOST_REQUEST: "losses",
    Kind.LOST_ANSWER: "losses",
    Kind.DELAY: "late_landings",
    Kind.RESENT: "resends",
    Kind.FREEZE: "late_landings",
    Kind.RESTART: "losses",
}
#: No decision is by the wall clock, so there is none in the simulator.
NONE = frozenset({Kind.WALL})
#: More of a kind than this has never been needed to break anything, and each costs the explorer ten times the worlds.
_MOST = 1
#: Worlds after which the explorer gives up.
_WORLDS = 100_000


def setting_of(backing: str, faults: Collection[Fault], *, adopts: bool) -> Setting:
    """Return what the simulator explores for these faults: one step, with an attempt more than faults could cost."""
    bounds: dict[str, int] = {}
    for kind in (*(each.kind for each in faults), *(Kind.KILL_AT for each in faults if each.first)):
        if kind not in NONE:
            bounds[BOUNDS[kind]] = min(_MOST, bounds.get(BOUNDS[kind], 0) + 1)
    paused = bounds.pop("pauses", 0) > 0
    kept = Backing(backing)
    return Setting(
        backing=kept,
        store=RELIES_ON[kept],
        ledger=kept in {Backing.CONDITIONAL, Backing.LOCKED},
        attempts=3 if paused and bounds.get("crashes") else 2,
        pauses=paused,
        adopts=adopts,
        **{"crashes": 0, **bounds},  # type: ignore[arg-type]
    )


def scenario(backing: str, faults: Sequence[Fault], clauses: Collection[str], *, adopts: bool = False) -> str:
    """Give the command that replays such a run, or say that the simulator has none."""
    model = Model(setting_of(backing, faults, adopts=adopts))
    asked = [each for each in PROPERTIES if each.id in clauses]
    bounds, named = model.setting.bounds(), ", ".join(sorted(clauses))
    if not asked:
        return f"no scenario: the simulator does not judge {named}"
    search = ViolationSearch(model, asked)
    found = search.first(_WORLDS)
    if found is not None:
        again = command_of(model, choices(model, found.trace))
        return f"scenario, {found.property} in {len(found.trace)} moves ({bounds}):\n{again}"
    seen = search.seen
    every = "in every world" if seen < _WORLDS else f"in the first {seen:,} worlds"
    return f"no scenario: {named} holds {every} of the simulator ({bounds}); look below the ports"
