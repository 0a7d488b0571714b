"""What must hold of nodes that agree on a backing: S-26 to S-29, L-05."""

from __future__ import annotations

from perago_core.errors import CodecError
from perago_core.policy import Evidence, Phase, Policy, Resolved
from perago_core.policy.known import backoff
from perago_core.policy.records import PREFIX, decision_key, decode_decision
from perago_core.ports import Entry
from perago_simulation.cluster.model import Label, World
from perago_simulation.cluster.policies import Node, Policies, Stage, resolved
from perago_simulation.cluster.search import Promise, When


def _one_backing(_policies: Policies, _before: World, _label: Label, after: World) -> str | None:
    used = {_used(node) for node in after.processes if node.stage is Stage.PUBLISHING}
    return f"at the same time they publish under {' and '.join(sorted(used))}" if len(used) > 1 else None


def _used(node: Node) -> str:
    found = resolved(node.running)
    assert isinstance(found, Resolved)
    return f"{found.backing.value}, epoch {found.epoch}"


def _first_stands(_policies: Policies, before: World, _label: Label, after: World) -> str | None:
    for entry in before.shared.under(PREFIX):
        if after.shared.value(entry.key) != entry.value:
            return f"the decision at {entry.key} has changed"
    return None


def _no_epoch_is_skipped(_policies: Policies, _before: World, _label: Label, after: World) -> str | None:
    keys = [entry.key for entry in after.shared.under(PREFIX)]
    wanted = [decision_key(epoch + 1) for epoch in range(len(keys))]
    return None if keys == wanted else f"the decisions are {keys}"


def _follows_it(policies: Policies, _before: World, _label: Label, after: World) -> str | None:
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


def _nobody_alone(policies: Policies, _before: World, _label: Label, after: World) -> str | None:
    for index, node in enumerate(after.processes):
        found = resolved(node.running)
        policy = policies.bounds.policies[index]
        excepted = policy in {Policy.SOFT, Policy.DISABLE}
        excepted = excepted or (policy is Policy.ENABLE and not policies.bounds.coordination)
        if isinstance(found, Resolved) and found.decision is None and not excepted:
            return f"{policies.names[index]} decided alone for {found.backing.value}"
    return None


def _proof_or_spent(policies: Policies, _before: World, label: Label, after: World) -> str | None:
    """Judge what is stored: a negative is a disproof, or the whole budget of probes was silent (T-W1)."""
    if not label.is_call("create_if_absent"):
        return None
    index = policies.names.index(label.actor)
    node: Node = after.processes[index]
    silent = node.running.state.known.evidence is Evidence.INDETERMINATE
    if silent and node.probes != policies.bounds.budget(index):
        return f"{label.actor} stores a fallback after {node.probes} probes"
    return None


def _own_budgets(policies: Policies, _before: World, _label: Label, after: World) -> str | None:
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


def _ends(policies: Policies, _before: World, _label: Label, after: World) -> str | None:
    for index, node in enumerate(after.processes):
        if node.stage is not Stage.ENDED:
            return f"{policies.names[index]} never ends: it is {node.stage.value}"
    return None


def _short_sleep(policies: Policies, _before: World, _label: Label, after: World) -> str | None:
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
