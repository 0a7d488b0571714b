from __future__ import annotations

import pickle

import pytest

from perago_core.errors import ExplainedError, one_line


def test_an_error_says_what_was_expected_what_was_found_and_what_to_do() -> None:
    error = ExplainedError("a commit", "a branch", "Give the full id")
    assert str(error) == "expected a commit; found a branch. Give the full id"
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert (again.expected, again.found, again.fix) == ("a commit", "a branch", "Give the full id")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\n  b\tc", "a b c"), ("", ""), ("x" * 500, "x" * 500), ("x" * 501, "x" * 499 + "…")],
    ids=["joined", "empty", "fits", "cut"],
)
def test_a_reason_is_one_line_and_short(text: str, line: str) -> None:
    assert one_line(text) == line
