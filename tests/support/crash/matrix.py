"""The kill matrix: a real worker dies, or stands still, before and after every port call of every route.

Theory of operation
-------------------
1. *Which points are there?* A worker walks every route once and writes down the points it passes (``discover``).
   Nothing is listed by hand, so a new call of the core is a new case.
2. *One case* is a branch, a workflow of two steps and a task of its own, so that its first attempt goes to its victim
   and to nobody else. Cases are played in batches: all victims first, then one healthy worker for all of them. So a
   time-out is waited for once a batch.
3. A stopped victim wakes when its successor, and the step after it, were accepted (N-03, N-15); then it drains.
4. Everything is judged from outside (``judging``), with the ledger settled and the garbage collected.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from attrs import evolve, frozen

from perago_core.failpoints import CATALOGUE
from tests.support.crash.judging import Line, judge_line, judge_rest
from tests.support.crash.project import ENDED_WELL, LIMIT, CrashProject, WorkerProcess, wait_for

#: Each backing with the policy that leads to it on the embedded stack.
POLICIES = {"atomic": "auto", "locked": "disable", "soft": "soft"}
AFTER = "after"
#: Calls that time makes, not the conversation: how often they come differs, so only their first time is a case.
_TIMED = ("orchestrator.poll", "orchestrator.extend", "coordination.keep_alive")
_PATIENCE = 4.0
_LEASE = 3.0
#: A body that lasts longer than a heartbeat, so that there is one.
_LONG = 0.5


@frozen
class Route:
    """A way through the protocol: what the first attempts do, and what the branch looks like then."""

    name: str
    victim: str
    final: str
    abandoned: bool = False
    replaces: bool = False
    read_only: bool = False
    strangers: bool = False


ROUTES = {
    each.name: each
    for each in (
        Route("first", "change", "change"),
        Route("adoption", "change", "change", abandoned=True),
        Route("replacement", "change", "change", abandoned=True, replaces=True),
        Route("no-op", "nothing", "nothing"),
        Route("return", "nothing", "nothing", abandoned=True, replaces=True),
        Route("read-only", "nothing", "nothing", read_only=True),
        Route("failing", "fail", "change"),
        Route("refused", "change", "change", strangers=True),
    )
}


@frozen
class Case:
    """One victim: what happens to it, where, at which passing."""

    route: str
    point: str
    count: int

    def __str__(self) -> str:
        return f"{self.route}: {self.point} {self.count}"


@frozen
class Verdict:
    """What became of a case. ``reached``: the victim really came to its point."""

    case: Case
    reached: bool
    broken: tuple[str, ...] = ()


@frozen
class Play:
    """A case that is under way."""

    case: Case
    name: str
    line: Line

    @property
    def route(self) -> Route:
        return ROUTES[self.case.route]


def discover(folder: Path, policy: str, kind: type[CrashProject] = CrashProject) -> tuple[Case, ...]:
    """Walk every route once, and give a case for each passing of each point."""
    with kind(folder, policy) as project:
        # Just as many attempts as are needed: after a failure there would be a second.
        plays = [
            set_up(project, Case(each.name, "", 0), f"r{number}", retries=int(each.abandoned))
            for number, each in enumerate(ROUTES.values())
        ]
        abandon(project, plays)
        names = {play.name: play.case.route for play in plays}
        witness = project.worker(*names, failpoint=f"list {folder / 'points'}", until_idle=True)
        assert witness.wait() == 0, witness.said()
        lines = [line.split() for line in (folder / "points").read_text(encoding="utf-8").splitlines()]
    seen = dict.fromkeys(
        Case(names[words[2]] if len(words) > 2 else "first", words[0], int(words[1])) for words in lines
    )
    return tuple(each for each in seen if each.count == 1 or not each.point.startswith(_TIMED))


def play_batch(
    folder: Path, policy: str, action: str, cases: Iterable[Case], kind: type[CrashProject] = CrashProject
) -> list[Verdict]:
    """Play cases on one project: ``kill`` or ``stop`` their victims, go on to rest, judge."""
    with kind(folder, policy) as project:
        project.add_task(AFTER)
        project.plan(AFTER, "change")
        plays = [set_up(project, case, f"c{number}") for number, case in enumerate(cases)]
        abandon(project, plays)
        with ThreadPoolExecutor(2) as pool:
            victims = list(pool.map(partial(_strike, project, action), plays))
        for play in plays:
            project.plan(play.name, play.route.final)
        healthy = project.worker(capacity=3)
        rest(project, plays, healthy)
        zombies = [victim for victim in victims if victim.process.poll() is None]
        for zombie in zombies:
            zombie.wake_and_drain()
        for zombie in zombies:
            zombie.wait()
        assert healthy.drain() == 0, healthy.said()
        verdicts = [
            _judge(project, play, victim, woke=victim in zombies) for play, victim in zip(plays, victims, strict=True)
        ]
        # What concerns the project as a whole is told with its first case.
        together = tuple(judge_rest(project, [play.line for play in plays]))
        return [evolve(verdicts[0], broken=(*verdicts[0].broken, *together)), *verdicts[1:]]


def set_up(project: CrashProject, case: Case, name: str, retries: int | None = None) -> Play:
    """Make a case's branch, task and workflow. A branch that strangers moved can only be given up, and soon."""
    route = ROUTES[case.route]
    limit = {"RETRIES": retries} if retries is not None else {"RETRIES": 2} if route.strangers else {}
    replacing = {"ON_ABANDONED": "replace"} if route.replaces else {}
    project.add_task(name, {"READ_ONLY": route.read_only, **replacing, **limit})
    project.plan(name, "change" if route.abandoned else route.victim)
    target, first = project.branch(name)
    tasks = (name,) if retries is not None else (name, AFTER)
    seconds = _LONG if case.route == "first" and "orchestrator.extend" in (case.point or "orchestrator.extend") else 0.0
    workflow = project.start(name, tasks, target, first, seconds=seconds)
    strangers = project.add_strangers(target, first) if route.strangers else ()
    return Play(case, name, Line(target, first, workflow, strangers, completes=not route.strangers))


def abandon(project: CrashProject, plays: Iterable[Play]) -> None:
    """Have the first attempts of some routes published and abandoned, and wait until that is known."""
    names = [play.name for play in plays if play.route.abandoned]
    if not names:
        return
    command = [sys.executable, "-m", "tests.crash.abandoning", str(project.folder), ",".join(names), str(len(names))]
    dead = project.spawn(command)
    assert dead.wait() == -9, dead.said()
    time.sleep(max(_PATIENCE, _LEASE) + 0.2)
    for play in plays:
        if play.route.abandoned:
            project.plan(play.name, play.route.victim)


def _strike(project: CrashProject, action: str, play: Play) -> WorkerProcess:
    """Start the victim and wait until it is dead, stopped, or through without having come to its point."""
    case = play.case
    # A heartbeat is a transaction of another thread. Who is stopped in one blocks the embedded orchestrator for all.
    calm = () if action == "kill" or "extend" in case.point else ("budget.heartbeat_interval=10",)
    victim = project.worker(play.name, failpoint=f"{action} {case.point} {case.count}", until_idle=True, settings=calm)
    wait_for(lambda: victim.process.poll() is not None or victim.is_stopped(), f"the victim of {case}")
    return victim


def rest(project: CrashProject, plays: Iterable[Play], healthy: WorkerProcess) -> None:
    running = list(plays)

    def is_over() -> bool:
        running[:] = [play for play in running if project.view(play.line.workflow).running]
        return not running

    # Each of them may take as long as any wait: one worker plays them all, and the machine may be busy.
    wait_for(is_over, "end of all workflows", healthy, LIMIT * len(running))


def _judge(project: CrashProject, play: Play, victim: WorkerProcess, *, woke: bool) -> Verdict:
    """A victim came to its point if it died there, or stood still and woke."""
    code = victim.wait()
    broken = judge_line(project, play.line)
    died = code == -signal.SIGKILL
    if not died and code not in ENDED_WELL:
        broken.append(f"N-13 a victim ended with code {code}: {victim.said()[-2000:]}")
    return Verdict(play.case, died or woke, tuple(broken))


def batches(cases: Iterable[Case], size: int) -> Iterator[tuple[Case, ...]]:
    """Cut cases into batches."""
    found = tuple(cases)
    for start in range(0, len(found), size):
        yield found[start : start + size]


def never_reached(cases: Iterable[Case]) -> tuple[str, ...]:
    """Name the points of the catalogue that no route passes."""
    seen = {case.point for case in cases}
    return tuple(str(point) for point in CATALOGUE if str(point) not in seen)


def figures(verdicts: Iterable[Verdict], tolerated: Callable[[str], bool] = lambda _sentence: False) -> str:
    """Return how many cases there were, survived and were lost; points nobody came to are counted apart."""
    counts = Counter[str]()
    for each in verdicts:
        counts["cases"] += 1
        if not each.reached:
            counts["not reached"] += 1
        lost = [sentence for sentence in each.broken if not tolerated(sentence)]
        counts["lost" if lost else "broken as registered" if each.broken else "survived"] += 1
    names = ("cases", "survived", "lost", "broken as registered", "not reached")
    return ", ".join(f"{counts[name]} {name}" for name in names if counts[name] or name in names[:3])
