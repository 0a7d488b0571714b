"""What must hold of sweeps and of who they sweep after: S-19 to S-22, L-06 to L-08."""

from __future__ import annotations

from functools import cache

from perago_core import codec
from perago_core.ledger import Audit, Intent, IntentState, Settlement, SettlementKind
from perago_core.ledger.keys import audit_key, intent_key, open_key, prepared_key, settled_key
from perago_core.recovery import Mode
from perago_core.values import Target
from perago_simulation.cluster.lake import COMMITS, ILLEGIBLE, INPUT, OURS, STAGING, Lake
from perago_simulation.cluster.model import Label, World
from perago_simulation.cluster.recoveries import Recoveries
from perago_simulation.cluster.search import Promise, When
from perago_simulation.cluster.store import Shared

OPERATION = "op-1"
_ACCEPTED = (SettlementKind.ACCEPTED, SettlementKind.ROLLED_FORWARD)
#: What the orchestrator must have said for a kind of settlement.
_TASK = {
    SettlementKind.ACCEPTED: "ours",
    SettlementKind.ROLLED_FORWARD: "ours",
    SettlementKind.ACCEPTED_LOST: "ours",
    SettlementKind.SUPPRESSED: "other",
    SettlementKind.NOT_PUBLISHED: "dead",
    SettlementKind.ABANDONED: "dead",
    SettlementKind.ROLLED_BACK: "dead",
    SettlementKind.SUPERSEDED: "dead",
}

_loads = cache(codec.loads)


def settlement(shared: Shared) -> Settlement | None:
    """Give the settlement that stands."""
    text = shared.value(settled_key(OPERATION))
    return None if text is None else _loads(text, Settlement)


def _new(before: World, after: World) -> Settlement | None:
    return settlement(after.shared) if settlement(before.shared) is None else None


def published_on(lake: Lake) -> frozenset[Target]:
    """Give the targets whose history has our commit."""
    return frozenset(target for target, head in lake.heads if OURS in {head, *COMMITS[head].parents})


def _for_what_it_is(_recoveries: Recoveries, before: World, _label: Label, after: World) -> str | None:
    new = _new(before, after)
    if new is None:
        return None
    lake: Lake = after.outside
    if lake.task != _TASK[new.kind]:
        return f"settled as {new.kind.value}, and the task is {lake.task}"
    if new.kind in _ACCEPTED and not published_on(lake):
        return f"settled as {new.kind.value}, and it is on no branch"
    if new.kind is SettlementKind.NOT_PUBLISHED and lake.moved:
        return "settled as not published, and it was published and taken back"
    return None


def _fits_the_branches(recoveries: Recoveries, before: World, _label: Label, after: World) -> str | None:
    """Judge what recovery wrote by what is on the branches. Only a rollback moves them meanwhile, so it is known."""
    new = _new(before, after)
    lake: Lake = after.outside
    if new is None or recoveries.bounds.owner:
        return None
    there = published_on(lake)
    heads = {head for _, head in lake.heads}
    fits = {
        SettlementKind.ROLLED_FORWARD: there == frozenset(recoveries.targets),
        SettlementKind.ACCEPTED_LOST: there != frozenset(recoveries.targets) and "u2" not in heads,
        SettlementKind.NOT_PUBLISHED: heads == {INPUT},
        SettlementKind.ABANDONED: lake.moved or (heads <= {INPUT, OURS} and bool(there)),
        SettlementKind.SUPERSEDED: bool(heads - {INPUT, OURS}) and not heads & ILLEGIBLE,
        SettlementKind.ROLLED_BACK: lake.moved,
    }
    where = ", ".join(sorted(heads))
    return None if fits.get(new.kind, True) else f"settled as {new.kind.value}, and the heads are at {where}"


def _together(recoveries: Recoveries, before: World, _label: Label, after: World) -> str | None:
    new = _new(before, after)
    if new is None:
        return None
    if tuple(each.target for each in new.movements) != recoveries.targets:
        return "the settlement does not name every target"
    there = published_on(after.outside)
    if new.kind in _ACCEPTED and there != frozenset(recoveries.targets):
        return f"settled as {new.kind.value}, and it is not on every target"
    if new.kind is SettlementKind.ROLLED_BACK and there:
        return "settled as rolled back, and it is still on a target"
    return None


def _monotone(_recoveries: Recoveries, before: World, _label: Label, after: World) -> str | None:
    for key in (settled_key(OPERATION), audit_key(OPERATION)):
        if before.shared.value(key) not in {None, after.shared.value(key)}:
            return f"what stands at {key} has changed"
    was, now = before.shared.value(intent_key(OPERATION)), after.shared.value(intent_key(OPERATION))
    if was is not None and now is not None and was != now and _loads(now, Intent).state is IntentState.ARMED:
        return "a confirmed intent is armed again"
    return None


def _gone_for_good(_recoveries: Recoveries, before: World, _label: Label, after: World) -> str | None:
    key = intent_key(OPERATION)
    settled = settlement(before.shared) is not None
    back = settled and before.shared.value(key) is None and after.shared.value(key) is not None
    return "the record of a settled intent is back, and no sweep will find it" if back else None


def _one_audit(_recoveries: Recoveries, _before: World, _label: Label, after: World) -> str | None:
    stands, text = settlement(after.shared), after.shared.value(audit_key(OPERATION))
    if text is not None and (stands is None or _loads(text, Audit).kind is not stands.kind):
        return "the audit record says another kind than the settlement"
    if stands is not None and text is None and after.shared.value(intent_key(OPERATION)) is None:
        return "the intent is closed, and there is no audit record"
    return None


def _untouched(recoveries: Recoveries, before: World, label: Label, after: World) -> str | None:
    if _new(before, after) is not None and after.outside.task == "running":
        return "settled while the task is open"
    if label.actor not in recoveries.names:
        return None
    mode = recoveries.mode(recoveries.names.index(label.actor))
    branches = (before.outside.heads, before.outside.names) != (after.outside.heads, after.outside.names)
    if mode in {Mode.SETTLE_ONLY, Mode.PROBE} and branches:
        return f"{label.actor} may not move anything and did"
    if mode is Mode.PROBE and before.shared != after.shared:
        return f"{label.actor} may only look and wrote"
    if mode is not None and STAGING in before.outside.names - after.outside.names:
        return f"{label.actor} took a name that is not its own"
    return None


def _dead_only(recoveries: Recoveries, before: World, label: Label, after: World) -> str | None:
    """Judge an exclusive move: the task must be dead, and only our own commit may leave a branch."""
    if label.actor not in recoveries.names or recoveries.mode(recoveries.names.index(label.actor)) is None:
        return None
    for (target, was), (_, now) in zip(before.outside.heads, after.outside.heads, strict=True):
        if was != now and (before.outside.task != "dead" or was != OURS):
            return f"{label.actor} takes {target} back from {was}, and the task is {before.outside.task}"
    return None


def _settled_in_the_end(recoveries: Recoveries, _before: World, _label: Label, after: World) -> str | None:
    lake: Lake = after.outside
    illegible = any(head in ILLEGIBLE for _, head in lake.heads) and lake.task == "dead"
    unreadable = lake.task == "ours" and any(head == "u2" for _, head in lake.heads)
    if lake.task in {"running", "gone"} or illegible or unreadable:
        return None
    left: list[str] = []
    for target in recoveries.targets:
        if after.shared.value(open_key(target, OPERATION)) is not None:
            then, _ = recoveries.swept(after, target)
            keys = (open_key(target, OPERATION), intent_key(OPERATION), prepared_key(OPERATION))
            left += [key for key in keys if then.shared.value(key) is not None]
            if then.shared.value(audit_key(OPERATION)) is None:
                left.append("no audit record")
            if settlement(after.shared) not in {None, settlement(then.shared)}:
                left.append("another settlement")
    return f"one more sweep leaves {', '.join(left)}" if left else None


def _all_end(recoveries: Recoveries, _before: World, _label: Label, after: World) -> str | None:
    waiting = [name for index, name in enumerate(recoveries.names) if recoveries.call(after, index) is not None]
    if waiting:
        return f"{' and '.join(waiting)} never end"
    alone = after.left == next(recoveries.beginnings()).left
    settled = settlement(after.shared) is not None
    if alone and settled and after.shared.value(audit_key(OPERATION)) is None:
        return "every sweep has ended, nothing went wrong, and there is no audit record"
    return None


def _own_targets_only(recoveries: Recoveries, _before: World, label: Label, after: World) -> str | None:
    """Judge sweeps beside an intent nobody can decide: it is kept, and keeps nobody else from being settled."""
    blocked = recoveries.bounds.blocked
    if blocked is None:
        return None
    if after.shared.value(intent_key("op-0")) is None or after.shared.value(settled_key("op-0")) is not None:
        return "the intent nobody can decide is gone"
    for index, sweep in enumerate(after.processes):
        mode = recoveries.mode(index)
        if mode is None or sweep.dead or sweep.waiting is None or sweep.running is not None:
            continue
        target = recoveries.bounds.sweeps[index][0]
        if blocked != target and any(each.state.subject.operation_id == "op-0" for each in sweep.ended):
            return f"a sweep of {target} is concerned with an intent of {blocked}"
        refused = blocked == target and len(sweep.ended) == 1
        if refused and not label.fault and after.left.faults == recoveries.bounds.faults and len(after.processes) == 1:
            return "the intent nobody can decide kept the other from being tried"
    return None


PROMISES = (
    Promise("S-19", "an intent is settled for what it is", _for_what_it_is),
    Promise("S-19b", "what it is settled as is what the branches show", _fits_the_branches),
    Promise("S-20", "all targets of an intent are settled together", _together),
    Promise("S-21", "what is settled stays settled, as what it was", _monotone),
    Promise("S-21b", "one audit record, of the kind that was settled, before the intent is closed", _one_audit),
    Promise("S-21c", "the record of a settled intent does not come back", _gone_for_good),
    Promise("S-22", "who only settles moves nothing, and nobody settles what is alive", _untouched),
    Promise("S-22b", "exclusive recovery takes back what a dead task published, and nothing else", _dead_only),
    Promise("L-06", "one more sweep settles every intent whose task has ended", _settled_in_the_end, When.AT_REST),
    Promise("L-07", "sweeps at the same time all end, with one audit record", _all_end, When.AT_REST),
    Promise("L-08", "an intent nobody can decide blocks nobody else", _own_targets_only),
)
