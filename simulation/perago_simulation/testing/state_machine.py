"""The world as a Hypothesis state machine, one move at a time. Subclass it to try your own store, table or runtime.

    class MyWorker(WorldMachine):
        where = strategies.settings([Backing.CONDITIONAL])

        def model(self, of):
            return Embedded(of, runtime=my_worker.step)

    TestMyWorker = MyWorker.TestCase

Hypothesis draws a setting, the troubles of the run, and then moves: work, or a fault while the budget lasts. After each
of them every property is judged; at the end everything is run to rest. Then further runs are made in the same setting,
whose worlds are known by now, and in another, each with troubles of its own: drawing an example costs Hypothesis more
than a dozen runs cost us, and what finds a bug is the number of runs and of settings. Where little can go wrong every
world is looked at instead, shortest ways first: runs keep coming to the same ones. A failure prints the line that
replays it.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perago_simulation.explore.first_violation import ViolationSearch
from perago_simulation.runs.schedule import CachedWorld, Failure, WorldCache, carry_out, follow
from perago_simulation.testing import strategies
from perago_simulation.testing.strategies import OF_TEN
from perago_simulation.testing.trouble import Plan, Trouble, some_troubles, troubles
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting

#: So many settings are remembered with the worlds met there: a long night draws thousands.
REMEMBERED = 256
#: So many worlds of a small setting are looked at; if it has more, the runs are made there too.
ALL = 20_000
#: So many moves bring everything to rest, or somebody waits for ever.
BUSY = 1_000
#: So many runs follow the drawn one, in each of so many settings: its own, and others.
#: More of either finds more and takes as much longer: ten settings of forty runs made CI ten times as slow.
FURTHER = 20
SETTINGS = 2

Beginning: TypeAlias = tuple[Setting, list[Trouble], int, list[Setting]]


def _beginnings(machine: WorldMachine) -> st.SearchStrategy[Beginning]:
    others = st.lists(machine.where, min_size=SETTINGS - 1, max_size=SETTINGS - 1)
    return machine.where.flatmap(lambda of: st.tuples(st.just(of), troubles(of), st.integers(0, 999_999), others))


class WorldMachine(RuleBasedStateMachine):
    """Everything that can happen to attempts of your runtime on your store."""

    where: ClassVar[st.SearchStrategy[Setting]] = strategies.settings()
    _caches: ClassVar[dict[tuple[type, Setting], WorldCache]] = {}
    #: What was found where all worlds were looked at, and whether those were all: it is found again whenever Hypothesis
    #: comes back to it.
    _looked_at: ClassVar[dict[tuple[type, Setting], tuple[Failure | None, bool]]] = {}

    def model(self, of: Setting) -> Model:
        """Return what is tried. Override it: ``Embedded`` takes a table, a store, a runtime of your own."""
        return Model(of)

    @initialize(beginning=st.runner().flatmap(_beginnings))
    def begin(self, beginning: Beginning) -> None:
        """Begin in a setting, with some trouble ahead. Worlds met in earlier examples are known already.

        The number stands for the order in which work is done that no rule asks for, and for the further runs; with 0 it
        is always the first, and there are none.
        """
        of, ahead, order, self.others = beginning
        self.worlds: WorldCache = self._known(of)
        self.node: CachedWorld = self.worlds.begin()
        self.choices: list[int] = []
        self.plan = Plan(ahead)
        self.order = Random(order) if order else None  # noqa: S311  repeatable, not secret

    def _known(self, of: Setting) -> WorldCache:
        mine = (type(self), of)
        if mine not in self._caches:
            if len(self._caches) >= REMEMBERED:
                self._caches.clear()
            self._caches[mine] = WorldCache(self.model(of), strategies.judged(of), limit=20_000)
        return self._caches[mine]

    @precondition(lambda self: self._possible(faults=False))
    @rule(which=st.integers(0, 11))
    def work(self, which: int) -> None:
        """Let somebody do the next thing."""
        self._work(which)

    @precondition(lambda self: self._possible(faults=False))
    @rule(turns=st.integers(2, 12))
    def work_for_a_while(self, turns: int) -> None:
        """Let the next few things be done: most trouble needs somebody to get far."""
        for _ in range(turns):
            if not self._possible(faults=False):
                return
            self._work(self._any())
            self.nothing_is_wrong()

    @precondition(lambda self: self._possible(faults=True))
    @rule(which=st.integers(0, 11), luck=st.integers(0, OF_TEN - 1))
    def fault(self, which: int, luck: int) -> None:
        """Let something go wrong now, but seldom: what goes wrong at random spends what the troubles ahead need."""
        if luck == OF_TEN - 1:
            self._take(self._possible(faults=True), which)

    @precondition(lambda self: not self._possible(faults=False))
    @rule()
    def nothing_happens(self) -> None:
        """Always possible, so that a world at rest is not an error of the machine."""

    @invariant()
    def nothing_is_wrong(self) -> None:
        """Judge the world, and print the line that leads to it if it breaks a property."""
        if self._begun() and self.node.wrong is not None:
            labels = carry_out(self.worlds, self.choices)[1]
            failure = Failure(*self.node.wrong, tuple(self.choices), labels)
            raise AssertionError(strategies.explain(self.worlds, failure))

    def teardown(self) -> None:
        """Run to rest, then once more from the beginning, and again: some trouble of another kind each time."""
        self._run_to_rest()
        if not self._begun() or self.order is None:
            return
        for of in (self.worlds.model.setting, *self.others):
            self.worlds = self._known(of)
            if of in strategies.SMALL and self._look_at_all(of):
                continue
            for _ in range(FURTHER):
                self.node, self.choices = self.worlds.begin(), []
                self.plan = Plan(some_troubles(of, self.order))
                self._run_to_rest()

    def _look_at_all(self, of: Setting) -> bool:
        """Look at every world of a small setting, once: runs through it keep coming to the same ones.

        Return whether those were all.
        """
        mine = (type(self), of)
        if mine not in self._looked_at:
            search = ViolationSearch(self.worlds.model, strategies.judged(of))
            found = search.first(ALL)
            failure = None if found is None else follow(self.worlds, found.trace)
            assert found is None or failure is not None, f"{found.property} is found in no run"
            self._looked_at[mine] = failure, search.seen < ALL
        failure, complete = self._looked_at[mine]
        if failure is not None:
            raise AssertionError(strategies.explain(self.worlds, failure))
        return complete

    def _run_to_rest(self) -> None:
        """Without further faults somebody finishes or gives up (L-01), and the promises hold there."""
        for _ in range(BUSY):
            self.nothing_is_wrong()
            if self._possible(faults=False):
                self._work(self._any())
            elif possible := self._possible(faults=True):
                self._take(possible, 0)
            else:
                return
        raise AssertionError(f"still busy after {BUSY} moves: somebody waits for what will not come")

    def _any(self) -> int:
        return 0 if self.order is None else self.order.randrange(OF_TEN)

    def _begun(self) -> bool:
        return hasattr(self, "node")

    def _possible(self, *, faults: bool) -> list[int]:
        if not self._begun():
            return []
        if self.node.labels is None:
            self.worlds.expand(self.node)
        return [index for index, kind in enumerate(self.node.faults) if (kind is not None) is faults]

    def _work(self, which: int) -> None:
        """Let somebody do the next thing, unless it is time for some trouble that was ahead."""
        trouble = self.plan.next(self.node)
        if trouble is None:
            self._take(self.plan.work(self.node), which)
        else:
            self._take([trouble], 0)

    def _take(self, possible: list[int], which: int) -> None:
        index = possible[which % len(possible)]
        self.choices.append(index)
        self.node = self.node.children[index]
