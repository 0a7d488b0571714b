"""TLC, on a model written by hand, and the explorer, on the production table, see the same worlds and holes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from attrs import evolve

from perago_core.attempt import ATTEMPT
from perago_core.machine.rows import Row
from perago_simulation import tlc
from perago_simulation.explore.exploration import Exploration
from perago_simulation.explore.search import explore
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.tlc import Config, TlcError, TlcGraph, TlcResult, check, setting_of
from perago_simulation.world.settings import NEEDS
from perago_simulation.world.state import World
from tests.simulation.tla_view import WORLD_ACTIONS, Watched, action_of, state

FOLDER = Path(__file__).parents[2] / "specs" / "tla"
SPECIFICATION = FOLDER / "Publish.tla"
CONFIGS = {path.stem.removeprefix("Publish_"): Config.read(path) for path in sorted(FOLDER.glob("Publish_*.cfg"))}

#: Generated, distinct, and which clauses are broken after how many states. A changed number is a changed protocol.
PINNED: dict[str, tuple[int, int, dict[str, int]]] = {
    "soft_retry": (1254, 612, {"S-01": 22, "S-02": 25, "S-02b": 25, "S-03": 22, "S-04": 22}),
    "soft_workflow": (1519, 788, {"S-04": 12, "S-15": 7}),
    "conditional_zombie": (13116, 6072, {}),
    "conditional_equal_trees": (4923, 2274, {}),
    "atomic_duplicate": (105677, 35487, {}),
    "atomic_redelivery": (6452, 2118, {}),
    "atomic_no_op": (6004, 2805, {}),
    "locked_takeover": (13493, 5252, {}),
    "locked_stranger": (1406, 740, {"S-15": 38}),
    "atomic_next": (6875, 3232, {}),
    "conditional_next": (10517, 4978, {}),
    "locked_next": (10996, 4369, {}),
    "conditional_unpinned": (7444, 3526, {"S-02": 60}),
    "soft_abreast": (2863, 1224, {"S-01": 21, "S-03": 21, "S-04": 21}),
    "atomic_abreast": (7151, 2990, {}),
    "atomic_abreast_equal": (70674, 28834, {}),
    "conditional_abreast": (97746, 38705, {"S-01": 47}),
    "locked_abreast": (5733, 2611, {}),
    "atomic_adoption": (7649, 3456, {}),
    "conditional_adoption": (14523, 5617, {}),
    "locked_adoption": (811, 518, {}),
    "conditional_twins": (7012, 3807, {}),
    "conditional_twins_replacing": (6337, 3432, {"S-02b": 31, "S-41": 27}),
}
#: Too large to compare state by state in a few seconds; their counts and verdicts are compared.
COUNTED_ONLY = {"atomic_duplicate", "conditional_abreast", "atomic_abreast_equal"}

CLAUSES = {"S01": "S-01", "S02": "S-02", "S02b": "S-02b", "S03": "S-03", "S04": "S-04", "S41": "S-41", "S15": "S-15"}
BROKEN = [(name, clause) for name, (_, _, broken) in PINNED.items() for clause in broken]


@cache
def explored(name: str) -> Exploration:
    clauses = [each for each in PROPERTIES if each.id in CLAUSES.values()]
    return explore(setting_of(CONFIGS[name]), clauses)


@cache
def checked(name: str) -> TlcResult:
    """Run TLC to the end: with the invariants that hold, because it stops at the first that does not."""
    broken = PINNED[name][2]
    holding = [invariant for invariant, clause in CLAUSES.items() if clause not in broken]
    # One worker: with more, TLC's search is not strictly breadth first, and the depth it says may be too large.
    return check(SPECIFICATION, CONFIGS[name].checking(*holding), workers=1, graph=name not in COUNTED_ONLY)


def graph_of(name: str) -> TlcGraph:
    graph = checked(name).graph
    assert graph is not None
    return graph


# ---------------------------------------------------------------------------------------------------------------------
# The same worlds


@pytest.mark.parametrize("name", PINNED)
def test_both_count_the_same(name: str) -> None:
    """Distinct states, generated states and depth, exactly, without any reduction or projection."""
    ours, theirs = explored(name), checked(name)
    assert ours.complete
    assert theirs.complete
    assert (theirs.generated, theirs.distinct) == (ours.generated, ours.distinct) == PINNED[name][:2]
    assert theirs.depth == ours.depth + 1  # TLC counts states, the explorer moves


def our_steps(name: str, graph: TlcGraph) -> Counter[tuple[str, str, str]]:
    """Return every move of the explorer's model as a step of the graph; each world must be a state of its own there."""
    named = {value: key for key, value in graph.states.items()}
    watched = Watched(setting_of(CONFIGS[name]))
    seen: dict[World, str] = {world: named[state(world)] for world in watched.beginnings()}
    assert set(seen.values()) == graph.initial
    steps: Counter[tuple[str, str, str]] = Counter()
    waiting = list(seen)
    while waiting:
        world = waiting.pop()
        for action, after in watched.moves(world):
            if after not in seen:
                seen[after] = named[state(after)]
                waiting.append(after)
            steps[seen[world], action, seen[after]] += 1
    assert len(set(seen.values())) == len(seen) == len(named)
    return steps


@pytest.mark.parametrize("name", [name for name in PINNED if name not in COUNTED_ONLY])
def test_both_take_the_same_steps_between_the_same_states(name: str) -> None:
    """Every world is one state, every state one world, and every move is the action that is its row."""
    graph = graph_of(name)
    assert our_steps(name, graph) == Counter(graph.steps)


def test_a_difference_that_leaves_the_counts_alone_is_seen(tmp_path: Path) -> None:
    """A store that goes on with an update it should begin again reaches the same states, by other steps."""
    right = "requests' = StartAgain(requests \\ {request})"
    text = SPECIFICATION.read_text(encoding="utf-8")
    assert text.count(right) == 1
    wrong = tmp_path / SPECIFICATION.name
    wrong.write_text(text.replace(right, "requests' = requests \\ {request}"), encoding="utf-8")
    found = check(wrong, CONFIGS["soft_retry"].checking(), graph=True)
    assert (found.generated, found.distinct) == PINNED["soft_retry"][:2]
    assert found.graph is not None
    different = our_steps("soft_retry", found.graph) - Counter(found.graph.steps)
    assert {action for _, action, _ in different} == {"P1_Report"}


# ---------------------------------------------------------------------------------------------------------------------
# The same verdicts


@pytest.mark.parametrize("name", PINNED)
def test_both_find_the_same_clauses_to_hold(name: str) -> None:
    """S-01 to S-04, S-15, S-41: TLC ran to the end with every clause the explorer found nothing against."""
    assert set(CONFIGS[name].invariants) == set(CLAUSES)
    assert explored(name).broken() == PINNED[name][2]
    assert checked(name).violated is None


@pytest.mark.parametrize(("name", "clause"), BROKEN, ids=str)
def test_both_break_a_clause_after_equally_many_steps(name: str, clause: str) -> None:
    """One worker makes TLC's search strictly breadth first, so its trace is a shortest one too."""
    (invariant,) = (invariant for invariant, each in CLAUSES.items() if each == clause)
    found = check(SPECIFICATION, CONFIGS[name].checking(invariant), workers=1)
    assert found.violated == invariant
    assert not found.complete
    assert found.trace[0] == "Init"
    assert len(found.trace) == explored(name).broken()[clause]


# ---------------------------------------------------------------------------------------------------------------------
# The specification and the table


def actions() -> dict[str, str]:
    """Return the actions of the specification that carry a row id, each with its text."""
    text = SPECIFICATION.read_text(encoding="utf-8")
    return {
        name: body
        for name, body in re.findall(r"^(\w+)\(r\) +==((?:.*\n)(?:[ \t].*\n)*)", text, re.MULTILINE)
        if re.match(r"[A-Z]+\d+_", name)
    }


def test_action_names_carry_the_ids_of_rows() -> None:
    """The id is a row's, the rest is the command the row asks for, and the action waits where the row waits."""
    rows: dict[str, Row] = {action_of(row): row for row in ATTEMPT.definition.rows}
    for name, body in actions().items():
        assert name in rows
        assert set(re.findall(r'Waits\(r, "(\w+)"\)', body)) <= {rows[name].phase.name}


def test_every_action_is_taken_somewhere() -> None:
    """Nothing in the specification holds only because it never happens."""
    taken = {action for name in PINNED if name not in COUNTED_ONLY for _, action, _ in graph_of(name).steps}
    assert taken == {*actions(), *WORLD_ACTIONS}


def test_every_configuration_is_compared() -> None:
    assert set(CONFIGS) == set(PINNED)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_configuration_has_the_store_its_backing_is_explored_on(name: str) -> None:
    """A store that can do less than the ladder's would leave rules out of the comparison that are explored there."""
    of = setting_of(CONFIGS[name])
    assert of.store == NEEDS[of.backing]


def test_the_page_beside_the_specification_has_the_numbers() -> None:
    lines = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| `") and line.count("|") == 6]
    told = {name.strip(" `"): [each.strip().replace(" ", "") for each in rest] for name, _, *rest in rows}
    assert told == {
        name: [str(generated), str(distinct), ",".join(f"{clause}{after}" for clause, after in broken.items())]
        for name, (generated, distinct, broken) in PINNED.items()
    }


# ---------------------------------------------------------------------------------------------------------------------
# Running TLC


@pytest.fixture
def _no_java_found_yet() -> Iterator[None]:
    tlc.java.cache_clear()
    yield
    tlc.java.cache_clear()


def _java_that_says(folder: Path, version: str) -> None:
    fake = folder / "java"
    fake.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    fake.chmod(0o755)


@pytest.mark.usefixtures("_no_java_found_yet")
def test_an_old_java_is_passed_over_for_the_packaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _java_that_says(tmp_path, "1.8.0_202")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tlc.java_version(tmp_path / "java") == 8
    assert tlc.java().parent != tmp_path
    found = check(SPECIFICATION, CONFIGS["soft_retry"].checking())
    assert (found.generated, found.distinct) == PINNED["soft_retry"][:2]


@pytest.mark.usefixtures("_no_java_found_yet")
def test_a_java_on_the_path_is_taken_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _java_that_says(tmp_path, "17.0.15")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tlc.java() == tmp_path / "java"
    with pytest.raises(TlcError, match="did not complete"):
        check(SPECIFICATION, CONFIGS["soft_retry"])


def test_what_is_not_a_java_has_no_version(tmp_path: Path) -> None:
    assert tlc.java_version(tmp_path / "java") == 0


def test_a_specification_that_does_not_parse_is_an_error_that_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "Publish.tla"
    broken.write_text("---- MODULE Publish ----\nSpec == \n====\n", encoding="utf-8")
    with pytest.raises(TlcError, match="Parsing or semantic analysis failed"):
        check(broken, CONFIGS["soft_retry"])


def test_a_clause_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(TlcError, match="S99"):
        check(SPECIFICATION, CONFIGS["soft_retry"].checking("S99"))


def test_a_run_that_takes_too_long_is_an_error() -> None:
    with pytest.raises(TlcError, match="did not end within"):
        check(SPECIFICATION, CONFIGS["atomic_duplicate"], seconds=0.05)


def test_a_configuration_round_trips_and_refuses_what_it_does_not_know() -> None:
    config = CONFIGS["soft_retry"]
    assert Config.parse(config.text()) == config
    with pytest.raises(TlcError, match="CHECK_DEADLOCK"):
        Config.parse("CHECK_DEADLOCK FALSE")
    with pytest.raises(TlcError, match="Losses"):
        setting_of(evolve(config, constants={**config.constants, "Losses": 1}))


def test_values_are_read_as_tlc_prints_them() -> None:
    text = '<< [ a |-> <<"C", 1>>,\n b |-> {<<1, <<>>>>, <<-2, <<>>>>} ], TRUE >>'
    assert tlc.read_value(text) == (
        tlc.record(a=("C", 1), b=frozenset({(1, ()), (-2, ())})),
        True,
    )
