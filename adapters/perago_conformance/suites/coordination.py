"""What every coordination store promises the core: lock, consensus, intents and audit are built on this and no more."""

from __future__ import annotations

import pytest

from perago_conformance.harness import CoordinationHarness
from perago_conformance.support import done, race
from perago_core.names import escape
from perago_core.ports import Coordination, Entry


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
