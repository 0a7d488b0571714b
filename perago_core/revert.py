"""Reverting what nobody accepted on a branch that several workflows write to.

A writer that has published and will never report keeps everybody else waiting, and its commit cannot be taken off: on
top of it may lie commits of others. So a recovery of its task publishes a commit that undoes exactly it, onto whatever
the head is. The commit stays, and everybody who looks at the branch counts the pair as absent.

A rerun of the task may adopt the publication at the same moment. Counterexample to a blind revert: the recovery sees a
workflow that has failed; somebody lets it go on; its attempt finds the publication, reports it, is accepted; the revert
lands, and what was accepted is gone. So the recovery is an execution like any other, ranked above every attempt that
has claimed and below the next one:

1. its name, what it stages, its claim, in this order: as an attempt's;
2. it drops the names of all who have ended, passes the barrier, and only then asks **again**: who has claimed, what the
   orchestrator says of each of them, where the publication is;
3. it publishes conditioned on the head, on its name and, where the store knows claims, on its claim.

A rerun that claims first is found in step 2, or refuses the recovery its claim. One that claims later raises the claim,
or drops the name and passes a barrier, before it looks: what the recovery has sent has landed by then and is found
among the claims, or never lands.
"""

from __future__ import annotations

from attrs import field, frozen

from perago_core import fence, sharing
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Talk, call
from perago_core.names import is_of_task, over_in, recovery_name, revert_message
from perago_core.ports import Orchestrator, Store
from perago_core.revocation import revoke
from perago_core.value import Value, a, line, text
from perago_core.values import Claim, Commit, CommitRef, Head, Target, TaskSnapshot

#: How many commits a recovery looks down for a publication: above one that nobody accepted only strangers' lie.
DEEPEST = 64


@frozen(cache_hash=True, repr=False)
class Unaccepted(Value):
    """A publication that nobody has accepted, the task whose it is, and why it must stay for now; else it may go."""

    commit: Commit = field(validator=a(Commit))
    task: str = field(validator=text)
    stays: str = field(default="", validator=line)


def unaccepted(target: Target) -> Talk[tuple[Unaccepted, ...]]:
    """Find the publications on a branch that several write to and that nobody has accepted, the newest first.

    There is one at most where nobody stacks: whoever publishes waits until what lies below is accepted. What a task
    without a scope has published is not looked for: its intent tells of it.
    """
    seen = yield from call(Store.head, target)
    if not isinstance(seen, Done):
        return seen
    if seen.value is None:
        return Done(())
    opened = yield from sharing.unaccepted(target, seen.value.commit, within=DEEPEST)
    if not isinstance(opened, Done):
        return opened
    found: list[Unaccepted] = []
    for each in opened.value:
        asked = yield from _asked(target, each.task)
        if not isinstance(asked, Done):
            return asked
        claims, tasks = asked.value
        if any(fence.published_by(each.commit, claim) for claim in claims):
            stays = fence.against_reverting(each.commit, claims, tasks) or ""
            found.append(Unaccepted(each.commit, each.task, stays))
    return Done(tuple(found))


_Asked = tuple[tuple[Claim, ...], dict[tuple[str, str], TaskSnapshot | None]]


def _asked(target: Target, task: str) -> Talk[_Asked]:
    """List the claims of a task, and ask about the attempts behind them."""
    claims = yield from call(Store.claims, target, task)
    if not isinstance(claims, Done):
        return claims
    tasks: dict[tuple[str, str], TaskSnapshot | None] = {}
    for each in sorted({(claim.workflow_id, claim.task_id) for claim in claims.value}):
        reloaded = yield from call(Orchestrator.reload, *each)
        if not isinstance(reloaded, Done):
            return reloaded
        tasks[each] = reloaded.value
    return Done((claims.value, tasks))


def revert(target: Target, commit: Commit, task: str, nonce: str) -> Talk[CommitRef]:
    """Revert a publication of a task, and give the commit that does; *not done* says why it stays.

    ``nonce``: anything no other recovery has.
    """
    asked = yield from _asked(target, task)
    if not isinstance(asked, Done):
        return Unknown(asked.reason)
    claims, tasks = asked.value
    stays = fence.against_reverting(commit, claims, tasks)
    if stays is not None:
        return NotDone(stays)
    newest = max(claims, key=lambda claim: claim.rank)
    name = recovery_name(target, task, newest.number, newest.task_id, nonce)
    opened = yield from call(Store.open_staging, target, name, commit.ref)
    if isinstance(opened, NotDone):
        return opened
    answer = opened if isinstance(opened, Unknown) else (yield from _by_name(commit, newest, name, nonce))
    yield from call(Store.drop, target, name)
    return answer


def _by_name(commit: Commit, newest: Claim, name: str, nonce: str) -> Talk[CommitRef]:
    target, task = newest.target, newest.logical_task
    message = revert_message(commit.ref, task, newest.number, newest.task_id)
    staged = yield from call(Store.revert, target, name, message)
    if not isinstance(staged, Done):
        return staged
    if staged.value is None:
        return NotDone(f"{commit.ref} has changed nothing: there is nothing to revert")
    claim = Claim(
        target=target,
        logical_task=task,
        workflow_id=newest.workflow_id,
        task_id=newest.task_id,
        number=newest.number,
        execution=nonce,
        parent=commit.ref,
        tree=staged.value.tree,
        staged=staged.value.commit,
        reverts=commit.ref,
        turn=newest.turn + 1,
    )
    stands = yield from _claimed(claim)
    if not isinstance(stands, Done):
        return stands
    if stands.value != claim:
        return NotDone(f"somebody else has claimed {task} meanwhile")
    quiet = yield from _taken_over(claim, name)
    return quiet if not isinstance(quiet, Done) else (yield from _observed(commit, claim, name))


def _claimed(claim: Claim) -> Talk[Claim | None]:
    """Make the claim and give the one that stands; without an answer, the one that is found to."""
    made = yield from call(Store.claim, claim)
    if isinstance(made, Unknown):
        return (yield from call(Store.read_claim, claim))
    return Done(made.value) if isinstance(made, Done) else made


def _taken_over(claim: Claim, name: str) -> Talk[None]:
    """Make sure that nobody of the past can act on the branch any more, and that nobody new of the task does yet."""
    revoked = yield from revoke(claim.target, keep=name)
    if not isinstance(revoked, Done):
        return revoked
    at_work = [each for each in revoked.value.at_work if is_of_task(each, claim.logical_task)]
    if at_work:
        return NotDone(f"an attempt of {claim.logical_task} is at work, by the name {at_work[0]}")
    return (yield from call(Store.barrier, claim.target))


def _observed(commit: Commit, claim: Claim, name: str) -> Talk[CommitRef]:
    """Ask once more, with the claim in place, and publish; nothing comes between the look and that."""
    target = claim.target
    asked = yield from _asked(target, claim.logical_task)
    if not isinstance(asked, Done):
        return asked
    claims, tasks = asked.value
    above = [each for each in claims if each.rank > claim.rank]
    stays = fence.against_reverting(commit, claims, tasks)
    if above or stays is not None:
        return NotDone(stays or f"somebody else has claimed {claim.logical_task} meanwhile")
    looked = yield from _above(target, commit)
    if not isinstance(looked, Done):
        return looked
    head, commits = looked.value
    done = by_whom(commit.ref, commits, claims)
    if done is not None:
        return Done(done)
    others = yield from _others(target, commit, head, commits)
    if not isinstance(others, Done):
        return others
    plan = fence.revert(claim, head, name, others.value)
    published = yield from call(Store.publish, plan)
    return (yield from _found_out(commit, claim, name)) if isinstance(published, Unknown) else published


def _others(target: Target, commit: Commit, head: Head, commits: tuple[Commit, ...]) -> Talk[tuple[CommitRef, ...]]:
    """Name what else nobody has accepted. Nobody is asked where no commit says that there may be anything."""
    if not any(over_in(each.message) for each in (commit, *commits)):
        return Done(())
    opened = yield from sharing.unaccepted(target, head.commit)
    if not isinstance(opened, Done):
        return opened
    return Done(tuple(each.commit.ref for each in opened.value if each.commit.ref != commit.ref))


_Seen = tuple[Head, tuple[Commit, ...]]


def _above(target: Target, commit: Commit) -> Talk[_Seen]:
    """See the head and what lies above a publication; *not done* if it is not below the head any more."""
    seen = yield from call(Store.head, target)
    if not isinstance(seen, Done):
        return seen
    head = seen.value
    if head is None or head.dirty:
        return NotDone(f"{target} {'is not there' if head is None else 'has uncommitted objects'}")
    listed = yield from call(Store.since, target.repository, commit.ref, head.commit.ref, ())
    if not isinstance(listed, Done):
        return listed
    if listed.value is None:
        return NotDone(f"{commit.ref} is not below the head of {target} any more, or too far")
    return Done((head, tuple(each.commit for each in listed.value)))


def by_whom(ref: CommitRef, commits: tuple[Commit, ...], claims: tuple[Claim, ...]) -> CommitRef | None:
    """Name the commit among these that reverts a publication; ``None``: none does."""
    undoing = [claim for claim in claims if claim.reverts == ref]
    return next((each.ref for each in commits for claim in undoing if fence.published_by(each, claim)), None)


def _found_out(commit: Commit, claim: Claim, name: str) -> Talk[CommitRef]:
    """Find out what became of a publication without an answer: without its name it has landed, or never will."""
    for step in (call(Store.drop, claim.target, name), call(Store.barrier, claim.target)):
        answer: Answer[None] = yield from step
        if not isinstance(answer, Done):
            return Unknown(answer.reason)
    looked = yield from _above(claim.target, commit)
    if not isinstance(looked, Done):
        return Unknown(looked.reason)
    done = by_whom(commit.ref, looked.value[1], (claim,))
    return NotDone("the store has not reverted it") if done is None else Done(done)
