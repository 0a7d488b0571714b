"""The register: every clause S-01 to S-40 and L-01 to L-10 exactly once, and who looks after it.

A clause is looked after by explored properties (``explored``, ids of ``JUDGED`` and of ``liveness.LEADS``), by clauses
on the order of steps (``order``, ids of ``structure.CLAUSES``, which hold on every way through the table), by named
tests (``tests``, as ``directory/module::name``), or by somebody outside this project's reach (``elsewhere`` says who).
"""

# ruff: noqa: E501  one clause, a few lines
from __future__ import annotations

from enum import Enum

from attrs import frozen

from perago_core.value import Value
from perago_simulation.properties.conduct import CONDUCT
from perago_simulation.properties.leftovers import LEFTOVERS
from perago_simulation.properties.safety import PROPERTIES, Property

#: Everything that is judged in a world. Conduct first: it shows a mistake before the branch does.
JUDGED: tuple[Property, ...] = (*CONDUCT, *LEFTOVERS, *PROPERTIES)


class Kind(Enum):
    """When a clause holds: in every world, once nothing is left to do, in the end, or by how the code is made."""

    ALWAYS = "always"
    AT_REST = "at rest"
    EVENTUALLY = "eventually"
    STRUCTURAL = "structural"


@frozen(repr=False)
class Clause(Value):
    """One clause of the protocol, and who looks after it."""

    id: str
    says: str
    kind: Kind
    explored: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    elsewhere: str = ""


A, R, E, S = Kind.ALWAYS, Kind.AT_REST, Kind.EVENTUALLY, Kind.STRUCTURAL

#: The machines of a cluster (policy, lease, recovery), explored as processes that share a store.
_CLUSTER = "simulation/test_cluster::test_exactly_the_known_promises_break"

# fmt: off
REGISTER = (
    Clause("S-01", "Every accepted result stays on the branch.", A, ("S-01",)),
    Clause("S-02", "At rest at most one abandoned publication lies above what was accepted, and none once the workflow is done.", R, ("S-02", "S-02b")),
    Clause("S-03", "No unaccepted commit lies inside accepted history.", A, ("S-03",)),
    Clause("S-04", "A publication stands directly on its input.", A, ("S-04", "S-04b")),
    Clause("S-05", "No success is reported out of doubt.", A, ("S-05",), ("S-05b",),
           ("core/test_attempt_order::test_completed_is_never_said_out_of_uncertainty",)),
    Clause("S-06", "An output is the input, or what the reporting execution made.", A, ("S-06", "S-06b")),
    Clause("S-07", "Nobody but the live execution reports for an attempt; recovery cannot.", S, order=("S-07",),
           tests=("core/test_recovery::test_no_recovery_command_is_a_report", "core/test_attempt_interrupts::test_an_attempt_that_has_ended_takes_nothing_more")),
    Clause("S-08", "Every publication follows an attempt fence later than its name.", S, order=("S-08", "S-08a", "S-08b", "S-08c"),
           tests=("core/test_attempt_order::test_every_publication_follows_a_fence_later_than_its_name_and_its_commit",)),
    Clause("S-09", "Nothing is asked between observing the head and sending the plan.", S, order=("S-09",),
           tests=("core/test_attempt_order::test_nothing_comes_between_observing_the_head_and_sending_the_plan", "core/test_recovery::test_nothing_comes_between_the_last_look_and_the_move")),
    Clause("S-10", "A read-only execution touches nothing.", S,
           tests=("core/test_attempt_order::test_read_only_asks_for_nothing_but_its_body", "core/test_driver::test_read_only_task_touches_nothing")),
    Clause("S-11", "No object write, delete or commit names the target branch.", S, ("S-11",)),
    Clause("S-12", "A no-op makes no commit.", A, ("S-12",),
           tests=("core/test_attempt_order::test_no_op_never_commits_and_never_moves_the_target_to_anything_but_the_input",)),
    Clause("S-13", "Who refuses the head leaves it alone and has no output.", A, ("S-13",),
           tests=("core/test_fence::test_what_is_allowed_rests_on_the_input_and_on_a_clean_head",)),
    Clause("S-14", "The decision is total and deterministic, and reads nothing that people write.", S,
           tests=("core/test_fence::test_decide_is_total_and_deterministic", "core/test_fence::test_decision_never_reads_what_people_write")),
    Clause("S-15", "A stranger's commit stays on the branch.", A, ("S-15",)),
    Clause("S-16", "No relocation is sent over what may be alive.", A, ("S-16",),
           tests=("core/test_owner::test_older_owner_must_be_dead",)),
    Clause("S-17", "At most one execution of a task publishes.", A, ("S-17",)),
    Clause("S-18", "An intent is durable before its publication is sent, and no open one is passed.", A, ("S-18",), ("S-18b",)),
    Clause("S-19", "An intent is settled for what it is.", A, ("S-19",),
           tests=("core/test_recovery::test_what_the_authority_accepted_must_be_what_is_there",)),
    Clause("S-20", "Several targets of one intent are settled together or not at all.", A,
           tests=(_CLUSTER, "core/test_recovery::test_several_targets_are_settled_together_or_not_at_all", "core/test_ledger::test_a_settlement_names_every_target")),
    Clause("S-21", "Settlement is monotone and idempotent, with one audit record.", A,
           tests=(_CLUSTER, "core/test_ledger::test_the_first_settlement_stands", "core/test_recovery::test_a_fault_at_any_single_call_changes_nothing_in_the_end", "core/test_recovery::test_any_interleaving_of_three_sweeps_agrees_on_one_kind")),
    Clause("S-22", "Recovery that only settles leaves the living alone and moves nothing.", A,
           tests=(_CLUSTER, "core/test_recovery::test_a_live_owner_is_left_alone", "core/test_recovery::test_the_decision_table_holds_for_every_combination")),
    Clause("S-23", "Two executions never both believe to hold one lock, within the bound on clock rates.", A,
           tests=(_CLUSTER, "core/test_lease::test_two_never_believe_to_hold_one_lock_at_the_same_time", "core/test_lease::test_a_clock_beyond_the_bound_breaks_exclusion")),
    Clause("S-24", "Nothing is sent under a lost lock, and nothing is done before the takeover wait.", A, ("S-24",), ("S-24b",),
           (_CLUSTER, "core/test_fence::test_lease_must_outlast_the_publish_request", "core/test_lease::test_without_renewal_the_deadline_ends_it_before_the_store_does")),
    Clause("S-25", "A lost lock is lost for good.", A,
           tests=(_CLUSTER, "core/test_lease::test_lost_is_immediate_absorbing_and_asks_for_nothing", "core/test_attempt_interrupts::test_interruption_before_the_publication_refuses_it")),
    Clause("S-26", "Whoever publishes at the same time uses the same backing and epoch.", A,
           tests=(_CLUSTER, "core/test_policy::test_all_auto_nodes_resolve_to_one_decision", "core/test_driver::test_policy_epoch_that_moved_refuses")),
    Clause("S-27", "The first stored decision of an epoch stands.", A,
           tests=(_CLUSTER, "core/test_policy::test_every_resolved_node_follows_the_stored_decision_of_its_epoch", "core/test_policy::test_the_decision_is_created_and_never_overwritten")),
    Clause("S-28", "Nobody decides alone, unless the policy needs nobody.", A,
           tests=(_CLUSTER, "core/test_policy::test_nobody_is_resolved_alone", "core/test_policy::test_nobody_decides_without_having_read")),
    Clause("S-29", "Probing and storing have budgets of their own.", A,
           tests=(_CLUSTER, "core/test_policy::test_storing_has_a_budget_of_its_own", "core/test_policy::test_probing_does_not_spend_the_budget_of_storing")),
    Clause("S-30", "Revocation is final once a newer attempt has published.", A, ("S-30",)),
    Clause("S-31", "No two executions ever make the same name, and a name that exists refuses.", S,
           tests=("core/test_names::test_two_executions_never_share_a_name", "core/test_attempt_failures::test_name_in_doubt_is_removed_and_a_refused_one_is_not_ours")),
    Clause("S-32", "Clean-up changes no result, moves nothing and touches nobody else's name.", A, ("S-32",),
           tests=("core/test_attempt_order::test_clean_up_never_changes_the_result", "core/test_names::test_name_of_one_task_is_never_taken_for_anothers")),
    Clause("S-33", "At rest nothing is left by an execution that was not killed.", R, ("S-33", "S-33b", "S-33c", "S-33d"),
           tests=("core/test_attempt_order::test_whoever_may_have_made_a_name_removes_it",)),
    Clause("S-34", "Collection takes nothing that an open attempt, an accepted result or an open intent still needs.", A, ("S-34",),
           tests=("simulation/test_moves_of_the_collector::test_data_that_waits_as_long_as_the_claims_is_never_missed", "simulation/test_moves_of_the_collector::test_data_of_an_open_intent_stays")),
    Clause("S-35", "Maintenance never takes a commit off the target, and is done once its goal is met.", A,
           tests=("core/test_maintenance::test_maintenance_never_takes_a_commit_off_the_target", "core/test_maintenance::test_maintenance_whose_goal_is_met_succeeds_without_a_second_commit")),
    Clause("S-36", "Only a pre-check or the body itself ends a task for good.", S,
           tests=("core/test_attempt_order::test_only_a_check_or_the_body_itself_ends_a_task_for_good",)),
    Clause("S-37", "A success has an output and no reason; a failure has a reason and no output.", S,
           tests=("core/test_attempt_order::test_every_end_but_success_is_explained",)),
    Clause("S-38", "Calls per path do not grow with history, branches or settled intents.", S,
           tests=("core/test_driver::test_costs_are_flat_in_history_branches_and_settled_intents", "core/test_recovery::test_sweeping_costs_the_same_with_any_number_of_settled_intents_and_other_targets")),
    Clause("S-39", "The same events give the same commands, with any implementation of the ports.", S,
           tests=("core/test_attempt_paths::test_walking_again_gives_the_same_ways_and_each_can_be_replayed", "core/test_codec::test_every_value_of_every_way_comes_back_as_it_was")),
    Clause("S-40", "Who loses the claim never reports.", A, ("S-40",),
           tests=("core/test_attempt_order::test_whoever_lost_or_never_knew_the_claim_is_silent",)),
    Clause("L-01", "Every attempt ends, or its worker is dead and the orchestrator gives it up.", E, ("L-01",)),
    Clause("L-02", "An attempt that is left alone is accepted, whatever went wrong before.", E, ("L-02", "L-02b", "C8")),
    Clause("L-03", "One abandoned publication never blocks the next attempt; two refuse, and both heads are named.", E, ("L-03",),
           tests=("core/test_fence::test_refusal_names_expected_found_and_what_to_do",)),
    Clause("L-04", "After a holder dies another gets the lease.", E,
           tests=(_CLUSTER, "core/test_lease::test_after_a_crash_the_successor_waits_for_the_lease_and_is_told_that_it_was_unclean", "core/test_lease::test_a_lease_that_could_not_be_ended_ends_by_itself")),
    Clause("L-05", "Policy resolution ends within its budgets.", E,
           tests=(_CLUSTER, "core/test_policy::test_auto_probes_thirty_times_with_doubling_waits_and_then_falls_back", "core/test_policy::test_enable_gives_up_after_ten_probes_and_stores_nothing", "core/test_policy::test_a_node_that_cannot_store_never_uses_its_own_finding")),
    Clause("L-06", "Every intent is settled once its attempt has ended and somebody sweeps.", E,
           tests=(_CLUSTER, "core/test_recovery::test_the_advised_action_helps", "core/test_recovery::test_a_fault_at_any_single_call_changes_nothing_in_the_end")),
    Clause("L-07", "Sweeps at the same time all end.", E,
           tests=(_CLUSTER, "core/test_recovery::test_two_sweeps_at_once_both_end_with_one_audit", "core/test_ledger::test_closing_a_record_that_never_stands_still_gives_up")),
    Clause("L-08", "An unresolved intent blocks its own targets only.", E,
           tests=(_CLUSTER, "core/test_recovery::test_one_doubtful_intent_does_not_keep_the_others_from_being_settled", "core/test_driver::test_open_intent_nobody_can_settle_refuses_with_its_operation_id")),
    Clause("L-09", "A stop request drains: no new poll, and the running attempt ends or is killed at its deadline.", E,
           elsewhere="a duty of the runtime, which polls and kills (RT-9); a stop is no event of the machine"),
    Clause("L-10", "No state is a silent dead end: every refusal names what was expected, what was found and what to do.", A, ("L-10",),
           tests=("core/test_attempt_order::test_every_end_but_success_is_explained", "core/test_recovery::test_the_advised_action_helps")),
)
# fmt: on
