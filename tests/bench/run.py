"""What things cost, as ratios measured in one run. Printed, never asserted: machines are shared and noisy.

.venv/bin/python tests/bench/run.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import lru_cache

from perago_core import ATTEMPT, AttemptState, Backing, drive, start, step
from perago_core.answers import Event
from tests.bench import (
    bucket_store,
    conductor_failover,
    conductor_tasks,
    exploring,
    git_store,
    lakefs_run,
    runtime_overhead,
    shared_branch,
)
from tests.core.world import World

ROUNDS = 25


def best_of(loops: int, *works: Callable[[], object]) -> list[float]:
    """Return the seconds per loop of each work's fastest round; the rounds take turns, so that noise hits all alike."""
    fastest = [float("inf")] * len(works)
    for _ in range(ROUNDS):
        for index, work in enumerate(works):
            begun = time.process_time()
            for _ in range(loops):
                work()
            fastest[index] = min(fastest[index], time.process_time() - begun)
    return [seconds / loops for seconds in fastest]


def recorded(backing: Backing) -> list[tuple[AttemptState, Event]]:
    """Record one first publication: each state with the event that came next."""
    world = World()
    path: list[tuple[AttemptState, Event]] = []
    drive(world.attempt(1, backing), world.ports(), observe=lambda before, event, _: path.append((before, event)))
    return path


class Model:
    """What ``transitions`` moves: any object with a state."""

    state: object = None


def steps() -> None:
    """Compare ``step`` with a trigger of the ``transitions`` machine it was compiled from, on the same events.

    The trigger is given what the event teaches, evaluates the same guards and moves a model. It makes neither the next
    state nor the commands, so the comparison favours it.
    """
    path = [each for backing in Backing for each in recorded(backing)]
    model = Model()
    memoised_step = lru_cache(maxsize=None)(step)

    def trigger() -> None:
        for before, event in path:
            model.state = before.phase
            learn = ATTEMPT.definition.lesson(before.phase, type(event))
            known = before.known if learn is None else learn(before, event)
            ATTEMPT.machine.events[type(event).__name__].trigger(model, before.subject, known, event)

    def plain() -> None:
        for before, event in path:
            step(before, event)

    def memoised() -> None:
        for before, event in path:
            memoised_step(before, event)

    base, once, again = (seconds / len(path) for seconds in best_of(60, trigger, plain, memoised))
    print("step, per event of a first publication on each backing:")
    print(f"  trigger of the transitions machine {base * 1e6:6.2f} us")
    print(f"  step                               {once * 1e6:6.2f} us = {base / once:5.1f}x  ({1 / once:11,.0f}/s)")
    print(f"  step, memoised                     {again * 1e6:6.2f} us = {base / again:5.1f}x  ({1 / again:11,.0f}/s)")


def imports() -> None:
    """Compare what importing costs, in fresh interpreters."""

    def seconds(code: str) -> float:
        timed = f"import time; begun = time.perf_counter(); {code}; print(time.perf_counter() - begun)"
        command = [sys.executable, "-c", timed]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(7)]  # noqa: S603
        return min(float(each.stdout) for each in runs)

    base = seconds("import attrs, transitions")
    print("import, against attrs and transitions alone:")
    for what in ("import perago_core", "from perago_core import start, step, outcome", "from perago_core import drive"):
        cost = seconds(f"import attrs, transitions; {what}")
        print(f"  {what:<46} {cost * 1e3:6.1f} ms = {cost / base:4.2f}x")


def attempts() -> None:
    """Say how many attempts per second the driver runs over ports that cost nothing."""
    print("drive, a first publication over in-memory ports:")
    for backing in Backing:

        def once() -> None:
            world = World()
            drive(world.attempt(1, backing), world.ports())  # noqa: B023  called before the next round

        (seconds,) = best_of(10, once)
        print(f"  {backing.value:<12} {1 / seconds:8,.0f}/s")


def embedded() -> None:
    """Publish on the embedded store, beside git's own command line, and run trivial tasks on the whole stack."""
    found = git_store.figures()
    print(f"publish one changed file among 2,000 {found.ours:7.1f} ms     {found.ratio:4.2f}x git's command line")
    for pipeline, what in (("write", "that writes a file"), ("nothing", "without workspace")):
        took = runtime_overhead.figures(pipeline)
        print(f"a trivial task {what:<21} p50 {took.p50:5.1f} ms, p99 {took.p99:5.1f} ms")


def main() -> None:
    """Print every figure."""
    assert start(World().attempt(1)).commands
    steps()
    imports()
    attempts()
    embedded()
    lakefs_run.main()
    shared_branch.main()
    bucket_store.main()
    conductor_tasks.main()
    conductor_failover.main()
    exploring.main()
    on_spark()


def on_spark() -> None:
    """Write, read and run campaigns on Spark, in processes of their own: each starts a Java with its own settings."""
    for module in ("spark_writing", "spark_gates", "spark_stream", "spark_tables", "spark_lakefs", "campaign"):
        subprocess.run([sys.executable, "-m", f"tests.bench.{module}"], check=True)  # noqa: S603  our own


if __name__ == "__main__":
    main()
