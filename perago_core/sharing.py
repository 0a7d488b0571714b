"""A branch that several workflows write to: what lies between an input and the head, and where a task may begin.

Asked only for tasks that declare what they read and write (``Scope``). Facts are gathered here; what follows from them
``fence`` decides.

A commit on the branch is a stranger's, or a publication of a task that was accepted, or one that was not, yet. Whose it
is its staged commit says, in words that give nobody a right: they say whose claims to read, and the tasks behind those
claims are asked about. Accepted is the *commit*, for any attempt or twin of its task: who adopted it reports it too,
while the record of its publisher says for ever that it timed out. A commit of whom nobody has heard any more, because
claims and tasks of settled workflows are collected, is like a stranger's.

Only the newest publication needs to be asked about, and what it names. Whoever published it had asked about all that
lay below: what was not accepted it names in its own commit (``names.over_in``), all else was, and accepted stays. Who
does not stack (``Scope.apart``) waits until there is nothing to name. So the cost grows with the work that is open, and
not with the number of other writers. A publication that was reverted, and the commit that reverts it, count as absent,
both of them: what lies below is asked about instead.

Counterexample to a name in the claim, or anywhere but in the commit: it is decided with the head, after the claim, and
a writer that dies in between leaves the one without the other. Counterexample to no name at all: u publishes and dies;
v stacks on it and is accepted; w, which shares folders with u, finds v accepted, starts there, and is accepted on what
u wrote and nobody accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from attrs import evolve, field, frozen

from perago_core.answers import Done, Unknown
from perago_core.calls import Talk, call
from perago_core.fence import published_by, reverted
from perago_core.names import over_in, says_revert, task_in
from perago_core.ports import FARTHEST, Orchestrator, Store
from perago_core.value import Value, a, flag, line, many, maybe, text
from perago_core.values import Between, Claim, Commit, CommitRef, Landed, Scope, Target, TaskStatus

_NONE: Mapping[CommitRef, Commit] = {}


class Publication(Enum):
    """Whose a commit on the branch is."""

    STRANGERS = "a stranger's"
    OWN = "of the own task"
    ACCEPTED = "accepted"
    UNACCEPTED = "not accepted"
    REVERT = "what reverts another one"


@frozen(repr=False)
class Judged(Value):
    """Whose a commit is, of which task, and which publication it reverts, if it does."""

    kind: Publication = field(validator=a(Publication))
    task: str = field(default="", validator=line)
    reverts: CommitRef | None = field(default=None, validator=maybe(text))


@frozen(repr=False)
class Open(Value):
    """A publication that nobody has accepted, of which task, and whether that is the task that asks."""

    commit: Commit = field(validator=a(Commit))
    task: str = field(validator=text)
    own: bool = field(default=False, validator=flag)


def between(target: Target, base: CommitRef, head: Commit, scope: Scope, own_task: str) -> Talk[Between]:
    """Gather what a decision about a head at or above the input needs to know."""
    above: tuple[Landed, ...] = ()
    if base != head.ref:
        listed = yield from call(Store.since, target.repository, base, head.ref, scope.prefixes)
        if not isinstance(listed, Done) or listed.value is None:
            return Done(Between(None)) if isinstance(listed, Done) else listed
        above = listed.value
    commits = tuple(each.commit for each in above) or (head,)
    opened = yield from _open_since(target, base, commits, scope, own_task)
    if not isinstance(opened, Done):
        return opened
    over = tuple(each.commit.ref for each in opened.value) if scope.stacks else ()
    hindering = yield from _hindering(target, opened.value, scope)
    if not isinstance(hindering, Done):
        return hindering
    for each in hindering.value[:1]:
        return Done(Between(above, unaccepted=each.commit.ref, owner=each.task, over=over))
    return Done(Between(above, over=over))


def _open_since(
    target: Target, base: CommitRef, commits: Sequence[Commit], scope: Scope, own_task: str
) -> Talk[tuple[Open, ...]]:
    """Find what nobody accepted above an input; and below it, if that was begun at by somebody who stacks.

    Then the input says what that is: see ``newest_accepted``.
    """
    head, known = commits[0], {each.ref: each for each in commits}
    found = yield from _newest_publication(target, head, own_task, known=known, above=base)
    if not isinstance(found, Done):
        return found
    newest = found.value
    if newest.publication is None and scope.stacks:
        seen = yield from _read(target, base, known)
        if not isinstance(seen, Done) or seen.value is None:
            return Unknown(f"input {base} cannot be read") if isinstance(seen, Done) else seen
        newest = evolve(newest, says=over_in(seen.value.message))
    return (yield from _open(target, newest, own_task, known))


def _hindering(target: Target, opened: Iterable[Open], scope: Scope | None) -> Talk[tuple[Open, ...]]:
    """Return those above which nobody with this scope may stand: all, unless he stacks and they keep apart.

    The own task's is none: it is adopted.
    """
    found: list[Open] = []
    for each in (one for one in opened if not one.own):
        if scope is not None and scope.stacks:
            below = each.commit.parents[0]
            seen = yield from call(Store.since, target.repository, below, each.commit.ref, scope.kept_apart)
            if not isinstance(seen, Done):
                return seen
            if seen.value is not None and not any(landed.touched for landed in seen.value):
                continue
        found.append(each)
    return Done(tuple(found))


def unaccepted(target: Target, head: Commit, within: int | None = None) -> Talk[tuple[Open, ...]]:
    """Find every publication at or below a head that nobody has accepted, the newest first."""
    found = yield from _newest_publication(target, head, "", within=within)
    return found if not isinstance(found, Done) else (yield from _open(target, found.value, "", _NONE))


def _open(target: Target, newest: Newest, own_task: str, known: Mapping[CommitRef, Commit]) -> Talk[tuple[Open, ...]]:
    """Ask about the newest publication and those that it names: all others below are accepted."""
    opened: list[Open] = []
    if newest.publication is not None and newest.whose.kind in _OPEN:
        opened.append(Open(newest.publication, newest.whose.task, newest.whose.kind is Publication.OWN))
    for ref in map(CommitRef, newest.says):
        if ref in newest.gone:
            continue
        seen = yield from _read(target, ref, known)
        if not isinstance(seen, Done):
            return seen
        if seen.value is None:
            return Unknown(f"{ref}, above which something was published, cannot be read")
        judged = yield from publication(target, seen.value, own_task)
        if not isinstance(judged, Done):
            return judged
        if judged.value.kind in _OPEN:
            opened.append(Open(seen.value, judged.value.task, judged.value.kind is Publication.OWN))
    return Done(tuple(opened))


#: What may not be accepted: whether the own task's was, nobody is asked, because it is adopted.
_OPEN = frozenset({Publication.UNACCEPTED, Publication.OWN})


#: What need not say what lies below it.
_PASSED_OVER = frozenset({Publication.STRANGERS, Publication.REVERT})
#: What a workflow may begin at and says what is open below it, if anything is.
_TELLING = frozenset({Publication.ACCEPTED, Publication.REVERT})


def begin_at(target: Target, given: CommitRef, scope: Scope, own_task: str) -> Talk[CommitRef]:
    """Return where an attempt begins: as it was told, unless somebody has changed since what it reads or writes.

    Then the newest accepted commit: with the old one its work would be refused in the end, however often it is done.
    Not if what was changed is its own task's publication: that is adopted.
    """
    seen = yield from call(Store.head, target)
    if not isinstance(seen, Done):
        return seen
    if seen.value is None or seen.value.commit.ref == given:
        return Done(given)
    head = seen.value.commit
    found = yield from between(target, given, head, scope, own_task)
    if not isinstance(found, Done):
        return found
    commits = found.value.commits
    if commits is not None:
        if not any(each.touched for each in commits):
            return Done(given)
        claims = yield from call(Store.claims, target, own_task)
        if not isinstance(claims, Done):
            return claims
        gone = reverted((each.commit for each in commits), claims.value)
        standing = [each.commit for each in commits if each.commit.ref not in gone]
        if any(published_by(commit, claim) for commit in standing for claim in claims.value if claim.reverts is None):
            return Done(given)
    return (yield from newest_accepted(target, head, scope, own_task))


def newest_accepted(target: Target, head: Commit, scope: Scope | None = None, own_task: str = "") -> Talk[CommitRef]:
    """Return the newest commit with nothing unaccepted at or below it: where a workflow on such a branch is pinned.

    Counterexample to the head: v starts from what u has published; u is terminated, and what it published undone; v is
    accepted on what never was.

    A scope that stacks has nothing at or below it that hinders it. Counterexample to nothing unaccepted at all: above a
    dead writer's work one run of a pipeline is accepted; the next one begins below both, and is refused for ever. It is
    a commit then that says itself what is open below it, which a stranger's does not.
    """
    at = head
    while True:
        asked = yield from _asked(target, at, own_task)
        if not isinstance(asked, Done):
            return asked
        newest, opened = asked.value
        others = tuple(each for each in opened if not each.own)
        if not others:
            return Done(at.ref)
        hindering = yield from _hindering(target, others, scope)
        if not isinstance(hindering, Done):
            return hindering
        if not hindering.value and newest.tells is not None:
            return Done(newest.tells.ref)
        lowest = (*others[:1], *hindering.value)[-1]
        below = lowest.commit.parents[0]
        if lowest is others[-1]:
            return Done(below)
        seen = yield from _read(target, below, _NONE)
        if not isinstance(seen, Done) or seen.value is None:
            return Unknown(f"{below}, below what nobody accepted, cannot be read") if isinstance(seen, Done) else seen
        at = seen.value


def _asked(target: Target, head: Commit, own_task: str) -> Talk[tuple[Newest, tuple[Open, ...]]]:
    found = yield from _newest_publication(target, head, own_task)
    if not isinstance(found, Done):
        return found
    opened = yield from _open(target, found.value, own_task, _NONE)
    return Done((found.value, opened.value)) if isinstance(opened, Done) else opened


@frozen(repr=False)
class Newest(Value):
    """The newest publication at or below a commit, if there is one, whose it is, and what it says that it lies above.

    ``gone``: what is reverted by commits above it. ``tells``: the newest accepted publication or revert that says above
    what it lies.
    """

    publication: Commit | None = field(default=None, validator=maybe(a(Commit)))
    whose: Judged = field(default=Judged(Publication.STRANGERS), validator=a(Judged))
    says: tuple[str, ...] = field(default=(), validator=many(text))
    gone: tuple[CommitRef, ...] = field(default=(), validator=many(line))
    tells: Commit | None = field(default=None, validator=maybe(a(Commit)))


def _newest_publication(
    target: Target,
    head: Commit,
    own_task: str,
    *,
    known: Mapping[CommitRef, Commit] = _NONE,
    above: CommitRef | None = None,
    within: int | None = None,
) -> Talk[Newest]:
    """Find the newest publication at or below a head, past strangers' commits and past what was reverted.

    ``known``: commits that need not be read again. ``above``: a commit at which the walk ends, as ``within`` so many.
    """
    at, gone, tells = head, set[CommitRef](), None
    for _ in range(FARTHEST if within is None else within):
        if at.ref == above:
            break
        if at.ref not in gone:
            judged = yield from publication(target, at, own_task)
            if not isinstance(judged, Done):
                return judged
            says = over_in(at.message)
            if says and tells is None and judged.value.kind in _TELLING:
                tells = at
            if judged.value.kind not in _PASSED_OVER:
                return Done(Newest(at, judged.value, says, tuple(sorted(gone)), tells))
            gone.update(filter(None, [judged.value.reverts]))
        if not at.parents or at.parents[0] == above:
            break
        below = yield from _read(target, at.parents[0], known)
        if not isinstance(below, Done):
            return below
        if below.value is None:
            break
        at = below.value
    return Done(Newest(gone=tuple(sorted(gone)), tells=tells))


def _read(target: Target, ref: CommitRef, known: Mapping[CommitRef, Commit]) -> Talk[Commit | None]:
    if ref in known:
        return Done(known[ref])
    return (yield from call(Store.look, target.repository, ref))


def publication(target: Target, commit: Commit, own_task: str) -> Talk[Judged]:
    """Say whose a commit is, and of which task."""
    message = commit.message
    if len(commit.parents) > 1:
        staged = yield from call(Store.look, target.repository, commit.parents[1])
        if not isinstance(staged, Done):
            return staged
        message = "" if staged.value is None else staged.value.message
    task = task_in(message)
    if task is None:
        return Done(Judged(Publication.STRANGERS))
    if task == own_task and not says_revert(message):
        return Done(Judged(Publication.OWN, task))
    claims = yield from call(Store.claims, target, task)
    if not isinstance(claims, Done):
        return claims
    for claim in claims.value:
        if claim.reverts is not None and published_by(commit, claim):
            return Done(Judged(Publication.REVERT, task, claim.reverts))
    return (yield from _accepted(commit, task, claims.value))


def _accepted(commit: Commit, task: str, claims: Iterable[Claim]) -> Talk[Judged]:
    """Ask whether a commit was accepted for any attempt that has claimed its task."""
    known = False
    for workflow_id, task_id in sorted({(claim.workflow_id, claim.task_id) for claim in claims}):
        reloaded = yield from call(Orchestrator.reload, workflow_id, task_id)
        if not isinstance(reloaded, Done):
            return reloaded
        snapshot = reloaded.value
        if snapshot is not None and snapshot.status is TaskStatus.COMPLETED and snapshot.result_ref == commit.ref:
            return Done(Judged(Publication.ACCEPTED, task))
        known = known or snapshot is not None
    return Done(Judged(Publication.UNACCEPTED if known else Publication.STRANGERS, task))
