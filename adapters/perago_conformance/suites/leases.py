"""What a coordination store with leases promises besides: locks and signs of life are built on it."""

from __future__ import annotations

from perago_conformance.harness import CoordinationHarness
from perago_conformance.suites.coordination import stands
from perago_conformance.support import done, race, refused
from perago_core.ports import Coordination, Entry

#: So much longer than a lease's time that no store may still hold it, and no more: some stores really wait.
OVERDUE = 1.5


def test_a_lease_that_is_kept_alive_keeps_its_keys(leasing: CoordinationHarness) -> None:
    port, ttl = leasing.port, leasing.ttl
    lease = done(port.grant(ttl))
    done(port.create_if_absent("lock", "mine", lease))
    for _ in range(5):
        leasing.clock.sleep(ttl / 3)
        assert done(port.keep_alive(lease)) is True
    assert stands(leasing, "lock") == "mine"


def test_a_lease_that_runs_out_takes_its_keys_and_no_others(leasing: CoordinationHarness) -> None:
    port, ttl = leasing.port, leasing.ttl
    lease, other = done(port.grant(ttl)), done(port.grant(100 * ttl))
    assert lease != other
    done(port.create_if_absent("gone/a", "1", lease))
    done(port.create_if_absent("gone/b", "2", lease))
    done(port.create_if_absent("kept", "3"))
    done(port.create_if_absent("also kept", "4", other))
    leasing.clock.sleep(OVERDUE * ttl)
    assert done(port.list("")) == (Entry("also kept", "4"), Entry("kept", "3"))
    assert done(port.get("gone/a")) is None


def test_a_lease_that_has_run_out_cannot_be_kept_alive(leasing: CoordinationHarness) -> None:
    """N-06: a dead lease's keep-alive answers, and the answer is no."""
    port, ttl = leasing.port, leasing.ttl
    lease = done(port.grant(ttl))
    leasing.clock.sleep(OVERDUE * ttl)
    assert done(port.keep_alive(lease)) is False
    assert done(port.keep_alive(lease)) is False


def test_a_lease_that_has_run_out_binds_nothing(leasing: CoordinationHarness) -> None:
    """S-23: a paused worker that wakes after its lease must not create the lock it thinks it is entitled to."""
    port, ttl = leasing.port, leasing.ttl
    lease = done(port.grant(ttl))
    leasing.clock.sleep(OVERDUE * ttl)
    refused(port.create_if_absent("lock", "zombie", lease))
    assert stands(leasing, "lock") is None


def test_after_a_lease_has_run_out_the_next_holder_gets_the_key(leasing: CoordinationHarness) -> None:
    """L-04."""
    port, ttl = leasing.port, leasing.ttl
    first = done(port.grant(ttl))
    done(port.create_if_absent("lock", "first", first))
    second = done(port.grant(100 * ttl))
    assert done(port.create_if_absent("lock", "second", second)).value == "first"
    leasing.clock.sleep(OVERDUE * ttl)
    assert done(port.create_if_absent("lock", "second", second)).value == "second"
    done(port.revoke(first))
    assert stands(leasing, "lock") == "second", "the first one's end must not take the second one's key"


def test_a_revoked_lease_takes_its_keys_at_once_and_revoking_is_idempotent(leasing: CoordinationHarness) -> None:
    port = leasing.port
    lease = done(port.grant(100 * leasing.ttl))
    done(port.create_if_absent("lock", "mine", lease))
    done(port.revoke(lease))
    assert stands(leasing, "lock") is None
    done(port.revoke(lease))
    assert done(port.keep_alive(lease)) is False


def test_a_key_that_stands_is_not_bound_to_the_lease_of_who_came_second(leasing: CoordinationHarness) -> None:
    port = leasing.port
    done(port.create_if_absent("k", "unbound"))
    lease = done(port.grant(100 * leasing.ttl))
    assert done(port.create_if_absent("k", "second", lease)).value == "unbound"
    done(port.revoke(lease))
    assert stands(leasing, "k") == "unbound"


def test_a_lease_without_a_time_is_refused(leasing: CoordinationHarness) -> None:
    for ttl in (0.0, -1.0):
        refused(leasing.port.grant(ttl))


def grant_once(port: Coordination, _number: int, _racer: int) -> str:
    return done(port.grant(3600.0))


def test_no_two_leases_share_a_name(leasing: CoordinationHarness) -> None:
    granted = [lease for leases in race(leasing.port, leasing.recipe, grant_once) for lease in leases]
    assert len(set(granted)) == len(granted)
    for lease in granted:
        done(leasing.port.revoke(lease))
