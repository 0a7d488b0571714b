"""The README is executed: what it shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_loop_in_the_readme_runs_and_publishes(capsys: pytest.CaptureFixture[str]) -> None:
    """The loop fits on one screen, asks for the steps of the seed protocol in order, and ends COMPLETED."""
    (loop,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(loop, "README.md", "exec"), {})  # noqa: S102  the README is ours
    *asked, result = capsys.readouterr().out.splitlines()
    assert [line.partition("(")[0] for line in asked] == [
        "PrepareWorkspace",
        "RunBody",
        "ReloadTask",
        "OpenStaging",
        "Upload",
        "CommitStaging",
        "ReloadTask",
        "ReadHead",
        "Publish",
        "Report",
        "CleanUp",
    ]
    assert result == "Completed(ref='P', output='{\"rows\": 3}', execution='run-9f2c')"
    assert len([line for line in loop.splitlines() if line.strip()]) <= 25


def test_every_file_the_readme_points_to_exists() -> None:
    """A link that leads nowhere is a broken promise."""
    for link in re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / link).exists(), link
