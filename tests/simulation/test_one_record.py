"""All rungs of `atomic`, explored once more on a store as `perago_bucket` is: one record, swapped whole by its tag.

The ladder's store checks head, claim and name when it begins an update, and installs it unless the head or a claim
changed meanwhile. A bucket's record also holds the names: making one, linking and dropping one change its tag
as well, so that an update which has begun begins again, judged anew. Also what a bucket has not is not there:
nobody grants leases.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from attrs import evolve

from perago_core.values import Backing
from perago_simulation.catalogue.ladder import Rung, climb, named, rungs
from perago_simulation.world.capabilities import NEEDS
from perago_simulation.world.model import Model, Moves, Part
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import World, restarted
from tests.specs.evidence import note_count

_FILE = "tests/simulation/test_one_record.py"
#: A bucket has a barrier, too, but no attempt of `atomic` passes it before it looks for its own publication (C8).
BUCKET = evolve(NEEDS[Backing.ATOMIC], lease=False)
#: What a record holds besides the head, whose movement begins everything again on every store.
RECORD = ("names", "claims", "raised")
REGISTER: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "specs" / "residuals.json").read_text(encoding="utf-8")
)
RUNGS = [(name, of) for name, of in rungs() if of.backing is Backing.ATOMIC]


class OneRecord(Model):
    """Whatever changes the record rotates its tag: what the store had begun to do to it begins again."""

    def parts(self, runs: int) -> tuple[Part, ...]:
        """Give who moves, each with what that does to the record."""
        return tuple(partial(_swapped, part) for part in super().parts(runs))


def _swapped(part: Part, world: World) -> Moves:
    for label, after in part(world):
        # A move is computed once for all it reads; so only what it has replaced, and thereby read, is compared.
        replaced = [each for each in RECORD if each in getattr(after, "changed", RECORD)]
        rotates = any(getattr(after, each) != getattr(world, each) for each in replaced)
        yield label, restarted(after) if rotates else after


def climbed(environment: str, of: Setting) -> Rung:
    return climb(environment, OneRecord(evolve(of, store=BUCKET)))


def known(environment: str, of: Setting) -> dict[str, int]:
    """Read what `atomic` does not hold there, and in how many moves it breaks: ``specs/residuals.json`` says it."""
    broken: dict[str, int] = {}
    for each in REGISTER:
        if each["backing"] == named(of) and environment in each["steps"]:
            # Without and with the ledger; or once, where it is judged or explored without one only.
            without, _, beside = each["steps"][environment].partition(" / ")
            if (steps := beside if of.ledger else without).isdecimal():
                broken[each["property"]] = int(steps)
    return broken


def test_every_rung_of_atomic_breaks_on_one_record_what_the_ladder_says_and_nothing_else() -> None:
    """To the length of each trace: what holds on the ladder's store holds on a bucket, what breaks breaks as soon."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(climbed, *zip(*RUNGS, strict=True)))
    broken = {(named(of), name, of.ledger): each.broken() for (name, of), each in zip(RUNGS, found, strict=True)}
    assert broken == {(named(of), name, of.ledger): known(name, of) for name, of in RUNGS}
    assert all(each.exploration.complete for each in found)
    worlds = sum(each.exploration.distinct for each in found)
    clauses = sum(map(len, broken.values()))
    note_count(
        f"{_FILE}::every_rung_of_atomic",
        f"{len(found)} rungs of `atomic` on a bucket's own record, {worlds:,} worlds: "
        f"{clauses} broken as registered, none otherwise",
    )


def rung(environment: str) -> Setting:
    (of,) = (each for name, each in RUNGS if name == environment and each.adopts and not each.ledger)
    return of


def test_whatever_was_begun_begins_again_when_a_name_goes() -> None:
    """So the worlds are others than the ladder's, where the collector drops the name of what the store has begun."""
    worlds = climbed("collector", rung("collector")).exploration.distinct
    assert worlds < climb("collector", rung("collector")).exploration.distinct


def test_a_record_that_forgets_its_names_is_found_out() -> None:
    """The control: where dropping a name does not stop what has begun under it, promises break in the same worlds."""
    forgetful = evolve(BUCKET, revocable_names=False, conditional_claim=False, conditional_merge=False)
    assert climb("collector", OneRecord(evolve(rung("collector"), store=forgetful))).broken()
