"""The few commands do everything: a test that no command runs is no test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_folder_of_tests_is_run_by_a_command() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    folders = {folder.name for folder in (ROOT / "tests").iterdir() if any(folder.glob("test_*.py"))}
    assert folders
    assert folders <= set(re.findall(r"tests/(\w+)", makefile))


def test_what_the_daily_tests_leave_out_is_run_on_servers_and_both_are_run_before_a_change_is_accepted() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert 'pytest -m "not servers" $(RUNTIME_TESTS)' in makefile
    assert "SERVED,marked,-m servers $(RUNTIME_TESTS))" in makefile
    (lanes,) = re.findall(r"^SERVER_TESTS := .*wildcard ([^)]*)", makefile, re.MULTILINE)
    for folder in lanes.split():
        assert f"SERVED,{folder.removeprefix('tests/')},{folder})" in makefile
    assert "--last-failed" not in makefile, "a second try hides a flake"
    assert "make test-all\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (pool,) = re.findall(r"^LANES := ((?:.*\\\n)*.*)$", makefile, re.MULTILINE)
    (daily,) = re.findall(r"--jobs=3 (test-.*)$", makefile, re.MULTILINE)
    demanded = {*daily.split(), "test-marked", *(each.replace("tests/", "test-") for each in lanes.split())}
    assert demanded | {"obtain", "test-spark-sample", "test-pages"} == set(pool.replace("\\", "").split())


def test_the_readme_names_the_commands_that_do_everything() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"make demo", "make test", "make bench"} <= set(re.findall(r"make [a-z]+", readme))
