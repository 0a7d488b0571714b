"""A dead end: the branch has gone where no attempt of a task with a fixed input can follow.

Every attempt of such a task begins at the same commit. Once something that stays lies above that commit, or the commit
is no longer below the head, its work is refused however often it is done: told early, it costs no body, and told as
final, no retry. Nothing is planned here; whether a head may be published onto ``fence`` decides.

Not a dead end, because a later attempt may succeed:

* only unaccepted publications lie above the input. The own task's is adopted or replaced; another's its own task may
  still take back, as a no-op does, or recovery;
* ``soft``, whose requests land unconditionally and late: any of them may put a branch back to where it was;
* the input is not fixed: tasks with a scope are pinned again, maintenance begins where maintenance has led, and over
  maintenance the ledger may not have told yet what came between;
* what could not be found out.

Somebody who resets the branch by hand may make a way again, too. Nobody waits for that with retries: `perago retry`
goes on afterwards.
"""

from __future__ import annotations

from perago_core.answers import Done
from perago_core.calls import Talk, call
from perago_core.names import task_id_in
from perago_core.ports import Orchestrator, Store
from perago_core.results import Classification, Refusal
from perago_core.sharing import Judged, Publication, publication
from perago_core.values import Attempt, Backing, Commit, Operation, TaskStatus

#: Refusals after which it is worth finding out whether they are for ever: the branch was not where it was expected.
ABOUT_THE_HEAD = frozenset(
    {
        Classification.TARGET_MISSING,
        Classification.HEAD_ELSEWHERE,
        Classification.HEAD_MERGED,
        Classification.HEAD_NOT_REPLACEABLE,
        Classification.PUBLISH_REFUSED,
    }
)


def dead_end(attempt: Attempt) -> Talk[Refusal | None]:
    """Say why no attempt of this task can be published any more; ``None``: one may be."""
    if not _has_a_fixed_input(attempt):
        return Done(None)
    seen = yield from call(Store.head, attempt.target)
    if not isinstance(seen, Done):
        return seen
    if seen.value is None:
        return Done(
            Refusal(
                Classification.TARGET_MISSING,
                f"branch {attempt.target}",
                "no such branch",
                "Create the branch at the input ref or correct the target, then start the run anew.",
            )
        )
    head = seen.value.commit
    if head.ref == attempt.input:
        return Done(None)
    above = yield from call(Store.since, attempt.target.repository, attempt.input, head.ref, ())
    if not isinstance(above, Done):
        return above
    if above.value is None:
        return Done(_refusal(attempt, f"head {head.ref}, and {attempt.input} is no commit below it"))
    staying = yield from _what_stays(attempt, tuple(landed.commit for landed in above.value))
    if not isinstance(staying, Done) or staying.value is None:
        return Done(None) if isinstance(staying, Done) else staying
    ref, whose = staying.value
    return Done(_refusal(attempt, f"head {head.ref}: {ref}, {whose}, lies above it and stays"))


def _has_a_fixed_input(attempt: Attempt) -> bool:
    return (
        attempt.backing is not Backing.SOFT
        and attempt.operation is Operation.LOGICAL
        and not attempt.read_only
        and not attempt.over_maintenance
        and not attempt.shares
    )


def _what_stays(attempt: Attempt, above: tuple[Commit, ...]) -> Talk[tuple[str, str] | None]:
    """Find a commit that nobody takes off the branch: an accepted one, or a stranger's."""
    claims = yield from call(Store.claims, attempt.target, attempt.logical_task)
    if not isinstance(claims, Done):
        return claims
    for commit in above:
        # By its content it may be what an earlier attempt has published, whatever its message says: that is adopted.
        if any(commit.parents == (claim.parent,) and commit.tree == claim.tree for claim in claims.value):
            continue
        judged = yield from publication(attempt.target, commit, attempt.logical_task)
        if isinstance(judged, Done) and judged.value.kind is Publication.STRANGERS:
            judged = yield from _by_its_task(commit)
        if not isinstance(judged, Done):
            return judged
        found = judged.value
        if found.kind is Publication.ACCEPTED:
            return Done((commit.ref, f"accepted from {found.task}"))
        if found.kind is Publication.REVERT:
            return Done((commit.ref, f"which reverts {found.reverts} of {found.task}"))
        if found.kind is Publication.STRANGERS:
            return Done((commit.ref, "somebody else's"))
    return Done(None)


def _by_its_task(commit: Commit) -> Talk[Judged]:
    """Ask about the task that a commit names, where its message does not lead to claims: a squash has words of its own.

    What a task has published and another attempt has adopted counts as unaccepted here, which only costs retries.
    """
    task_id = task_id_in(commit.message)
    if task_id is None:
        return Done(Judged(Publication.STRANGERS))
    reloaded = yield from call(Orchestrator.reload, None, task_id)
    if not isinstance(reloaded, Done):
        return reloaded
    snapshot = reloaded.value
    if snapshot is None:
        return Done(Judged(Publication.STRANGERS))
    done = snapshot.status is TaskStatus.COMPLETED and snapshot.result_ref == commit.ref
    return Done(Judged(Publication.ACCEPTED if done else Publication.UNACCEPTED, f"task {task_id}"))


def _refusal(attempt: Attempt, found: str) -> Refusal:
    return Refusal(
        Classification.HEAD_ELSEWHERE,
        f"head of {attempt.target} to be {attempt.input}, where this run has begun",
        found,
        "Start the run anew from the current head; tasks that declare `reads` and `writes` can share a branch.",
    )
