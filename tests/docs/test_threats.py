"""Every threat in ``specs/security.md`` has a test that exists, or says that it has none."""

from __future__ import annotations

import re

import pytest

from tests.docs.documents import ROOT

LINES = [
    line
    for line in (ROOT / "specs" / "security.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| Threat |")
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("|")[1].strip()[:40])
def test_a_threat_names_a_test_that_exists(line: str) -> None:
    _, threat, done, test, _ = line.split("|")
    assert threat.strip()
    if test.strip() == "none":
        assert done.strip().startswith("nothing"), "a hole says that it is one"
        return
    named = re.fullmatch(r"`(?P<file>[\w/.]+)::(?P<name>\w+)`", test.strip())
    assert named is not None, test
    assert f"def {named['name']}(" in (ROOT / named["file"]).read_text(encoding="utf-8")
