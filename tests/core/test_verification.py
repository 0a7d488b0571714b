"""The judge of a branch: each sentence of the promise can be falsified."""

from __future__ import annotations

import pytest
from attrs import evolve

from perago_core.names import commit_message, over_message
from perago_core.values import Claim, Commit, CommitRef, Target
from perago_core.verification import Accepted, Facts, Kind, judge

MAIN = Target("lake", "main")


def ref(name: str) -> CommitRef:
    return CommitRef(name)


def commit(name: str, *parents: str, tree: str = "", message: str = "") -> Commit:
    return Commit(ref(name), tuple(ref(each) for each in parents), tree or f"tree of {name}", message)


def claim(task: str, number: int, parent: str, made: str) -> Claim:
    return Claim(
        MAIN, f"w/{task}", "w", f"{task}-{number}", number, f"e-{task}-{number}", ref(parent), f"tree of {made}"
    )


def accepted(task: str, number: int, made: str, at: int) -> Accepted:
    return Accepted(f"{task}-{number}", f"w/{task}", ref(made), at)


#: Two steps, each accepted at its first attempt, on a branch that had a commit before.
GOOD = Facts(
    MAIN,
    (commit("c2", "c1"), commit("c1", "base"), commit("base")),
    whole=True,
    accepted=(accepted("one", 1, "c1", 1), accepted("two", 1, "c2", 2)),
    claims=(claim("one", 1, "base", "c1"), claim("two", 1, "c1", "c2")),
)


def kinds(facts: Facts) -> list[Kind]:
    return [each.kind for each in judge(facts).findings]


def test_what_was_accepted_is_there_in_order_once_and_nothing_else() -> None:
    assert judge(GOOD).broken == ()
    assert kinds(GOOD) == [Kind.ACCEPTED, Kind.ACCEPTED, Kind.EARLIER]


def test_a_lost_accepted_result_is_named() -> None:
    lost = evolve(GOOD, commits=GOOD.commits[1:])
    (sentence,) = judge(lost).broken
    assert sentence.startswith("lost: task two-1 was accepted with c2")
    (unread,) = judge(evolve(lost, whole=False)).broken
    assert "within the 2 commits that were read" in unread


def test_results_out_of_order_are_named() -> None:
    turned = evolve(GOOD, accepted=GOOD.accepted[::-1])
    (sentence,) = judge(turned).broken
    assert sentence == "out of order: c1 was accepted after c2 and lies before it"


def test_a_result_accepted_last_may_lie_below_one_that_says_it_was_published_above_it() -> None:
    """It is the dead writer's, adopted later: the other one has stacked on it, and named it."""
    above = evolve(GOOD.commits[0], message=over_message("w/two attempt 1 (two-1)", ("c1",)))
    turned = evolve(GOOD, accepted=GOOD.accepted[::-1], commits=(above, *GOOD.commits[1:]))
    assert judge(turned).broken == ()


def test_who_changed_nothing_may_be_accepted_with_any_older_commit() -> None:
    reader = evolve(accepted("reader", 1, "c1", 3), made=False)
    assert judge(evolve(GOOD, accepted=(*GOOD.accepted, reader))).broken == ()


def test_an_unaccepted_commit_between_is_named() -> None:
    """The dead first attempt of a task that never came to an end."""
    commits = (commit("c2", "x1"), commit("x1", "c1"), *GOOD.commits[1:])
    between = evolve(GOOD, commits=commits, claims=(*GOOD.claims, claim("other", 1, "c1", "x1")))
    assert judge(between).broken == ("never accepted: x1 on lake/main was made for w/other",)
    assert kinds(between)[1] is Kind.UNACCEPTED
    assert judge(evolve(between, open_tasks=frozenset({"other-1"}))).broken == (), "it is under way"
    assert judge(evolve(between, kept=frozenset({ref("x1")}))).broken == (), "a person has kept it"


@pytest.mark.parametrize("below", [True, False])
def test_a_result_that_is_there_twice_is_named(*, below: bool) -> None:
    """The dead first attempt's commit under the accepted one; or the accepted one, landed a second time on top."""
    if below:
        commits = (commit("c2", "x1"), commit("x1", "c1"), *GOOD.commits[1:])
        doubled = evolve(GOOD, commits=commits, claims=(*GOOD.claims, claim("two", 1, "c1", "x1")))
    else:
        again = commit("x1", "c2", tree="tree of c2", message=commit_message("w/two", 1, "two-1"))
        doubled = evolve(GOOD, commits=(again, *GOOD.commits))
    (sentence,) = judge(doubled).broken
    assert "x1" in sentence
    assert "w/two is there twice" in sentence


def test_a_task_of_which_two_results_count_is_named() -> None:
    again = evolve(
        GOOD,
        commits=(commit("c3", "c2"), *GOOD.commits),
        accepted=(*GOOD.accepted, accepted("two", 2, "c3", 3)),
        claims=(*GOOD.claims, claim("two", 2, "c2", "c3")),
    )
    assert judge(again).broken == ("twice: w/two was accepted with c2 and with c3",)


def test_a_strangers_commit_is_named_and_breaks_nothing() -> None:
    commits = (commit("c2", "s1"), commit("s1", "c1"), *GOOD.commits[1:])
    strange = evolve(GOOD, commits=commits)
    assert judge(strange).broken == ()
    assert kinds(strange)[1] is Kind.STRANGER


@pytest.mark.parametrize("message", ["empty", "Revert of mine", commit_message("w/three", 1, "three-1")])
def test_a_stranger_may_commit_without_a_change_or_bring_back_what_was_there(message: str) -> None:
    """Counterexample, seen in a burn: ``git commit --allow-empty``, and an accepted result was said to be there twice.

    Only who has the words of the publication as well has landed twice, see above.
    """
    mine, back = commit("s1", "c2"), commit("s2", "s1", tree="tree of c2", message=message)
    for commits in ((commit("s1", "c2", tree="tree of c2", message=message),), (back, mine)):
        strange = evolve(GOOD, commits=(*commits, *GOOD.commits))
        assert judge(strange).broken == ()
        assert kinds(strange)[0] is Kind.STRANGER


# ---------------------------------------------------------------------------------------------------------------------
# Tasks with a scope, whose work is joined onto what others have published


def _scoped(task: str, staged: str) -> Claim:
    return evolve(claim(task, 1, "base", f"nothing of {task}"), staged=ref(staged))


#: Both made from the same commit; the second is joined onto the first, with a tree that no claim names.
SHARED = Facts(
    MAIN,
    (commit("c2", "c1", "s2"), commit("c1", "base", "s1"), commit("base")),
    whole=True,
    accepted=(accepted("one", 1, "c1", 1), accepted("two", 1, "c2", 2)),
    claims=(_scoped("one", "s1"), _scoped("two", "s2")),
    bases=((ref("c2"), ref("base")), (ref("c1"), ref("base"))),
)


def test_work_joined_onto_that_of_others_is_there_in_order_and_once() -> None:
    assert judge(SHARED).broken == ()
    assert kinds(SHARED) == [Kind.ACCEPTED, Kind.ACCEPTED, Kind.EARLIER]


def test_a_joined_commit_that_nobody_accepted_is_known_by_its_second_parent() -> None:
    (sentence,) = judge(evolve(SHARED, accepted=SHARED.accepted[1:])).broken
    assert sentence == "never accepted: c1 on lake/main was made for w/one"
    under_way = evolve(SHARED, accepted=SHARED.accepted[:1], open_tasks=frozenset({"two-1"}))
    assert kinds(under_way)[0] is Kind.UNDER_WAY


@pytest.mark.parametrize("base", ["gone", "c2"])
def test_a_joined_commit_whose_input_is_not_below_it_is_named(base: str) -> None:
    """Its input was taken off the branch; lakeFS merges from below it, and brings back what was removed."""
    wrong = evolve(SHARED, bases=((ref("c1"), ref(base)),))
    assert judge(wrong).broken == (f"elsewhere: c1 on lake/main was made from {base}, which is not below it",)


def test_what_a_walk_that_ended_early_has_not_seen_accuses_nobody() -> None:
    assert judge(evolve(SHARED, whole=False, bases=((ref("c1"), ref("gone")),))).broken == ()
