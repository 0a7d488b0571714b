"""The policy machine: one decision for the whole cluster, never from silence, never alone.

Each test names what it proves: capabilities W-, lessons T-W, conflicts K-, corrections D-, invariants S-, crash windows
CW-, perturbations N-.
"""

from __future__ import annotations

import itertools
import json
from typing import Any, TypeAlias

import pytest
from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st

from perago_core import driver
from perago_core import policy as p
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.calls import Call
from perago_core.errors import CodecError, ProtocolError
from perago_core.machine.rows import Command
from perago_core.policy.state import (
    PROBES_AUTO,
    PROBES_ENABLE,
    STORES,
    backoff,
    decision_key,
    decode_decision,
    encode_decision,
    latest_decision,
)
from perago_core.ports import Entry
from perago_core.values import Backing
from perago_simulation.ports import SimulatedClock, SimulatedCoordination, SimulatedWorld
from tests.core.conversations import (
    DROPPED,
    FINE,
    LOST,
    REFUSED,
    Machine,
    Mishap,
    Ports,
    Run,
    interleave,
    run_to_rest,
)
from tests.specs.vectors import states

POLICY = Machine(p.POLICY, p.perform, p.Begun())

ATOMIC = Done(p.Capability.ATOMIC)
CONDITIONAL = Done(p.Capability.CONDITIONAL)
UNABLE = NotDone("not implemented")
SILENT = Unknown("timeout")

BACKOFF = [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]


@define
class ProbedStore:
    """A store of which only the probe exists: the answers in order, the last one for ever."""

    answers: list[Answer[p.Capability]]
    probes: int = 0

    def probe(self) -> Answer[p.Capability]:
        self.probes += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@define
class Cluster:
    """One true clock, one coordination store, any number of nodes."""

    simulated: SimulatedWorld = field(factory=SimulatedWorld)

    @property
    def clock(self) -> SimulatedClock:
        return self.simulated.clock()

    @property
    def coordination(self) -> SimulatedCoordination:
        return self.simulated.coordination()

    def ports(self, *probes: Answer[p.Capability], **mishaps: list[Mishap]) -> Ports:
        """Return a node its view of the world."""
        store = ProbedStore(list(probes) or [SILENT])
        return Ports({"coordination": self.coordination, "store": store, "clock": self.clock}, self.clock, mishaps)

    def holds(self, decision: p.Decision) -> None:
        """Put a decision there."""
        self.coordination.create_if_absent(decision_key(decision.epoch), encode_decision(decision))

    def stored(self) -> list[p.Decision]:
        """Read all decisions back."""
        return [decode_decision(entry) for entry in self.entries()]

    def entries(self) -> tuple[Entry, ...]:
        answer = self.coordination.list("decision/")
        assert isinstance(answer, Done)
        return answer.value


def settings(
    policy: p.Policy = p.Policy.AUTO,
    silence: p.OnIndeterminate = p.OnIndeterminate.FALLBACK,
    *,
    coordination: bool = True,
    node: str = "node-1",
) -> p.PolicySettings:
    return p.PolicySettings(policy, silence, coordination, node)


def decided(backing: Backing, evidence: p.Evidence, epoch: int = 1, detector: str = "node-0") -> p.Decision:
    return p.Decision(epoch, backing, evidence, detector, p.Policy.AUTO, "digest")


POSITIVE = decided(Backing.CONDITIONAL, p.Evidence.PROVED)
DISPROVED = decided(Backing.LOCKED, p.Evidence.DISPROVED)
SILENCE = decided(Backing.LOCKED, p.Evidence.INDETERMINATE)
CHOSEN = decided(Backing.LOCKED, p.Evidence.CHOSEN)
SOFTLY = decided(Backing.SOFT, p.Evidence.CHOSEN)


def resolved(run: Run[p.PolicySettings, p.PolicyKnown]) -> p.Resolved:
    end = p.outcome(run.state)
    assert isinstance(end, p.Resolved)
    return end


def failed(run: Run[p.PolicySettings, p.PolicyKnown]) -> p.PolicyFailed:
    end = p.outcome(run.state)
    assert isinstance(end, p.PolicyFailed)
    assert end.next_action
    return end


# ---------------------------------------------------------------------------------------------------------------------
# What an operator chooses


def test_a_policy_that_does_not_exist_is_refused() -> None:
    """W-04: an unknown value is not silently one of the four."""
    assert [each.value for each in p.Policy] == ["auto", "enable", "disable", "soft"]
    with pytest.raises(ValueError, match="maybe"):
        p.Policy("maybe")


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "auto"},
        {"policy": None},
        {"on_indeterminate": "fallback"},
        {"coordination": 1},
        {"node": ""},
        {"node": "  "},
        {"node": 7},
    ],
)
def test_malformed_settings_cannot_exist(wrong: dict[str, Any]) -> None:
    """W-04: the field is named in the error."""
    with pytest.raises(ValueError, match=f"PolicySettings.{next(iter(wrong))}"):
        evolve(settings(), **wrong)


def test_soft_without_a_coordination_store_starts_at_once_and_asks_nobody() -> None:
    """W-02, K-04: no read, no probe, no lock; the seed protocol."""
    ports = Cluster().ports()
    run = run_to_rest(POLICY, settings(p.Policy.SOFT, coordination=False), ports)
    assert resolved(run) == p.Resolved(None, Backing.SOFT, 0, own=False, disagreed=False)
    assert ports.log == []


CHOICES = [(p.Policy.DISABLE, Backing.LOCKED), (p.Policy.SOFT, Backing.SOFT)]


@pytest.mark.clause("W-12")
@pytest.mark.parametrize(("policy", "backing"), CHOICES)
def test_a_choice_is_stored_without_a_probe_and_says_who_and_why(policy: p.Policy, backing: Backing) -> None:
    """W-12, S-28: zero probes; the first epoch is the choice, for everybody who comes after."""
    cluster = Cluster()
    ports = cluster.ports(ATOMIC)
    end = resolved(run_to_rest(POLICY, settings(policy), ports))
    assert (end.backing, end.epoch, end.own) == (backing, 1, True)
    assert [call.method for call in ports.log] == ["list", "create_if_absent"]
    (stored,) = cluster.stored()
    assert (stored.evidence, stored.detector, stored.policy) == (p.Evidence.CHOSEN, "node-1", policy)
    assert policy.value in stored.why
    later = cluster.ports(ATOMIC)
    assert resolved(run_to_rest(POLICY, settings(node="node-2"), later)).decision == stored
    assert later.count("probe") == 0


@pytest.mark.parametrize(("policy", "backing"), CHOICES)
@pytest.mark.parametrize("before", [None, *"123"])
def test_a_choice_that_contradicts_the_decision_does_not_start_and_names_the_command(
    policy: p.Policy, backing: Backing, before: str | None
) -> None:
    """A1: it started, and every attempt of it failed for an epoch it had never read."""
    other = SOFTLY if policy is p.Policy.DISABLE else CHOSEN
    against = POSITIVE if before is None else evolve(other, epoch=int(before))
    cluster = Cluster()
    for epoch in range(1, against.epoch):
        cluster.holds(evolve(POSITIVE, epoch=epoch))
    cluster.holds(against)
    ports = cluster.ports(ATOMIC)
    end = failed(run_to_rest(POLICY, settings(policy), ports))
    assert f"epoch {against.epoch} by node-0 says {against.backing.value}" in end.reason
    assert f"perago policy set {policy.value} --why" in end.next_action
    assert [call.method for call in ports.log] == ["list"]
    assert backing is not against.backing


@pytest.mark.parametrize("standing", [*"dsc"])
def test_a_choice_follows_what_says_the_same_whatever_it_rests_on(standing: str) -> None:
    """A lease that was fallen back to is the lease that was chosen."""
    decision = {"d": DISPROVED, "s": SILENCE, "c": CHOSEN}[standing]
    cluster = Cluster()
    cluster.holds(decision)
    end = resolved(run_to_rest(POLICY, settings(p.Policy.DISABLE), cluster.ports()))
    assert end == p.Resolved(decision, Backing.LOCKED, 1, own=False, disagreed=False)


def test_disable_without_a_coordination_store_does_not_start() -> None:
    """W-12: a lease needs somewhere to live."""
    run = run_to_rest(POLICY, settings(p.Policy.DISABLE, coordination=False), Cluster().ports())
    assert "a lease needs a coordination store" in failed(run).reason


def test_auto_without_a_coordination_store_does_not_start_and_says_what_would() -> None:
    """S-28: a finding nobody can agree on is not used."""
    ports = Cluster().ports(ATOMIC)
    run = run_to_rest(POLICY, settings(coordination=False), ports)
    assert "only explicit soft or enable starts" in failed(run).reason
    assert ports.log == []


@pytest.mark.clause("W-11")
def test_enable_without_a_coordination_store_resolves_with_nothing_stored() -> None:
    """W-11: it requires proof, not agreement; a silent probe is repeated without reading anything."""
    ports = Cluster().ports(SILENT, CONDITIONAL)
    run = run_to_rest(POLICY, settings(p.Policy.ENABLE, coordination=False), ports)
    assert resolved(run) == p.Resolved(None, Backing.CONDITIONAL, 0, own=False, disagreed=False)
    assert [call.method for call in ports.log] == ["probe", "sleep", "probe"]


def test_start_takes_the_first_row() -> None:
    """W-12: what an embedder gets from ``start`` is already resolved, or waits for the first answer."""
    assert p.outcome(p.start(settings(p.Policy.SOFT, coordination=False)).state) is not None
    begun = p.start(settings())
    assert begun.commands == (p.ReadDecision(),)
    assert p.outcome(begun.state) is None
    assert p.step(begun.state, p.DecisionAbsent()).commands == (p.Probe(),)


# ---------------------------------------------------------------------------------------------------------------------
# Detecting


@pytest.mark.parametrize("answer", [ATOMIC, CONDITIONAL, UNABLE, SILENT])
@pytest.mark.parametrize("policy", list(p.Policy))
def test_resolve_is_the_machine_with_its_conversations(answer: Answer[p.Capability], policy: p.Policy) -> None:
    """Whoever lets ``resolve`` do it comes to the same end as whoever drives the machine."""
    by_hand = p.outcome(run_to_rest(POLICY, settings(policy), Cluster().ports(answer)).state)
    cluster = Cluster()
    store: Any = ProbedStore([answer])
    clock: Any = cluster.clock
    ports = driver.Ports(
        orchestrator=None,
        store=store,
        workspace=None,
        clock=clock,
        coordination=cluster.coordination,
    )
    assert driver.run(p.resolve(settings(policy)), ports) == by_hand


@pytest.mark.parametrize(("answer", "backing"), [(ATOMIC, Backing.ATOMIC), (CONDITIONAL, Backing.CONDITIONAL)])
def test_what_the_probe_proves_is_stored_and_used_without_any_lock(
    answer: Answer[p.Capability],
    backing: Backing,
) -> None:
    """W-02, K-04: with the capability no lock call is made."""
    cluster = Cluster()
    ports = cluster.ports(answer)
    end = resolved(run_to_rest(POLICY, settings(), ports))
    assert (end.backing, end.epoch, end.own, end.disagreed) == (backing, 1, True, False)
    (stored,) = cluster.stored()
    assert stored == end.decision
    assert (stored.evidence, stored.detector, stored.policy) == (p.Evidence.PROVED, "node-1", p.Policy.AUTO)
    assert [call.method for call in ports.log] == ["list", "probe", "create_if_absent"]
    assert {call.charge for call in ports.log} == {"consensus"}


@pytest.mark.clause("L-05", "W-05", "W-07")
def test_auto_probes_thirty_times_with_doubling_waits_and_then_falls_back() -> None:
    """W-05, W-07, K-06: 30 probes, the exact sequence of waits, and the record says it was silence."""
    cluster = Cluster()
    ports = cluster.ports(SILENT)
    end = resolved(run_to_rest(POLICY, settings(), ports))
    assert ports.count("probe") == PROBES_AUTO == 30
    assert ports.slept() == BACKOFF + [2.0] * 23
    assert (end.backing, end.own) == (Backing.LOCKED, True)
    (stored,) = cluster.stored()
    assert stored.evidence is p.Evidence.INDETERMINATE


@pytest.mark.clause("W-06")
def test_one_success_in_thirty_is_enough() -> None:
    """W-06: fail 29 times, succeed on the 30th."""
    ports = Cluster().ports(*[SILENT] * 29, ATOMIC)
    assert resolved(run_to_rest(POLICY, settings(), ports)).backing is Backing.ATOMIC
    assert ports.count("probe") == 30


@pytest.mark.clause("W-10", "T-W7")
def test_the_stored_decision_is_read_again_before_each_probe() -> None:
    """W-10, T-W7, N-09: one read a probe, in turn; a decision that appears after the first probe ends the probing."""
    cluster = Cluster()
    ports = cluster.ports(SILENT)
    run = Run(POLICY, settings(), ports)
    while ports.count("probe") == 0:
        run.turn()
    cluster.holds(POSITIVE)
    run.rest()
    assert resolved(run) == p.Resolved(POSITIVE, Backing.CONDITIONAL, 1, own=False, disagreed=False)
    assert ports.count("probe") == 1
    assert [call.method for call in ports.log] == ["list", "probe", "sleep", "list"]


@pytest.mark.clause("L-05")
def test_enable_gives_up_after_ten_probes_and_stores_nothing() -> None:
    """W-11: ten failures are a start-up error, no lock, no stored negative."""
    cluster = Cluster()
    ports = cluster.ports(SILENT)
    run = run_to_rest(POLICY, settings(p.Policy.ENABLE), ports)
    assert "none of 10 probes" in failed(run).reason
    assert ports.count("probe") == PROBES_ENABLE == 10
    assert ports.slept() == [*BACKOFF, 2.0, 2.0, 2.0]
    assert cluster.stored() == []


@pytest.mark.clause("W-15", "T-F1")
@pytest.mark.parametrize("silence", list(p.OnIndeterminate))
def test_a_disproof_is_not_asked_again(silence: p.OnIndeterminate) -> None:
    """T-F1, W-15: "not implemented" is an answer. ``auto`` stores it as disproved, whatever silence would do."""
    cluster = Cluster()
    ports = cluster.ports(UNABLE)
    end = resolved(run_to_rest(POLICY, settings(silence=silence), ports))
    assert (end.backing, ports.count("probe")) == (Backing.LOCKED, 1)
    assert [each.evidence for each in cluster.stored()] == [p.Evidence.DISPROVED]


def test_enable_fails_on_a_disproof_and_stores_nothing() -> None:
    """W-11, T-F1: the required capability is missing."""
    cluster = Cluster()
    run = run_to_rest(POLICY, settings(p.Policy.ENABLE), cluster.ports(UNABLE))
    assert "not implemented" in failed(run).reason
    assert cluster.stored() == []


def test_a_disproof_after_silence_is_a_disproof() -> None:
    """N-09: a flapping probe; the last answer counts."""
    cluster = Cluster()
    run_to_rest(POLICY, settings(), cluster.ports(SILENT, SILENT, UNABLE))
    assert [each.evidence for each in cluster.stored()] == [p.Evidence.DISPROVED]


@pytest.mark.clause("T-W1")
@given(st.lists(st.text(), min_size=1, max_size=30), st.sampled_from(p.OnIndeterminate))
def test_silence_never_becomes_disproof(reasons: list[str], silence: p.OnIndeterminate) -> None:
    """T-W1: transient failures poison nobody, whatever they say; with ``fail`` nothing is stored at all."""
    cluster = Cluster()
    run = run_to_rest(POLICY, settings(silence=silence), cluster.ports(*(Unknown(reason) for reason in reasons)))
    evidence = [each.evidence for each in cluster.stored()]
    if silence is p.OnIndeterminate.FAIL:
        assert "nothing was stored" in failed(run).reason
        assert evidence == []
    else:
        assert resolved(run).backing is Backing.LOCKED
        assert evidence == [p.Evidence.INDETERMINATE]


# ---------------------------------------------------------------------------------------------------------------------
# Reading


@pytest.mark.clause("W-09")
@pytest.mark.parametrize("decision", [POSITIVE, DISPROVED, SILENCE, CHOSEN, SOFTLY])
def test_auto_adopts_whatever_stands_without_a_probe(decision: p.Decision) -> None:
    """W-09, S-27, CW-31: the first detection wins; later nodes make zero probe calls."""
    cluster = Cluster()
    cluster.holds(decision)
    ports = cluster.ports(ATOMIC)
    end = resolved(run_to_rest(POLICY, settings(), ports))
    assert end == p.Resolved(decision, decision.backing, 1, own=False, disagreed=False)
    assert ports.count("probe") == 0


def test_enable_adopts_a_positive_decision() -> None:
    """W-09: no probe."""
    cluster = Cluster()
    cluster.holds(POSITIVE)
    ports = cluster.ports(UNABLE)
    assert resolved(run_to_rest(POLICY, settings(p.Policy.ENABLE), ports)).decision == POSITIVE
    assert ports.count("probe") == 0


@pytest.mark.parametrize("decision", [DISPROVED, SILENCE, CHOSEN, SOFTLY])
def test_enable_fails_on_a_decision_nobody_proved_and_names_it(decision: p.Decision) -> None:
    """K-06, D-1: epoch and detector are in the reason; nothing is probed or written while others may publish."""
    cluster = Cluster()
    cluster.holds(decision)
    ports = cluster.ports(ATOMIC)
    end = failed(run_to_rest(POLICY, settings(p.Policy.ENABLE), ports))
    assert f"epoch 1 by node-0 says {decision.backing.value}, {decision.evidence.value}" in end.reason
    assert "perago policy review --write" in end.next_action
    assert ports.count("probe") == 0
    assert cluster.stored() == [decision]


def test_the_highest_epoch_counts() -> None:
    """S-27: a later epoch replaces an earlier one, whatever order the store lists them in."""
    second = evolve(POSITIVE, epoch=2)
    entries = [Entry(decision_key(each.epoch), encode_decision(each)) for each in (second, SILENCE)]
    assert latest_decision(entries) == latest_decision(reversed(entries)) == second
    assert latest_decision([]) is None


@pytest.mark.clause("S-28", "T-W2")
@pytest.mark.parametrize("policy", list(p.Policy))
@pytest.mark.parametrize("mishap", [DROPPED, REFUSED, LOST])
def test_nobody_decides_without_having_read(policy: p.Policy, mishap: Mishap) -> None:
    """T-W2, D-2, N-09: a failed read is indeterminate; no probe, nothing stored."""
    cluster = Cluster()
    ports = cluster.ports(ATOMIC, list=[mishap])
    assert "indeterminate" in failed(run_to_rest(POLICY, settings(policy), ports)).reason
    assert ports.count("probe") == 0
    assert cluster.stored() == []


def test_a_read_that_fails_between_probes_ends_it_too() -> None:
    """T-W2, T-W7: the re-read is not a formality."""
    cluster = Cluster()
    ports = cluster.ports(SILENT, ATOMIC, list=[FINE, DROPPED])
    assert "could not be read" in failed(run_to_rest(POLICY, settings(), ports)).reason
    assert ports.count("probe") == 1
    assert cluster.stored() == []


FIELDS = json.loads(encode_decision(POSITIVE))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "7",
        "null",
        "[" * 100_000,
        "{}",
        json.dumps(FIELDS | {"schema": 2}),
        json.dumps(FIELDS | {"schema": True}),
        json.dumps(FIELDS | {"schema": 1.0}),
        json.dumps(FIELDS | {"schema": "1"}),
        json.dumps(FIELDS | {"more": 1}),
        json.dumps({name: FIELDS[name] for name in FIELDS if name != "detector"}),
        json.dumps(FIELDS | {"epoch": 0}),
        json.dumps(FIELDS | {"epoch": 2}),
        json.dumps(FIELDS | {"epoch": "1"}),
        json.dumps(FIELDS | {"backing": "stronger"}),
        json.dumps(FIELDS | {"backing": ["atomic"]}),
        json.dumps(FIELDS | {"backing": "soft"}),
        json.dumps(FIELDS | {"backing": "locked"}),
        json.dumps(FIELDS | {"evidence": "hearsay"}),
        json.dumps(FIELDS | {"evidence": "disproved"}),
        json.dumps(FIELDS | {"policy": "maybe"}),
        json.dumps(FIELDS | {"detector": ""}),
        json.dumps(FIELDS | {"transcript": None}),
    ],
)
def test_what_cannot_be_read_is_never_taken_for_nothing(text: str) -> None:
    """D-2, S-28: malformed or newer, found by reading or met while storing: the node does not start."""
    cluster = Cluster()
    cluster.coordination.create_if_absent(decision_key(1), text)
    reading = cluster.ports(ATOMIC)
    assert "cannot be read" in failed(run_to_rest(POLICY, settings(), reading)).reason
    assert reading.count("probe") == 0

    late = Cluster()
    ports = late.ports(ATOMIC)
    run = Run(POLICY, settings(), ports)
    while ports.count("probe") == 0:
        run.turn()
    late.coordination.create_if_absent(decision_key(1), text)
    run.rest()
    assert "cannot be read" in failed(run).reason


@pytest.mark.parametrize(
    "key", ["decision/1", "decision/", "decision/latest", "decision/00000000_1", "decision/" + "\u0660" * 9 + "\u0661"]
)
def test_a_key_that_is_not_ours_may_be_the_newest_decision(key: str) -> None:
    """D-2: a program that does not understand a key does not go on without it."""
    with pytest.raises(CodecError, match="not the key of a decision"):
        latest_decision([Entry(decision_key(1), encode_decision(POSITIVE)), Entry(key, "")])


@given(
    st.integers(1, 10**12),
    st.text(min_size=1).filter(str.strip),
    st.sampled_from([POSITIVE, DISPROVED, SILENCE, CHOSEN, SOFTLY]),
    st.sampled_from(p.Policy),
)
def test_a_decision_reads_back_as_it_was_written(epoch: int, detector: str, base: p.Decision, policy: p.Policy) -> None:
    """S-27: nothing is lost on the way."""
    decision = evolve(base, epoch=epoch, detector=detector, policy=policy)
    assert decode_decision(Entry(decision_key(epoch), encode_decision(decision))) == decision


@pytest.mark.parametrize(
    "wrong",
    [
        {"epoch": 0},
        {"epoch": -1},
        {"epoch": True},
        {"backing": Backing.SOFT},
        {"backing": Backing.LOCKED},
        {"evidence": p.Evidence.DISPROVED},
        {"evidence": p.Evidence.INDETERMINATE},
        {"evidence": "proved"},
        {"evidence": p.Evidence.CHOSEN},
        {"backing": Backing.SOFT, "evidence": p.Evidence.DISPROVED},
        {"why": None},
        {"detector": ""},
        {"policy": "auto"},
        {"transcript": ""},
    ],
)
def test_a_decision_that_contradicts_its_evidence_cannot_exist(wrong: dict[str, Any]) -> None:
    """T-W1: only proof speaks for a capability, and proof never speaks for a lock."""
    with pytest.raises(ValueError, match="Decision"):
        evolve(POSITIVE, **wrong)


# ---------------------------------------------------------------------------------------------------------------------
# Storing


@pytest.mark.clause("S-29", "W-13")
@pytest.mark.parametrize("mishap", [DROPPED, REFUSED])
def test_storing_has_a_budget_of_its_own(mishap: Mishap) -> None:
    """W-13, S-29: storage fails five times, then works; there was one probe, and the waits double from the start."""
    cluster = Cluster()
    ports = cluster.ports(SILENT, ATOMIC, create_if_absent=[mishap] * 5)
    end = resolved(run_to_rest(POLICY, settings(), ports))
    assert (end.backing, end.own) == (Backing.ATOMIC, True)
    assert (ports.count("probe"), ports.count("create_if_absent")) == (2, 6)
    assert ports.slept() == [0.1, *BACKOFF[:5]]


@pytest.mark.clause("S-29")
def test_probing_does_not_spend_the_budget_of_storing() -> None:
    """S-29: after 30 probes there are still ten tries to store."""
    ports = Cluster().ports(SILENT, create_if_absent=[DROPPED] * 9)
    assert resolved(run_to_rest(POLICY, settings(), ports)).own
    assert (ports.count("probe"), ports.count("create_if_absent")) == (30, 10)


@pytest.mark.clause("L-05")
@pytest.mark.parametrize("mishap", [DROPPED, REFUSED])
def test_a_node_that_cannot_store_never_uses_its_own_finding(mishap: Mishap) -> None:
    """W-14, S-28: ten failures are an error, not the local value."""
    cluster = Cluster()
    ports = cluster.ports(ATOMIC, create_if_absent=[mishap] * 20)
    run = run_to_rest(POLICY, settings(), ports)
    assert "cannot agree: the decision was not stored in 10 tries" in failed(run).reason
    assert ports.count("create_if_absent") == STORES == 10
    assert ports.slept() == [*BACKOFF, 2.0, 2.0, 2.0]
    assert ports.count("probe") == 1


def test_an_earlier_request_of_ours_that_landed_is_recognised() -> None:
    """T-W9, N-04: the answer is lost, the second try finds our own record, by its content and not by its existence."""
    cluster = Cluster()
    ports = cluster.ports(ATOMIC, create_if_absent=[LOST])
    end = resolved(run_to_rest(POLICY, settings(), ports))
    assert (end.own, end.disagreed) == (True, False)
    assert cluster.stored() == [end.decision]


def met_while_storing(
    subject: p.PolicySettings,
    probe: Answer[p.Capability],
    standing: p.Decision,
) -> Run[p.PolicySettings, p.PolicyKnown]:
    """Let another node's decision appear between our probe and our attempt to store."""
    cluster = Cluster()
    ports = cluster.ports(probe)
    run = Run(POLICY, subject, ports)
    while ports.count("probe") == 0:
        run.turn()
    cluster.holds(standing)
    run.rest()
    assert cluster.stored() == [standing]
    return run


@pytest.mark.clause("W-08")
@pytest.mark.parametrize(
    ("probe", "standing", "disagreed"),
    [
        (UNABLE, POSITIVE, True),
        (CONDITIONAL, POSITIVE, False),
        (ATOMIC, POSITIVE, True),
        (ATOMIC, DISPROVED, True),
        (UNABLE, SILENCE, False),
    ],
)
def test_the_first_stored_decision_wins_and_disagreement_is_visible(
    probe: Answer[p.Capability],
    standing: p.Decision,
    disagreed: bool,
) -> None:
    """W-08, S-27, T-W9: what another node stored is followed, and never taken for ours."""
    run = met_while_storing(settings(), probe, standing)
    assert resolved(run) == p.Resolved(standing, standing.backing, 1, own=False, disagreed=disagreed)
    assert run.rows[-1] == "T2"


@pytest.mark.parametrize("standing", [DISPROVED, SILENCE])
def test_enable_does_not_follow_a_negative_it_meets_while_storing(standing: p.Decision) -> None:
    """W-11, K-06: it required the capability; the decision that stands is named."""
    reason = failed(met_while_storing(settings(p.Policy.ENABLE), ATOMIC, standing)).reason
    assert f"says locked, {standing.evidence.value}" in reason


def test_enable_follows_a_positive_it_meets_while_storing() -> None:
    """W-08: also when it is not the same capability."""
    end = resolved(met_while_storing(settings(p.Policy.ENABLE), ATOMIC, POSITIVE))
    assert (end.backing, end.own, end.disagreed) == (Backing.CONDITIONAL, False, True)


def test_a_crash_between_probe_and_store_leaves_nothing() -> None:
    """CW-30: the next node probes again."""
    cluster = Cluster()
    first = Run(POLICY, settings(), cluster.ports(ATOMIC))
    while first.ports.count("probe") == 0:
        first.turn()
    assert cluster.stored() == []
    second = cluster.ports(ATOMIC)
    assert resolved(run_to_rest(POLICY, settings(node="node-2"), second)).own
    assert second.count("probe") == 1


def test_the_transcript_tells_findings_apart() -> None:
    """N-09: the digest follows from every answer of every probe, and from nothing else."""

    def digest(*probes: Answer[p.Capability]) -> str:
        cluster = Cluster()
        run_to_rest(POLICY, settings(), cluster.ports(*probes))
        return cluster.stored()[0].transcript

    assert digest(ATOMIC) == digest(ATOMIC)
    assert len({digest(ATOMIC), digest(SILENT, ATOMIC), digest(Unknown("503"), ATOMIC), digest(CONDITIONAL)}) == 4
    assert digest(Unknown("\ud800"), ATOMIC)


# ---------------------------------------------------------------------------------------------------------------------
# Several nodes


@pytest.mark.parametrize("schedule", list(itertools.product((0, 1), repeat=8)))
def test_two_nodes_that_see_different_stores_agree(schedule: tuple[int, ...]) -> None:
    """W-08, S-26, S-27, N-09: every order of their first eight calls."""
    cluster = Cluster()
    runs = [
        Run(POLICY, settings(node="node-1"), cluster.ports(SILENT, ATOMIC)),
        Run(POLICY, settings(node="node-2"), cluster.ports(UNABLE)),
    ]
    for _ in interleave(runs, schedule):
        assert len(cluster.stored()) <= 1
    first, second = (resolved(run) for run in runs)
    (stored,) = cluster.stored()
    assert first.decision == second.decision == stored
    assert first.backing is second.backing
    assert first.own is not second.own


probe_answers: st.SearchStrategy[list[Answer[p.Capability]]] = st.lists(
    st.sampled_from([ATOMIC, CONDITIONAL, UNABLE, SILENT]), min_size=1, max_size=4
)
troubles = st.lists(st.sampled_from([FINE, DROPPED, LOST, REFUSED]), max_size=12)


Node: TypeAlias = tuple[p.PolicySettings, list[Answer[p.Capability]], dict[str, list[Mishap]]]


@st.composite
def nodes(draw: st.DrawFn, policies: list[p.Policy]) -> list[Node]:
    """Draw two or three nodes, each with its settings, its store's behaviour and its mishaps."""
    return [
        (
            settings(draw(st.sampled_from(policies)), draw(st.sampled_from(p.OnIndeterminate)), node=f"node-{index}"),
            draw(probe_answers),
            {"create_if_absent": draw(troubles), "list": draw(st.lists(st.sampled_from([FINE, DROPPED]), max_size=2))},
        )
        for index in range(draw(st.integers(2, 3)))
    ]


def race(drawn: list[Node], schedule: list[int]) -> tuple[list[p.Resolved], list[p.Decision]]:
    """Run the nodes in this order; watch that no stored decision ever changes."""
    cluster = Cluster()
    runs = [Run(POLICY, subject, cluster.ports(*probes, **mishaps)) for subject, probes, mishaps in drawn]
    before: list[p.Decision] = []
    for _ in interleave(runs, schedule):
        now = cluster.stored()
        assert now[: len(before)] == before
        before = now
    ends = [p.outcome(run.state) for run in runs]
    assert None not in ends
    return [end for end in ends if isinstance(end, p.Resolved)], before


@pytest.mark.clause("S-26")
@given(nodes([p.Policy.AUTO]), st.lists(st.integers(0, 2), max_size=60))
def test_all_auto_nodes_resolve_to_one_decision(drawn: list[Node], schedule: list[int]) -> None:
    """S-26, S-27, S-28, W-08, N-09: whatever they see, in any order, with lost answers: the one that is stored."""
    ends, stored = race(drawn, schedule)
    assert len(stored) <= 1
    assert all([end.decision] == stored and end.backing is stored[0].backing for end in ends)
    assert sum(end.own for end in ends) <= 1


@pytest.mark.clause("S-27")
@given(nodes(list(p.Policy)), st.lists(st.integers(0, 2), max_size=60))
def test_every_resolved_node_follows_the_stored_decision_of_its_epoch(drawn: list[Node], schedule: list[int]) -> None:
    """S-26, S-27, S-28, K-06: whatever their policies are, those that start agree, and nobody writes a second epoch."""
    ends, stored = race(drawn, schedule)
    assert len(stored) <= 1
    assert all(end.decision == stored[end.epoch - 1] and end.backing is stored[end.epoch - 1].backing for end in ends)


# ---------------------------------------------------------------------------------------------------------------------
# The table


@pytest.mark.clause("S-28")
def test_nobody_is_resolved_alone() -> None:
    """S-28, W-14: over the whole state space; resolved by a stored record, or by a policy that needs none."""
    ends = [(state.subject, p.outcome(state)) for state in states("policy")]
    for subject, end in ends:
        if isinstance(end, p.Resolved) and end.decision is None:
            assert subject.policy in {p.Policy.SOFT, p.Policy.ENABLE}
            assert not subject.coordination
        if isinstance(end, p.Resolved) and subject.policy is p.Policy.ENABLE:
            assert end.backing in {Backing.ATOMIC, Backing.CONDITIONAL}


def test_every_command_declares_three_answers_or_says_why_not() -> None:
    """S-28: done, not done, unknown; a read has no middle answer, a wait cannot fail."""
    for command in (p.Probe, p.StoreDecision):
        assert command.answers.done
        assert command.answers.not_done
        assert command.answers.unknown
    assert (p.ReadDecision.answers.not_done, p.ReadDecision.answers.unknown) == ((), (Unknown,))
    assert p.BackOff.answers.all() == (p.BackedOff,)


def test_the_wait_doubles_and_is_capped() -> None:
    """W-05: 100 ms, doubling, at most two seconds."""
    assert [backoff(tries) for tries in range(1, 8)] == [*BACKOFF, 2.0]


def test_a_foreign_command_is_refused() -> None:
    """S-28: nothing is carried out for a command this machine does not know."""
    with pytest.raises(ProtocolError, match="Command is not a command of this machine"):
        next(p.perform(Command(), settings()))


@pytest.mark.clause("S-27")
def test_the_decision_is_created_and_never_overwritten() -> None:
    """S-27: the conversation knows no call that changes or deletes a decision."""
    talk = p.perform(p.StoreDecision(POSITIVE), settings())
    written = (decision_key(1), encode_decision(POSITIVE))
    assert next(talk) == Call("coordination", "create_if_absent", written, "consensus")
