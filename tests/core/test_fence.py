"""The publish fence: the head rule as a table, the clocks, what a plan says, and whose effect it was.

The owner rule is in ``test_owner``, maintenance in ``test_maintenance``.
"""

from __future__ import annotations

import pytest
from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from perago_core.fence import (
    Adopted,
    Allowed,
    Case,
    Conflicting,
    Decision,
    Late,
    Refused,
    Standing,
    Unneeded,
    compensate,
    decide,
    provably_ours,
    together,
    verified,
)
from perago_core.machine.rows import Command
from perago_core.names import commit_message, merge_message
from perago_core.plan import Along, Condition, PlanKind, PublishPlan
from perago_core.recovery import messages as recovery_messages
from perago_core.results import Classification
from perago_core.values import (
    Attempt,
    Backing,
    Beside,
    Claim,
    Commit,
    CommitRef,
    Head,
    Maintained,
    OnAbandoned,
    Operation,
    StagedBeside,
    StagedRef,
    Target,
    claim_of,
)
from tests.core.attempts import (
    CHILD,
    INPUT,
    ON_CHILD,
    ON_INPUT,
    ON_RECORD,
    TARGET,
    TREE,
    commit,
    head,
    make_attempt,
    older_claim,
    staged_ref,
)

STRONG = [backing for backing in Backing if backing is not Backing.SOFT]


def case(attempt: Attempt, seen: Head | None, *, changed: bool = True) -> Case:
    """Make a case in which the child of the input, if it is the head, is a dead older attempt's."""
    return Case(
        attempt=attempt,
        staged=staged_ref(attempt) if changed else None,
        head=seen,
        claims=(older_claim(attempt),),
        standings=(("task-1", Standing.DEAD),),
    )


def refused(decision: Decision) -> Classification:
    assert isinstance(decision, Refused)
    return decision.refusal.classification


def planned(decision: Decision) -> PublishPlan:
    assert isinstance(decision, Allowed)
    return decision.plan


# ---------------------------------------------------------------------------------------------------------------------
# The table of 2.5

DEPTH_2 = head("X", CHILD)
DIVERGED = head("X", "W")
BEHIND = head("root")
MERGED_IN = head("M", INPUT, "W")
MERGED_SECOND = head("M", "W", INPUT)

TABLE: list[tuple[str, Head | None, str, str]] = [
    # title, head, verdict with changes, verdict without
    ("1 missing", None, "target-missing", "target-missing"),
    ("2 dirty input", evolve(ON_INPUT, dirty=True), "target-dirty", "target-dirty"),
    ("2 dirty child", evolve(ON_CHILD, dirty=True), "target-dirty", "target-dirty"),
    ("3 input", ON_INPUT, "merge", "nothing"),
    ("3 input without parents", head(INPUT), "merge", "nothing"),
    ("4 and 5 abandoned child", ON_CHILD, "replace", "return"),
    ("8 input is the first of two parents", MERGED_IN, "head-merged", "head-merged"),
    ("8 input is the second of two parents", MERGED_SECOND, "head-merged", "head-merged"),
    ("9 two steps ahead", DEPTH_2, "head-elsewhere", "head-elsewhere"),
    ("9 diverged", DIVERGED, "head-elsewhere", "head-elsewhere"),
    ("9 behind, no parents", BEHIND, "head-elsewhere", "head-elsewhere"),
]


def verdict(decision: Decision) -> str:
    return decision.refusal.classification.value if isinstance(decision, Refused) else decision.verdict


@pytest.mark.clause("T-F5")
@pytest.mark.parametrize(("seen", "changed", "unchanged"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
@pytest.mark.parametrize("backing", Backing)
def test_decision_is_the_table(backing: Backing, seen: Head | None, changed: str, unchanged: str) -> None:
    """2.5, P-01, P-08, P-09, P-10, P-11, P-12, P-17, K-09, T-P9, T-F5, S-13, N-08: the same rows for every backing."""
    attempt = make_attempt(backing)
    assert verdict(decide(case(attempt, seen))) == changed
    assert verdict(decide(case(attempt, seen, changed=False))) == unchanged


@pytest.mark.clause("P-18")
def test_merge_goes_on_top_of_the_input_and_names_the_staged_commit() -> None:
    """P-08, P-18: history A -> P, expected head A."""
    plan = planned(decide(case(make_attempt(Backing.CONDITIONAL), ON_INPUT)))
    assert (plan.kind, plan.expected, plan.commit, plan.tree) == (PlanKind.MERGE, INPUT, "C", TREE)


def test_replacement_never_stacks_on_the_abandoned_commit() -> None:
    """P-10: history A -> C, never A -> H -> C: the staged commit, made on A, takes the place of H."""
    plan = planned(decide(case(make_attempt(), ON_CHILD)))
    assert (plan.kind, plan.expected, plan.commit, plan.tree) == (PlanKind.REPLACE, CHILD, "C", TREE)


def test_no_op_output_is_the_input_also_over_an_abandoned_publication() -> None:
    """P-09, P-11, S-06."""
    assert decide(case(make_attempt(), ON_INPUT, changed=False)) == Unneeded(INPUT)
    plan = planned(decide(case(make_attempt(), ON_CHILD, changed=False)))
    assert (plan.kind, plan.expected, plan.commit, plan.tree) == (PlanKind.RETURN, CHILD, INPUT, None)


@pytest.mark.clause("P-15")
def test_soft_replaces_any_direct_child_whoever_made_it() -> None:
    """P-15, K-08, 2.5 row 4: the seed's rule, with the hole the seed documents."""
    bare = Case(make_attempt(), staged_ref(make_attempt()), head("X", INPUT))
    assert planned(decide(bare)).kind is PlanKind.REPLACE


@pytest.mark.clause("L-03")
def test_refusal_names_expected_found_and_what_to_do() -> None:
    """P-12, P-36, L-03, L-10: both heads are named; the way out is a new workflow or a person."""
    decision = decide(case(make_attempt(), DEPTH_2))
    assert isinstance(decision, Refused)
    assert decision.refusal.expected == "head of repo/main to be A or its only parent to be A"
    assert decision.refusal.actual == "head X with parents [H]"
    assert decision.refusal.next_action.startswith("Start a new workflow from the current head")
    merged = decide(case(make_attempt(), MERGED_IN))
    assert isinstance(merged, Refused)
    assert merged.refusal.actual == "head M with parents [A, W]"


@pytest.mark.clause("P-14")
def test_decision_looks_at_one_commit_and_its_parents() -> None:
    """P-14, H-01, T-P4: there is nothing else of the history in a case, so no depth can cost a read.

    Only a task that declares a scope is told what lies between its input and the head.
    """
    assert [each.name for each in fields(Case)] == [
        "attempt",
        "staged",
        "head",
        "claims",
        "standings",
        "maintained",
        "preserved",
        "token",
        "now",
        "attempt_until",
        "lease_until",
        "output",
        "adopting",
        "between",
        "refused",
        "beside",
    ]
    assert [each.name for each in fields(Head)] == ["commit", "dirty"]


# ---------------------------------------------------------------------------------------------------------------------
# The clocks


@pytest.mark.clause("P-06")
@pytest.mark.parametrize("backing", STRONG)
def test_nothing_is_decided_past_the_attempts_own_deadline(backing: Backing) -> None:
    """P-06, architecture 5: late is not even reported, whatever the head shows; one moment earlier is in time."""
    for seen in (ON_INPUT, None, DIVERGED):
        on_time = evolve(case(make_attempt(backing), seen), now=8.9, attempt_until=9.0)
        late = evolve(on_time, now=9.0)
        assert not isinstance(decide(on_time), Late)
        decision = decide(late)
        assert isinstance(decision, Late)
        assert decision.refusal.classification is Classification.ATTEMPT_LATE


def test_soft_knows_no_local_deadline() -> None:
    """P-06: the seed's documented hole: the lease may lapse between the last fence and the publication."""
    late = evolve(case(make_attempt(), ON_INPUT), now=9.0, attempt_until=1.0, lease_until=0.0)
    assert planned(decide(late)).kind is PlanKind.MERGE


@pytest.mark.clause("S-24")
def test_lease_must_outlast_the_publish_request() -> None:
    """S-24, K-14, 2.8: ``deadline - now > publish timeout``, strictly; only under `locked`."""
    attempt = make_attempt(Backing.LOCKED)
    timeout = attempt.budget.publish_timeout
    short = evolve(case(attempt, ON_INPUT), now=1.0, lease_until=1.0 + timeout)
    assert refused(decide(short)) is Classification.LEASE_TOO_SHORT
    assert planned(decide(evolve(short, lease_until=1.1 + timeout))).kind is PlanKind.MERGE
    assert planned(decide(evolve(short, attempt=make_attempt(Backing.CONDITIONAL)))).kind is PlanKind.MERGE


# ---------------------------------------------------------------------------------------------------------------------
# Total, deterministic, blind to what people write

REFS = st.sampled_from([INPUT, CHILD, CommitRef("X"), CommitRef("M"), CommitRef("C")])
TREES = st.sampled_from([TREE, "tree-H", "tree-X"])
TIMES = st.sampled_from([0.0, 1.0, 5.0, 6.0, 10.0, float("inf")])
COMMITS = st.builds(Commit, ref=REFS, parents=st.lists(REFS, max_size=3).map(tuple), tree=TREES)
HEADS = st.none() | st.builds(Head, COMMITS, st.booleans())


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    ledger = draw(st.booleans())
    return make_attempt(
        draw(st.sampled_from(Backing)),
        ledger=ledger,
        operation=draw(st.sampled_from(Operation)),
        over_maintenance=ledger and draw(st.booleans()),
        adopts=draw(st.booleans()),
    )


@st.composite
def claims_of(draw: st.DrawFn, attempt: Attempt) -> Claim:
    return evolve(
        claim_of(attempt, None),
        task_id=draw(st.sampled_from(["task-1", "task-2", "task-3"])),
        number=draw(st.integers(0, 4)),
        execution=draw(st.sampled_from(["run-1", "run-2", "run-9"])),
        parent=draw(REFS),
        tree=draw(st.none() | TREES),
        result=draw(st.sampled_from([None, "{}", ON_RECORD])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Make any case over a small world, so that coincidences are frequent."""
    attempt = draw(attempts())
    standings = st.tuples(st.sampled_from(["task-1", "task-2", "task-3"]), st.sampled_from(Standing))
    return Case(
        attempt=attempt,
        staged=draw(st.none() | st.just(staged_ref(attempt))),
        head=draw(HEADS),
        claims=tuple(draw(st.lists(claims_of(attempt), max_size=3))),
        standings=tuple(draw(st.lists(standings, max_size=3))),
        maintained=tuple(draw(st.lists(st.builds(Maintained, REFS, REFS), max_size=3))),
        preserved=draw(st.booleans()),
        token=draw(st.none() | st.integers(0, 9)),
        now=draw(TIMES),
        attempt_until=draw(TIMES),
        lease_until=draw(TIMES),
        adopting=draw(st.booleans()),
    )


@pytest.mark.clause("S-14")
@given(cases())
def test_decide_is_total_and_deterministic(any_case: Case) -> None:
    """S-14, S-39: exactly one of merge, replace, return, nothing, adopt, refuse, late, and the same again."""
    decision = decide(any_case)
    assert isinstance(decision, Allowed | Unneeded | Adopted | Refused | Late)
    assert decision.verdict in {"merge", "replace", "return", "nothing", "adopt", "refuse", "late"}
    assert decide(any_case) == decision
    assert (decision.refusal is None) == isinstance(decision, Allowed | Unneeded | Adopted)


@pytest.mark.clause("S-14", "P-13")
@given(cases(), st.text(), st.lists(st.tuples(st.text(), st.text())).map(tuple))
def test_decision_never_reads_what_people_write(
    any_case: Case, message: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    """P-13, K-03, S-14, T-O1: scramble message and metadata of the head, and the decision is the same."""
    assert _said(any_case, message, metadata) == decide(any_case)


def _said(any_case: Case, message: str, metadata: tuple[tuple[str, str], ...] = ()) -> Decision:
    if any_case.head is None:
        return decide(any_case)
    scrambled = evolve(any_case.head.commit, message=message, metadata=metadata)
    return decide(evolve(any_case, head=evolve(any_case.head, commit=scrambled)))


@pytest.mark.clause("S-14", "P-13")
@given(cases(), st.booleans())
def test_what_a_head_says_of_itself_gives_no_right_and_can_only_take_one_away(any_case: Case, by_name: bool) -> None:
    """P-13, S-06: a head that says it is the own task's gains nothing; another's is not adopted and not replaced."""

    def message(task: str) -> str:
        attempt = evolve(any_case.attempt, logical_task=task)
        return merge_message(attempt.staging_name) if by_name else commit_message(task, 1, "task-1")

    silent = decide(any_case)
    assert _said(any_case, message(any_case.attempt.logical_task)) == silent
    heard = _said(any_case, message("another"))
    if any_case.attempt.backing is Backing.SOFT:
        assert heard == silent
    elif heard != silent:
        assert isinstance(heard, Refused)
        assert isinstance(silent, Adopted | Refused) or silent.verdict in {"replace", "return"}


@pytest.mark.clause("S-13")
@given(cases())
def test_what_is_allowed_rests_on_the_input_and_on_a_clean_head(any_case: Case) -> None:
    """S-13, S-16, P-10, P-15: whatever the case, a plan expects the head that was seen, which was acceptable."""
    decision = decide(any_case)
    attempt, seen = any_case.attempt, any_case.head
    assert not isinstance(decision, Conflicting), "only a declared scope can be in conflict"
    if isinstance(decision, Refused | Late):
        return
    assert seen is not None
    assert not seen.dirty
    if isinstance(decision, Unneeded):
        assert decision.output == INPUT or attempt.operation is Operation.MAINTENANCE
        return
    if isinstance(decision, Adopted):
        assert attempt.on_abandoned is OnAbandoned.ADOPT
        assert attempt.backing is not Backing.SOFT
        assert decision.ref == seen.commit.ref
        assert seen.commit.ref == INPUT or seen.commit.parents == (INPUT,)
        return
    assert not any_case.adopting, "whoever has not worked publishes nothing"
    plan = decision.plan
    assert plan.expected == seen.commit.ref
    if plan.kind is PlanKind.MERGE:
        assert seen.commit.ref == INPUT or attempt.over_maintenance
    else:
        assert seen.commit.parents == (INPUT,)
        assert attempt.operation is Operation.LOGICAL
    assert (plan.commit == INPUT) == (any_case.staged is None) == (plan.kind is PlanKind.RETURN)


# ---------------------------------------------------------------------------------------------------------------------
# What a plan says

CONDITIONS = {
    Backing.SOFT: Condition.NONE,
    Backing.ATOMIC: Condition.HEAD_AND_CLAIM,
    Backing.CONDITIONAL: Condition.HEAD,
    Backing.LOCKED: Condition.HEAD,
}


@pytest.mark.clause("H-18", "H-26")
@pytest.mark.parametrize(
    ("seen", "changed", "kind"),
    [(ON_INPUT, True, PlanKind.MERGE), (ON_CHILD, True, PlanKind.REPLACE), (ON_CHILD, False, PlanKind.RETURN)],
    ids=["merge", "replace", "return"],
)
@pytest.mark.parametrize("backing", Backing)
def test_plan_says_what_the_store_has_to_check(backing: Backing, seen: Head, changed: bool, kind: PlanKind) -> None:
    """H-11, H-18, H-26, P-17, W-02, T-O27, T-P11: condition, revocable name, claim, token, epoch, class, target."""
    attempt = make_attempt(backing)
    asked = evolve(case(attempt, seen, changed=changed), token=7)
    plan = planned(decide(asked))
    by_name = backing is not Backing.SOFT or kind is PlanKind.MERGE
    assert plan == PublishPlan(
        kind=kind,
        target=TARGET,
        expected=seen.commit.ref,
        commit=CommitRef("C") if changed else INPUT,
        condition=CONDITIONS[backing],
        name=attempt.staging_name if by_name else None,
        tree=TREE if changed else None,
        claim=claim_of(attempt, asked.staged) if backing is Backing.ATOMIC else None,
        token=7,
        epoch=3,
        operation=Operation.LOGICAL,
    )


@pytest.mark.clause("P-17", "H-25")
@given(cases())
def test_only_soft_publishes_without_a_condition(any_case: Case) -> None:
    """H-25, P-17, T-O16: a check made outside the store's own step is no fence, and only soft rests on one."""
    decision = decide(any_case)
    if isinstance(decision, Allowed):
        soft = any_case.attempt.backing is Backing.SOFT
        assert (decision.plan.condition is Condition.NONE) == soft
        assert (decision.plan.claim is not None) == (any_case.attempt.backing is Backing.ATOMIC)


# ---------------------------------------------------------------------------------------------------------------------
# Whose effect it was


def merge() -> PublishPlan:
    return planned(decide(case(make_attempt(Backing.CONDITIONAL), ON_INPUT)))


def replace() -> PublishPlan:
    return planned(decide(case(make_attempt(Backing.CONDITIONAL), ON_CHILD)))


def going_back() -> PublishPlan:
    return planned(decide(case(make_attempt(Backing.CONDITIONAL), ON_CHILD, changed=False)))


def test_publication_is_verified_by_its_place_and_its_content() -> None:
    """S-04, F-02, N-05, T-O1: one parent, the expected one, and the staged tree."""
    assert verified(merge(), commit("P", INPUT, tree=TREE))
    assert not verified(merge(), commit("P", "X", tree=TREE))
    assert not verified(merge(), commit("P", INPUT, "X", tree=TREE))
    assert not verified(merge(), commit("P", tree=TREE))
    assert not verified(merge(), commit("P", INPUT, tree="tree-X"))


def test_replacement_is_verified_by_being_the_staged_commit() -> None:
    """S-04: relocation makes no commit of its own."""
    assert verified(replace(), commit("C", INPUT, tree=TREE))
    assert not verified(replace(), commit("X", INPUT, tree=TREE))
    assert not verified(replace(), commit("C", INPUT, "X", tree=TREE))
    assert not verified(replace(), commit("C", INPUT, tree="tree-X"))


def test_return_is_verified_by_being_the_input() -> None:
    """P-11: also an input that has no parent; and nothing else."""
    assert verified(going_back(), ON_INPUT.commit)
    assert verified(going_back(), commit(INPUT))
    assert not verified(going_back(), ON_CHILD.commit)


def test_effect_is_ours_only_by_identity() -> None:
    """H-19, K-10, T-O1, architecture 5: parent and tree for a merge, the commit for a replacement, never a return."""
    ours = commit("P", INPUT, tree=TREE)
    assert provably_ours(merge(), ours)
    assert not provably_ours(merge(), commit("P", INPUT, tree="tree-X"))
    assert not provably_ours(merge(), commit("P", "X", tree=TREE))
    assert not provably_ours(merge(), commit("P", INPUT, "X", tree=TREE))
    assert not provably_ours(evolve(merge(), tree=None), ours)
    assert provably_ours(replace(), commit("C", INPUT, tree=TREE))
    assert not provably_ours(replace(), commit("X", INPUT, tree=TREE))
    assert not provably_ours(going_back(), ON_INPUT.commit)


def test_what_is_provably_ours_is_also_verified() -> None:
    """K-10: finding out by identity is never weaker than reading back."""
    for plan in (merge(), replace(), going_back()):
        for seen in (commit("P", INPUT, tree=TREE), commit("C", INPUT, tree=TREE), ON_INPUT.commit, ON_CHILD.commit):
            assert verified(plan, seen) or not provably_ours(plan, seen)


@pytest.mark.clause("R-15")
def test_recovery_can_neither_report_nor_publish_forward() -> None:
    """K-01, S-07, R-15: rolling forward is finishing the books of what the orchestrator accepted, and nothing else."""
    asked = {
        name for name, kind in vars(recovery_messages).items() if isinstance(kind, type) and issubclass(kind, Command)
    }
    assert asked >= {"Relocate", "Settle", "RecordAudit"}
    assert not {"Report", "Publish"} & asked
    assert compensate(TARGET, INPUT, ON_CHILD, None).kind is PlanKind.RETURN


@pytest.mark.clause("H-20")
def test_recovery_may_only_go_back_one_step() -> None:
    """K-02, H-20: from a direct, single-parent child to its parent, on condition of the head."""
    plan = compensate(TARGET, INPUT, ON_CHILD, "anchor")
    assert plan == PublishPlan(PlanKind.RETURN, TARGET, CHILD, INPUT, Condition.HEAD, name="anchor")
    for seen in (DEPTH_2, MERGED_IN, BEHIND, ON_INPUT):
        with pytest.raises(ValueError, match="only a direct, single-parent child of A can be taken back"):
            compensate(TARGET, INPUT, seen, None)


# ---------------------------------------------------------------------------------------------------------------------
# Several targets

OTHER, THIRD = Target("repo", "other"), Target("repo", "third")


def joint(*beside: Head | None, head: CommitRef = INPUT, parents: tuple[CommitRef, ...] = ()) -> Case:
    """An attempt at three targets that has staged for the first two, and what it sees of them."""
    attempt = evolve(
        make_attempt(backing=Backing.ATOMIC),
        on_abandoned=OnAbandoned.ADOPT,
        beside=(Beside(OTHER, CommitRef("B")), Beside(THIRD, CommitRef("D"))),
    )
    staged = StagedRef(
        attempt.target.repository,
        attempt.staging_name,
        CommitRef("C"),
        TREE,
        beside=(StagedBeside(OTHER, CommitRef("B1"), "tree-B1"),),
    )
    return Case(attempt, staged, Head(Commit(head, parents, "tree-A")), beside=beside)


def at(ref: str, *, dirty: bool = False) -> Head:
    return Head(Commit(CommitRef(ref), (), "tree"), dirty=dirty)


def test_several_targets_move_in_one_plan_and_one_that_is_unchanged_must_still_be_where_it_was() -> None:
    any_case = joint(at("B"), at("D"))
    plan = planned(decide(any_case))
    other, third = any_case.attempt.parts[1:]
    assert (plan.kind, plan.commit) == (PlanKind.MERGE, "C")
    assert plan.along == (
        Along(OTHER, CommitRef("B"), CommitRef("B1"), other.staging_name),
        Along(THIRD, CommitRef("D"), CommitRef("D"), third.staging_name),
    )


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ((at("B9"), at("D")), Classification.HEAD_ELSEWHERE),
        ((at("B"), at("D9")), Classification.HEAD_ELSEWHERE),
        ((None, at("D")), Classification.TARGET_MISSING),
        ((at("B"), at("D", dirty=True)), Classification.TARGET_DIRTY),
        ((at("B"),), Classification.TARGET_MISSING),
        ((), Classification.TARGET_MISSING),
    ],
)
def test_one_target_that_is_not_where_it_was_keeps_all_where_they_are(
    beside: tuple[Head | None, ...], why: Classification
) -> None:
    assert refused(decide(joint(*beside))) is why


def test_what_was_published_to_several_targets_is_adopted_or_refused_and_never_replaced() -> None:
    """Whose the commits on the further ones are no claim says: a child of the input there may be a stranger's."""
    abandoned = joint(at("B7"), at("D"), head=CHILD, parents=(INPUT,))
    mine = claim_of(abandoned.attempt, None)
    earlier = evolve(mine, number=0, task_id="t0", execution="e0", tree="tree-A", result=None)
    dead = (("t0", Standing.DEAD),)
    assert refused(decide(evolve(abandoned, claims=(earlier,), standings=dead))) is Classification.HEAD_NOT_REPLACEABLE
    adopted = decide(evolve(abandoned, claims=(evolve(earlier, result='{"rows":7}'),), standings=dead))
    assert adopted == Adopted(CHILD, "tree-A", '{"rows":7}')


def test_targets_go_back_together_by_the_anchor_of_each() -> None:
    head = Head(Commit(CHILD, (INPUT,), TREE))
    first, other = (compensate(target, INPUT, head, f"anchor-{target.branch}") for target in (TARGET, OTHER))
    assert together([first]) == first
    assert together([first, other]).along == (Along(OTHER, CHILD, INPUT, "anchor-other"),)
    with pytest.raises(ValueError, match="one has none"):
        together([first, evolve(other, name=None)])
