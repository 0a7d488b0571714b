"""What nobody accepted on a branch that several pipelines share: found, reverted, and told of afterwards.

Whether something may be reverted is decided, and done, in ``perago_core.revert``. ``perago recover``, the recovery task
and every worker between two polls come here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import evolve, frozen

from perago_core.answers import Answer, Done
from perago_core.driver import run
from perago_core.names import says_revert
from perago_core.revert import Unaccepted, by_whom, revert, unaccepted
from perago_core.sharing import Publication, publication
from perago_core.values import Claim, Commit, CommitRef, Target
from perago_worker.api.task import TaskDefinition
from perago_worker.config.settings import Settings, rolls_back
from perago_worker.logger import log
from perago_worker.ops.collector import Collector
from perago_worker.stack import Stack

#: How often it is tried again: whoever else begins to publish drops the name, because it is one of an ended task.
TRIES: Final = 5
#: Seconds between two looks of a worker. Whoever waits for its turn on the branch does so for longer.
EVERY: Final = 15.0


@frozen
class Looked:
    """What was found on a shared branch: a publication that nobody accepted, and what reverts it now.

    ``trouble``: why it is still there, or why nobody can tell.
    """

    found: Unaccepted | None = None
    by: CommitRef | None = None
    trouble: str = ""

    @property
    def blocks(self) -> bool:
        """Whether others wait for it."""
        return self.by is None and (self.found is not None or bool(self.trouble))


def look(stack: Stack, target: Target) -> tuple[Looked, ...]:
    """Look for publications that nobody accepted, the newest first, and change nothing."""
    found = run(unaccepted(target), stack.ports())
    if not isinstance(found, Done):
        return (Looked(trouble=f"whether all of {target} was accepted is unknown: {found.reason}"),)
    return tuple(Looked(each, trouble=each.stays) for each in found.value)


def revert_unaccepted(stack: Stack, target: Target) -> tuple[Looked, ...]:
    """Revert what nobody accepted, and nobody will."""
    return tuple(_reverted(stack, target, each) for each in look(stack, target))


def _reverted(stack: Stack, target: Target, looked: Looked) -> Looked:
    for _ in range(TRIES):
        if looked.found is None or looked.found.stays:
            return looked
        commit, task = looked.found.commit, looked.found.task
        answer = run(revert(target, commit, task, secrets.token_hex(8)), stack.ports())
        if isinstance(answer, Done):
            log.warning(
                "%s: %s reverts %s, which %s had published and nobody accepted", target, answer.value, commit.ref, task
            )
            return Looked(looked.found, answer.value)
        again = [each for each in look(stack, target) if each.found is None or each.found.commit.ref == commit.ref]
        looked = evolve(again[0], trouble=again[0].trouble or answer.reason) if again else Looked()
    return looked


def shared_targets(settings: Settings, tasks: Mapping[str, TaskDefinition]) -> tuple[Target, ...]:
    """Name the targets whose pipelines have tasks with a scope, and want what failed runs left taken back."""
    sharing = {
        Target(each.repository, each.branch)
        for each in settings.pipelines.values()
        if any(step.task in tasks and tasks[step.task].scope is not None for step in each.all_steps)
    }
    return tuple(sorted((each for each in sharing if rolls_back(settings, each)), key=str))


class Reverter(Collector):
    """Reverts between two polls what dead writers keep others waiting with. A head in order is not judged again."""

    def __init__(self, stack: Stack, targets: Iterable[Target]) -> None:
        super().__init__(stack, EVERY)
        self._targets = tuple(targets)
        self._in_order: dict[Target, CommitRef] = {}

    def _collect(self) -> None:
        for target in self._targets:
            seen = self._stack.store.head(target)
            if not isinstance(seen, Done) or seen.value is None:
                continue
            head = seen.value.commit.ref
            if self._in_order.get(target) == head:
                continue
            if not any(each.blocks for each in revert_unaccepted(self._stack, target)):
                self._in_order[target] = head


def reverts_among(stack: Stack, target: Target, commits: Iterable[Commit]) -> Mapping[CommitRef, CommitRef]:
    """Say which publications these commits revert: those that say they do, if the claims agree."""
    found: dict[CommitRef, CommitRef] = {}
    for commit in commits:
        if says_revert(commit.message):
            judged = run(publication(target, commit, ""), stack.ports())
            if isinstance(judged, Done) and judged.value.kind is Publication.REVERT and judged.value.reverts:
                found[judged.value.reverts] = commit.ref
    return found


def reverts_of(stack: Stack, target: Target, claims: tuple[Claim, ...]) -> Answer[Mapping[CommitRef, CommitRef]]:
    """Say which publications of a task were reverted, by its claims and what lies on the branch."""
    head = stack.store.head(target)
    if not isinstance(head, Done):
        return head
    found: dict[CommitRef, CommitRef] = {}
    if head.value is None:
        return Done(found)
    for ref in {claim.reverts for claim in claims if claim.reverts is not None}:
        above = stack.store.since(target.repository, ref, head.value.commit.ref, ())
        if not isinstance(above, Done):
            return above
        by = by_whom(ref, tuple(each.commit for each in above.value or ()), claims)
        if by is not None:
            found[ref] = by
    return Done(found)
