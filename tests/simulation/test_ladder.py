"""The ladder is what the explorer finds, and the register of known holes is exactly that.

Each time every line that is small is explored anew, one of every environment, and some of the large ones, drawn by
another seed each time; ``PERAGO_CRASH_SEED`` draws them again, ``PERAGO_MATRIX=full`` explores all of them. What every
line says is then read from the page.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from perago_core.attempt import ATTEMPT
from perago_core.values import SHARING, Backing
from perago_simulation.catalogue.ladder import (
    COLUMNS,
    ENVIRONMENTS,
    GROUPS,
    REPLACING,
    SHARED,
    UNCONDITIONED,
    UNREACHED,
    Rung,
    fired,
    ladder,
    ladder_text,
    lines,
    named,
    rungs,
)
from perago_simulation.world.settings import Setting
from tests.support.crash.seeds import FULL, seed

SPECS = Path(__file__).parents[2] / "specs"
REGISTER = SPECS / "residuals.json"
PAGE = SPECS / "ladder.md"

#: What is said about the ledger itself can only be broken where there is one.
ABOUT_THE_LEDGER = {"S-18", "S-19", "S-33c"}

#: A line of so many worlds is small. All small ones, and of each environment the smallest, are some two million worlds.
SMALL = 40_000
#: A large line that fires rows which no small one fires.
ALONE = ("locked", "interruptions")
#: How many worlds of large lines are explored beside them: all of it takes about two minutes of two cores.
DRAWN = 800_000


def register() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(REGISTER.read_text(encoding="utf-8"))
    return entries


@cache
def page() -> Mapping[tuple[str, str], dict[str, str]]:
    """Read the lines of the page, by who promises and where: the cell of each column."""
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    return {(row[0], row[1]): dict(zip(COLUMNS, row, strict=True)) for row in rows}


@cache
def told() -> Mapping[tuple[str, str, str], str]:
    """Read what the page says is broken: who promises, where, which clause; in how many steps."""
    broken: dict[tuple[str, str, str], str] = {}
    for (backing, environment), cells in page().items():
        for column, cell in list(cells.items())[2:-2]:
            for clause, steps in _clauses(column, cell):
                broken[backing, environment, clause] = steps
    return broken


def _clauses(column: str, cell: str) -> list[tuple[str, str]]:
    if cell == "·":
        return []
    if column in GROUPS:
        return [(clause, steps) for clause, _, steps in (each.partition(" ") for each in cell.split(", "))]
    return [(column, cell)]


def worlds(line: tuple[str, str]) -> int:
    """Say how large a line is."""
    return sum(int(each.replace(",", "")) for each in page()[line]["worlds"].split(" / "))


def drawn(chosen: int) -> set[tuple[str, str]]:
    """Draw the lines that are explored."""
    known = sorted(page(), key=lambda line: (line[1], worlds(line)))
    smallest = {next(group) for _, group in groupby(known, lambda line: line[1])}
    always = {*smallest, ALONE, *(line for line in known if worlds(line) <= SMALL)}
    large = [line for line in known if line not in always]
    random.Random(chosen).shuffle(large)
    left = DRAWN
    for line in large:
        if FULL or worlds(line) <= left:
            left -= worlds(line)
            always.add(line)
    return always


@pytest.fixture(scope="module")
def explored() -> Sequence[Rung]:
    """Explore what was drawn, once."""
    chosen = seed()
    wanted = drawn(chosen)
    combinations: list[tuple[str, Setting]] = [(name, of) for name, of in rungs() if (named(of), name) in wanted]
    found = ladder(combinations)
    size = sum(rung.exploration.distinct for rung in found)
    print(f"{len(found)} explorations, {size:,} worlds (seed {chosen})")  # noqa: T201  who looks for a failure needs it
    return found


def test_every_line_that_is_explored_is_what_the_page_says(explored: Sequence[Rung]) -> None:
    """R-26, P-22: in as many steps, to the last world; every rung was explored completely."""
    assert all(rung.exploration.complete for rung in explored)
    written = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines(explored) if line not in written] == [], "run `make specs`"


def test_the_rest_of_the_page_is_what_would_be_written(explored: Sequence[Rung]) -> None:
    """Every environment, and every row that fires anywhere, is met by what is explored each time."""

    def rest(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith("| `")]

    assert rest(ladder_text(explored)) == rest(PAGE.read_text(encoding="utf-8")), "run `make specs`"


def test_the_ladder_has_exactly_the_registered_holes() -> None:
    """P-15: no more, no fewer, in as many steps."""
    registered = {
        (entry["backing"], environment, entry["property"]): steps
        for entry in register()
        for environment, steps in entry["steps"].items()
    }
    assert told() == registered


def test_every_registered_hole_is_registered_once_and_says_why() -> None:
    """L-10: a hole without a reason is a bug somebody has not looked at."""
    assert all(entry["why"] for entry in register())
    assert len({(entry["backing"], entry["property"]) for entry in register()}) == len(register())


@pytest.mark.clause("C7")
def test_an_atomic_store_has_no_hole_within_a_workflow() -> None:
    """Architecture 5, C7: nothing is left where head and claim move in one step, not even with a stranger.

    Only what the ledger says of a publication that the transport sent twice, against RT-4, may be wrong; and a start
    that goes around the pin may meet a late publication (decision 22).
    """
    found = {(environment, clause) for backing, environment, clause in told() if backing == "atomic"}
    within = {hole for hole in found if hole[0] != "next workflow, not pinned" and hole[0] not in SHARED}
    assert within == {("re-sent publication", "S-19")}


#: What is said about the branch: what stays on it, in which order, and once.
ABOUT_THE_BRANCH = {"S-01", "S-02", "S-02b", "S-03", "S-04", "S-15", "S-41"}
#: A copy that the transport sent against RT-4, a rerun of a task whose claim was collected (decision 12).
COPIED = {("re-sent publication", "S-02"), ("re-sent publication", "S-02b"), ("rerun after collection", "S-02b")}


def _on_the_branch(*backings: str) -> set[tuple[str, str]]:
    return {
        (environment, clause)
        for backing, environment, clause in told()
        if backing in backings and clause in ABOUT_THE_BRANCH
    }


def test_where_retries_adopt_nothing_is_lost_not_even_a_stranger_s_commit() -> None:
    """K-08: nothing is relocated, so nobody's commit is taken off; side by side and scheduled twice as well."""
    found = _on_the_branch("conditional", "locked")
    assert {hole for hole in found if hole[0] not in SHARED} <= COPIED  # who shares a branch is below


def test_where_retries_replace_a_stranger_or_another_workflow_beside_may_lose_a_commit() -> None:
    """K-08: a relocation has no condition on these stores. Decision 44 says why adoption is the default."""
    around = ("next workflow, not pinned", "S-02")  # refused, and a person looks: nothing accepted is touched
    beside = ("side by side, a crash", "S-01")  # on `conditional`: two workflows at a time are strangers to each other
    twice = {("task scheduled twice", "S-41"), ("task scheduled twice", "S-02b")}
    strangers = {name for name, bounds in ENVIRONMENTS.items() if {"strangers", "foreign_resets"} & set(bounds)}
    found = _on_the_branch("conditional, replacing", "locked, replacing")
    assert found <= {*((name, "S-15") for name in strangers), *COPIED, *twice, around, beside}
    losing = {backing for backing, *hole in told() if tuple(hole) == beside}
    assert losing == {"soft", "conditional, replacing"}


def test_a_lease_over_a_bucket_without_conditions_keeps_neither_what_was_accepted_nor_a_stranger_s_commit() -> None:
    """So it is a line with holes, and no promise; where nobody dies and no stranger comes, it holds."""
    found = {(environment, clause) for backing, environment, clause in told() if backing == "locked, no conditions"}
    dying = {("retries after crashes", "S-01"), ("foreign writer", "S-01"), ("foreign writer", "S-15")}
    assert dying < found
    assert "duplicate delivery" not in {environment for environment, _ in found}


def test_workflows_that_share_a_branch_keep_every_promise_but_two_that_people_break() -> None:
    """S-42, S-43 and all others: with a crash, a lost answer, a stranger, a step scheduled twice (decision 73).

    Who reruns an accepted task takes its acceptance back; what nobody tries again keeps the next one waiting, unless it
    stacks (decision 78).
    """
    found = {hole for hole in told() if hole[1] in SHARED}
    assert {backing for backing, *_ in found} == {each.value for each in SHARING}
    reruns = {("shared, rerun", "S-03"), ("stacked, rerun", "S-03")}
    assert {tuple(hole) for _, *hole in found} == {*reruns, ("shared, terminated", "L-02b")}


def test_the_ledger_changes_no_verdict() -> None:
    """Architecture 5: it adds evidence, and the explorer must show that it adds nothing else."""
    both = {(*line, clause): steps.split(" / ") for (*line, clause), steps in told().items() if " / " in steps}
    assert {clause for *_, clause in both} > {"S-01", "S-03", "S-15"}
    assert {hole[-1] for hole, steps in both.items() if "·" in steps} <= ABOUT_THE_LEDGER
    twice = {line for line, cells in page().items() if " / " in cells["worlds"]}
    assert twice == {(named(of), name) for name, of in rungs() if of.ledger}


def test_everything_comes_to_rest_on_every_rung() -> None:
    """L-01: from every world, once nothing more goes wrong, within a counted number of moves."""
    assert "L-01" not in {clause for *_, clause in told()}
    assert all(int(cells["rest within"]) > 0 for cells in page().values())


def test_readme_and_ladder_say_how_much_is_explored(explored: Sequence[Rung]) -> None:
    """A reader of "explored completely" must see how many rows of the table that leaves out, which, and why."""
    rows = {each.id for each in ATTEMPT.definition.rows}
    seen = fired(explored)
    assert rows - seen == set(UNREACHED)
    settings = [of for _, of in rungs()]
    bounds = (
        f"up to {max(of.workflows for of in settings)} workflows",
        f"{max(of.steps for of in settings)} step(s)",
        f"up to {max(of.attempts for of in settings)} attempts",
    )
    text = PAGE.read_text(encoding="utf-8")
    readme = " ".join((SPECS.parent / "README.md").read_text(encoding="utf-8").split())
    for each in (readme, " ".join(text.replace("**", "").split())):
        assert f"{len(seen)} of the {len(rows)} rows" in each
        assert all(bound in each for bound in bounds)
    assert set(re.findall(r"^\| ([A-Z]\S+) \| .+ \|$", text, re.MULTILINE)) == rows - seen


def test_the_ladder_has_a_line_for_every_backing_and_environment() -> None:
    assert page().keys() == {(named(of), name) for name, of in rungs()}
    alone = len(Backing) * len(ENVIRONMENTS) + (len(Backing) - 1) * len(REPLACING)
    assert len(page()) == alone + len(SHARING) * len(SHARED) + len(UNCONDITIONED)


def test_what_is_drawn_has_every_environment_and_in_time_every_line() -> None:
    every = [drawn(chosen) for chosen in range(200)]
    assert all({name for _, name in each} == {*ENVIRONMENTS, *SHARED} for each in every)
    assert set[tuple[str, str]]().union(*every) == page().keys()
