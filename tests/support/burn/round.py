"""One round of a burn: fresh branches, a plan of faults, rest, a verdict."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from subprocess import TimeoutExpired

from attrs import evolve, frozen

from tests.support.burn.faults import Fault, Kind
from tests.support.burn.field import Field, Pipeline, is_ready
from tests.support.burn.nemesis import Nemesis
from tests.support.burn.verdict import Verdict, judge
from tests.support.crash.project import ENDED_WELL, wait_for

#: Seconds within which everything has ended once nothing goes wrong any more.
_REST = 600.0
#: Seconds that people have to start what is broken then.
_BEGINNING = 120.0
#: What each policy leads to on each stack.
BACKINGS: Mapping[str, Mapping[str, str]] = {
    "embedded": {"auto": "atomic", "disable": "locked", "soft": "soft"},
    "bucket": {"auto": "atomic", "disable": "locked", "soft": "soft"},
    "servers": {"auto": "conditional", "disable": "locked", "soft": "soft"},
}


@frozen
class Round:
    """What was injected into a round, and what it came to; ``said``: to people whose runs did not succeed."""

    name: str
    faults: tuple[Fault, ...]
    injected: Counter[Kind]
    log: tuple[str, ...]
    said: tuple[str, ...]
    verdict: Verdict


def play(field: Field, name: str, policy: str, faults: Collection[Fault], seconds: float) -> Round:
    """Play one round to its end and judge it."""
    field.new_pipelines(name)
    over = threading.Event()
    said: list[str] = []
    people = [
        threading.Thread(target=_keep_running, args=(field, each, over, said), daemon=True) for each in field.pipelines
    ]
    field.supervise()
    wait_for(lambda: all(is_ready(slot) for slot in field.slots), "workers that poll")
    for person in people:
        person.start()
    _wait_for_work(field)
    nemesis = Nemesis(field, policy)
    nemesis.play(faults, seconds)
    over.set()
    nemesis.mend()
    left = field.wait_for_rest(_REST)
    for person in people:
        person.join(_REST)
    left = left and field.wait_for_rest(1.0)
    field.drain()
    sweeper = field.project.worker(until_idle=True)
    # What did not end in time is its to end; on a busy machine that takes longer than any single wait of a test.
    code = sweeper.wait(_REST)
    backings = {BACKINGS[field.kind][policy]}
    if nemesis.injected[Kind.POLICY]:
        backings |= {BACKINGS[field.kind][each] for each in ("auto", "disable")}
    verdict = judge(field, backings, nemesis.injected)
    # What was too slow to end in time, and did since, is not lost: at a load of 100 it was 23 of 54 runs.
    still = field.under_way() if left else ()
    lost = [*(f"L-01 {each} does not end" for each in left if each in still), *_broken_down(field)]
    if code:
        lost.append(f"N-13 the last worker ended with {code}: {sweeper.said()[-500:]}")
    if not verdict.lost and not lost:
        shutil.rmtree(field.traces, ignore_errors=True)
    field.project.workers.clear()
    whole = evolve(verdict, lost=(*verdict.lost, *lost))
    return Round(name, tuple(faults), nemesis.injected, tuple(nemesis.log), tuple(said), whole)


def _wait_for_work(field: Field) -> None:
    """Wait until every pipeline runs, at most for a while: faults that find nothing under way show nothing.

    Counterexample: at a load of 80 on two cores ``perago run`` took longer to start than Conductor had to live. Two
    rounds in a row injected sixteen faults each, into nothing.
    """
    until = time.monotonic() + _BEGINNING
    while time.monotonic() < until and not all(field.under_way(each.name) for each in field.pipelines):
        time.sleep(0.3)


def _keep_running(field: Field, pipeline: Pipeline, over: threading.Event, said: list[str]) -> None:
    """Start one run after the other, as a person at a terminal does; what cannot be started is tried again.

    Counterexample: Conductor was killed, ``perago run`` ended because it could not be reached, and its run went on. Who
    starts the next one beside it has two runs on one branch, of which one is refused, 144 times until it was stopped.
    """
    while not over.is_set():
        if field.under_way(pipeline.name):
            over.wait(1.0)
            continue
        try:
            trouble = field.run(pipeline)
        except TimeoutExpired as silent:
            trouble = f"{pipeline.name}: {silent}"
        if trouble:
            said.append(trouble)
        over.wait(0.2)


def _broken_down(field: Field) -> list[str]:
    """Name the workers that ended by themselves, and not because they could not start, which is code 2."""
    well = {*ENDED_WELL, -signal.SIGKILL, 2}
    ended = [(each.process.poll(), each) for each in field.project.workers]
    return [f"N-13 a worker ended with {code}: {each.said()[-1500:]}" for code, each in ended if code not in well]
