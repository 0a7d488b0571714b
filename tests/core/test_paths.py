"""Which paths of objects may be stored: nothing that escapes, nothing a file system cannot hold."""

from __future__ import annotations

import pytest

from perago_core.names import LONGEST, is_ignored, problem_of


@pytest.mark.parametrize("path", ["a", "a/b.parquet", "a/", "ä/ö", "a b/c", "...", "_x", "x" * LONGEST])
def test_ordinary_and_odd_paths_may_be_stored(path: str) -> None:
    assert problem_of(path) is None


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "where a name should be"),
        ("/", "absolute"),
        ("/etc/passwd", "absolute"),
        ("../x", "'..' where"),
        ("a/../b", "'..' where"),
        ("a/./b", "'.' where"),
        ("a//b", "'' where"),
        ("a//", "'' where"),
        ("a\0b", "NUL"),
        ("\udc80", "Unicode"),
        ("ä" * LONGEST, f"{2 * LONGEST} bytes"),
    ],
)
def test_a_path_that_cannot_be_a_file_is_refused_with_what_to_do(path: str, problem: str) -> None:
    assert problem in (found := problem_of(path) or "")
    assert ";" in found


@pytest.mark.parametrize(
    ("path", "ignored"), [("a/_SUCCESS", True), (".x", True), ("_a/b", False), ("a/b_", False), ("", False)]
)
def test_readers_skip_names_that_begin_with_an_underscore_or_a_dot(path: str, *, ignored: bool) -> None:
    assert is_ignored(path) is ignored
