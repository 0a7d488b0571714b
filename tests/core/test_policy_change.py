"""A policy that changes: who works is waited for, what is open is settled, and an attempt publishes under one policy.

The world is the simulated one, with a real attempt where one is needed: policy, ledger and attempt are only wrong
together (A1: each of them passed its own tests while no worker with ``disable`` could publish any more).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from perago_core import driver
from perago_core import policy as p
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Call
from perago_core.machine import codec
from perago_core.policy.change import ANNOUNCED, CHANGE_TTL, find_behind, member_key
from perago_core.policy.state import decision_key, encode_decision
from perago_core.results import Classification, Completed, Failed, Outcome
from perago_core.values import Backing
from perago_simulation.ports import Fault
from tests.core.world import TARGET, Answering, World

ATOMIC = Done(p.Capability.ATOMIC)
UNABLE = NotDone("not implemented")
SILENT = Unknown("no hook: run 'perago init-repo'")


def settings(policy: p.Policy, node: str = "ada") -> p.PolicySettings:
    return p.PolicySettings(policy, p.OnIndeterminate.FAIL, coordination=True, node=node)


class Town(World):
    """A world with workers that start under a policy, and a person who changes it."""

    probes: Answer[p.Capability] = ATOMIC

    def ports(self, reached: Any = None) -> driver.Ports:  # noqa: ANN401  a callback
        def probed(_given: object) -> Answer[p.Capability]:
            return self.probes

        store: Any = Answering(self.store(), "probe", probed)
        return driver.Ports(
            orchestrator=self.orchestrator(),
            store=store,
            workspace=self.workspace(),
            coordination=self.coordination(),
            clock=self.clock(),
            reached=reached,
        )

    def run(self, dialogue: Any) -> Any:  # noqa: ANN401  any conversation
        return driver.run(dialogue, self.ports())

    def starts(self, policy: p.Policy, node: str = "ada") -> p.Resolved | p.PolicyFailed:
        found: p.Resolved | p.PolicyFailed = self.run(p.resolve(settings(policy, node)))
        return found

    def decision(self) -> p.Decision | None:
        found: Answer[p.Decision | None] = self.run(p.read_decision())
        assert isinstance(found, Done)
        return found.value

    def wants(self, policy: p.Policy, why: str = "a reason", who: str = "eve") -> p.Decision | p.PolicyFailed:
        detected = self.run(p.detect(who)) if policy in {p.Policy.AUTO, p.Policy.ENABLE} else p.PolicyKnown()
        return p.propose(settings(policy, who), evolve(detected, found=self.decision()), why)

    def sets(self, policy: p.Policy, *, forced: bool = False, patience: float = 0.0) -> p.Changed | p.PolicyFailed:
        wanted = self.wants(policy)
        assert isinstance(wanted, p.Decision), wanted
        found: p.Changed | p.PolicyFailed = self.run(
            p.change(p.Change("change-1", wanted), (TARGET,), patience=patience, forced=forced)
        )
        return found

    def enrols(self, member: p.Member, ttl: float = 1000.0) -> None:
        lease = self.coordination().grant(ttl)
        assert isinstance(lease, Done)
        assert isinstance(self.run(p.enrol(member, lease.value)), Done)

    def publishes(self, node: p.Resolved, number: int = 1) -> Outcome:
        attempt = self.attempt(number, node.backing, ledger=True, epoch=node.epoch)
        return driver.drive(attempt, self.ports())


def started(found: p.Resolved | p.PolicyFailed) -> p.Resolved:
    assert isinstance(found, p.Resolved), found
    return found


def refused(found: object) -> p.PolicyFailed:
    assert isinstance(found, p.PolicyFailed), found
    return found


@pytest.mark.parametrize("policy", [p.Policy.DISABLE, p.Policy.SOFT])
def test_after_auto_a_worker_with_another_policy_does_not_start_and_its_advice_lets_it_publish(
    policy: p.Policy,
) -> None:
    """A1: it started, and every attempt failed with ``policy-changed``, whatever anybody did."""
    town = Town()
    first = started(town.starts(p.Policy.AUTO))
    assert isinstance(town.publishes(first).result, Completed)
    advice = refused(town.starts(policy, "bob")).next_action
    assert f"perago policy set {policy.value} --why" in advice
    changed = town.sets(policy)
    assert isinstance(changed, p.Changed), changed
    second = started(town.starts(policy, "bob"))
    assert second.epoch == 2
    published = driver.drive(
        town.attempt(1, second.backing, step="next", ledger=True, epoch=2, input=town.branch_head()), town.ports()
    )
    assert isinstance(published.result, Completed)
    assert started(town.starts(p.Policy.AUTO, "eve")).decision == second.decision, "auto follows whatever stands"


def test_an_attempt_of_the_old_epoch_fails_closed_and_the_next_one_of_a_worker_that_started_again_publishes() -> None:
    """S-26: whoever had started before a forced change publishes nothing under it."""
    town = Town()
    old = started(town.starts(p.Policy.AUTO))
    assert isinstance(town.sets(p.Policy.DISABLE), p.Changed)
    failed = town.publishes(old).result
    assert isinstance(failed, Failed)
    assert failed.refusal.classification is Classification.POLICY_CHANGED
    assert isinstance(town.publishes(started(town.starts(p.Policy.AUTO)), 2).result, Completed)


# ---------------------------------------------------------------------------------------------------------------------
# What is proposed


def test_a_choice_says_who_and_why_and_is_the_next_epoch() -> None:
    town = Town()
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    assert (wanted.epoch, wanted.backing, wanted.evidence) == (1, Backing.LOCKED, p.Evidence.CHOSEN)
    assert (wanted.detector, wanted.why) == ("eve", "a reason")
    town.starts(p.Policy.AUTO)
    softly = town.wants(p.Policy.SOFT)
    assert isinstance(softly, p.Decision)
    assert (softly.epoch, softly.backing) == (2, Backing.SOFT)


@pytest.mark.parametrize("policy", [p.Policy.AUTO, p.Policy.ENABLE])
def test_a_fallback_is_replaced_by_a_proof(policy: p.Policy) -> None:
    """K-06, D-1: a transient silence does not stick; the old record stays as it is (S-27)."""
    town = Town()
    town.probes = SILENT
    fallback = evolve(settings(p.Policy.AUTO), on_indeterminate=p.OnIndeterminate.FALLBACK)
    assert started(town.run(p.resolve(fallback))).backing is Backing.LOCKED
    town.probes = ATOMIC
    changed = town.sets(policy)
    assert isinstance(changed, p.Changed), changed
    assert (changed.decision.epoch, changed.decision.backing) == (2, Backing.ATOMIC)
    assert town.decision() == changed.decision


@pytest.mark.parametrize(
    ("policy", "answer"),
    [(p.Policy.ENABLE, UNABLE), (p.Policy.ENABLE, SILENT), (p.Policy.AUTO, SILENT)],
)
def test_what_was_not_proved_is_not_proposed_and_the_fix_is_told(
    policy: p.Policy, answer: Answer[p.Capability]
) -> None:
    town = Town()
    town.probes = answer
    told = refused(town.wants(policy))
    assert isinstance(answer, NotDone | Unknown)
    assert answer.reason in told.reason
    assert "perago policy set disable" in told.next_action


def test_auto_proposes_a_disproof_as_a_lease() -> None:
    town = Town()
    town.probes = UNABLE
    wanted = town.wants(p.Policy.AUTO)
    assert isinstance(wanted, p.Decision)
    assert (wanted.backing, wanted.evidence) == (Backing.LOCKED, p.Evidence.DISPROVED)


# ---------------------------------------------------------------------------------------------------------------------
# Who is waited for


WORKER = p.Member("bob", p.Policy.AUTO, epoch=1)


def test_a_worker_that_works_is_behind_and_nothing_is_written() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    town.enrols(WORKER)
    told = refused(town.sets(p.Policy.DISABLE, patience=5.0))
    assert "worker bob of epoch 1 still works" in told.reason
    assert "--force" in told.next_action
    assert town.decision() == started(town.starts(p.Policy.AUTO)).decision
    assert town.run(p.stance(1)) == Done(p.Stance(moved=False)), "the announcement is withdrawn"
    assert town.clock().now() >= 5.0


def test_forced_it_is_written_and_says_who_was_behind() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    town.enrols(WORKER)
    changed = town.sets(p.Policy.DISABLE, forced=True)
    assert isinstance(changed, p.Changed)
    assert changed.behind.workers == (WORKER,)
    assert changed.decision.why == "a reason (forced: worker bob of epoch 1 still works)"
    assert town.run(p.stance(1)) == Done(p.Stance(moved=True))


def test_a_worker_that_has_died_is_waited_for_until_its_record_ends() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    town.enrols(WORKER, ttl=10.0)
    assert isinstance(town.sets(p.Policy.DISABLE, patience=60.0), p.Changed)
    assert 10.0 <= town.clock().now() < 12.0


def stepwise(town: Town, dialogue: Any, meanwhile: Callable[[Call], object]) -> Any:  # noqa: ANN401  a conversation
    """Carry a conversation on and let something happen before each call."""
    ports = town.ports()
    try:
        call = next(dialogue)
        while True:
            meanwhile(call)
            call = dialogue.send(ports.call(call))
    except StopIteration as end:
        return end.value


def test_a_worker_that_rests_for_this_change_is_not_waited_for() -> None:
    """It rests for the change it has seen: that it rested for an earlier one says nothing."""
    town = Town()
    town.starts(p.Policy.AUTO)
    resting = evolve(WORKER, rests_for="an earlier one")
    town.enrols(resting)
    seen: list[p.Stance] = []

    def rests(call: Call) -> None:
        if call.method == "sleep" and not seen:
            found = town.run(p.stance(1))
            seen.append(found.value)
            assert not found.value.works
            town.run(p.restate(resting, evolve(resting, rests_for=found.value.change.id)))

    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    dialogue = p.change(p.Change("change-1", wanted), (TARGET,), patience=60.0)
    changed = stepwise(town, dialogue, rests)
    assert isinstance(changed, p.Changed), changed
    assert changed.behind.quiet
    (announced,) = seen
    assert announced.change == p.Change("change-1", wanted)
    assert town.run(p.stance(1)) == Done(p.Stance(moved=True))
    assert town.run(p.stance(2)).value.works


def test_an_open_intent_of_a_living_attempt_is_waited_for_and_settled_when_it_is_over() -> None:
    town = Town()
    node = started(town.starts(p.Policy.AUTO))
    town.crash(town.attempt(1, node.backing, ledger=True, epoch=node.epoch), "store.publish.before")
    town.attempt(2, node.backing, ledger=True, epoch=node.epoch)  # the first has timed out: its intent is over
    settled = town.sets(p.Policy.DISABLE)
    assert isinstance(settled, p.Changed), settled


def test_an_intent_that_cannot_be_settled_refuses_the_change() -> None:
    town = Town()
    node = started(town.starts(p.Policy.AUTO))
    town.crash(town.attempt(1, node.backing, ledger=True, epoch=node.epoch), "store.publish.before")
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)

    def away(*_: object) -> Unknown:
        return Unknown("away")

    orchestrator: Any = Answering(town.orchestrator(), "reload", away)
    ports = driver.Ports(
        orchestrator=orchestrator,
        store=town.store(),
        workspace=None,
        coordination=town.coordination(),
        clock=town.clock(),
    )
    told = refused(driver.run(p.change(p.Change("c", wanted), (TARGET,), patience=0.0), ports))
    assert "is open" in told.reason


def test_two_changes_at_once_are_one() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    seen: list[p.PolicyFailed] = []

    def another(call: Call) -> None:
        if call.method == "keep_alive" and not seen:
            seen.append(refused(town.sets(p.Policy.SOFT)))

    first = stepwise(town, p.change(p.Change("change-0", wanted), (TARGET,), patience=0.0), another)
    assert isinstance(first, p.Changed)
    assert "another change is under way" in seen[0].reason


def test_of_two_that_announce_at_once_the_first_stands() -> None:
    """The second takes nothing of the first one's away, neither its announcement nor that its author is there."""
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    seen: list[Call] = []

    def another(call: Call) -> None:
        if call.args[:1] == (ANNOUNCED,) and not seen:
            seen.append(dies_before(town, p.Change("first", wanted), "swap", ANNOUNCED))

    told = refused(stepwise(town, p.change(p.Change("second", wanted), (TARGET,), patience=0.0), another))
    assert "another change is under way" in told.reason
    assert town.run(p.stance(1)) == Done(p.Stance(moved=False, change=p.Change("first", wanted)))


def test_an_epoch_somebody_wrote_meanwhile_stands() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    other = evolve(wanted, backing=Backing.SOFT, detector="mallory")

    def writes(call: Call) -> None:
        if call.method == "keep_alive":
            town.coordination().create_if_absent(decision_key(2), encode_decision(other))

    told = refused(stepwise(town, p.change(p.Change("c", wanted), (TARGET,), patience=0.0), writes))
    assert "mallory has written epoch 2" in told.reason
    assert town.decision() == other


def dies_before(town: Town, wanted: p.Change, method: str, key: str) -> Call:
    """Change the policy until this call is next, and be gone; give the call, which may yet arrive."""
    dialogue, ports = p.change(wanted, (TARGET,), patience=0.0), town.ports()
    call = next(dialogue)
    while (call.method, *call.args[:1]) != (method, key):
        call = dialogue.send(ports.call(call))
    return call


def test_whoever_announced_and_died_holds_nobody_up() -> None:
    """Who looks after his time withdraws the announcement, and his last request finds it gone (S-26)."""
    town = Town()
    before = started(town.starts(p.Policy.AUTO)).decision
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    late = dies_before(town, p.Change("c", wanted), "swap", ANNOUNCED)
    assert not town.run(p.stance(1)).value.works
    town.clock().sleep(CHANGE_TTL + 1)
    assert town.run(p.stance(1)).value.works
    assert town.ports().call(late) == Done(value=False)
    assert town.run(p.stance(1)).value.works
    assert town.decision() == before
    assert isinstance(town.sets(p.Policy.SOFT), p.Changed), "and the next one may change it"


def test_what_was_decided_is_written_by_whoever_looks_next() -> None:
    """Its author may be gone for good: a decision that could be withdrawn would be none."""
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    late = dies_before(town, p.Change("c", wanted), "create_if_absent", decision_key(2))
    town.clock().sleep(CHANGE_TTL + 1)
    assert town.run(p.stance(1)) == Done(p.Stance(moved=True))
    assert town.decision() == wanted
    assert town.coordination().get(ANNOUNCED) == Done(None)
    assert isinstance(town.sets(p.Policy.SOFT), p.Changed)
    town.ports().call(late)
    assert town.run(p.stance(3)).value.works, "what arrives late was there already"


def test_a_change_decided_while_it_is_withdrawn_is_looked_at_again() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    late = dies_before(town, p.Change("c", wanted), "swap", ANNOUNCED)
    town.clock().sleep(CHANGE_TTL + 1)

    def arrives(call: Call) -> None:
        if call.method == "swap":
            assert town.ports().call(late) == Done(value=True)

    assert isinstance(stepwise(town, p.stance(1), arrives), NotDone)
    assert town.run(p.stance(1)) == Done(p.Stance(moved=True))


def test_whoever_finds_the_announcement_withdrawn_writes_nothing() -> None:
    town = Town()
    before = started(town.starts(p.Policy.AUTO)).decision
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)

    def withdraws(call: Call) -> None:
        if call.method == "swap" and call.args[2] is not None:
            town.coordination().swap(ANNOUNCED, call.args[1], None)

    told = refused(stepwise(town, p.change(p.Change("c", wanted), (TARGET,), patience=0.0), withdraws))
    assert "our announcement was withdrawn" in told.reason
    assert town.decision() == before


def test_whoever_loses_the_announcement_writes_nothing() -> None:
    town = Town()
    before = started(town.starts(p.Policy.AUTO)).decision
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)

    def pauses(call: Call) -> None:
        if call.method == "keep_alive":
            town.clock().sleep(CHANGE_TTL + 1)

    told = refused(stepwise(town, p.change(p.Change("c", wanted), (TARGET,), patience=0.0), pauses))
    assert "nobody knows any more that we are there" in told.reason
    assert town.decision() == before


# ---------------------------------------------------------------------------------------------------------------------
# What does not answer, and what cannot be read


@pytest.mark.parametrize("answered", [0, 1])
@pytest.mark.parametrize(
    "call", ["coordination.grant", "coordination.create_if_absent", "coordination.keep_alive", "coordination.list"]
)
def test_a_coordination_store_that_does_not_answer_changes_nothing(call: str, answered: int) -> None:
    """The first time it is asked, or the second: two of these calls are made once, and then it is changed."""
    town = Town()
    before = started(town.starts(p.Policy.AUTO)).decision
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    town.fail(call, *[None] * answered, Fault.DROPPED)
    told = town.run(p.change(p.Change("c", wanted), (TARGET,), patience=0.0))
    if answered and call in {"coordination.grant", "coordination.keep_alive"}:
        assert isinstance(told, p.Changed)
        return
    assert refused(told).next_action
    assert town.decision() == before


def test_a_write_without_an_answer_is_told_as_such() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    town.fail("coordination.create_if_absent", None, None, Fault.LANDED)
    told = refused(town.run(p.change(p.Change("c", wanted), (TARGET,), patience=0.0)))
    assert "indeterminate" in told.reason
    assert town.decision() == wanted


@pytest.mark.parametrize("fault", [Fault.LANDED, Fault.DROPPED])
def test_a_mark_without_an_answer_is_told_as_such_and_the_next_look_shows_what_became_of_it(fault: Fault) -> None:
    town = Town()
    before = started(town.starts(p.Policy.AUTO)).decision
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    town.fail("coordination.swap", fault)
    told = refused(town.run(p.change(p.Change("c", wanted), (TARGET,), patience=0.0)))
    assert "indeterminate" in told.reason
    landed = fault is Fault.LANDED
    assert town.run(p.stance(1)) == Done(p.Stance(moved=landed))
    assert town.decision() == (wanted if landed else before)


def test_what_nobody_could_write_stays_decided() -> None:
    """Who looks and gets no answer knows nothing, and the next look writes it."""
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    dies_before(town, p.Change("c", wanted), "create_if_absent", decision_key(2))
    town.fail("coordination.create_if_absent", Fault.DROPPED)
    assert isinstance(town.run(p.stance(1)), Unknown)
    assert town.run(p.stance(1)) == Done(p.Stance(moved=True))


@pytest.mark.parametrize("call", ["coordination.get", "coordination.list"])
def test_a_worker_that_gets_no_answer_does_not_know_its_stance(call: str) -> None:
    town = Town()
    town.fail(call, Fault.DROPPED)
    assert isinstance(town.run(p.stance(1)), Unknown)


def test_an_announcement_nobody_could_withdraw_stands() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    dies_before(town, p.Change("c", wanted), "swap", ANNOUNCED)
    town.clock().sleep(CHANGE_TTL + 1)
    town.fail("coordination.swap", Fault.DROPPED)
    assert isinstance(town.run(p.stance(1)), Unknown)
    assert town.run(p.stance(1)) == Done(p.Stance(moved=False))


def test_what_cannot_be_read_is_never_taken_for_nothing() -> None:
    """A newer program's announcement, worker or decision: nobody goes on as if it were not there."""
    town = Town()
    town.coordination().create_if_absent(ANNOUNCED, "{}")
    assert "cannot be read" in town.run(p.stance(1)).reason
    town.coordination().create_if_absent(member_key("bob"), "{}")
    assert "cannot be read" in town.run(p.list_members()).reason
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    assert "cannot be read" in town.run(find_behind(p.Change("c", wanted), (TARGET,))).trouble
    town.coordination().create_if_absent(decision_key(1), "{}")
    assert "cannot be read" in town.run(p.read_decision()).reason


def test_a_decision_that_cannot_be_read_is_never_overwritten() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    town.coordination().create_if_absent(decision_key(2), "{}")
    told = refused(town.run(p.change(p.Change("c", wanted), (TARGET,), patience=0.0)))
    assert "cannot be read" in told.reason


def test_reading_the_decision_needs_an_answer() -> None:
    town = Town()
    town.fail("coordination.list", Fault.DROPPED)
    assert isinstance(town.run(p.read_decision()), Unknown)


def test_a_ledger_that_cannot_be_listed_is_not_quiet() -> None:
    town = Town()
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    town.fail("coordination.list", None, *[Fault.DROPPED] * 10)
    behind = town.run(find_behind(p.Change("c", wanted), (TARGET,)))
    assert behind.trouble
    assert not behind.quiet


def test_behind_tells_each_in_words() -> None:
    nobody = p.Behind()
    assert (str(nobody), nobody.quiet) == ("nobody", True)
    some = p.Behind((WORKER,), ("op-1",), "the list was lost")
    assert str(some) == "worker bob of epoch 1 still works; intent op-1 is open; the list was lost"


def test_records_read_back_as_they_were_written() -> None:
    town = Town()
    wanted = town.wants(p.Policy.SOFT)
    assert isinstance(wanted, p.Decision)
    announced = p.Change("c", wanted)
    assert codec.loads(codec.dumps(announced), p.Change) == announced
    town.enrols(WORKER)
    assert town.run(p.list_members()) == Done((WORKER,))


def test_whoever_cannot_read_what_is_announced_announces_nothing() -> None:
    town = Town()
    town.starts(p.Policy.AUTO)
    wanted = town.wants(p.Policy.DISABLE)
    assert isinstance(wanted, p.Decision)
    town.coordination().create_if_absent(ANNOUNCED, "{}")
    told = refused(town.run(p.change(p.Change("c", wanted), (TARGET,), patience=0.0)))
    assert "cannot be read" in told.reason
