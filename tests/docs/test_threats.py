"""Every threat in ``specs/security.md`` has a test that exists, or says that it has none; so has every finding."""

from __future__ import annotations

import re

import pytest

from tests.docs.documents import ROOT

THREATS, FINDINGS = (
    [
        line
        for line in part.splitlines()
        if line.startswith("| ") and line.split("|")[1] not in {" Threat ", " Finding "}
    ]
    for part in (ROOT / "specs" / "security.md").read_text(encoding="utf-8").split("## Findings of the audits")
)


def subject(line: str) -> str:
    return line.split("|")[1].strip()[:40]


def is_there(test: str) -> bool:
    named = re.fullmatch(r"`(?P<file>[\w/.]+)::(?P<name>\w+)`", test.strip())
    assert named is not None, test
    return f"def {named['name']}(" in (ROOT / named["file"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("line", FINDINGS, ids=subject)
def test_a_finding_names_the_test_that_shows_it_mended_or_the_decision_that_keeps_it(line: str) -> None:
    _, finding, shown, _ = line.split("|")
    assert finding.strip()
    decision = re.fullmatch(r" \[decision (?P<number>\d+)\]\((?P<file>adr/[\w.-]+)\) ", shown)
    if decision is None:
        assert is_there(shown)
    else:
        assert (ROOT / "specs" / decision["file"]).name.startswith(f"{decision['number']:0>4}-")
        assert (ROOT / "specs" / decision["file"]).is_file()


@pytest.mark.parametrize("line", THREATS, ids=subject)
def test_a_threat_names_a_test_that_exists(line: str) -> None:
    _, threat, done, test, _ = line.split("|")
    assert threat.strip()
    if test.strip() == "none":
        assert done.strip().startswith("nothing"), "a hole says that it is one"
        return
    assert is_there(test)
