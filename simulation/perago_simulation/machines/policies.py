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
from perago_core.errors import CodecError
from perago_core.machine.engine import Table
from perago_core.machine.rows import Fact
from perago_core.policy import (
    POLICY,
    Begun,
    Capability,
    Evidence,
    OnIndeterminate,
    Phase,
    Policy,
    PolicyFailed,
    PolicyKnown,
    PolicySettings,
    Resolved,
    outcome,
    perform,
)
from perago_core.policy.state import (
    CHOSEN,
    PREFIX,
    PROBES_AUTO,
    PROBES_ENABLE,
    STORES,
    backoff,
    decision_key,
    decode_decision,
)
from perago_core.ports import Entry
from perago_core.value import Value
from perago_simulation.machines.conversations import Answers, Concluded, Conversations, Perform, Runner, Running
from perago_simulation.machines.model import Cluster, ClusterWorld, Label, Left, Moves
from perago_simulation.machines.search import Promise
from perago_simulation.machines.store import Shared
from perago_simulation.properties.safety import When

PROVED, UNABLE, SILENT = Done(Capability.CONDITIONAL), NotDone("unable"), Unknown("silent")
ANYTHING = (PROVED, UNABLE, SILENT)
_Running: TypeAlias = Running[PolicySettings, PolicyKnown]


class Stage(Enum):
    """How far a node is."""

    RESOLVING = "resolving"
    CHECKING = "reading the epoch"
    PUBLISHING = "publishing"
    ENDED = "ended"


class PolicyNode(NamedTuple):
    """One node, with what it has really asked for: the machine's own counters are not believed."""

    running: _Running
    probes: int = 0
    stores: int = 0
    slept: float = 0.0
    stage: Stage = Stage.RESOLVING
    answers: Answers = ()


@frozen(repr=False)
class PolicyBounds(Value):
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
        """Return how often a node may probe."""
        usual = PROBES_ENABLE if self.policies[index] is Policy.ENABLE else PROBES_AUTO
        return usual if self.probes is None else self.probes


def budgeted(table: Table[PolicySettings, PolicyKnown], bounds: PolicyBounds) -> Table[PolicySettings, PolicyKnown]:
    """Return a table with the budgets of these bounds, if they are not the production ones.

    It is not validated again: it may be a mutant, whose rows nobody has validated either.
    """
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
    return Table(evolve(table.definition, facts=facts), check=False)


@cache
def resolved(running: _Running) -> Resolved | PolicyFailed | None:
    """Return what a node's question came to."""
    return outcome(running.state)


class Policies(Cluster):
    """Nodes that agree on a backing."""

    def __init__(
        self, bounds: PolicyBounds, table: Table[PolicySettings, PolicyKnown] = POLICY, talk: Perform = perform
    ) -> None:
        super().__init__(tuple(f"n{index}" for index in range(len(bounds.policies))))
        self.bounds = bounds
        self.runner = Runner(budgeted(table, bounds), talk, Begun())
        self._talks = Conversations()

    def beginnings(self) -> Iterator[ClusterWorld]:
        """Nothing is decided."""
        nodes = tuple(self._fresh(index) for index in range(len(self.names)))
        yield ClusterWorld(Shared(), None, nodes, Left(self.bounds.faults, self.bounds.crashes))

    def _fresh(self, index: int) -> PolicyNode:
        bounds = self.bounds
        settings = PolicySettings(bounds.policies[index], bounds.silent, bounds.coordination, self.names[index])
        return self._noted(PolicyNode(self.runner.begin(settings)))

    def _noted(self, node: PolicyNode) -> PolicyNode:
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

    def call(self, world: ClusterWorld, index: int) -> Call | None:
        """Return the next call of the machine, or of reading the epoch."""
        node: PolicyNode = world.processes[index]
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

    def serve(self, world: ClusterWorld, index: int, call: Call) -> Iterator[tuple[Answer[Any], ClusterWorld]]:
        """Sleep, probe, or ask the coordination store."""
        if call.port == "clock":
            yield Done(None, operations=0), world
        elif call.port == "store":
            yield from ((answer, world) for answer in self.bounds.sees[index])
        else:
            yield from super().serve(world, index, call)

    def answered(self, world: ClusterWorld, index: int, answer: Answer[Any]) -> PolicyNode:
        """Count what was asked for, and go on."""
        node: PolicyNode = world.processes[index]
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

    def _checked(self, node: PolicyNode) -> PolicyNode:
        found = self._talks.next("epoch", node.answers, ledger.read_epoch)
        if isinstance(found, Call):
            return node
        assert isinstance(found, Concluded)
        pinned = resolved(node.running)
        assert isinstance(pinned, Resolved)
        epoch: Answer[int] = found.value
        same = isinstance(epoch, Done) and epoch.value == pinned.epoch
        return node._replace(stage=Stage.PUBLISHING if same else Stage.ENDED, answers=())

    def mortal(self, world: ClusterWorld, index: int) -> bool:
        """Whoever has not ended can die."""
        return world.processes[index].stage is not Stage.ENDED

    def died(self, world: ClusterWorld, index: int) -> ClusterWorld:
        """Start anew."""
        return world.with_process(index, self._fresh(index))

    def own_moves(self, world: ClusterWorld, index: int) -> Moves:
        """A publication takes its time, and ends."""
        node: PolicyNode = world.processes[index]
        if node.stage is Stage.PUBLISHING:
            ended = node._replace(stage=Stage.ENDED)
            yield Label(self.names[index], "has published"), world.with_process(index, ended)

    def surroundings(self, world: ClusterWorld) -> Moves:
        """Nothing else happens: no time is told here."""
        del world
        return iter(())


# What must hold of nodes that agree on a backing: S-26 to S-29, L-05.


def _one_backing(_policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    used = {_used(node) for node in after.processes if node.stage is Stage.PUBLISHING}
    return f"at the same time they publish under {' and '.join(sorted(used))}" if len(used) > 1 else None


def _used(node: PolicyNode) -> str:
    found = resolved(node.running)
    assert isinstance(found, Resolved)
    return f"{found.backing.value}, epoch {found.epoch}"


def _first_stands(_policies: Policies, before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    for entry in before.shared.under(PREFIX):
        if after.shared.value(entry.key) != entry.value:
            return f"the decision at {entry.key} has changed"
    return None


def _no_epoch_is_skipped(_policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    keys = [entry.key for entry in after.shared.under(PREFIX)]
    wanted = [decision_key(epoch + 1) for epoch in range(len(keys))]
    return None if keys == wanted else f"the decisions are {keys}"


def _follows_it(policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    for index, node in enumerate(after.processes):
        found = resolved(node.running)
        if not isinstance(found, Resolved) or found.decision is None:
            continue
        key = decision_key(found.epoch)
        standing = after.shared.value(key)
        if standing is None or _differs(Entry(key, standing), found):
            return f"{policies.names[index]} uses {found.backing.value} at epoch {found.epoch}, which nobody stored so"
    return None


def _differs(entry: Entry, found: Resolved) -> bool:
    try:
        decision = decode_decision(entry)
    except CodecError:
        return True
    return decision != found.decision or decision.backing is not found.backing


def _nobody_alone(policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    for index, node in enumerate(after.processes):
        found = resolved(node.running)
        policy = policies.bounds.policies[index]
        excepted = policy in {Policy.SOFT, Policy.ENABLE} and not policies.bounds.coordination
        if isinstance(found, Resolved) and found.decision is None and not excepted:
            return f"{policies.names[index]} decided alone for {found.backing.value}"
    return None


def _proof_or_spent(policies: Policies, _before: ClusterWorld, label: Label, after: ClusterWorld) -> str | None:
    """Judge what is stored: a negative is a disproof, or the whole budget of probes was silent (T-W1)."""
    if not label.is_call("create_if_absent"):
        return None
    index = policies.names.index(label.actor)
    node: PolicyNode = after.processes[index]
    chosen = policies.bounds.policies[index] in CHOSEN
    silent = not chosen and node.running.state.known.evidence is Evidence.INDETERMINATE
    if silent and node.probes != policies.bounds.budget(index):
        return f"{label.actor} stores a fallback after {node.probes} probes"
    return None


def _own_budgets(policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    """Judge where a node gave up: it must have spent the whole of that budget, and never more of any."""
    for index, node in enumerate(after.processes):
        probes, stores = policies.bounds.budget(index), policies.bounds.stores
        if node.probes > probes or node.stores > stores:
            return f"{policies.names[index]} has probed {node.probes} times and stored {node.stores} times"
        if node.running.state.phase is Phase.UNPROVED and node.probes != probes:
            return f"{policies.names[index]} gave up probing after {node.probes} of {probes}"
        if node.running.state.phase is Phase.UNAGREED and node.stores != stores:
            return f"{policies.names[index]} gave up storing after {node.stores} of {stores}"
    return None


def _ends(policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    for index, node in enumerate(after.processes):
        if node.stage is not Stage.ENDED:
            return f"{policies.names[index]} never ends: it is {node.stage.value}"
    return None


def _short_sleep(policies: Policies, _before: ClusterWorld, _label: Label, after: ClusterWorld) -> str | None:
    for index, node in enumerate(after.processes):
        waits = (policies.bounds.budget(index), policies.bounds.stores)
        most = sum(backoff(tries) for budget in waits for tries in range(1, budget))
        if node.slept > most:
            return f"{policies.names[index]} has slept {node.slept:g} s, the most is {most:g} s"
    return None


PROMISES = (
    Promise("S-26", "who publishes at the same time uses the same backing and epoch", _one_backing),
    Promise("S-27", "the first stored decision of an epoch stands", _first_stands),
    Promise("S-27b", "no epoch is skipped", _no_epoch_is_skipped),
    Promise("S-27c", "a node uses what is stored at its epoch", _follows_it),
    Promise("S-28", "nobody decides alone, unless the policy needs nobody", _nobody_alone),
    Promise("S-29", "each budget is spent by its own calls only", _own_budgets),
    Promise("S-29b", "a fallback is stored only after every probe was silent", _proof_or_spent),
    Promise("L-05", "every node comes to an end", _ends, When.AT_REST),
    Promise("L-05b", "the waits are bounded", _short_sleep),
)
