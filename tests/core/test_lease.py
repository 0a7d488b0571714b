"""The lease machine: a lock that is held by one, known to be lost in time, and never brought back.

Each test names what it proves: capabilities W-, lessons T-W, facts F-, conflicts K-, invariants S-, crash windows CW-,
perturbations N-.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from attrs import define, evolve, field
from hypothesis import given, settings
from hypothesis import strategies as st

from perago_core import lease as l
from perago_core.answers import Done, Event, NotDone, Unknown
from perago_core.budget import PublishBudget
from perago_core.errors import CodecError, ProtocolError
from perago_core.lease.state import (
    FAILURES_MAX,
    decode_holder,
    decode_token,
    encode_holder,
    encode_token,
    lock_key,
    token_key,
)
from perago_core.machine.rows import Command
from perago_core.ports import Entry
from perago_core.values import Target
from perago_simulation.ports import SimulatedClock, SimulatedCoordination, SimulatedWorld
from tests.core.conversations import (
    DROPPED,
    LOST,
    REFUSED,
    Machine,
    Mishap,
    Ports,
    RatedClock,
    Run,
    converse,
    run_to_rest,
)
from tests.specs.menus import lease_menu
from tests.specs.vectors import states

LEASE = Machine(l.LEASE, l.perform)
LeaseRun: TypeAlias = Run[l.LeaseRequest, l.LeaseKnown]

TARGET = Target("lake", "main")
TTL, MARGIN = 10.0, 2.0
VALID = TTL - MARGIN


def request(
    owner: str = "execution-1", target: Target = TARGET, ttl: float = TTL, margin: float = MARGIN
) -> l.LeaseRequest:
    return l.LeaseRequest(target, owner, ttl, margin)


@define
class World:
    """One true clock, one coordination store, any number of processes."""

    simulated: SimulatedWorld = field(factory=SimulatedWorld)

    @property
    def clock(self) -> SimulatedClock:
        return self.simulated.clock()

    @property
    def coordination(self) -> SimulatedCoordination:
        return self.simulated.coordination()

    def ports(self, mishaps: dict[str, list[Mishap]] | None = None, clock: RatedClock | None = None) -> Ports:
        """Return a process its view of the world."""
        return Ports({"coordination": self.coordination, "clock": clock or self.clock}, self.clock, mishaps or {})

    def acquire(self, owner: str = "execution-1", target: Target = TARGET, **mishaps: list[Mishap]) -> LeaseRun:
        """Try to get the lock."""
        return run_to_rest(LEASE, request(owner, target), self.ports(mishaps))

    def acquire_with(self, mishaps: dict[str, list[Mishap]]) -> LeaseRun:
        """Try to get the lock while things go wrong."""
        return run_to_rest(LEASE, request(), self.ports(mishaps))

    def tick(self, run: LeaseRun, seconds: float) -> None:
        """Let time pass, say so, and carry out what follows."""
        self.clock.sleep(seconds)
        run.feed(l.Ticked(self.clock.now()))
        run.rest()

    def wait_until(self, time: float) -> None:
        """Let time pass until then."""
        self.clock.sleep(time - self.clock.now())

    def locked(self, target: Target = TARGET) -> bool:
        answer = self.coordination.get(lock_key(target))
        assert isinstance(answer, Done)
        return answer.value is not None

    def record(self, target: Target = TARGET) -> l.TokenRecord:
        answer = self.coordination.get(token_key(target))
        assert isinstance(answer, Done)
        assert answer.value is not None
        return decode_token(answer.value.value)


def held(run: LeaseRun) -> l.LeaseHold:
    hold = l.hold(run.state)
    assert hold is not None
    assert l.outcome(run.state) is None
    return hold


def ended(run: LeaseRun) -> l.LeaseEnd:
    outcome = l.outcome(run.state)
    assert outcome is not None
    assert l.hold(run.state) is None
    return outcome.end


def reason(run: LeaseRun) -> str:
    outcome = l.outcome(run.state)
    assert outcome is not None
    return outcome.reason


def release(run: LeaseRun) -> None:
    run.feed(l.ReleaseWanted())
    run.rest()


# ---------------------------------------------------------------------------------------------------------------------
# Asking


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": "lake/main"},
        {"owner": ""},
        {"owner": None},
        {"ttl": 0.0},
        {"ttl": -1.0},
        {"ttl": math.inf},
        {"ttl": math.nan},
        {"ttl": "10"},
        {"ttl": 2.0},
        {"margin": 0.0},
        {"margin": 10.0},
        {"margin": 11.0},
        {"margin": math.nan},
    ],
)
def test_a_request_that_contradicts_itself_cannot_exist(wrong: dict[str, Any]) -> None:
    """K-14, T-W13: the local deadline is strictly earlier than the store's, and there is one."""
    with pytest.raises(ValueError, match="LeaseRequest"):
        evolve(request(), **wrong)


@pytest.mark.clause("W-16", "T-W13")
def test_the_constants_are_the_documented_ones() -> None:
    """W-16, W-22, T-W13: ten seconds to live by default, five failures, local deadline before the store's."""
    budget = PublishBudget()
    asked = request(ttl=budget.lease_ttl, margin=budget.lease_margin)
    assert (asked.ttl, FAILURES_MAX) == (10.0, 5)
    assert asked.ttl - asked.margin < asked.ttl


@pytest.mark.clause("W-18")
@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_two_targets_never_share_a_lock(first: str, second: str, third: str, fourth: str) -> None:
    """W-18: whatever characters their names are made of."""
    targets = [
        Target(repo, branch) for repo, branch in ((first, second), (third, fourth)) if repo.strip() and branch.strip()
    ]
    for key in (lock_key, token_key):
        assert len({key(target) for target in targets}) == len(set(targets))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Target("a/b", "c"), Target("a", "b/c")),
        (Target("a%2Fb", "c"), Target("a/b", "c")),
        (Target("lake", "Main"), Target("lake", "main")),
        (Target("lake", "ä"), Target("lake", "a\u0308")),
        (Target("lake", "\ud800"), Target("lake", "\ud801")),
    ],
)
def test_similar_targets_do_not_contend(one: Target, other: Target) -> None:
    """W-18: one lock per target; two different targets are held side by side."""
    world = World()
    assert held(world.acquire("execution-1", one)).token == held(world.acquire("execution-2", other)).token == 1


# ---------------------------------------------------------------------------------------------------------------------
# Acquiring


def test_the_first_holder_has_token_one_and_nothing_to_wait_for() -> None:
    """W-16, W-24: lease, lock bound to it, record, token; all charged to the lock."""
    world = World()
    run = world.acquire()
    assert held(run) == l.LeaseHold("lease-1", 1, VALID, clean=True)
    assert world.record() == l.TokenRecord(1, "execution-1", released=False)
    calls = [call for call in run.ports.log if call.port != "clock"]
    assert [call.method for call in calls] == ["grant", "create_if_absent", "get", "swap"]
    assert {call.charge for call in calls} == {"lock"}


def test_a_contended_lock_is_refused_at_once() -> None:
    """W-17: busy is an answer, not a wait; the lease nobody needs is given back, the holder keeps the lock."""
    world = World()
    first = world.acquire("execution-1")
    second = world.acquire("execution-2")
    assert ended(second) is l.LeaseEnd.BUSY
    assert "execution-1" in reason(second)
    assert second.ports.slept() == []
    assert world.coordination.leases() == (held(first).lease,)
    assert world.locked()


@pytest.mark.clause("T-W12")
def test_two_executions_in_one_process_contend_like_two_processes() -> None:
    """T-W12, S-23: the same ports, the same clock, another execution id: busy. The lock is not reentrant."""
    world = World()
    ports = world.ports()
    assert held(run_to_rest(LEASE, request("execution-1"), ports)).token == 1
    assert ended(run_to_rest(LEASE, request("execution-2"), ports)) is l.LeaseEnd.BUSY


def test_a_lock_of_our_own_earlier_lease_is_not_ours() -> None:
    """T-W9: owner and lease are compared; the lock would vanish with the lease it is bound to."""
    world = World()
    world.acquire("execution-1")
    assert ended(world.acquire("execution-1")) is l.LeaseEnd.BUSY


def test_a_lock_nobody_can_read_is_somebodys() -> None:
    """T-W9, W-17: existence is enough to be refused."""
    world = World()
    world.coordination.create_if_absent(lock_key(TARGET), "nonsense")
    run = world.acquire()
    assert ended(run) is l.LeaseEnd.BUSY
    assert "cannot be read" in reason(run)


@pytest.mark.parametrize(
    ("method", "mishap"),
    [
        ("grant", DROPPED),
        ("grant", LOST),
        ("grant", REFUSED),
        ("create_if_absent", DROPPED),
        ("create_if_absent", LOST),
        ("create_if_absent", REFUSED),
        ("get", DROPPED),
        ("get", LOST),
        ("get", REFUSED),
        ("swap", DROPPED),
        ("swap", LOST),
    ],
)
@pytest.mark.parametrize("revoke", [None, DROPPED, LOST, REFUSED])
def test_an_acquisition_without_an_answer_is_not_held(method: str, mishap: Mishap, revoke: Mishap | None) -> None:
    """N-04: the lease we know of is given back, also when that goes wrong; nobody believes in a lock."""
    world = World()
    run = world.acquire_with({method: [mishap], "revoke": [] if revoke is None else [revoke]})
    assert ended(run) is l.LeaseEnd.NOT_HELD
    assert mishap.answer is not None
    assert reason(run) == mishap.answer.reason
    assert run.ports.count("revoke") == (0 if method == "grant" else 1)
    if revoke in {None, LOST}:
        assert not world.locked()


def test_a_creation_that_landed_unseen_does_not_block_the_next_one() -> None:
    """N-04, CW-33: after giving the lease back the lock is free, and the token still only grows."""
    world = World()
    world.acquire("execution-1", create_if_absent=[LOST])
    assert held(world.acquire("execution-2")).token == 1


@pytest.mark.parametrize("text", ["", "nonsense", "[" * 100_000, "{}", "[]", '{"schema": 2}'])
def test_a_token_record_nobody_can_read_is_not_overwritten(text: str) -> None:
    """T-W9: malformed or newer is not absent."""
    world = World()
    world.coordination.create_if_absent(token_key(TARGET), text)
    assert ended(world.acquire()) is l.LeaseEnd.NOT_HELD
    assert world.coordination.get(token_key(TARGET)) == Done(Entry(token_key(TARGET), text))
    assert not world.locked()


def test_a_record_written_by_another_program_is_taken_over_by_its_very_text() -> None:
    """T-W5: another language spaces its JSON differently; the token is the next one all the same."""
    world = World()
    text = '{"token":7,\n "schema":1, "released":true, "owner":"elsewhere", "type":"lease.TokenRecord"}'
    world.coordination.create_if_absent(token_key(TARGET), text)
    assert held(world.acquire()) == l.LeaseHold("lease-1", 8, VALID, clean=True)


def turned_to(run: LeaseRun, phase: l.Phase) -> LeaseRun:
    while run.state.phase is not phase:
        run.turn()
    return run


@pytest.mark.clause("T-W4")
def test_a_token_that_was_taken_by_another_is_a_loss() -> None:
    """T-W4, T-W5: exactly the next number or nothing; a failed condition is a loss, not a warning."""
    world = World()
    slow = turned_to(Run(LEASE, request("execution-1"), world.ports()), l.Phase.OWN_TOKEN)
    world.clock.sleep(TTL)
    fast = world.acquire("execution-2")
    slow.rest()
    assert ended(slow) is l.LeaseEnd.LOST
    assert "taken the next token" in reason(slow)
    assert held(fast).token == 1
    assert world.record().owner == "execution-2"


def test_a_refused_token_is_a_loss() -> None:
    """T-W4: the store said no; nothing more is asked for."""
    run = World().acquire(swap=[REFUSED])
    assert ended(run) is l.LeaseEnd.LOST
    assert reason(run) == "refused"


@pytest.mark.parametrize("method", ["grant", "create_if_absent", "get", "swap"])
def test_an_acquisition_that_took_too_long_is_never_held(method: str) -> None:
    """S-23, S-24, N-06: the deadline counts from the sending of the grant, and is checked with the last answer."""
    world = World()
    assert ended(world.acquire_with({method: [Mishap(after=VALID)]})) is l.LeaseEnd.LOST
    assert held(World().acquire_with({method: [Mishap(after=VALID - 0.5)]})).until == VALID


@pytest.mark.clause("W-19")
def test_tokens_only_grow() -> None:
    """W-19, T-W5: over clean releases and crashes alike."""
    world = World()
    tokens: list[int] = []
    for number in range(6):
        run = world.acquire(f"execution-{number}")
        tokens.append(held(run).token)
        if number % 2:
            release(run)
        else:
            world.clock.sleep(TTL)
    assert tokens == [1, 2, 3, 4, 5, 6]


# ---------------------------------------------------------------------------------------------------------------------
# Holding


def test_a_renewal_is_due_after_a_third_of_the_time_to_live() -> None:
    """W-16: not before; and the new deadline counts from the sending of the renewal."""
    world = World()
    run = world.acquire()
    world.tick(run, 3.0)
    assert run.ports.count("keep_alive") == 0
    world.tick(run, 1.0)
    assert run.ports.count("keep_alive") == 1
    assert held(run).until == 4.0 + VALID


def test_a_holder_that_renews_keeps_the_lock() -> None:
    """W-16, W-01: for as long as it likes, and everybody else stays out."""
    world = World()
    run = world.acquire()
    for _ in range(100):
        world.tick(run, 1.0)
        assert held(run).until > world.clock.now()
    assert ended(world.acquire("execution-2")) is l.LeaseEnd.BUSY
    assert held(run).token == 1


def test_a_slow_renewal_counts_from_its_sending() -> None:
    """S-23, N-06: the answer took three seconds; they are not ours."""
    world = World()
    run = world.acquire(keep_alive=[Mishap(before=1.0, after=2.0)])
    world.tick(run, 4.0)
    assert world.clock.now() == 7.0
    assert held(run).until == 4.0 + VALID


@pytest.mark.clause("S-24")
def test_without_renewal_the_deadline_ends_it_before_the_store_does() -> None:
    """W-16, W-20, S-24: at the deadline itself it is over, while the store still has the lock."""
    world = World()
    run = world.acquire(keep_alive=[DROPPED])
    world.tick(run, VALID - 0.001)
    assert held(run).until == VALID
    world.tick(run, 0.001)
    assert ended(run) is l.LeaseEnd.LOST
    assert world.locked()
    world.wait_until(TTL)
    assert not world.locked()


@pytest.mark.parametrize("late", [0.0, 0.5, 1.9])
def test_a_renewal_answered_after_the_old_deadline_does_not_bring_it_back(late: float) -> None:
    """N-06: the store did renew; this process had to count the lease as lost in between."""
    world = World()
    run = world.acquire(keep_alive=[Mishap(after=VALID - 4.0 + late)])
    world.tick(run, 4.0)
    assert ended(run) is l.LeaseEnd.LOST
    assert "deadline" in reason(run)
    assert world.locked()


def test_the_deadline_passes_also_while_a_renewal_is_on_its_way() -> None:
    """T-W3, W-20: a tick ends it; the answer that comes afterwards changes nothing."""
    world = World()
    run = world.acquire()
    world.wait_until(4.0)
    run.feed(l.Ticked(4.0))
    assert held(run).until == VALID
    run.feed(l.Ticked(VALID - 1.0))
    assert held(run).until == VALID
    run.feed(l.Ticked(VALID))
    assert ended(run) is l.LeaseEnd.LOST
    assert run.idle
    with pytest.raises(ProtocolError, match="the machine has ended"):
        run.feed(l.KeptAlive(4.0, VALID))
    assert ended(run) is l.LeaseEnd.LOST


@pytest.mark.clause("W-22")
@pytest.mark.parametrize("mishap", [DROPPED, LOST])
def test_five_unanswered_renewals_in_a_row_are_a_loss(mishap: Mishap) -> None:
    """W-22, N-06: four are not; whether the store renewed or not."""
    world = World()
    run = world.acquire(keep_alive=[mishap] * 5)
    world.wait_until(4.0)
    for failures in range(1, 5):
        world.tick(run, 0.1)
        assert held(run).until == VALID
        assert run.state.known.failures == failures
    world.tick(run, 0.1)
    assert ended(run) is l.LeaseEnd.LOST
    assert mishap.answer is not None
    assert reason(run) == mishap.answer.reason


@pytest.mark.parametrize("failures", [1, 2, 3, 4])
def test_one_answered_renewal_forgets_the_failures(failures: int) -> None:
    """W-22, N-06: failures 1..4, then success, and the count starts again."""
    world = World()
    run = world.acquire(keep_alive=[*[DROPPED] * failures, Mishap(), *[DROPPED] * 5])
    world.wait_until(4.0)
    for _ in range(failures + 1):
        world.tick(run, 0.1)
    assert run.state.known.failures == 0
    assert held(run).until > VALID
    world.clock.sleep(4.0)
    for _ in range(4):
        world.tick(run, 0.1)
    assert held(run).token == 1
    world.tick(run, 0.1)
    assert ended(run) is l.LeaseEnd.LOST


def test_an_unanswered_renewal_that_outlasts_the_deadline_is_a_loss() -> None:
    """N-06, S-24: one failure is enough when its answer did not come in time."""
    world = World()
    run = world.acquire(keep_alive=[Mishap(happens=False, answer=Unknown("timeout"), after=VALID)])
    world.tick(run, 4.0)
    assert ended(run) is l.LeaseEnd.LOST


def test_a_lease_that_is_gone_is_lost_at_once() -> None:
    """W-20, N-06: an operator ended it; the next renewal says so, long before the deadline."""
    world = World()
    run = world.acquire()
    world.coordination.revoke(held(run).lease)
    world.tick(run, 4.0)
    assert ended(run) is l.LeaseEnd.LOST
    assert "gone" in reason(run)


def test_a_refused_renewal_is_a_loss() -> None:
    """T-W4: the store will not renew, so it is over."""
    world = World()
    run = world.acquire(keep_alive=[REFUSED])
    world.tick(run, 4.0)
    assert ended(run) is l.LeaseEnd.LOST


def lost_ways() -> list[tuple[l.LeaseState, Event]]:
    """Every way from holding to having lost."""
    world = World()
    run = world.acquire()
    before = run.state
    renewing = l.step(before, l.Ticked(4.0)).state
    releasing = l.step(before, l.ReleaseWanted()).state
    tired = renewing
    for _ in range(4):
        tired = l.step(l.step(tired, Unknown("", now=4.0)).state, l.Ticked(4.0)).state
    return [
        (before, l.Ticked(VALID)),
        (renewing, l.Ticked(VALID)),
        (renewing, l.KeptAlive(4.0, VALID)),
        (renewing, NotDone("")),
        (renewing, Unknown("", now=VALID)),
        (tired, Unknown("", now=4.0)),
        (releasing, NotDone("")),
    ]


@pytest.mark.clause("S-25", "T-W3")
@pytest.mark.parametrize(("state", "event"), lost_ways())
def test_lost_is_immediate_absorbing_and_asks_for_nothing(state: l.LeaseState, event: Event) -> None:
    """S-25, W-21, T-W3, W-01: the very step that learns of it returns it, with no command and no way back."""
    after, commands = l.step(state, event)
    assert commands == ()
    assert l.hold(after) is None
    outcome = l.outcome(after)
    assert outcome is not None
    assert outcome.end is l.LeaseEnd.LOST
    assert outcome.reason
    for each in {event for other in states("lease") for event in lease_menu(other)}:
        with pytest.raises(ProtocolError, match="the machine has ended"):
            l.step(after, each)


# ---------------------------------------------------------------------------------------------------------------------
# Releasing and taking over


def test_a_clean_release_leaves_nothing_to_wait_for() -> None:
    """W-24, CW-34: record marked first, then the lease ended; the successor is clean."""
    world = World()
    run = world.acquire("execution-1")
    release(run)
    assert ended(run) is l.LeaseEnd.RELEASED
    assert reason(run) == ""
    assert [call.method for call in run.ports.log[-2:]] == ["swap", "revoke"]
    assert world.record() == l.TokenRecord(1, "execution-1", released=True)
    assert held(world.acquire("execution-2")) == l.LeaseHold("lease-2", 2, VALID, clean=True)


@pytest.mark.clause("T-W6")
def test_wanting_to_release_ends_the_hold_at_once() -> None:
    """T-W6: nothing passes the validity check between the wish and its execution."""
    run = World().acquire()
    run.feed(l.ReleaseWanted())
    assert l.hold(run.state) is None
    assert l.outcome(run.state) is None


@pytest.mark.clause("L-04")
def test_after_a_crash_the_successor_waits_for_the_lease_and_is_told_that_it_was_unclean() -> None:
    """W-19, W-24, T-W14, T-W10: failover within the time to live; the record outlives the process that wrote it."""
    world = World()
    world.acquire("execution-1")
    world.wait_until(TTL - 0.001)
    assert ended(world.acquire("execution-2")) is l.LeaseEnd.BUSY
    world.wait_until(TTL)
    assert held(world.acquire("execution-3")) == l.LeaseHold("lease-3", 2, TTL + VALID, clean=False)


def test_a_crash_between_the_lock_and_the_token_is_nobodys_turn() -> None:
    """CW-33: it never held the lock, so the successor finds the record of the one before."""
    world = World()
    release(world.acquire("execution-1"))
    turned_to(Run(LEASE, request("execution-2"), world.ports()), l.Phase.OWN_TOKEN)
    world.wait_until(TTL)
    assert held(world.acquire("execution-3")) == l.LeaseHold("lease-3", 2, TTL + VALID, clean=True)


def test_a_crash_between_mark_and_end_is_a_clean_release() -> None:
    """CW-34: the successor waits for the lease, and then for nothing else."""
    world = World()
    run = world.acquire("execution-1")
    run.feed(l.ReleaseWanted())
    turned_to(run, l.Phase.RELEASE)
    world.wait_until(TTL)
    assert held(world.acquire("execution-2")).clean


@pytest.mark.clause("T-W11")
def test_a_release_after_a_successor_took_over_is_quiet_and_touches_nothing() -> None:
    """T-W11, F-10, S-25: the swap finds another record; the successor keeps lock, lease and token."""
    world = World()
    first = world.acquire("execution-1")
    world.wait_until(TTL)
    second = world.acquire("execution-2")
    release(first)
    assert ended(first) is l.LeaseEnd.LOST
    assert world.record() == l.TokenRecord(2, "execution-2", released=False)
    world.tick(second, 4.0)
    assert held(second).token == 2
    assert world.locked()


@pytest.mark.parametrize(("mishap", "clean"), [(DROPPED, False), (LOST, True)])
def test_a_release_nobody_confirmed_still_ends_the_lease(mishap: Mishap, *, clean: bool) -> None:
    """N-04: at worst the successor waits for nothing."""
    world = World()
    run = world.acquire("execution-1", swap=[Mishap(), mishap])
    release(run)
    assert ended(run) is l.LeaseEnd.RELEASED
    assert mishap.answer is not None
    assert reason(run) == mishap.answer.reason
    assert held(world.acquire("execution-2")).clean is clean


@pytest.mark.clause("L-04")
@pytest.mark.parametrize("mishap", [DROPPED, LOST, REFUSED])
def test_a_lease_that_could_not_be_ended_ends_by_itself(mishap: Mishap) -> None:
    """N-04, W-19: released all the same, and the reason is there to be logged."""
    world = World()
    run = world.acquire("execution-1", revoke=[mishap])
    release(run)
    assert ended(run) is l.LeaseEnd.RELEASED
    assert mishap.answer is not None
    assert reason(run) == mishap.answer.reason
    world.wait_until(TTL)
    assert held(world.acquire("execution-2")).clean


def test_a_refused_mark_is_a_loss() -> None:
    """T-W4: whoever may not write the record does not own it."""
    run = World().acquire(swap=[Mishap(), REFUSED])
    release(run)
    assert ended(run) is l.LeaseEnd.LOST


@pytest.mark.parametrize("mishap", [DROPPED, LOST, REFUSED])
def test_busy_stays_busy_when_the_lease_cannot_be_given_back(mishap: Mishap) -> None:
    """W-17: why it was refused matters more."""
    world = World()
    world.acquire("execution-1")
    run = world.acquire("execution-2", revoke=[mishap])
    assert ended(run) is l.LeaseEnd.BUSY
    assert "execution-1" in reason(run)


def test_releasing_twice_changes_nothing() -> None:
    """T-W16: the calls are idempotent, and a second wish is refused with the state unchanged."""
    world = World()
    run = world.acquire()
    release(run)
    before = world.coordination.list("")
    again = [type(converse(l.perform(command, request()), world.ports())) for command in run.commands[-2:]]
    assert again == [NotDone, l.LeaseRevoked]
    assert world.coordination.list("") == before
    state = run.state
    with pytest.raises(ProtocolError, match="RELEASED"):
        run.feed(l.ReleaseWanted())
    assert run.state is state


def test_no_key_is_ever_deleted_by_name() -> None:
    """F-10: no swap to nothing anywhere; a lock goes with its own lease only."""
    world = World()
    run = world.acquire()
    world.tick(run, 4.0)
    release(run)
    swaps = [call.args for call in run.ports.log if call.method == "swap"]
    assert len(swaps) == 2
    assert all(args[2] is not None and args[0] == token_key(TARGET) for args in swaps)
    assert {call.method for call in run.ports.log} <= {
        "now",
        "grant",
        "create_if_absent",
        "get",
        "swap",
        "keep_alive",
        "revoke",
    }


# ---------------------------------------------------------------------------------------------------------------------
# Several processes


@define
class Process:
    """A worker with a clock of its own, running one execution after the other."""

    world: World
    name: str
    clock: RatedClock
    executions: int = 0
    run: LeaseRun | None = None
    mishaps: dict[str, list[Mishap]] = field(factory=dict[str, list[Mishap]])

    def act(self, action: str) -> None:
        run = self.run
        if run is None or run.ended or action == "crash":
            self.executions += 1
            ports = self.world.ports({method: list(each) for method, each in self.mishaps.items()}, self.clock)
            self.run = Run(LEASE, request(f"{self.name}-{self.executions}"), ports)
        elif action == "release" and run.state.phase is l.Phase.HELD:
            run.feed(l.ReleaseWanted())
        elif action == "tick" and l.hold(run.state) is not None:
            run.feed(l.Ticked(self.clock.now()))
        elif action == "rest":
            run.rest()
        elif not run.idle:
            run.turn()

    @property
    def believes(self) -> l.LeaseHold | None:
        """Return what this process believes to hold right now, by its own clock."""
        hold = None if self.run is None else l.hold(self.run.state)
        return hold if hold is not None and self.clock.now() < hold.until else None


#: Mostly to work without interruption, and mostly at once: what matters is the rare moment in between.
actions = st.tuples(
    st.sampled_from(["rest", "rest", "rest", "turn", "turn", "tick", "tick", "release", "crash"]),
    st.integers(0, 1),
    st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.0, 4.0, VALID, TTL]),
)
mishaps = st.dictionaries(
    st.sampled_from(["grant", "create_if_absent", "get", "swap", "keep_alive", "revoke"]),
    st.lists(st.sampled_from([DROPPED, LOST, REFUSED, Mishap(before=4.0), Mishap(after=4.0)]), min_size=1, max_size=3),
    max_size=2,
)
#: A clock may be slow by up to margin / ttl and as fast as it likes.
rates = st.sampled_from([1.001 * VALID / TTL, 0.9, 1.0, 1.5])


@pytest.mark.clause("S-23")
@settings(max_examples=400)
@given(
    st.lists(st.tuples(rates, st.floats(0, 1000), mishaps), min_size=2, max_size=2),
    st.lists(actions, min_size=12, max_size=40),
)
def test_two_never_believe_to_hold_one_lock_at_the_same_time(
    clocks: list[tuple[float, float, dict[str, list[Mishap]]]],
    schedule: list[tuple[str, int, float]],
) -> None:
    """S-23, S-24, N-06, N-10, T-W12: any order of calls, crashes, lost and slow answers, bounded clock rates."""
    world = World()
    processes = [
        Process(world, f"worker-{index}", RatedClock(world.clock, rate, offset), mishaps=mishap)
        for index, (rate, offset, mishap) in enumerate(clocks)
    ]
    newest = 0
    for action, index, seconds in schedule:
        processes[index].act(action)
        for at in (0.0, seconds):
            world.clock.sleep(at)
            believed = [each.believes for each in processes if each.believes is not None]
            assert len(believed) <= 1
            # Who holds the lock has the greatest token there is: nobody ever held a greater one.
            assert all(hold.token >= newest for hold in believed)
            newest = max([newest, *(hold.token for hold in believed)])


@pytest.mark.clause("S-23")
def test_a_clock_beyond_the_bound_breaks_exclusion() -> None:
    """N-10, S-23: the counterexample that says what the margin is for; a clock at half speed outlives its lease."""
    world = World()
    slow = Process(world, "slow", RatedClock(world.clock, 0.5))
    slow.act("begin")
    while slow.believes is None:
        slow.act("turn")
    world.clock.sleep(TTL)
    assert held(world.acquire("fast")).token == 2
    assert slow.believes is not None


# ---------------------------------------------------------------------------------------------------------------------
# The table and the records


def test_held_means_held() -> None:
    """S-24: a hold exists in exactly two phases, and always has a token and a lease."""
    for state in states("lease"):
        hold = l.hold(state)
        assert (hold is not None) is (state.phase in {l.Phase.HELD, l.Phase.RENEWAL})
        assert hold is None or (hold.token >= 1 and hold.lease == "lease-1")


def test_every_command_declares_three_answers() -> None:
    """N-04: done, not done, unknown, for each."""
    commands = (l.Grant, l.CreateLock, l.ReadToken, l.TakeToken, l.KeepAlive, l.MarkReleased, l.Revoke)
    assert all(each.answers.done and each.answers.not_done and each.answers.unknown for each in commands)


def test_a_foreign_command_is_refused() -> None:
    """S-25: nothing is carried out for a command this machine does not know."""
    with pytest.raises(ProtocolError, match="Command is not a command of this machine"):
        next(l.perform(Command(), request()))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (l.Granted, ("", 0.0)),
        (l.Granted, ("lease-1", math.inf)),
        (l.Granted, ("lease-1", -1.0)),
        (l.Ticked, (math.nan,)),
        (l.KeptAlive, (2.0, 1.0)),
        (l.TokenRecord, (-1, "execution-1", True)),
        (l.LeaseHold, ("lease-1", 1, 1.0, None)),
    ],
)
def test_a_malformed_fact_cannot_exist(kind: Callable[..., object], values: tuple[Any, ...]) -> None:
    """N-10: a lease sent at infinity would never end; an answer never comes before its request."""
    with pytest.raises(ValueError, match=r"must be|later than"):
        kind(*values)


@given(st.integers(0), st.text(min_size=1).filter(str.strip), st.booleans(), st.text())
def test_records_read_back_as_they_were_written(token: int, owner: str, released: bool, lease: str) -> None:
    """T-W10: nothing is lost on the way."""
    record = l.TokenRecord(token, owner, released)
    assert decode_token(encode_token(record)) == record
    assert decode_holder(encode_holder(owner, lease)) == (owner, lease)


TOKEN = json.loads(encode_token(l.TokenRecord(1, "execution-1", released=False)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": 2},
        {"schema": True},
        {"schema": 1.0},
        {"token": -1},
        {"token": True},
        {"token": "1"},
        {"owner": ""},
        {"owner": 1},
        {"released": 0},
        {"more": 1},
    ],
)
def test_a_malformed_token_record_is_refused(wrong: dict[str, Any]) -> None:
    """T-W9: field by field."""
    with pytest.raises(CodecError):
        decode_token(json.dumps(TOKEN | wrong))


@pytest.mark.parametrize("wrong", [{"owner": 1}, {"lease": None}, {"schema": 2}, {"more": 1}])
def test_a_malformed_holder_is_refused(wrong: dict[str, Any]) -> None:
    """T-W9: field by field."""
    with pytest.raises(CodecError):
        decode_holder(json.dumps(json.loads(encode_holder("execution-1", "lease-1")) | wrong))
