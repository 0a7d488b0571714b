"""Nodes that agree on a backing: each runs the policy machine, and then publishes once under what it has resolved.

The machine is the production one. Before it publishes, a node reads the epoch as every attempt does, and does not
publish if it has moved (``ledger.read_epoch``). A node that dies starts anew and knows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from attrs import evolve, frozen

from perago_core import ledger
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Call
from perago_core.engine import Table
from perago_core.policy import (
    POLICY,
    Begun,
    Capability,
    OnIndeterminate,
    Policy,
    PolicyFailed,
    PolicyKnown,
    PolicySettings,
    Resolved,
    outcome,
    perform,
)
from perago_core.policy.known import PROBES_AUTO, PROBES_ENABLE, STORES
from perago_core.rows import Fact
from perago_core.value import Value
from perago_simulation.cluster.model import Cluster, Label, Left, Moves, World
from perago_simulation.cluster.store import Shared
from perago_simulation.cluster.talks import Answers, Perform, Runner, Running, Said, Talks

PROVED, UNABLE, SILENT = Done(Capability.CONDITIONAL), NotDone("unable"), Unknown("silent")
ANYTHING = (PROVED, UNABLE, SILENT)
_Running: TypeAlias = Running[PolicySettings, PolicyKnown]


class Stage(Enum):
    """How far a node is."""

    RESOLVING = "resolving"
    CHECKING = "reading the epoch"
    PUBLISHING = "publishing"
    ENDED = "ended"


class Node(NamedTuple):
    """One node, with what it has really asked for: the machine's own counters are not believed."""

    running: _Running
    probes: int = 0
    stores: int = 0
    slept: float = 0.0
    stage: Stage = Stage.RESOLVING
    answers: Answers = ()


@frozen(repr=False)
class Bounds(Value):
    """The nodes, what a probe may answer each of them, and how much goes wrong.

    Smaller budgets than the production ones, ``probes`` and ``stores``, keep three nodes explorable.
    """

    policies: tuple[Policy, ...]
    sees: tuple[tuple[Answer[Capability], ...], ...]
    silent: OnIndeterminate = OnIndeterminate.FALLBACK
    coordination: bool = True
    faults: int = 0
    crashes: int = 0
    probes: int | None = None
    stores: int = STORES

    def budget(self, index: int) -> int:
        """Give how often a node may probe."""
        usual = PROBES_ENABLE if self.policies[index] is Policy.ENABLE else PROBES_AUTO
        return usual if self.probes is None else self.probes


def budgeted(
    table: Table[PolicySettings, PolicyKnown], bounds: Bounds, compiled: type[Table[Any, Any]] = Table
) -> Table[PolicySettings, PolicyKnown]:
    """Give a table with the budgets of these bounds, if they are not the production ones."""
    if bounds.probes is None and bounds.stores == STORES:
        return table
    probes = STORES if bounds.probes is None else bounds.probes

    def probes_left(_settings: PolicySettings, known: PolicyKnown, _event: object) -> str:
        return "left" if len(known.transcript) < probes else "spent"

    def stores_left(_settings: PolicySettings, known: PolicyKnown, _event: object) -> str:
        return "left" if known.stores < bounds.stores else "spent"

    smaller = {"probes": probes_left, "stores": stores_left}
    facts = tuple(
        Fact(each.name, each.values, smaller[each.name]) if each.name in smaller else each
        for each in table.definition.facts
    )
    return compiled(evolve(table.definition, facts=facts))


@cache
def resolved(running: _Running) -> Resolved | PolicyFailed | None:
    """Give what a node's question came to."""
    return outcome(running.state)


class Policies(Cluster):
    """Nodes that agree on a backing."""

    def __init__(
        self, bounds: Bounds, table: Table[PolicySettings, PolicyKnown] = POLICY, talk: Perform = perform
    ) -> None:
        super().__init__(tuple(f"n{index}" for index in range(len(bounds.policies))))
        self.bounds = bounds
        self.runner = Runner(budgeted(table, bounds, type(table)), talk, Begun())
        self._talks = Talks()

    def beginnings(self) -> Iterator[World]:
        """Nothing is decided."""
        nodes = tuple(self._fresh(index) for index in range(len(self.names)))
        yield World(Shared(), None, nodes, Left(self.bounds.faults, self.bounds.crashes))

    def _fresh(self, index: int) -> Node:
        bounds = self.bounds
        settings = PolicySettings(bounds.policies[index], bounds.silent, bounds.coordination, self.names[index])
        return self._noted(Node(self.runner.begin(settings)))

    def _noted(self, node: Node) -> Node:
        match resolved(node.running):
            case None:
                return node
            case Resolved() if self.bounds.coordination:
                return node._replace(stage=Stage.CHECKING)
            case Resolved():
                return node._replace(stage=Stage.PUBLISHING)
            case PolicyFailed():
                return node._replace(stage=Stage.ENDED)

    # -----------------------------------------------------------------------------------------------------------------
    # What a node does

    def call(self, world: World, index: int) -> Call | None:
        """Give the next call of the machine, or of reading the epoch."""
        node: Node = world.processes[index]
        if node.stage is Stage.RESOLVING:
            return self.runner.call(node.running)
        if node.stage is Stage.CHECKING:
            found = self._talks.next("epoch", node.answers, ledger.read_epoch)
            assert isinstance(found, Call)
            return found
        return None

    def fallible(self, call: Call) -> bool:
        """What may be wrong with a probe is said by what a node sees."""
        return call.port == "coordination"

    def serve(self, world: World, index: int, call: Call) -> Iterator[tuple[Answer[Any], World]]:
        """Sleep, probe, or ask the coordination store."""
        if call.port == "clock":
            yield Done(None, operations=0), world
        elif call.port == "store":
            yield from ((answer, world) for answer in self.bounds.sees[index])
        else:
            yield from super().serve(world, index, call)

    def answered(self, world: World, index: int, answer: Answer[Any]) -> Node:
        """Count what was asked for, and go on."""
        node: Node = world.processes[index]
        if node.stage is Stage.CHECKING:
            return self._checked(node._replace(answers=(*node.answers, answer)))
        call = self.runner.call(node.running)
        assert call is not None
        match call.method:
            case "probe":
                node = node._replace(probes=node.probes + 1)
            case "create_if_absent":
                node = node._replace(stores=node.stores + 1)
            case "sleep":
                node = node._replace(slept=node.slept + call.args[0])
            case _:
                pass
        return self._noted(node._replace(running=self.runner.answer(node.running, answer)))

    def _checked(self, node: Node) -> Node:
        found = self._talks.next("epoch", node.answers, ledger.read_epoch)
        if isinstance(found, Call):
            return node
        assert isinstance(found, Said)
        pinned = resolved(node.running)
        assert isinstance(pinned, Resolved)
        # ``soft`` and ``disable`` pin no decision, so none can have moved.
        epoch: Answer[int] = found.value
        same = isinstance(epoch, Done) and (pinned.decision is None or epoch.value == pinned.epoch)
        return node._replace(stage=Stage.PUBLISHING if same else Stage.ENDED, answers=())

    def mortal(self, world: World, index: int) -> bool:
        """Whoever has not ended can die."""
        return world.processes[index].stage is not Stage.ENDED

    def died(self, world: World, index: int) -> World:
        """Start anew."""
        return world.with_process(index, self._fresh(index))

    def own_moves(self, world: World, index: int) -> Moves:
        """A publication takes its time, and ends."""
        node: Node = world.processes[index]
        if node.stage is Stage.PUBLISHING:
            ended = node._replace(stage=Stage.ENDED)
            yield Label(self.names[index], "has published"), world.with_process(index, ended)

    def surroundings(self, world: World) -> Moves:
        """Nothing else happens: no time is told here."""
        del world
        return iter(())
