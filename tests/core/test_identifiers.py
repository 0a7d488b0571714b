"""Every capability of the seeds that concerns the core is named by a test that shows it.

The identifiers are those of protocol.md, section 1. A test names them in its docstring; a range counts for all in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

CORE = {
    "P": [*range(1, 38), 40, 41, 42],
    "W": [*range(4, 25)],
    "H": [*range(1, 31)],
    "R": [*range(1, 32)],
}

#: What no test of the core can show, and who does instead.
LEFT_TO_ADAPTERS = {
    "P-21": "how a deployment is run; the simulator breaks each constraint, and P-22 says what must happen then",
    "H-06": "how a gate is introduced: the history of the project shows it",
    "H-27": "a rule for reviews: no further substrate",
    "H-28": "what a change must run: `make test`",
    "R-25": "there is no language of operations here; a body is one unit and its class is one attribute (H-11)",
    "R-26": "what each rung cannot promise is found by the explorer and written into specs/ from there",
    "R-27": "garbage collection is the store's; its adapter keeps what open intents name",
    "R-28": "what triggers a residual is injected by the simulator, at the failpoints of R-30",
}

_ONE = re.compile(r"\b([PWHR])-(\d\d)\b")
_RANGE = re.compile(r"\b([PWHR])-(\d\d)(?:\.\.| to )\1-(\d\d)\b")


def identifiers() -> list[str]:
    return [f"{prefix}-{number:02d}" for prefix, numbers in CORE.items() for number in numbers]


def _found(text: str) -> Iterator[str]:
    for prefix, number in _ONE.findall(text):
        yield f"{prefix}-{number}"
    for prefix, first, last in _RANGE.findall(text):
        for number in range(int(first), int(last) + 1):
            yield f"{prefix}-{number:02d}"


@cache
def named(folder: Path) -> frozenset[str]:
    """Give every identifier the test files of a folder name; this file does not count."""
    files = [path for path in sorted(folder.rglob("test_*.py")) if path != Path(__file__)]
    return frozenset(each for path in files for each in _found(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("identifier", identifiers())
def test_capability_is_named_by_a_test(identifier: str) -> None:
    """Nothing that the seeds promise and the core can show is without a test."""
    if identifier in LEFT_TO_ADAPTERS:
        assert LEFT_TO_ADAPTERS[identifier]
    else:
        assert identifier in named(TESTS), f"no test names {identifier}"


def test_what_is_left_to_adapters_is_not_tested_here_after_all() -> None:
    """The list is short and honest: what a test of the core names does not belong on it."""
    assert {*LEFT_TO_ADAPTERS} <= {*identifiers()}
    assert not {*LEFT_TO_ADAPTERS} & named(TESTS / "core")


def test_ranges_count_for_all_in_them() -> None:
    assert set(_found("R-08..R-10, P-01 to P-02, H-05")) == {"R-08", "R-09", "R-10", "P-01", "P-02", "H-05"}
    assert set(_found("R-08..H-10 XP-01")) == {"R-08", "H-10"}
