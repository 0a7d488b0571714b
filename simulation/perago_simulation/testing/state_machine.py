"""The world as a Hypothesis state machine, one move at a time. Subclass it to try your own store, table or runtime.

    class MyWorker(WorldMachine):
        where = strategies.settings([Backing.CONDITIONAL])

        def model(self, of):
            return Embedded(of, runtime=my_worker.step)

    TestMyWorker = MyWorker.TestCase

Hypothesis draws a setting, the troubles of the run, and then moves: work, or a fault while the budget lasts. After each
of them every property is judged; at the end everything is run to rest. Then further runs are made in the same setting,
whose worlds are known by now, each with troubles of its own: drawing an example costs Hypothesis more than a dozen runs
cost us, and what finds a bug is the number of runs. A failure prints the line that replays it.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perago_simulation.runs.schedule import CachedWorld, Failure, WorldCache, carry_out
from perago_simulation.testing import strategies
from perago_simulation.testing.strategies import OF_TEN
from perago_simulation.testing.trouble import Plan, Trouble, some_troubles, troubles
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting

#: So many settings are remembered with the worlds met there: a long night draws thousands.
REMEMBERED = 32
#: So many moves bring everything to rest, or somebody waits for ever.
BUSY = 1_000
#: So many runs follow the drawn one.
FURTHER = 30


def _beginnings(machine: WorldMachine) -> st.SearchStrategy[tuple[Setting, list[Trouble], int]]:
    return machine.where.flatmap(lambda of: st.tuples(st.just(of), troubles(of), st.integers(0, 999_999)))


class WorldMachine(RuleBasedStateMachine):
    """Everything that can happen to attempts of your runtime on your store."""

    where: ClassVar[st.SearchStrategy[Setting]] = strategies.settings()
    _caches: ClassVar[dict[tuple[type, Setting], WorldCache]] = {}

    def model(self, of: Setting) -> Model:
        """Return what is tried. Override it: ``Embedded`` takes a table, a store, a runtime of your own."""
        return Model(of)

    @initialize(beginning=st.runner().flatmap(_beginnings))
    def begin(self, beginning: tuple[Setting, list[Trouble], int]) -> None:
        """Begin in a setting, with some trouble ahead. Worlds met in earlier examples are known already.

        The number stands for the order in which work is done that no rule asks for, and for the further runs; with 0 it
        is always the first, and there are none.
        """
        of, ahead, order = beginning
        mine = (type(self), of)
        worlds = self._caches.get(mine)
        if worlds is None:
            if len(self._caches) >= REMEMBERED:
                self._caches.clear()
            worlds = self._caches[mine] = WorldCache(self.model(of), strategies.judged(of), limit=20_000)
        self.worlds: WorldCache = worlds
        self.node: CachedWorld = worlds.begin()
        self.choices: list[int] = []
        self.plan = Plan(ahead)
        self.order = Random(order) if order else None  # noqa: S311  repeatable, not secret

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
        if self._begun() and self.order is not None:
            for _ in range(FURTHER):
                self.node, self.choices = self.worlds.begin(), []
                self.plan = Plan(some_troubles(self.worlds.model.setting, self.order))
                self._run_to_rest()

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
