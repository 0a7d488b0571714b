"""All rungs of `atomic`, explored once more on a store as `perago_bucket` is: one record, swapped whole by its tag.

The ladder's store checks head, claim and name when it begins an update, and installs it unless the head or a claim
changed meanwhile. A bucket's record also holds the names: making one, linking and dropping one change its tag
as well, so that an update which has begun begins again, judged anew. Also what a bucket has not is not there:
nobody grants leases.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

from perago_core.values import Backing
from perago_simulation.catalogue.ladder import climb, named, rungs
from perago_simulation.world.capabilities import NEEDS
from perago_simulation.world.model import Model, Moves, Part
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import World, restarted
from tests.support.crash.seeds import FULL

#: A bucket has a barrier, too, but no attempt of `atomic` passes it before it looks for its own publication (C8).
BUCKET = evolve(NEEDS[Backing.ATOMIC], lease=False)
#: Small ones in which requests are late, names are dropped and claims are raised while others publish.
QUICK = ("duplicate delivery", "foreign writer", "foreign merge and reset", "collector")


class OneRecord(Model):
    """Whatever changes the record rotates its tag: what the store had begun to do to it begins again."""

    def parts(self, runs: int) -> tuple[Part, ...]:
        """Give who moves, each with what that does to the record."""
        return tuple(partial(_swapped, part) for part in super().parts(runs))


def _swapped(part: Part, world: World) -> Moves:
    before = world.names, world.claims, world.raised
    for label, after in part(world):
        unchanged = (after.names, after.claims, after.raised) == before
        yield label, after if unchanged else restarted(after)


#: Where `atomic` is known not to hold, by who promises, environment and clause: `specs/residuals.json` says it.
KNOWN = {
    (each["backing"], environment, each["property"])
    for each in json.loads((Path(__file__).parents[2] / "specs" / "residuals.json").read_text(encoding="utf-8"))
    for environment in each["steps"]
}
RUNGS = [(name, chosen) for name, chosen in rungs() if chosen.backing is Backing.ATOMIC]


@pytest.mark.parametrize(
    ("environment", "of"),
    [
        pytest.param(name, chosen, id=f"{named(chosen)}, {name}, {'ledger' if chosen.ledger else 'no ledger'}")
        for name, chosen in RUNGS
        if FULL or (name in QUICK and not chosen.ledger)
    ],
)
def test_what_atomic_promises_in_this_environment_holds_on_one_record(environment: str, of: Setting) -> None:
    found = climb(environment, OneRecord(evolve(of, store=BUCKET)))
    surprises = [clause for clause in found.broken() if (named(of), environment, clause) not in KNOWN]
    assert surprises == []
    assert found.exploration.distinct > 100
    print(f"{environment}: {found.exploration.distinct:,} worlds, {found.broken() or 'everything holds'}")  # noqa: T201  the figure


def test_a_record_that_forgets_its_names_is_found_out() -> None:
    """The control: where dropping a name does not stop what has begun under it, promises break in the same worlds."""
    (of,) = (each for name, each in RUNGS if name == "collector" and each.adopts and not each.ledger)
    forgetful = evolve(BUCKET, revocable_names=False, conditional_claim=False, conditional_merge=False)
    assert climb("collector", OneRecord(evolve(of, store=forgetful))).broken()
