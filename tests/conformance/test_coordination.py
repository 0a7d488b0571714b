"""What every coordination store promises the core: lock, consensus, intents and audit are built on this and no more."""

from __future__ import annotations

import pytest

from perago_core.names import escape
from perago_core.ports import Coordination, Entry
from tests.conformance.harness import CoordinationHarness
from tests.conformance.support import done, race, refused

#: So much longer than a lease's time that no store may still hold it, and no more: some stores really wait.
OVERDUE = 1.5


def stands(coordination: CoordinationHarness, key: str) -> str | None:
    entry = done(coordination.port.get(key))
    assert entry is None or entry.key == key
    return None if entry is None else entry.value


# ---------------------------------------------------------------------------------------------------------------------
# Keys and values


def test_a_key_nobody_wrote_is_absent(coordination: CoordinationHarness) -> None:
    assert done(coordination.port.get("nothing/here")) is None
    assert done(coordination.port.list("nothing/")) == ()


def test_the_first_to_create_a_key_is_the_one_who_stands(coordination: CoordinationHarness) -> None:
    port = coordination.port
    assert done(port.create_if_absent("k", "first")) == Entry("k", "first")
    assert done(port.create_if_absent("k", "second")) == Entry("k", "first")
    assert done(port.create_if_absent("k", "first")) == Entry("k", "first"), "asked again, it still stands"
    assert stands(coordination, "k") == "first"


def test_a_swap_happens_only_from_the_expected_value(coordination: CoordinationHarness) -> None:
    port = coordination.port
    done(port.create_if_absent("k", "one"))
    assert done(port.swap("k", "other", "two")) is False
    assert done(port.swap("k", None, "two")) is False
    assert stands(coordination, "k") == "one"
    assert done(port.swap("k", "one", "two")) is True
    assert stands(coordination, "k") == "two"


def test_a_swap_from_absent_creates_and_only_then(coordination: CoordinationHarness) -> None:
    port = coordination.port
    assert done(port.swap("k", "one", "two")) is False
    assert stands(coordination, "k") is None
    assert done(port.swap("k", None, "one")) is True
    assert done(port.swap("k", None, "two")) is False
    assert stands(coordination, "k") == "one"


def test_a_swap_to_nothing_deletes_and_the_key_can_be_made_anew(coordination: CoordinationHarness) -> None:
    port = coordination.port
    done(port.create_if_absent("k", "one"))
    assert done(port.swap("k", "two", None)) is False
    assert done(port.swap("k", "one", None)) is True
    assert done(port.get("k")) is None
    assert done(port.swap("k", "one", None)) is False
    assert done(port.create_if_absent("k", "again")) == Entry("k", "again")


def test_absent_swapped_for_absent_is_true_and_changes_nothing(coordination: CoordinationHarness) -> None:
    assert done(coordination.port.swap("k", None, None)) is True
    assert done(coordination.port.list("")) == ()


def test_an_empty_value_is_a_value(coordination: CoordinationHarness) -> None:
    """A gateway that leaves out empty fields must not make an empty value look like an absent key."""
    port = coordination.port
    assert done(port.create_if_absent("k", "")) == Entry("k", "")
    assert done(port.create_if_absent("k", "late")) == Entry("k", "")
    assert done(port.list("k")) == (Entry("k", ""),)
    assert done(port.swap("k", None, "x")) is False
    assert done(port.swap("k", "", "x")) is True
    assert done(port.swap("k", "x", "")) is True
    assert stands(coordination, "k") == ""


def test_keys_are_listed_in_order_and_by_prefix_only(coordination: CoordinationHarness) -> None:
    """T-O8: ``open/a`` is no prefix of what lies beside it."""
    port = coordination.port
    keys = ["open/a/2", "open/a/10", "open/a/1", "open/ab/1", "open", "opened/a/1", "z", "A"]
    for key in keys:
        done(port.create_if_absent(key, f"value of {key}"))
    listed = done(port.list("open/a/"))
    assert listed == tuple(Entry(key, f"value of {key}") for key in ("open/a/1", "open/a/10", "open/a/2"))
    assert [entry.key for entry in done(port.list(""))] == sorted(keys)


@pytest.mark.parametrize(
    "odd", ["%", "_", "*", "?", "[a]", "'", '"', "\\", "é日🙂", " ", "a\tb", "a\nb", "-- ;"], ids=repr
)
def test_no_character_of_a_key_or_value_has_a_meaning(coordination: CoordinationHarness, odd: str) -> None:
    """A prefix is a prefix, not a pattern, and nothing is cut or changed on the way."""
    port = coordination.port
    key = f"k/{odd}/x"
    done(port.create_if_absent("k/plain/x", "plain"))
    done(port.create_if_absent(key, odd))
    assert done(port.get(key)) == Entry(key, odd)
    assert done(port.list(f"k/{odd}/")) == (Entry(key, odd),)
    assert done(port.swap(key, odd, f"{odd}{odd}")) is True
    assert stands(coordination, key) == odd + odd


def test_keys_as_the_core_writes_them_stay_apart(coordination: CoordinationHarness) -> None:
    port = coordination.port
    keys = [f"open/{escape(repository)}/main/x" for repository in ("lake", "lake/eu", "lake%2Feu", "Lake")]
    for key in keys:
        done(port.create_if_absent(key, key))
    for key in keys:
        assert [entry.key for entry in done(port.list(key.removesuffix("x")))] == [key]


def test_a_long_value_comes_back_whole(coordination: CoordinationHarness) -> None:
    value = "0123456789abcdef" * 16_384
    done(coordination.port.create_if_absent("long", value))
    assert stands(coordination, "long") == value


def test_many_keys_are_all_listed(coordination: CoordinationHarness) -> None:
    port = coordination.port
    keys = [f"many/{number:04}" for number in range(300)]
    for key in reversed(keys):
        done(port.create_if_absent(key, "x"))
    assert [entry.key for entry in done(port.list("many/"))] == keys


def test_a_listing_can_be_had_a_part_at_a_time(coordination: CoordinationHarness) -> None:
    """S-38: whoever goes through all of history does not read it at once; what lies beside it is never part of it."""
    port = coordination.port
    keys = [f"many/{number:02}" for number in range(7)]
    for key in (*keys, "mane", "manz/1"):
        done(port.create_if_absent(key, "x"))
    parts: list[list[str]] = []
    after = ""
    while found := [entry.key for entry in done(port.list("many/", after, 3))]:
        parts.append(found)
        after = found[-1]
    assert parts == [keys[:3], keys[3:6], keys[6:]]
    assert done(port.list("many/", "many/02zzz", 1)) == (Entry("many/03", "x"),)
    assert [entry.key for entry in done(port.list("many/", "many/04"))] == keys[5:]
    assert [entry.key for entry in done(port.list("", "many/05"))] == ["many/06", "manz/1"]
    assert done(port.list("many/", "", 0)) == ()


# ---------------------------------------------------------------------------------------------------------------------
# Leases


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


# ---------------------------------------------------------------------------------------------------------------------
# Races


def create_once(port: Coordination, number: int, racer: int) -> tuple[str, str]:
    mine = f"racer {racer}"
    return mine, done(port.create_if_absent(f"race/{number}", mine)).value


def test_one_of_twenty_wins_every_creation(coordination: CoordinationHarness) -> None:
    """S-27: of the nodes that decide at once, one has decided."""
    for results in race(coordination.port, coordination.recipe, create_once, rounds=10, threads=20):
        winners = {stands for _, stands in results}
        assert len(winners) == 1
        assert sum(mine == stands for mine, stands in results) == 1


def swap_once(port: Coordination, number: int, racer: int) -> bool:
    key = f"swap/{number}"
    done(port.create_if_absent(key, "start"))
    return done(port.swap(key, "start", f"racer {racer}"))


def test_one_of_several_wins_every_swap(coordination: CoordinationHarness) -> None:
    for results in race(coordination.port, coordination.recipe, swap_once, rounds=10):
        assert results.count(True) == 1


def count_up(port: Coordination, number: int, _racer: int) -> int:
    """Add one, as often as it takes; give what was added to."""
    key = f"count/{number}"
    while True:
        entry = done(port.get(key))
        before = None if entry is None else entry.value
        if done(port.swap(key, before, str(int(before or 0) + 1))):
            return int(before or 0)


def test_no_update_is_lost(coordination: CoordinationHarness) -> None:
    for results in race(coordination.port, coordination.recipe, count_up, rounds=5):
        assert sorted(results) == list(range(len(results)))


def grant_once(port: Coordination, _number: int, _racer: int) -> str:
    return done(port.grant(3600.0))


def test_no_two_leases_share_a_name(leasing: CoordinationHarness) -> None:
    granted = [lease for leases in race(leasing.port, leasing.recipe, grant_once) for lease in leases]
    assert len(set(granted)) == len(granted)
    for lease in granted:
        done(leasing.port.revoke(lease))
