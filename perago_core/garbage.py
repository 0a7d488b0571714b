"""What a collector may remove: names nobody may act by any more, claims nobody may need, intents nobody finds.

A name may go as soon as its attempt is known to have ended; at worst a worker that does not know yet finds it gone.
Not open is not enough: an attempt that this orchestrator has never heard of may be another one's, and live. A claim is
needed longer. Counterexample: a task is completed by a no-op, its claim is removed, and a paused duplicate that has
passed its last fence makes a fresh claim, finds the head where it expects it, and publishes. So claims go only once
their task is settled and none of its names is left, and after that a barrier has to answer.

An intent is armed record first, pointers after. Whoever dies in between leaves a record that no sweep finds (S-21c): it
says nothing of any branch, because the effect comes after the pointers. It goes when its task's claims may.

Names, claims and intents must be listed *before* the attempts are looked at: what was made after the listing is not
judged, and an attempt that had a name then and is not open now has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from attrs import field, frozen

from perago_core.ledger.records import Intent
from perago_core.names import attempt_number, is_of_task, is_staging_name
from perago_core.pipelines import PipelineView
from perago_core.value import Value, count, text
from perago_core.values import Claim


@frozen(cache_hash=True, repr=False)
class Living(Value):
    """An attempt that may still act: its task is open, or an open intent speaks of it."""

    logical_task: str = field(validator=text)
    number: int = field(validator=count)


def unknown_names(names: Iterable[str], tasks: Collection[str]) -> tuple[str, ...]:
    """Return the staging names of no task among these. Names that are not ours are nobody's business here."""
    return tuple(name for name in names if is_staging_name(name) and not any(is_of_task(name, each) for each in tasks))


def abandoned_names(names: Iterable[str], tasks: Collection[str] | None, living: Collection[Living]) -> tuple[str, ...]:
    """Return the staging names whose attempt lives no more; of these tasks, or with ``None`` of whatever task."""
    return tuple(
        name
        for name in names
        if is_staging_name(name)
        and (tasks is None or any(is_of_task(name, each) for each in tasks))
        and not any(attempt_number(name, attempt.logical_task) == attempt.number for attempt in living)
    )


def run_branch_may_go(run: PipelineView | None, now: int, keep: float, *, unknown: bool = False) -> bool:
    """Return whether the branch of a run may go: a promoted one's at once, any other's so many seconds after its end.

    ``None``: the orchestrator has never heard of the run, which may be another one's; only who is told so removes it.
    """
    if run is None:
        return unknown
    return run.succeeded or (not run.running and run.ended_at + keep * 1000 <= now)


def settled_claims(
    claims: Iterable[Claim],
    settled: Collection[str],
    names: Iterable[str],
    living: Collection[Living],
) -> tuple[Claim, ...]:
    """Return the claims that may go after a barrier: of settled tasks without names and without living attempts."""
    left = tuple(names)
    busy = {attempt.logical_task for attempt in living}
    return tuple(
        claim
        for claim in claims
        if claim.logical_task in settled
        and claim.logical_task not in busy
        and not any(is_of_task(name, claim.logical_task) for name in left)
    )


def stray_intents(
    intents: Iterable[Intent],
    pointed: Collection[str],
    settled: Collection[str],
    living: Collection[Living],
) -> tuple[Intent, ...]:
    """Return the intents that may go: of settled tasks without living attempts, and ``pointed`` to by no target."""
    busy = {attempt.logical_task for attempt in living}
    return tuple(
        intent
        for intent in intents
        if intent.operation_id not in pointed and intent.logical_task in settled and intent.logical_task not in busy
    )
