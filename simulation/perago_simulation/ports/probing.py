"""What a store can condition a publication on, found out by what it does, also where it has to refuse.

Nothing here asks for a capability flag. The plans are the fence's own, made for a head that is then moved, a name that
is then deleted, a claim that is then overtaken.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

from attrs import evolve

from perago_core import fence
from perago_core.answers import Answer, Done, NotDone
from perago_core.fence import Standing
from perago_core.plan import PublishPlan
from perago_core.policy.messages import Capability
from perago_core.values import Attempt, Backing, OnAbandoned, StagedRef, Target, claim_of
from perago_simulation.ports.stranger import Stranger

if TYPE_CHECKING:
    from perago_simulation.ports.store import SimulatedStore


def found_out(store: SimulatedStore) -> Answer[Capability]:
    """Try a fresh store out. Each trial has a branch of its own, so none depends on another."""
    trials = _Trials(store)
    wanted: dict[Capability, tuple[Callable[[Backing], bool], ...]] = {
        Capability.ATOMIC: (
            trials.publishes,
            trials.merge_meets_moved_head,
            trials.relocation_meets_moved_head,
            trials.merge_meets_newer_claim,
            trials.merge_meets_revocation,
        ),
        Capability.CONDITIONAL: (
            trials.publishes,
            trials.merge_meets_moved_head,
            trials.begun_merge_meets_revocation,
        ),
    }
    failed: list[str] = []
    for capability, each in wanted.items():
        wrong = next((trial.__name__ for trial in each if not trial(Backing(capability.value))), None)
        if wrong is None:
            return Done(capability)
        failed.append(f"{capability.value}: {wrong}")
    return NotDone(f"failed for {'; '.join(failed)}. Use a lease (policy disable), or soft")


class _Trials:
    """Each says whether the store behaves as one does that carries the backing."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store
        self._made = 0

    def publishes(self, backing: Backing) -> bool:
        """What is right is accepted: a claim, a merge, a relocation."""
        plan, first = self._staged(backing)
        once = [self._store.claim(claim_of(evolve(first, execution=run), None)) for run in (first.execution, "other")]
        stands = [answer.value.execution for answer in once if isinstance(answer, Done)]
        if stands != [first.execution, first.execution] or not isinstance(self._store.publish(plan), Done):
            return False
        return isinstance(self._store.publish(self._relocation(first)), Done)

    def merge_meets_moved_head(self, backing: Backing) -> bool:
        plan, attempt = self._staged(backing)
        Stranger(self._store, attempt.target).commit({"other": b"moved"})
        return isinstance(self._store.publish(plan), NotDone)

    def relocation_meets_moved_head(self, backing: Backing) -> bool:
        plan, first = self._staged(backing)
        self._store.publish(plan)
        relocation = self._relocation(first)
        Stranger(self._store, first.target).commit({"other": b"moved"})
        return isinstance(self._store.publish(relocation), NotDone)

    def merge_meets_newer_claim(self, backing: Backing) -> bool:
        plan, attempt = self._staged(backing)
        self._store.claim(claim_of(_newer(attempt), None))
        return isinstance(self._store.publish(plan), NotDone)

    def merge_meets_revocation(self, backing: Backing) -> bool:
        plan, attempt = self._staged(backing)
        self._store.drop(attempt.target, attempt.staging_name)
        return isinstance(self._store.publish(plan), NotDone)

    def begun_merge_meets_revocation(self, backing: Backing) -> bool:
        """Revoke while the store is half through with the request: only a barrier makes it look again."""
        plan, attempt = self._staged(backing)
        publication = self._store.send(plan)
        self._store.advance(publication)
        self._store.drop(attempt.target, attempt.staging_name)
        self._store.barrier(attempt.target)
        return isinstance(self._store.advance(publication), NotDone)

    def _staged(self, backing: Backing) -> tuple[PublishPlan, Attempt]:
        """Stage and claim as an attempt does, and let the fence plan the merge."""
        self._made += 1
        target = Target("probe", f"trial-{self._made}")
        base = self._store.create(target, {"file": b"before"})
        attempt = Attempt(
            workflow_id="probe",
            task_id="probe",
            retry_count=0,
            logical_task=target.branch,
            number=1,
            execution=target.branch,
            target=target,
            input=base,
            backing=backing,
            on_abandoned=OnAbandoned.REPLACE,
        )
        name = attempt.staging_name
        self._store.open_staging(target, name, base)
        sink = self._store.sink(target, name)
        put = sink.put("file", BytesIO(b"after"))
        assert isinstance(put, Done)
        sink.link((put.value,))
        committed = self._store.commit(target, name, "probe")
        assert isinstance(committed, Done)
        self._store.claim(claim_of(attempt, committed.value))
        return self._planned(attempt, committed.value), attempt

    def _relocation(self, first: Attempt) -> PublishPlan:
        """Plan what a newer attempt does that has changed nothing and finds the first one's publication."""
        second = _newer(first)
        self._store.open_staging(first.target, second.staging_name, first.input)
        self._store.claim(claim_of(second, None))
        return self._planned(second, None)

    def _planned(self, attempt: Attempt, staged: StagedRef | None) -> PublishPlan:
        """Let the fence plan. It is told that whoever may own the head has ended: the probe is the only user here."""
        head = self._store.head(attempt.target)
        assert isinstance(head, Done)
        assert head.value is not None
        owner = evolve(
            claim_of(attempt, staged), number=0, execution="owner", task_id="owner", tree=head.value.commit.tree
        )
        ended = (("owner", Standing.DEAD),)
        decision = fence.decide(fence.Case(attempt, staged, head.value, claims=(owner,), standings=ended))
        assert isinstance(decision, fence.Allowed)
        return decision.plan


def _newer(attempt: Attempt) -> Attempt:
    return evolve(attempt, number=attempt.number + 1, task_id="newer", execution="newer")
