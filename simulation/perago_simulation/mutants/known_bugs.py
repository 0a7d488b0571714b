"""Bugs that teams have had, written as mutants: the lessons T-O, T-W, T-P, T-F and the peer's C1 to C11, R1 and R2.

Each changes what an attempt learns, asks for or relies on, in the smallest way that gives the old bug back. Where each
lesson went that is no mutant here is said in ``ELSEWHERE``.
"""

# ruff: noqa: E501  one bug or lesson, one line
from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from perago_core.answers import Unknown
from perago_core.attempt import messages as m
from perago_core.attempt import table
from perago_core.plan import Condition, PlanKind
from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.mutants import wrong_actions as way
from perago_simulation.mutants import wrong_learning as lesson
from perago_simulation.mutants.wrong_actions import Make

_STRONG = (Backing.ATOMIC, Backing.CONDITIONAL, Backing.LOCKED)
_BY_NAME = (Backing.CONDITIONAL, Backing.LOCKED)
_ALL = tuple(Backing)


@frozen(repr=False)
class Bug(Value):
    """One bug: where it comes from, what it changes, the backings it concerns, and how to get a model that has it."""

    id: str
    lesson: str
    says: str
    backings: tuple[Backing, ...]
    make: Make


_RELOCATIONS = (PlanKind.REPLACE, PlanKind.RETURN)
_BY_ID = {"name": None}

# fmt: off
BUGS = (
    Bug("no anchor", "T-P10", "a no-op has no name and relocates by commit id", _BY_NAME, way.on(way.no_anchor)),
    Bug("relocate by id", "T-P11, C5", "a relocation names a commit, not the staging name", _BY_NAME, way.learning(m.HeadSeen, lesson.head_seen(plan=_BY_ID, kinds=_RELOCATIONS))),
    Bug("merge by id", "T-P11, C9", "a merge names a commit, not the staging name", _BY_NAME, way.learning(m.HeadSeen, lesson.head_seen(plan=_BY_ID, kinds=(PlanKind.MERGE,)))),
    Bug("owners all dead", "C6, T-O9", "the owner rule does not ask whether the owner has ended", _STRONG, way.learning(m.OwnersRead, lesson.owners_all_dead)),
    Bug("one owner", "T-O1", "the owner rule looks at one of several records with the same tree", _STRONG, way.learning(m.HeadSeen, lesson.head_seen(lesson.claims(lesson.only_one_owner)))),
    Bug("own claim counts", "L-03", "the owner rule counts the attempt's own record", _STRONG, way.learning(m.HeadSeen, lesson.head_seen(lesson.claims(lesson.own_counts)))),
    Bug("numbers ignored", "T-W5", "the owner rule lets an older attempt replace a newer one", _STRONG, way.learning(m.HeadSeen, lesson.head_seen(lesson.claims(lesson.numbers_ignored)))),
    Bug("no owner rule", "C1, C3", "any child of the input is taken for abandoned", _STRONG, way.learning(m.HeadSeen, lesson.head_seen(lesson.anybody_is_abandoned))),
    Bug("any descendant", "C5, T-O14", "the head rule accepts any descendant of the input", _ALL, way.learning(m.HeadSeen, lesson.head_seen(lesson.any_descendant))),
    Bug("first parent only", "C2, T-P9", "the head rule looks at the first parent and not at their number", _ALL, way.learning(m.HeadSeen, lesson.head_seen(lesson.first_parent_only))),
    Bug("claim only", "2.6", "a soft fence with claim and owner rule: the store checks nothing", _BY_NAME, way.store(revocable_names=False, barrier=False, conditional_merge=False)),
    Bug("always ours", "T-W9, S-05", "whatever is at the head after an unknown publication is called ours", _STRONG, way.learning(m.HeadSeen, lesson.always_ours)),
    Bug("ours by tree", "T-O1", "an equal tree is called ours, wherever it stands", _STRONG, way.learning(m.HeadSeen, lesson.ours_by_tree)),
    Bug("head only", "C.4", "compare-and-swap on the head, without the claim", (Backing.ATOMIC,), way.learning(m.HeadSeen, lesson.head_seen(plan={"condition": Condition.HEAD}))),
    Bug("compare-and-swap only", "C.4", "compare-and-swap on the head, without claim and owner rule", (Backing.ATOMIC,), way.on(way.cas_only)),
    Bug("sent again", "T-O5, N-02", "a publication without an answer is sent again", _ALL, way.on(way.sent_again)),
    Bug("looked for at the head", "T-O1", "a publication that was answered is looked for at the head, and an equal tree there is called ours", (Backing.SOFT,), way.on(way.looked_for_at_the_head)),
    Bug("claims released", "T-W10", "clean-up takes the claim away", _STRONG, way.ClaimsReleased),
    Bug("older claims raise", "T-W5", "the store lets an older attempt raise its claim over a newer one", (Backing.ATOMIC,), way.OlderClaimsRaise),
    Bug("claim by existence", "T-W9", "a claim that exists is taken for ours", _STRONG, way.on(way.existence_is_ours)),
    Bug("revoke everything", "T-O22", "newer names are revoked too, and our own", _BY_NAME, way.on(lambda: way.asking(table.revoke_older, way.revoke_everything))),
    Bug("revoke nothing", "C9", "the revocation names nobody", _BY_NAME, way.on(lambda: way.asking(table.revoke_older, way.revoke_nothing))),
    Bug("names not revocable", "T-F6, C9", "the store carries out requests whose name is gone", _BY_NAME, way.store(revocable_names=False)),
    Bug("hollow barrier", "T-F6, C9", "updates the store had begun outlive the barrier", _BY_NAME, way.store(barrier=False)),
    Bug("head not checked", "T-O16, C4", "the store does not check the expected head of a merge", (Backing.ATOMIC, Backing.CONDITIONAL), way.store(conditional_merge=False)),
    Bug("relocation not checked", "C5", "the store does not check the expected head of a relocation", (Backing.ATOMIC,), way.store(conditional_relocate=False)),
    Bug("claim not checked", "C6", "the store does not check the claim", (Backing.ATOMIC,), way.store(conditional_claim=False)),
    Bug("forgotten name", "T-P2", "a name whose making is in doubt is not cleaned up", _ALL, way.learning(Unknown, lesson.staging_refused)),
    Bug("reported first", "T-F3", "the result is reported before it is published", _ALL, way.on(way.reported_first)),
    Bug("lease always released", "T-W14", "the lease is released although the publication's fate is open", (Backing.LOCKED,), way.on(lambda: way.asking(table.clean_up, way.release_always))),
    Bug("target written", "P-24, S-11", "the staging name is the target itself", _ALL, way.on(lambda: way.asking(table.open_staging, way.open_the_target))),
    Bug("refusal completed", "P-22", "who refuses the head reports the input as if all were well", _ALL, way.on(way.refusal_completed)),
    Bug("another's name", "T-P1", "clean-up guesses the name, and removes the first execution's", _ALL, way.on(lambda: way.asking(table.clean_up, way.clean_up_another))),
    Bug("eager collector", "T-O23", "names of attempts at work are collected", _ALL, way.EagerCollector),
    Bug("claims collected early", "T-W10", "the claim of any attempt that has ended is collected", _STRONG, way.collecting_early),
    Bug("asks for ever", "R2", "a stale attempt asks again until it is current", _ALL, way.on(way.asks_until_current)),
    Bug("waits for ever", "R1", "a busy lease is asked for again and again, and none expires", (Backing.LOCKED,), lambda setting: way.ImmortalLease(setting, way.waits_for_the_lease())),
    Bug("lease kept", "T-W16", "the lease is never released", (Backing.LOCKED,), way.on(lambda: way.asking(table.clean_up, way.release_never))),
)
# fmt: on


# Where the other lessons went: they are about something else than the order and the meaning of an attempt's steps, so a
# test of the core names each, or it is a duty of an adapter or of the runtime.


#: Every lesson there is.
LESSONS: tuple[str, ...] = (
    *(f"T-O{number}" for number in range(1, 29)),
    *(f"T-W{number}" for number in range(1, 18)),
    *(f"T-P{number}" for number in range(1, 13)),
    *(f"T-F{number}" for number in range(1, 7)),
    *(f"C{number}" for number in range(1, 12)),
)

# fmt: off
#: By lesson, the test that looks after it, as ``directory/module::name``.
TESTED: Mapping[str, str] = {
    "T-O2": "core/test_recovery::test_going_back_shows_the_movement_and_leaves_the_authoritys_view",
    "T-O3": "core/test_recovery::test_accepted_while_only_armed_is_rolled_forward",
    "T-O4": "core/test_ledger::test_a_partly_published_intent_is_never_confirmed",
    "T-O6": "core/test_ledger::test_the_first_settlement_stands",
    "T-O7": "core/test_recovery::test_two_sweeps_at_once_both_end_with_one_audit",
    "T-O8": "core/test_recovery::test_recovery_looks_at_the_intents_own_branch",
    "T-O10": "core/test_recovery::test_a_record_that_vanishes_was_settled_by_somebody_else",
    "T-O11": "core/test_recovery::test_a_confirmation_that_lands_after_the_listing_is_seen",
    "T-O12": "core/test_attempt_failures::test_intent_that_was_armed_is_settled_when_nothing_was_published",
    "T-O13": "core/test_recovery::test_the_advised_action_helps",
    "T-O15": "core/test_attempt_paths::test_named_fresh_reads_are_made_as_often_as_documented_and_nothing_else_is_read_again",
    "T-O17": "core/test_driver::test_meter_counts_operations_apart_from_hops",
    "T-O18": "core/test_driver::test_meter_counts_operations_apart_from_hops",
    "T-O19": "core/test_structure::test_a_failpoint_of_a_call_that_does_not_exist_is_refused",
    "T-O21": "core/test_recovery::test_a_branch_that_went_back_or_vanished_is_kept_for_a_person",
    "T-O24": "core/test_ledger::test_arming_survives_a_lost_answer",
    "T-O25": "core/test_attempt_paths::test_every_row_is_fired_by_some_way",
    "T-O26": "core/test_recovery::test_going_back_shows_the_movement_and_leaves_the_authoritys_view",
    "T-O27": "core/test_ledger::test_an_armed_intent_is_found_under_each_of_its_targets_and_no_other",
    "T-O28": "core/test_recovery::test_a_fault_at_any_single_call_changes_nothing_in_the_end",
    "T-W1": "core/test_policy::test_silence_never_becomes_disproof",
    "T-W2": "core/test_policy::test_nobody_decides_without_having_read",
    "T-W3": "core/test_lease::test_lost_is_immediate_absorbing_and_asks_for_nothing",
    "T-W4": "core/test_lease::test_a_token_that_was_taken_by_another_is_a_loss",
    "T-W6": "core/test_lease::test_wanting_to_release_ends_the_hold_at_once",
    "T-W7": "core/test_policy::test_the_stored_decision_is_read_again_before_each_probe",
    "T-W8": "core/test_attempt_interrupts::test_interruption_changes_nothing_once_the_result_is_on_its_way",
    "T-W11": "core/test_lease::test_a_release_after_a_successor_took_over_is_quiet_and_touches_nothing",
    "T-W12": "core/test_lease::test_two_executions_in_one_process_contend_like_two_processes",
    "T-W13": "core/test_lease::test_the_constants_are_the_documented_ones",
    "T-P3": "core/test_names::test_name_has_only_letters_digits_underscore_and_dash",
    "T-P4": "core/test_driver::test_costs_are_flat_in_history_branches_and_settled_intents",
    "T-P5": "core/test_values::test_a_budget_is_refused_or_sound_and_never_changed",
    "T-P6": "core/test_attempt_interrupts::test_completion_of_another_execution_is_dropped",
    "T-P8": "core/test_attempt_paths::test_upload_that_leaves_nothing_to_commit_is_a_no_op",
    "T-P12": "core/test_attempt_order::test_output_is_the_input_or_what_this_execution_published",
    "T-F1": "core/test_policy::test_a_disproof_is_not_asked_again",
    "T-F5": "core/test_fence::test_decision_is_the_table",
    "C7": "simulation/test_ladder::test_an_atomic_store_has_no_hole_within_a_workflow",
    "C8": "simulation/test_properties::test_every_property_notices_a_mutant_by_itself",
    "C11": "core/test_attempt_failures::test_failure_is_reported_as_failed_and_nothing_is_published",
}

#: By lesson, why it is nobody's here.
ELSEWHERE: Mapping[str, str] = {
    "T-O20": "about tests: every schedule here is a list of choices, and none waits for a clock",
    "T-W15": "a duty of adapters: a fresh request id for each call, answers with an old one are dropped",
    "T-W17": "a duty of adapters: the coordination client is built from its own settings and nothing ambient",
    "T-P7": "a duty of the workspace adapter: a sweep takes nothing that belongs to a live owner",
    "T-F2": "a duty of the store's adapter: its probe and its staging refuse a tree without the hook",
    "T-F4": "a duty of the runtime (heartbeats go on until the report is answered); the worlds time an attempt out at any point, the report included",
    "C10": "a duty of the store's adapter: its probe tries a relocation on the target (P-34)",
}
# fmt: on


def mutants_of(lesson: str) -> tuple[str, ...]:
    """Name the mutants that give a lesson's bug back."""
    return tuple(bug.id for bug in BUGS if lesson in bug.lesson.split(", "))
