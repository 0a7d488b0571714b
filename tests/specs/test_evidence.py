"""The page of evidence says what the pages it quotes and the records say, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.specs.evidence import BENCH, EXPLORED, PLAYED, RECORDS, SPECS, Figure, evidence_text

FIGURES = (*EXPLORED, *PLAYED)


def records() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return found


def test_the_page_is_what_the_data_and_the_other_pages_say() -> None:
    assert (SPECS / "evidence.md").read_text(encoding="utf-8") == evidence_text(), "run `make specs`"


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.page)
def test_a_figure_that_changes_on_its_page_changes_here(figure: Figure) -> None:
    """Numbers are read, not copied."""
    text = (SPECS / figure.page).read_text(encoding="utf-8")
    changed = re.sub(r"^(\| e0 .*)$", r"\1\n\1", text, flags=re.MULTILINE)
    changed = re.sub(r"(\d)(?= [|/]| mutants| of the| \()", lambda match: str((int(match[1]) + 1) % 10), changed)
    assert figure.read(changed) != figure.read(text)


def test_what_takes_hours_says_when_it_was_seen_and_on_which_code() -> None:
    assert {each.page for each in FIGURES if each.always != "every test run"} == records()["pages"].keys()
    for seen in (*records()["pages"].values(), *records()["counted"].values(), *records()["burns"]):
        assert re.fullmatch(r"[0-9a-f]{7,40}", seen["commit"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", seen["date"])


def test_no_burn_on_record_lost_anything_and_every_one_under_soft_showed_what_soft_loses() -> None:
    burns = records()["burns"]
    assert burns
    assert [each for each in burns if each["lost"]] == []
    assert [each for each in burns if each["backing"] == "soft" and not each["registered"]] == []


def test_every_count_on_record_is_of_a_test_that_is_there() -> None:
    counted = records()["counted"]
    assert counted
    for test in counted:
        file, _, name = test.partition("::")
        beginning = "" if file.startswith(BENCH) else "test_"
        assert f"def {beginning}{name.partition('[')[0]}" in (SPECS.parent / file).read_text(encoding="utf-8"), test


def test_every_command_on_the_page_is_one() -> None:
    commands = [each.command for each in FIGURES] + [each["command"] for each in records()["burns"]]
    makefile = (SPECS.parent / "Makefile").read_text(encoding="utf-8")
    for command in commands:
        words = command.split()
        if words[0] == "make":
            assert f"\n{words[1]}: " in makefile, command
        else:
            assert (SPECS.parent / words[0]).is_file(), command
