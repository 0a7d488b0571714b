"""Decisions: each page says its state and its day, and the index shows all of them."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

ADR = ROOT / "specs" / "adr"
PAGES = sorted(ADR.glob("[0-9]*.md"))
FRONT = re.compile(r"# (?P<number>\d+)\. .+\n\n\* Status: (?P<status>.+)\n\* Date: (?P<day>\d{4}-\d\d-\d\d)\n\n")
SUPERSEDED = re.compile(r"superseded by \[(\d+)\]\((\d{4}-[a-z0-9-]+\.md)\)")


def front(page: Path) -> re.Match[str]:
    found = FRONT.match(page.read_text(encoding="utf-8"))
    assert found, f"{page.name}: expected a title '# N. ...', then '* Status: ...' and '* Date: YYYY-MM-DD'"
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name[:4])
def test_a_decision_has_a_state_and_a_day(page: Path) -> None:
    found = front(page)
    assert int(found["number"]) == int(page.name[:4])
    date.fromisoformat(found["day"])
    if found["status"] not in {"proposed", "accepted"}:
        successor = SUPERSEDED.fullmatch(found["status"])
        assert successor, f"{page.name}: proposed, accepted or superseded by [N](FILE); found {found['status']}"
        assert (ADR / successor[2]).is_file()
        assert int(successor[2][:4]) == int(successor[1])


def test_the_index_lists_every_decision_in_order_with_its_state() -> None:
    index = (ADR / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d+)\]\(([^)]+)\) \| .+ \| (.+) \|$", index, re.MULTILINE)
    assert rows == [(str(int(page.name[:4])), page.name, front(page)["status"]) for page in PAGES]


def test_no_number_is_used_twice_or_left_out() -> None:
    assert [int(page.name[:4]) for page in PAGES] == list(range(1, len(PAGES) + 1))
