"""The README is executed: what it shows is what happens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.docs.documents import blocks

README = "README.md"


def test_the_task_in_the_readme_is_published_twice(tmp_path: Path) -> None:
    """P-23: a function on a folder, a configuration, one command; two accepted steps on an ordinary git branch."""
    (greet,) = [block for block in blocks(README, "python") if "@task" in block]
    (configuration,) = [block for block in blocks(README, "toml") if "[pipelines" in block]
    (tmp_path / "hello.py").write_text(greet, encoding="utf-8")
    (tmp_path / "perago.toml").write_text(configuration, encoding="utf-8")
    ran = perago(tmp_path, "run", "hello", "--json")
    assert (ran.returncode, json.loads(ran.stdout)["status"]) == (0, "COMPLETED"), ran.stderr
    assert json.loads(ran.stdout)["output"]["second"]["result"] == {"greetings": 2}
    history = json.loads(perago(tmp_path, "history", "--json").stdout)
    assert len(history) == 3
    store = tmp_path / ".perago" / "store" / "lake.git"
    shown = subprocess.run(  # noqa: S603  our own arguments
        ["git", "--git-dir", str(store), "show", "main:greetings/all.txt"],  # noqa: S607  git of the PATH
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stdout == "Hello, Ada!\nHello, Grace!"


def perago(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", "--project", str(project), *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
