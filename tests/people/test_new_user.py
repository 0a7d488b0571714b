"""A new user, from an empty folder and an installed wheel: write, run, break, look, cancel, go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.people.conftest import Installed
from tests.people.transcript import PAGE, replay

Install = Callable[..., Installed]

#: A configuration, and what is said to whoever has the worker alone.
MISTAKES = {
    "tasks = [": "is not valid TOML",
    'tasks = ["pipeline"]\n[store]\nkind = "s3"': "store.kind",
    '[fence]\npolcy = "soft"': "there is no such setting; known here: policy",
    'tasks = ["pipeline"]\n[store]\nkind = "lakefs"': "pip install 'perago-core[lakefs]'",
    'tasks = ["pipeline"]\n[orchestrator]\nkind = "conductor"': "pip install 'perago-core[conductor]'",
}


def test_the_first_day_goes_as_it_was_recorded_line_for_line(install: Install, tmp_path: Path) -> None:
    recorded = PAGE.read_text(encoding="utf-8")
    played = replay(recorded, tmp_path, install("worker", "lakefs", "conductor", "etcd").folder / "bin")
    assert played.splitlines() == recorded.splitlines()


@pytest.mark.parametrize("configuration", MISTAKES)
def test_a_wrong_configuration_is_one_line_that_says_what_to_mend(
    configuration: str, install: Install, tmp_path: Path
) -> None:
    perago = install("worker")
    assert perago(tmp_path, "perago", "init", ".").returncode == 0
    (tmp_path / "perago.toml").write_text(configuration, encoding="utf-8")
    words = ("history", "lake/main") if "lakefs" in configuration else ("status",)
    wrong = perago(tmp_path, "perago", *words)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert MISTAKES[configuration] in wrong.stderr
    assert "Traceback" not in wrong.stderr
