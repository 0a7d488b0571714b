"""Maintenance: content-preserving publications, and logical ones over them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import evolve

from perago_core.fence import Allowed, Case, Refused, Standing, Unneeded, decide, provably_ours, verified
from perago_core.plan import PlanKind
from perago_core.results import Classification
from perago_core.values import Attempt, Backing, CommitRef, Head, Maintained, Operation
from tests.core.attempts import INPUT, ON_CHILD, ON_INPUT, TREE, commit, head, make_attempt, older_claim, staged_ref


def maintaining(
    seen: Head, *, backing: Backing = Backing.CONDITIONAL, changed: bool = True, preserved: bool = True
) -> Case:
    attempt = make_attempt(backing, ledger=True, operation=Operation.MAINTENANCE)
    return Case(
        attempt,
        staged_ref(attempt) if changed else None,
        seen,
        claims=(older_claim(attempt),),
        standings=(("task-1", Standing.DEAD),),
        preserved=preserved,
    )


def over(seen: Head, *records: tuple[str, str], attempt: Attempt | None = None, changed: bool = True) -> Case:
    """Make a case with these maintenance records, each (parent, ref)."""
    asking = attempt or make_attempt(Backing.CONDITIONAL, ledger=True, over_maintenance=True)
    maintained = tuple(Maintained(CommitRef(parent), CommitRef(ref)) for parent, ref in records)
    staged = staged_ref(asking) if changed else None
    return Case(asking, staged, seen, maintained=maintained)


# ---------------------------------------------------------------------------------------------------------------------
# A maintenance publication


@pytest.mark.parametrize("backing", Backing)
def test_maintenance_advances_from_its_input(backing: Backing) -> None:
    """H-11, H-12: its class is part of the plan; on the input it merges like any other."""
    decision = decide(maintaining(ON_INPUT, backing=backing))
    assert isinstance(decision, Allowed)
    assert (decision.plan.kind, decision.plan.operation) == (PlanKind.MERGE, Operation.MAINTENANCE)


@pytest.mark.clause("S-35", "H-12", "H-23")
@pytest.mark.parametrize("backing", Backing)
def test_maintenance_whose_goal_is_met_succeeds_without_a_second_commit(backing: Backing) -> None:
    """H-12, H-23, S-35, T-O6: the head is where and what it wanted; the loser of the race returns success."""
    assert decide(maintaining(head("M", INPUT, tree=TREE), backing=backing)) == Unneeded(CommitRef("M"))


@pytest.mark.clause("S-35", "H-14")
@pytest.mark.parametrize("backing", Backing)
@pytest.mark.parametrize(
    "seen",
    [
        ON_CHILD,
        head("X", "W", tree=TREE),
        head("M", INPUT, "W", tree=TREE),
        head("root", tree=TREE),
    ],
    ids=["other content", "elsewhere", "merged", "behind"],
)
def test_maintenance_never_takes_a_commit_off_the_target(backing: Backing, seen: Head) -> None:
    """H-14, S-35: what a logical attempt may replace, maintenance leaves alone, also when it proves abandoned."""
    for changed in (True, False):
        decision = decide(maintaining(seen, backing=backing, changed=changed))
        assert isinstance(decision, Refused)
        assert decision.refusal.classification is Classification.HEAD_ADVANCED


@pytest.mark.clause("H-15")
@pytest.mark.parametrize("backing", Backing)
@pytest.mark.parametrize("seen", [ON_INPUT, head("M", INPUT, tree=TREE)], ids=["on the input", "goal met"])
def test_what_does_not_prove_that_content_is_preserved_is_no_maintenance(backing: Backing, seen: Head) -> None:
    """H-11, H-15: what a task calls itself proves nothing; without the comparison there is no plan."""
    decision = decide(maintaining(seen, backing=backing, preserved=False))
    assert isinstance(decision, Refused)
    assert decision.refusal.classification is Classification.CONTENT_NOT_PRESERVED
    assert "Declare the task as logical" in decision.refusal.next_action


def test_maintenance_with_nothing_to_do_on_its_input_is_a_no_op() -> None:
    """H-12, S-12."""
    assert decide(maintaining(ON_INPUT, changed=False)) == Unneeded(INPUT)


# ---------------------------------------------------------------------------------------------------------------------
# A logical publication over maintenance


@pytest.mark.clause("H-16")
def test_logical_change_is_published_on_top_of_proven_maintenance() -> None:
    """H-16, N-12: one record, two records; the expected head is the last, and no tree can be foretold."""
    for seen, records in (
        (head("M1", INPUT), [(INPUT, "M1")]),
        (head("M2", "M1"), [(INPUT, "M1"), ("M1", "M2")]),
        (head("M2", "M1"), [("M1", "M2"), ("M7", "M8"), (INPUT, "M1")]),
    ):
        decision = decide(over(seen, *records))
        assert isinstance(decision, Allowed)
        assert (decision.plan.kind, decision.plan.expected, decision.plan.tree) == (
            PlanKind.MERGE,
            seen.commit.ref,
            None,
        )
        assert verified(decision.plan, commit("P", seen.commit.ref, tree="whatever the merge gives"))
        assert not verified(decision.plan, commit("P", INPUT, tree=TREE))
        assert not provably_ours(decision.plan, commit("P", seen.commit.ref, tree=TREE))


def test_no_op_over_maintenance_leaves_it_alone() -> None:
    """H-16, S-06: nothing to do, the output is the input, the maintenance stays."""
    assert decide(over(head("M1", INPUT), (INPUT, "M1"), changed=False)) == Unneeded(INPUT)


@pytest.mark.clause("H-13")
@pytest.mark.parametrize(
    ("seen", "records"),
    [
        (head("L", "M1"), [(INPUT, "M1")]),
        (head("M1", "L"), [("L", "M1")]),
        (head("M1", INPUT), [(INPUT, "M9")]),
        (head("M1", "X"), []),
        (head("M2", "M1"), [("M1", "M2"), ("M2", "M1")]),
        (head("M1", "M1"), [("M1", "M1")]),
    ],
    ids=["logical on maintenance", "maintenance on logical", "another ref", "no record", "a circle", "its own parent"],
)
def test_logical_change_fails_on_any_advance_that_is_not_proven_maintenance(
    seen: Head, records: list[tuple[str, str]]
) -> None:
    """H-13, H-15, H-16, N-12, T-O14: a blanket refresh would be wrong; a gap or a circle proves nothing."""
    decision = decide(over(seen, *records))
    assert isinstance(decision, Refused)


@pytest.mark.clause("S-35", "H-16")
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_one_foreign_commit_anywhere_in_a_chain_of_maintenance_is_never_published_over(length: int) -> None:
    """H-13, H-16, N-12: A <- X (foreign) <- M (recorded): what is recorded above X says nothing about X.

    Records of other branches' maintenance stand beside those of the chain, so the walk does not end by running out.
    """
    chain = [INPUT, *(f"M{number}" for number in range(1, length + 1))]
    records = list(pairwise(chain))
    elsewhere = [(f"N{number}", f"N{number + 1}") for number in range(length)]
    seen = head(chain[-1], chain[-2])
    assert isinstance(decide(over(seen, *records, *elsewhere)), Allowed)
    for foreign in records:
        known = [each for each in records if each != foreign]
        for beside in ([], elsewhere, [("X", foreign[1])], [("X", foreign[1]), *elsewhere]):
            assert isinstance(decide(over(seen, *known, *beside)), Refused)


def test_going_over_maintenance_is_opt_in() -> None:
    """2.10, H-13, T-O14: the seed says "else fail", and so does the default, record or not."""
    attempt = make_attempt(Backing.CONDITIONAL, ledger=True)
    for seen, records in (
        (head("M1", INPUT), [(INPUT, "M1")]),
        (head("M2", "M1"), [(INPUT, "M1"), ("M1", "M2")]),
    ):
        assert isinstance(decide(over(seen, *records, attempt=attempt)), Refused)


def test_record_wins_over_any_marker() -> None:
    """H-15, P-13: what the commit says of itself is not read; what the ledger proves is."""
    claimed = evolve(head("M1", INPUT), commit=evolve(commit("M1", INPUT), metadata=(("operation", "maintenance"),)))
    assert isinstance(decide(over(claimed)), Refused)
    denied = evolve(head("M1", INPUT), commit=evolve(commit("M1", INPUT), metadata=(("operation", "logical"),)))
    assert isinstance(decide(over(denied, (INPUT, "M1"))), Allowed)


def test_only_the_ledger_proves_maintenance() -> None:
    """H-15: an attempt cannot want the one without having the other."""
    with pytest.raises(ValueError, match="over_maintenance needs ledger=True"):
        make_attempt(over_maintenance=True)


def test_maintenance_does_not_go_over_maintenance() -> None:
    """S-35: it starts again from the current head, so nothing is ever rewritten twice by one publication."""
    attempt = make_attempt(Backing.CONDITIONAL, ledger=True, over_maintenance=True, operation=Operation.MAINTENANCE)
    case = evolve(over(head("M1", INPUT), (INPUT, "M1"), attempt=attempt), preserved=True)
    decision = decide(case)
    assert isinstance(decision, Refused)
    assert decision.refusal.classification is Classification.HEAD_ADVANCED
