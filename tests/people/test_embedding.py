"""Whoever writes a port gets the suites with the package: from the wheel, outside the tree, with nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.documents import blocks
from tests.docs.test_guide import GUIDE, play_page
from tests.people.conftest import Installed

Install = Callable[..., Installed]
PAGE = "howto/write-a-store"


def test_a_store_written_in_an_afternoon_passes_the_suite_and_is_told_what_it_gives(
    install: Install, tmp_path: Path
) -> None:
    """The page as it stands: its store, its harness, what the suite says of it, and what the explorer does."""
    play_page(PAGE, tmp_path, install("conformance", "simulation").folder / "bin")


MISTAKES = {
    "the head is not looked at": (
        'branch["ref"] != plan.expected',
        "False",
        "test_a_head_that_has_moved_is_refused_where_the_store_checks_it[replace]",
    ),
    "a claim is lowered": (
        "stands.key == claim.key or stands.rank >= claim.rank",
        "stands.key == claim.key",
        "test_a_claim_is_raised_strictly_upward_where_the_store_knows_claims",
    ),
    "a path leaves the repository": (
        "if why := problem_of(each.path):",
        "if why := None:",
        "test_a_path_that_leaves_the_repository_is_refused['../up']",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_suite_finds_a_mistake_in_that_store_and_shows_what_was_compared(
    mistake: str, install: Install, tmp_path: Path
) -> None:
    """Assertions of the suite are rewritten where it is installed, or a failure would show nothing."""
    right, wrong, found_by = MISTAKES[mistake]
    store, harness = (block for block in blocks(f"{GUIDE}/{PAGE}.md", "python"))
    assert store.count(right) == 1
    (tmp_path / "toy_store.py").write_text(store.replace(right, wrong), encoding="utf-8")
    (tmp_path / "test_toy_store.py").write_text(harness, encoding="utf-8")
    ran = install("conformance", "simulation")(
        tmp_path, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_toy_store.py::{found_by}"
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed" in ran.stdout
    assert re.search(r"^E +(AssertionError: )?assert ", ran.stdout, re.MULTILINE), ran.stdout


def test_a_suite_without_its_fixture_says_which_and_what_it_returns(install: Install, tmp_path: Path) -> None:
    suite = 'from perago_conformance.suites.leases import *\npytest_plugins = ["perago_conformance"]\n'
    (tmp_path / "test_mine.py").write_text(suite, encoding="utf-8")
    ran = install("conformance", "simulation")(
        tmp_path, "python", "-m", "pytest", "-q", "-x", "-W", "error", "-p", "no:cacheprovider", "test_mine.py"
    )
    assert ran.returncode == 1
    assert (
        "perago_conformance.suites.leases asks for a fixture 'leasing' that returns a CoordinationHarness" in ran.stdout
    )
    assert "Traceback" not in ran.stdout
