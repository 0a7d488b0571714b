"""The README is executed: what it shows is what happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.docs.documents import blocks, text

README = "README.md"


def test_the_task_in_the_readme_is_published_twice(tmp_path: Path) -> None:
    """P-23: a function on a folder, a configuration, one command; two accepted steps on an ordinary git branch."""
    (greet,) = [block for block in blocks(README, "python") if "def greet" in block]
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


def test_every_command_of_the_readme_does_what_its_line_says(tmp_path: Path) -> None:
    """The blocks as they stand, in their order, in the project of the blocks before them; a worker is told to end."""
    (greet,) = [block for block in blocks(README, "python") if "def greet" in block]
    (configuration,) = [block for block in blocks(README, "toml") if "[pipelines" in block]
    (tmp_path / "hello.py").write_text(greet, encoding="utf-8")
    (tmp_path / "perago.toml").write_text(configuration, encoding="utf-8")
    # What is shown as a shell's is a project of its own on servers: tests/bucket/test_readme.py executes it.
    elsewhere = {line for block in blocks(README, "sh") for line in block.splitlines()}
    lines = [line for line in text(README).splitlines() if line.startswith("perago ") and line not in elsewhere]
    assert len(lines) >= 6
    for line in lines:
        words = line.partition("#")[0].split()
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        process = subprocess.Popen(  # noqa: S603  our own README
            words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if words[1] == "worker":
            assert process.stderr is not None
            assert "backing atomic" in process.stderr.readline(), "it polls"
            process.send_signal(signal.SIGTERM)
        shown, said = process.communicate(timeout=300)
        # The plain head check breaks, which is what that line is for; a worker may be killed before it can drain.
        soft = words[1:4] == ["explore", "--backing", "soft"]
        expected = {1} if soft else {0, -signal.SIGTERM} if words[1] == "worker" else {0}
        assert process.returncode in expected, f"{line}\n{shown}{said}"
    assert (tmp_path / "out.html").stat().st_size > 0


def perago(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", "--project", str(project), *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
