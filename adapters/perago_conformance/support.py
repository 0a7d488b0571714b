"""What the suites share: answers taken apart, attempts, staging and planning as an attempt does it, and races."""

from __future__ import annotations

import json
import multiprocessing
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from io import BytesIO
from typing import Any, Protocol, TypeVar

from perago_conformance.attempts import pinned
from perago_conformance.harness import Recipe, StoreHarness
from perago_core import fence
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.fence import Standing
from perago_core.plan import PublishPlan
from perago_core.ports import Assignment, Sink, Source
from perago_core.values import Attempt, Backing, CommitRef, OnAbandoned, StagedRef, Target, claim_of

T = TypeVar("T")
P = TypeVar("P")

MAIN = Target("lake", "main")
FIRST = {"data/a.txt": b"alpha", "data/b.txt": b"beta", "keep.txt": b"keep"}


def done(answer: Answer[T]) -> T:
    """Return what a call gave; anything but ``Done`` fails the test and says what was answered."""
    assert isinstance(answer, Done), answer
    return answer.value


def refused(answer: Answer[Any]) -> str:
    """Give why a call was not done. ``Unknown`` is no refusal: here every system can be asked."""
    assert isinstance(answer, NotDone), answer
    assert answer.reason.strip(), "a refusal that says nothing teaches nobody"
    return answer.reason


def unknown(answer: Answer[Any]) -> str:
    """Give why nobody can say what a call did or found."""
    assert isinstance(answer, Unknown), answer
    return answer.reason


# ---------------------------------------------------------------------------------------------------------------------
# Attempts


def attempt_at(
    ref: CommitRef,
    *,
    number: int = 1,
    backing: Backing = Backing.SOFT,
    task: str = "wf/step",
    execution: str | None = None,
    target: Target = MAIN,
) -> Attempt:
    """Make an attempt at a step, with an execution id of its own; it replaces what was abandoned."""
    run = execution or f"run-{number}"
    return Attempt(
        "wf",
        f"task-{number}",
        number - 1,
        task,
        number,
        run,
        target,
        ref,
        backing,
        on_abandoned=OnAbandoned.REPLACE,
    )


def attempt_of(assignment: Assignment, execution: str, backing: Backing, *, ledger: bool = False) -> Attempt:
    """Make what a worker pins when it has polled a task."""
    place = place_of(assignment)
    target = Target(place["repository"], place["branch"])
    return pinned(assignment, execution, target, CommitRef(place["ref"]), backing, ledger=ledger)


def place_of(assignment: Assignment) -> Mapping[str, str]:
    """Give where the task's data is: repository, branch, ref."""
    place: Mapping[str, str] = json.loads(assignment.input)["workspace"]
    return place


# ---------------------------------------------------------------------------------------------------------------------
# Stores


def strongest(store: StoreHarness) -> Backing:
    """Return the strongest backing the store claims to support."""
    order = (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED, Backing.SOFT)
    return next(backing for backing in order if backing in store.traits.backings)


def write(sink: Sink, files: Mapping[str, bytes], deleted: tuple[str, ...] = ()) -> None:
    """Put and link."""
    stored = tuple(done(sink.put(path, BytesIO(data))) for path, data in files.items())
    done(sink.link(stored, deleted))


def stage(
    store: StoreHarness, attempt: Attempt, files: Mapping[str, bytes], deleted: tuple[str, ...] = ()
) -> StagedRef:
    """Stage as an attempt does, and claim if its backing has claims."""
    port, name = store.port, attempt.staging_name
    done(port.open_staging(attempt.target, name, attempt.input))
    write(port.sink(attempt.target, name), files, deleted)
    staged = done(port.commit(attempt.target, name, f"staged by {attempt.execution}"))
    assert staged is not None
    claim(store, attempt, staged)
    return staged


def anchor(store: StoreHarness, attempt: Attempt) -> None:
    """Do what an attempt does that has changed nothing: create its name, and claim."""
    done(store.port.open_staging(attempt.target, attempt.staging_name, attempt.input))
    claim(store, attempt, None)


def claim(store: StoreHarness, attempt: Attempt, staged: StagedRef | None) -> None:
    """Claim as an attempt does; ``soft`` knows no claims."""
    if attempt.backing is not Backing.SOFT:
        assert done(store.port.claim(claim_of(attempt, staged))).execution == attempt.execution


def plan_for(store: StoreHarness, attempt: Attempt, staged: StagedRef | None) -> PublishPlan:
    """Let the fence plan the publication, with every older attempt proven dead. Only the fence makes plans."""
    port = store.port
    claims = done(port.claims(attempt.target, attempt.logical_task))
    dead = tuple((each.task_id, Standing.DEAD) for each in claims)
    head = done(port.head(attempt.target))
    decision = fence.decide(fence.Case(attempt, staged, head, claims=claims, standings=dead))
    assert isinstance(decision, fence.Allowed), decision
    return decision.plan


def head_of(store: StoreHarness, target: Target = MAIN) -> CommitRef:
    """Give where the target is."""
    head = done(store.port.head(target))
    assert head is not None
    return head.commit.ref


def parents_of(store: StoreHarness, ref: CommitRef, target: Target = MAIN) -> tuple[CommitRef, ...]:
    """Return a commit's parents."""
    commit = done(store.port.look(target.repository, ref))
    assert commit is not None
    return commit.parents


def contents(source: Source, prefix: str = "") -> dict[str, bytes]:
    """Read everything a commit holds under a prefix."""
    found: dict[str, bytes] = {}
    for each in done(source.list(prefix)):
        with done(source.get(each.path)) as data:
            found[each.path] = data.read()
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Races


class Barrier(Protocol):
    """Where racers wait for each other."""

    def wait(self, timeout: float | None = None) -> int: ...

    def abort(self) -> None: ...


#: How many processes race. They are started once for all races, because starting one costs more than a race.
PROCESSES = 4
#: How long a racer waits for the others. Only reached when one of them has been killed.
PATIENCE = 120.0

_meeting_point: Barrier | None = None


def race(
    port: P,
    recipe: Recipe[P] | None,
    act: Callable[[P, int, int], T],
    *,
    rounds: int = 5,
    threads: int = 8,
) -> Iterator[list[T]]:
    """Let several racers do the same at once, round after round; give what each round's racers got.

    First threads of this process on one port; then, where the system can be opened by others, processes each with a
    port of their own. ``act`` gets the port, the round and the racer, all numbered; it must be picklable.
    """
    barrier: Barrier = threading.Barrier(threads)
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(_racer, port, barrier, act, range(rounds), racer) for racer in range(threads)]
        yield from _by_round([each.result() for each in running])
    if recipe is not None:
        later = range(rounds, 2 * rounds)
        others = _processes()
        running = [others.submit(_racing_process, recipe, act, later, racer) for racer in range(PROCESSES)]
        try:
            results = [each.result() for each in running]
        except BaseException:
            _processes.cache_clear()  # the meeting point may be broken; whoever races next gets new processes
            others.shutdown(wait=False, cancel_futures=True)
            raise
        yield from _by_round(results)


def elsewhere(recipe: Recipe[Any] | None, act: Callable[..., T], *given: object) -> T:
    """Do something in another process, or where the system lives in this process only, in another thread of it."""
    if recipe is not None:
        return _processes().submit(act, *given).result()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act, *given).result()


def _by_round(results: list[list[T]]) -> Iterator[list[T]]:
    return (list(each) for each in zip(*results, strict=True))


@cache
def _processes() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    meeting_point = context.Barrier(PROCESSES)
    return ProcessPoolExecutor(PROCESSES, context, initializer=_begin, initargs=(meeting_point,))


def _begin(meeting_point: Barrier) -> None:
    """Begin a process of the pool: it keeps where it meets the others."""
    global _meeting_point  # noqa: PLW0603  an initializer has no other way to leave something behind
    _meeting_point = meeting_point


def _racing_process(recipe: Recipe[Any], act: Callable[[Any, int, int], T], rounds: range, racer: int) -> list[T]:
    assert _meeting_point is not None
    port = recipe()
    try:
        return _racer(port, _meeting_point, act, rounds, racer)
    finally:
        getattr(port, "close", _nothing)()


def _nothing() -> None:
    """Close what needs no closing."""


def _racer(port: P, barrier: Barrier, act: Callable[[P, int, int], T], rounds: range, racer: int) -> list[T]:
    results: list[T] = []
    for number in rounds:
        barrier.wait(PATIENCE)
        try:
            results.append(act(port, number, racer))
        except BaseException:
            barrier.abort()  # else the others would wait for us
            raise
    return results
