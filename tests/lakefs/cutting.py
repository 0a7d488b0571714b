"""The server dies under the publications of a worker that lives, each at another moment of its request.

Theory of operation
-------------------
1. One worker, a real process, has all attempts at once and reaches lakeFS through a proxy. Each attempt's request to
   move its branch is held there: before the server has seen it, or when it has answered.
2. When all are held, some are let go to the server, which dies of SIGKILL a moment later.
3. Of the others, some go on while it is away, some when it is back on the same data and the same port.
4. The worker drains. A healthy one, past the proxy, brings everything to rest, and the judge of the kill matrix judges.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Mapping
from enum import Enum
from http import HTTPStatus
from itertools import product
from pathlib import Path

from attrs import evolve, field, frozen

from tests.crash.judging import judge_line, judge_rest
from tests.crash.matrix import AFTER, Case, Verdict, abandon, rest, set_up
from tests.crash.yard import wait_for
from tests.lakefs.yard import LakeFSYard
from tests.servers.faulty_proxy import PASS, Fate, FaultyProxy, Gate, Request, Script

#: The routes that move a branch: by a merge, by a reset to another commit, by a reset to the input.
ROUTES = ("first", "replacement", "return")
#: A merge of a staging name, not the barrier's, which names a commit; or a reset.
_MOVES = re.compile(r"/refs/perago-[^/]+/merge/(?P<merged>[^/]+)$|/branches/(?P<reset>[^/]+)/hard_reset$")
#: What is held has not timed out: a worker waits as long as it takes to gather them all and to start a server.
_PATIENT = ("budget.publish_timeout=40", "budget.takeover_wait=41", "budget.lease_ttl=60", "worker.drain_limit=100")
#: Seconds in which the server has done some of the requests that are let go at once, and seldom all.
_A_MOMENT = 0.15


class GoesOn(Enum):
    """When a held request is let go."""

    FIRST = "before the server dies"
    AWAY = "while it is away"
    BACK = "when it is back"


@frozen
class Moment:
    """Where a request is when the server dies. ``handled``: the server is through with it, its answer is held."""

    name: str
    goes_on: GoesOn
    handled: bool = False
    loses_answer: bool = False


MOMENTS = (
    Moment("it never arrives", GoesOn.AWAY),
    Moment("it arrives after the restart", GoesOn.BACK),
    Moment("it is being handled", GoesOn.FIRST),
    Moment("it is being handled, too", GoesOn.FIRST),
    Moment("it is done and nobody hears", GoesOn.AWAY, handled=True, loses_answer=True),
    Moment("it is done, and heard while the server is away", GoesOn.AWAY, handled=True),
    Moment("it is done, and heard when the server is back", GoesOn.BACK, handled=True),
)


@frozen
class Cut:
    """One publication that the server's death meets at its moment."""

    route: str
    moment: Moment
    gate: Gate = field(factory=Gate, init=False)
    fate: Fate = field(init=False)

    @fate.default
    def _fate(self) -> Fate:
        if self.moment.handled:
            return Fate(after=self.gate, lose_answer=self.moment.loses_answer)
        return Fate(before=self.gate)

    @property
    def case(self) -> Case:
        """Give the case as the kill matrix counts it."""
        return Case(self.route, self.moment.name, 1)

    def was_met(self, request: Request) -> bool:
        """Say whether the death met it: what was handled to the end, or came later, has an answer, no other has."""
        answered = request.status in {HTTPStatus.OK, HTTPStatus.NO_CONTENT}
        return answered is (self.moment.handled or self.moment.goes_on is GoesOn.BACK)


def play(folder: Path, policy: str, chance: random.Random) -> list[Verdict]:
    """Play every route with every moment on one server, which dies once; bring all to rest, and judge."""
    with LakeFSYard(folder, policy) as yard, FaultyProxy(yard.server.url) as proxy:
        yard.add_task(AFTER)
        yard.plan(AFTER, "change")
        cuts = {f"c{number}": Cut(*each) for number, each in enumerate(product(ROUTES, MOMENTS))}
        plays = [set_up(yard, cut.case, name) for name, cut in cuts.items()]
        abandon(yard, plays)
        proxy.script = _holding(cuts)
        worker = yard.worker(*cuts, capacity=len(cuts), settings=(f"store.url={proxy.url}", *_PATIENT))
        wait_for(lambda: all(cut.gate.reached.is_set() for cut in cuts.values()), "publication of everybody", worker)
        _die_under(yard, proxy, cuts.values(), chance.random() * _A_MOMENT)
        assert worker.drain() == 0, worker.said()
        healthy = yard.worker(capacity=3)
        rest(yard, plays, healthy)
        assert healthy.drain() == 0, healthy.said()
        requests = {id(request.fate): request for request in proxy.seen}
        verdicts = [
            Verdict(each.case, cut.was_met(requests[id(cut.fate)]), tuple(judge_line(yard, each.line)))
            for each, cut in zip(plays, cuts.values(), strict=True)
        ]
        # What concerns the project as a whole is told with its first case.
        together = tuple(judge_rest(yard, [each.line for each in plays]))
        return [evolve(verdicts[0], broken=(*verdicts[0].broken, *together)), *verdicts[1:]]


def _holding(cuts: Mapping[str, Cut]) -> Script:
    """Hold the first request that moves each branch; a branch has the name of its cut."""
    left = dict(cuts)

    def decide(request: Request) -> Fate:
        found = _MOVES.search(request.path)
        cut = None if found is None else left.pop(found["merged"] or found["reset"], None)
        return PASS if cut is None else cut.fate

    return decide


def _die_under(yard: LakeFSYard, proxy: FaultyProxy, cuts: Iterable[Cut], after: float) -> None:
    """Kill the server so long after the first were let go to it, and start it again."""
    held = list(cuts)

    def let_go(when: GoesOn) -> None:
        for cut in held:
            if cut.moment.goes_on is when:
                cut.gate.open()

    let_go(GoesOn.FIRST)
    time.sleep(after)
    yard.server.kill()
    let_go(GoesOn.AWAY)
    later = sum(cut.moment.goes_on is GoesOn.BACK for cut in held)
    wait_for(lambda: proxy.in_flight <= later, "end of all requests that go on without a server")
    yard.server.start()
    let_go(GoesOn.BACK)
