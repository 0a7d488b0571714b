"""The server dies under the publications of a worker that lives, each at another moment of its request.

Theory of operation
-------------------
1. One worker, a real process, has all attempts at once and reaches lakeFS through a proxy. Each attempt's request to
   move its branch is held there: before the server has seen it, or when it has answered.
2. When all are held, some are let go to the server, which dies of SIGKILL a few milliseconds later.
3. Of the others, some go on while it is away, some when it is back on the same data and the same port.
4. The worker drains. A healthy one, past the proxy, brings everything to rest, and the judge of the kill matrix judges.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import product
from pathlib import Path

from attrs import Factory, evolve, field, frozen

from perago_core.values import TaskStatus
from tests.support.crash.judging import Line, judge_line, judge_rest
from tests.support.crash.lakefs_project import LakeFSProject
from tests.support.crash.matrix import AFTER, Case, Verdict, abandon, rest, set_up
from tests.support.crash.project import wait_for
from tests.support.servers.faulty_proxy import PASS, FaultyProxy, Gate, Handling, Request, Script

#: The routes that move a branch: by a merge, by a reset to another commit, by a reset to the input.
ROUTES = ("first", "replacement", "return")
#: A merge of a staging name, not the barrier's, which names a commit; or a reset.
_MOVES = re.compile(r"/refs/perago-[^/]+/merge/(?P<merged>[^/]+)$|/branches/(?P<reset>[^/]+)/hard_reset$")
#: Seconds a worker waits for an answer, so that what is held has not timed out before a server is back; less under a
#: lease, which lasts longer than that, and must be over before its successors have used up all their retries.
_PATIENCE = {"auto": 40, "soft": 40, "disable": 8}
#: Seconds in which the server has done some of the requests that go first, and seldom all.
_A_MOMENT = 0.012


class GoesOn(Enum):
    """When a held request is let go."""

    FIRST = "before the server dies"
    AWAY = "while it is away"
    BACK = "when it is back"


@frozen
class Moment:
    """Where a request is when the server dies.

    ``handled``: the server is through with it, its answer is held. ``lost``: what is held gets lost on its way.
    """

    name: str
    goes_on: GoesOn
    handled: bool = False
    lost: bool = False
    times: int = 1

    @property
    def is_spared(self) -> bool:
        """Say whether it is as if the server had only been slow."""
        return self.goes_on is GoesOn.BACK and not self.lost

    def handling(self, gate: Gate) -> Handling:
        """Give what becomes of a request that this moment is for."""
        return (
            Handling(after=gate, lose_answer=self.lost)
            if self.handled
            else Handling(before=gate, lose_request=self.lost)
        )


#: Which of these the server has done before it dies is up to the server.
HANDLED = "it is being handled"
MOMENTS = (
    Moment("it finds no server", GoesOn.AWAY),
    Moment("it arrives after the restart", GoesOn.BACK),
    Moment("it never arrives, and the server is back", GoesOn.BACK, lost=True),
    Moment(HANDLED, GoesOn.FIRST, times=4),
    Moment("it is done and never heard, and the server is away", GoesOn.AWAY, handled=True, lost=True),
    Moment("it is done and never heard, and the server is back", GoesOn.BACK, handled=True, lost=True),
    Moment("it is done, and heard while the server is away", GoesOn.AWAY, handled=True),
    Moment("it is done, and heard when the server is back", GoesOn.BACK, handled=True),
)


@frozen
class Cut:
    """One publication that the server's death meets at its moment."""

    route: str
    moment: Moment
    number: int
    gate: Gate = field(factory=Gate, init=False)
    handling: Handling = field(
        default=Factory(lambda self: self.moment.handling(self.gate), takes_self=True), init=False
    )

    @property
    def case(self) -> Case:
        """Give the case as the kill matrix counts it."""
        return Case(self.route, self.moment.name, self.number)

    def was_met(self, request: Request) -> bool:
        """Say whether the death met it: what was handled to the end, or came later, has an answer; no other has."""
        return (request.status is not None) is (self.moment.handled or self.moment.is_spared)


def play(folder: Path, policy: str, chance: random.Random) -> list[Verdict]:
    """Play every route with every moment on one server, which dies once; bring all to rest, and judge."""
    with LakeFSProject(folder, policy) as project, FaultyProxy(project.server.url) as proxy:
        project.add_task(AFTER)
        project.plan(AFTER, "change")
        cuts = {f"c{number}": cut for number, cut in enumerate(_every_cut())}
        plays = [set_up(project, cut.case, name) for name, cut in cuts.items()]
        abandon(project, plays)
        proxy.script = _holding(cuts)
        worker = project.worker(*cuts, capacity=len(cuts), settings=(f"store.url={proxy.url}", *_patient(policy)))
        wait_for(lambda: all(cut.gate.reached.is_set() for cut in cuts.values()), "publication of everybody", worker)
        _die_under(project, proxy, tuple(cuts.values()), chance)
        assert worker.drain() == 0, worker.said()
        healthy = project.worker(capacity=3)
        rest(project, plays, healthy)
        assert healthy.drain() == 0, healthy.said()
        requests = {id(request.handling): request for request in proxy.seen}
        verdicts = [
            Verdict(
                each.case,
                cut.was_met(requests[id(cut.handling)]),
                (*judge_line(project, each.line), *_failed_in_vain(project, each.line, cut)),
            )
            for each, cut in zip(plays, cuts.values(), strict=True)
        ]
        # What concerns the project as a whole is told with its first case.
        together = tuple(judge_rest(project, [each.line for each in plays]))
        return [evolve(verdicts[0], broken=(*verdicts[0].broken, *together)), *verdicts[1:]]


def _patient(policy: str) -> tuple[str, ...]:
    wait = _PATIENCE[policy]
    budget = {"publish_timeout": wait, "takeover_wait": wait + 1, "lease_ttl": wait + 3}
    return (*(f"budget.{name}={seconds}" for name, seconds in budget.items()), "worker.drain_limit=100")


def _failed_in_vain(project: LakeFSProject, line: Line, cut: Cut) -> list[str]:
    """Whoever is answered, and finds a server when it asks again, has no reason to fail; but a lease may have ended."""
    if project.policy == "disable":
        return []
    failed = [each for each in project.view(line.workflow).attempts if each.status is TaskStatus.FAILED]
    return [f"L-02 failed with a server at hand: {each.reason}" for each in failed if cut.moment.is_spared]


def _every_cut() -> Iterator[Cut]:
    for route, moment in product(ROUTES, MOMENTS):
        for number in range(1, moment.times + 1):
            yield Cut(route, moment, number)


def _holding(cuts: Mapping[str, Cut]) -> Script:
    """Hold the first request that moves each branch; a branch has the name of its cut."""
    left = dict(cuts)

    def decide(request: Request) -> Handling:
        found = _MOVES.search(request.path)
        cut = None if found is None else left.pop(found["merged"] or found["reset"], None)
        return PASS if cut is None else cut.handling

    return decide


def _die_under(project: LakeFSProject, proxy: FaultyProxy, cuts: tuple[Cut, ...], chance: random.Random) -> None:
    """Kill the server under the requests that go first, and start it again."""
    first, away, back = ([cut for cut in cuts if cut.moment.goes_on is when] for when in GoesOn)
    moment = chance.random() * _A_MOMENT
    _let_go(first)
    time.sleep(moment)
    project.server.kill()
    _let_go(away)
    wait_for(lambda: proxy.in_flight <= len(back), "end of all requests that go on without a server")
    project.server.start()
    _let_go(back)


def _let_go(cuts: Iterable[Cut]) -> None:
    for cut in cuts:
        cut.gate.open()
