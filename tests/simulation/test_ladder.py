"""The ladder is what the explorer finds, and the register of known holes is exactly that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from perago_core.attempt import ATTEMPT
from perago_core.values import SHARING, Backing
from perago_simulation.catalogue.ladder import (
    ENVIRONMENTS,
    REPLACING,
    SHARED,
    UNREACHED,
    fired,
    holes,
    ladder_text,
    named,
    rungs,
    standard_ladder,
)

SPECS = Path(__file__).parents[2] / "specs"
REGISTER = SPECS / "residuals.json"

#: What is said about the ledger itself can only be broken where there is one.
ABOUT_THE_LEDGER = {"S-18", "S-19", "S-33c"}


def register() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(REGISTER.read_text(encoding="utf-8"))
    return entries


def test_the_explorer_finds_exactly_the_registered_holes() -> None:
    """R-26, P-15, P-22: no more, no fewer, in as many steps; every rung was explored completely."""
    found = standard_ladder()
    assert all(rung.exploration.complete for rung in found)
    registered = {
        (entry["backing"], environment, entry["property"]): steps
        for entry in register()
        for environment, steps in entry["steps"].items()
    }
    assert holes(found) == registered


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
    found = {(environment, clause) for backing, environment, clause in holes(standard_ladder()) if backing == "atomic"}
    within = {hole for hole in found if hole[0] != "next workflow, not pinned" and hole[0] not in SHARED}
    assert within == {("re-sent publication", "S-19")}


#: What is said about the branch: what stays on it, in which order, and once.
ABOUT_THE_BRANCH = {"S-01", "S-02", "S-02b", "S-03", "S-04", "S-15", "S-41"}
#: A copy that the transport sent against RT-4, a rerun of a task whose claim was collected (decision 12).
COPIED = {("re-sent publication", "S-02"), ("re-sent publication", "S-02b"), ("rerun after collection", "S-02b")}


def _on_the_branch(*backings: str) -> set[tuple[str, str]]:
    return {
        (environment, clause)
        for backing, environment, clause in holes(standard_ladder())
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
    losing = {backing for backing, *hole in holes(standard_ladder()) if tuple(hole) == beside}
    assert losing == {"soft", "conditional, replacing"}


def test_workflows_that_share_a_branch_keep_every_promise_but_two_that_people_break() -> None:
    """S-42, S-43 and all others: with a crash, a lost answer, a stranger, a step scheduled twice (decision 73).

    Who reruns an accepted task takes its acceptance back; what nobody tries again keeps the next one waiting.
    """
    found = {hole for hole in holes(standard_ladder()) if hole[1] in SHARED}
    assert {backing for backing, *_ in found} == {each.value for each in SHARING}
    assert {tuple(hole) for _, *hole in found} == {("shared, rerun", "S-03"), ("shared, terminated", "L-02b")}


def test_the_ledger_changes_no_verdict() -> None:
    """Architecture 5: it adds evidence, and the explorer must show that it adds nothing else."""
    verdicts: dict[tuple[str, str], list[set[str]]] = {}
    for rung in [each for each in standard_ladder() if not each.exploration.setting.scopes]:
        key = (named(rung.exploration.setting), rung.environment)
        verdicts.setdefault(key, []).append(set(rung.exploration.broken()) - ABOUT_THE_LEDGER)
    assert len(verdicts) == sum(of.ledger for _, of in rungs())
    assert all(without == with_ledger for without, with_ledger in verdicts.values())


def test_everything_comes_to_rest_on_every_rung() -> None:
    """L-01: from every world, once nothing more goes wrong, within a counted number of moves."""
    healed = [rung.healing for rung in standard_ladder() if rung.healing is not None]
    assert len(healed) == sum(not of.ledger for _, of in rungs())
    assert all("L-01" not in each.broken() and each.bound for each in healed)


def test_readme_and_ladder_say_how_much_is_explored() -> None:
    """A reader of "explored completely" must see how many rows of the table that leaves out, which, and why."""
    found, rows = standard_ladder(), {each.id for each in ATTEMPT.definition.rows}
    seen = fired(found)
    assert rows - seen == set(UNREACHED)
    settings = [rung.exploration.setting for rung in found]
    bounds = (
        f"up to {max(of.workflows for of in settings)} workflows",
        f"{max(of.steps for of in settings)} step(s)",
        f"up to {max(of.attempts for of in settings)} attempts",
    )
    readme = " ".join((SPECS.parent / "README.md").read_text(encoding="utf-8").split())
    ladder = " ".join(ladder_text(found).replace("**", "").split())
    for text in (readme, ladder):
        assert f"{len(seen)} of the {len(rows)} rows" in text
        assert all(each in text for each in bounds)
    listed = re.findall(r"^\| ([A-Z]\S+) \| .+ \|$", ladder_text(found), re.MULTILINE)
    assert set(listed) == rows - seen


def test_the_ladder_is_written_with_a_line_for_every_backing_and_environment() -> None:
    text = ladder_text(standard_ladder())
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    alone = len(Backing) * len(ENVIRONMENTS) + (len(Backing) - 1) * len(REPLACING)
    assert len(lines) == alone + len(SHARING) * len(SHARED)
    assert all(f"* *{name}*: " in text for name in (*ENVIRONMENTS, *SHARED))
