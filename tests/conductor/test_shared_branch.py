"""Several workflows on one branch of a real lakeFS, with a real Conductor, while workers and the network fail.

A few workflows and faults here; ``make burn STACK=servers SHARED=32 MINUTES=20`` is the same for as long as one likes.
"""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from tests.support.burn.faults import ABANDONED, LATE, Kind, plan
from tests.support.burn.field import Field
from tests.support.burn.round import play
from tests.support.burn.sharing import Sharing
from tests.support.servers.conductor import CONDUCTOR
from tests.support.servers.etcd import ETCD
from tests.support.servers.lakefs import LAKEFS
from tests.support.servers.sharing import demand


def test_disjoint_workflows_lose_nothing_and_are_never_refused_while_workers_die_and_answers_are_lost(
    tmp_path: Path,
) -> None:
    """From the servers alone: every run completes, no attempt was refused, and the history is serialisable (S-42)."""
    for part in (LAKEFS, CONDUCTOR, ETCD):
        demand(part)
    kinds = (Kind.KILL_AT, Kind.STOP_AT, Kind.LOST_ANSWER, Kind.DELAY)
    drawn = {each.kind: each for each in plan(1, 60.0, kinds, gap=0.1)}
    faults = [
        evolve(drawn[Kind.KILL_AT], at=0.0, slot=0, point=ABANDONED),
        evolve(drawn[Kind.STOP_AT], at=0.0, slot=1, point=LATE, seconds=12.0),
        evolve(drawn[Kind.LOST_ANSWER], at=4.0, slot=0, seconds=3.0),
        evolve(drawn[Kind.DELAY], at=4.0, slot=1, seconds=2.0),
    ]
    with Field.on("servers", tmp_path / "p", "auto", Sharing(3)) as field:
        played = play(field, "shared", "auto", faults, 20.0)
    verdict = played.verdict
    assert (verdict.lost, verdict.registered) == ((), ()), played
    assert verdict.completed == verdict.runs >= 3
    # Whether an armed worker comes to its place in time is the machine's; what the network does is not.
    assert played.injected[Kind.LOST_ANSWER] == played.injected[Kind.DELAY] == 1, played
