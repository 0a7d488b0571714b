"""Whether a branch holds what was accepted: every result, in the order of acceptance, once, and nothing between.

The judge of ``perago verify``. It compares what the servers said and asks nobody. Whose commit one is that nobody
accepted, the claims say; its own words are heard only where it has the tree of a claim and not its place, and of
what unaccepted work it was published above.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from itertools import pairwise

from attrs import field, frozen

from perago_core.fence import published_by, reverted
from perago_core.names import over_in, task_id_in
from perago_core.value import Value, a, count, flag, line, many, text
from perago_core.values import Claim, Commit, CommitRef, Target


class Kind(Enum):
    """What a commit of the branch is."""

    ACCEPTED = "accepted"
    UNDER_WAY = "under way"
    KEPT = "never accepted, and kept by a person"
    UNACCEPTED = "never accepted"
    REVERTED = "never accepted, and reverted"
    REVERT = "the revert of what nobody accepted"
    STRANGER = "a stranger's"
    EARLIER = "before the first accepted result"


@frozen(cache_hash=True, repr=False)
class Accepted(Value):
    """A result that counts: of which task, with which commit, and when.

    ``made``: the task made that commit. One that changed nothing is accepted with its input, which may be any older
    commit, and any number of tasks may be.
    """

    task_id: str = field(validator=text)
    logical_task: str = field(validator=text)
    ref: CommitRef = field(validator=text)
    at: int = field(validator=count)
    made: bool = field(default=True, validator=flag)


@frozen(cache_hash=True, repr=False)
class Facts(Value):
    """What the servers said. ``commits`` begin with the head; ``whole``: the walk did not end at its limit.

    ``accepted`` are in the order of acceptance. ``open_tasks`` are those of the claims that are not over. ``kept`` are
    commits which nobody accepted and a person keeps. ``bases``: each commit that joins work onto what others have
    published, with the commit which that work was made from.
    """

    target: Target = field(validator=a(Target))
    commits: tuple[Commit, ...] = field(validator=many(a(Commit)))
    whole: bool = field(validator=flag)
    accepted: tuple[Accepted, ...] = field(validator=many(a(Accepted)))
    claims: tuple[Claim, ...] = field(default=(), validator=many(a(Claim)))
    open_tasks: frozenset[str] = field(default=frozenset[str](), validator=a(frozenset))
    kept: frozenset[CommitRef] = field(default=frozenset[CommitRef](), validator=a(frozenset))
    bases: tuple[tuple[CommitRef, CommitRef], ...] = field(default=(), validator=many(a(tuple)))


@frozen(cache_hash=True, repr=False)
class Finding(Value):
    """One commit, what it is, and whose."""

    commit: Commit = field(validator=a(Commit))
    kind: Kind = field(validator=a(Kind))
    whose: str = field(default="", validator=line)


@frozen(cache_hash=True, repr=False)
class Verdict(Value):
    """Every commit that was judged, the head first, and one sentence for each broken promise."""

    findings: tuple[Finding, ...] = field(validator=many(a(Finding)))
    broken: tuple[str, ...] = field(validator=many(text))


def judge(facts: Facts) -> Verdict:
    """Compare what was accepted with what is there."""
    places = {commit.ref: number for number, commit in enumerate(facts.commits)}
    broken: list[str] = []
    for each in facts.accepted:
        if each.ref not in places:
            unread = "" if facts.whole else f" within the {len(facts.commits)} commits that were read"
            broken.append(
                f"lost: task {each.task_id} was accepted with {each.ref}, which is not on {facts.target}{unread}"
            )
    there = [each for each in facts.accepted if each.ref in places]
    made = [each for each in there if each.made]
    for before, after in pairwise(made):
        # Not what says so itself: it was published above work that was not accepted yet.
        stacked = after.ref in over_in(facts.commits[places[before.ref]].message)
        if places[after.ref] > places[before.ref] and not stacked:
            broken.append(f"out of order: {after.ref} was accepted after {before.ref} and lies before it")
    gone = reverted(facts.commits, facts.claims)
    broken += [f"reverted: task {each.task_id} was accepted with {each.ref}" for each in there if each.ref in gone]
    oldest = max((places[each.ref] for each in there), default=-1)
    refs = {each.ref: each for each in (*there, *made)}
    findings = tuple(
        _reverted(facts, commit, gone) or _judged(facts, commit, refs, older=number > oldest)
        for number, commit in enumerate(facts.commits)
    )
    broken += [_unaccepted(facts, each, made) for each in findings if each.kind is Kind.UNACCEPTED]
    return Verdict(findings, (*broken, *_elsewhere(facts, places, made), *_twice(made)))


def _elsewhere(facts: Facts, places: Mapping[CommitRef, int], made: Iterable[Accepted]) -> tuple[str, ...]:
    """Name what was joined onto a branch that does not hold what it was made from.

    A three-way merge then takes a base below that, and brings back what had been taken off. How far down a walk that
    is not whole would have to go is not known, so such a one accuses nobody.
    """
    bases = dict(facts.bases)
    below = {each.ref: bases[each.ref] for each in made if each.ref in bases}
    return tuple(
        f"elsewhere: {ref} on {facts.target} was made from {base}, which is not below it"
        for ref, base in below.items()
        if places.get(base, -1) <= places[ref] and (base in places or facts.whole)
    )


def _reverted(facts: Facts, commit: Commit, gone: Collection[CommitRef]) -> Finding | None:
    """Judge what counts as absent: a publication that was reverted, and what reverts it."""
    for claim in facts.claims:
        if published_by(commit, claim) and (claim.reverts is not None or commit.ref in gone):
            return Finding(commit, Kind.REVERTED if claim.reverts is None else Kind.REVERT, claim.logical_task)
    return None


def _judged(facts: Facts, commit: Commit, accepted: Mapping[CommitRef, Accepted], *, older: bool) -> Finding:
    found = accepted.get(commit.ref)
    if found is not None:
        return Finding(commit, Kind.ACCEPTED, found.logical_task)
    if commit.ref in facts.kept:
        return Finding(commit, Kind.KEPT)
    for claim in facts.claims:
        # A publication that landed a second time has the tree and the words of the first, and another parent.
        # Counterexample to the tree alone, seen: a stranger committed without a change, and it "was there twice".
        again = not older and task_id_in(commit.message) == claim.task_id
        made = claim.tree == commit.tree and (claim.parent in commit.parents or again)
        if made or published_by(commit, claim):
            kind = Kind.UNDER_WAY if claim.task_id in facts.open_tasks else Kind.UNACCEPTED
            return Finding(commit, kind, claim.logical_task)
    return Finding(commit, Kind.EARLIER if older else Kind.STRANGER)


def _unaccepted(facts: Facts, finding: Finding, made: Iterable[Accepted]) -> str:
    twice = [each.ref for each in made if each.logical_task == finding.whose]
    also = f"; the result that was accepted is there as well, so {finding.whose} is there twice" if twice else ""
    return f"never accepted: {finding.commit.ref} on {facts.target} was made for {finding.whose}{also}"


def _twice(made: Iterable[Accepted]) -> tuple[str, ...]:
    """Name tasks of which two results count."""
    found: dict[str, CommitRef] = {}
    broken: list[str] = []
    for each in made:
        first = found.setdefault(each.logical_task, each.ref)
        if first != each.ref:
            broken.append(f"twice: {each.logical_task} was accepted with {first} and with {each.ref}")
    return tuple(broken)
