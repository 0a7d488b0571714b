"""Which run covers each crash window and each perturbation of the study, or why none can.

``WINDOWS`` goes by what an execution waits for when it is killed. The others name tests, as ``module::name`` under
``tests``; a test makes sure that they exist.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Which window of the study a kill falls into, by what the execution was waiting for when it died.
WINDOWS: Mapping[str, str] = {
    "FENCE_1": "CW-01 to CW-07",
    "STAGING": "CW-08",
    "UPLOAD": "CW-09, CW-10",
    "COMMIT": "CW-11, CW-12",
    "FENCE_2": "CW-13",
    "CLAIM": "CW-14",
    "CLAIMS": "CW-15",
    "OWNERS": "CW-15",
    "INTENTS": "CW-15",
    "LEASE": "CW-16",
    "TAKEOVER": "CW-16, CW-33",
    "FENCE_3": "CW-16, CW-33",
    "REVOCATION": "CW-16",
    "BARRIER": "CW-16",
    "INTENT": "CW-16",
    "HEAD": "CW-14, CW-17",
    "PUBLICATION": "CW-17, CW-25, N-04",
    "READ_BACK": "CW-18",
    "REPORT": "CW-18, CW-20, CW-25",
    "CONFIRMATION": "CW-21",
    "ACCEPTANCE": "CW-21",
    "SETTLEMENT": "CW-22",
    "CLEAN_UP": "CW-23, CW-24, CW-34",
}

#: The ones no call of an attempt can stand between, each with the reason or with who kills there.
ELSEWHERE: Mapping[str, str] = {
    "CW-19": "cannot occur: the staging name is deleted after the report, not between confirmation and report",
    "CW-26": "nothing to find: a read-only execution makes no call before its report",
    "CW-27": "recovery: core/test_recovery::test_a_record_that_vanishes_was_settled_by_somebody_else",
    "CW-28": "recovery: core/test_recovery::test_a_fault_at_any_single_call_changes_nothing_in_the_end",
    "CW-29": "recovery: "
    "core/test_recovery::test_a_rollback_that_died_anywhere_is_finished_without_moving_anything_else",
    "CW-30": "policy: core/test_policy::test_a_crash_between_probe_and_store_leaves_nothing",
    "CW-31": "policy: core/test_policy::test_auto_adopts_whatever_stands_without_a_probe",
    "CW-32": "cannot occur in the core: a probe is one call of the store, and its scratch is the adapter's own",
}

#: Where each perturbation that is not a crash is covered. "ladder" is ``specs/ladder.md``, explored anew each time.
PERTURBATIONS: Mapping[str, str] = {
    "N-01": "ladder, *duplicate delivery*: a second delivery at every point of the first; with another poll count: "
    "ladder, *requeued task*, and "
    "simulation/test_moves_of_the_orchestrator::test_a_requeued_task_is_told_apart_by_all_but_soft",
    "N-02": "ladder, *re-sent publication*, and "
    "simulation/test_moves_of_the_store::test_a_resent_publication_stacks_a_second_commit_where_nothing_refuses_it; "
    "a completion of another execution: "
    "core/test_attempt_interrupts::test_completion_of_another_execution_is_dropped",
    "N-03": "ladder, *pauses that resume*: publications of a given-up execution begin and land at every later point, "
    "its reports and clean-ups come at any later point",
    "N-04": "ladder, *pauses that resume*: one lost answer at any call, landed or not",
    "N-05": "every environment: the store begins again whenever the branch record has changed",
    "N-06": "every environment under `locked`: the lease expires at any time; the clocks: "
    "core/test_lease::test_two_never_believe_to_hold_one_lock_at_the_same_time",
    "N-07": "given up at any point, late results ignored: every environment with pauses; ladder, "
    "*terminated workflow*; rerun, also after acceptance: ladder, *rerun task*; requeued: ladder, *requeued task*; "
    "each move by itself: simulation/test_moves_of_the_orchestrator; a task that is gone: "
    "core/test_attempt_failures::test_attempt_that_is_gone_is_not_current",
    "N-08": "commit: ladder, *foreign writer*; true merge and reset back: ladder, *foreign merge and reset*; branch "
    "deleted and made anew at the same commit, uncommitted objects: ladder, *foreign deletion and writes*; each move "
    "by itself: simulation/test_moves_of_strangers; squash merge and revert are commits like any other, a reset to "
    "what is unrelated is a head that is no child of the input: core/test_fence; a branch protected meanwhile refuses "
    "the relocation: core/test_attempt_failures",
    "N-09": "core/test_policy::test_two_nodes_that_see_different_stores_agree",
    "N-10": "core/test_lease::test_two_never_believe_to_hold_one_lock_at_the_same_time",
    "N-11": "names and claims against live, slow and duplicate executions: ladder, *collector*, and "
    "simulation/test_moves_of_the_collector; data: "
    "simulation/test_moves_of_the_collector::test_data_that_waits_as_long_as_the_claims_is_never_missed; local "
    "directories belong to the runtime",
    "N-12": "core/test_maintenance",
    "N-13": "cannot occur in the machine: a stop request is no event of it (RT-9); it is the runtime's",
    "N-14": "cannot occur in the machine: it sees one read; a duty of the store (ST-1), for its conformance suite",
    "N-15": "simulation/test_explore::test_a_zombie_of_one_step_acts_during_the_next",
    "N-16": "core/test_values",
}
