"""Where each lesson went: T-O, T-W, T-P, T-F of the study and C1 to C11 of the peer, each as a mutant or with a reason.

The mutants name their lessons themselves (``historical``). What is here is about something else than the order and the
meaning of an attempt's steps: a test of the core names it, or it is a duty of an adapter or of the runtime.
"""

# ruff: noqa: E501  one lesson, one line
from __future__ import annotations

from collections.abc import Mapping

from perago_simulation.historical import BUGS

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
    "C7": "simulation/test_ladder::test_an_atomic_store_has_no_hole_at_all",
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
