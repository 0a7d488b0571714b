"""The README is executed: what it shows is what happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from perago_worker.cli import app
from perago_worker.loading import load

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    """Give the code blocks of the README in one language."""
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return found


def test_the_loop_in_the_readme_runs_and_publishes(capsys: pytest.CaptureFixture[str]) -> None:
    """The loop fits on one screen, asks for the steps of the seed protocol in order, and ends COMPLETED."""
    (loop,) = [block for block in blocks("python") if "step(" in block]
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


def test_the_task_in_the_readme_is_published_twice(tmp_path: Path) -> None:
    """P-23: a function on a folder, a configuration, one command; two accepted steps on an ordinary git branch."""
    (greet,) = [block for block in blocks("python") if "@task" in block]
    (configuration,) = [block for block in blocks("toml") if "[pipelines" in block]
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


def test_the_configuration_for_real_servers_is_one(tmp_path: Path) -> None:
    """Every name in it exists, and what users of lakeFS and Conductor have in their environment is added to it."""
    (configuration,) = [block for block in blocks("toml") if "lakefs" in block]
    (tmp_path / "perago.toml").write_text(configuration, encoding="utf-8")
    settings = load(tmp_path, {}, {"LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIA", "CONDUCTOR_AUTH_KEY": "key"})
    parts = (settings.store.kind, settings.orchestrator.kind, settings.coordination.kind)
    assert parts == ("lakefs", "conductor", "etcd")
    assert (settings.store.access_key, settings.orchestrator.key) == ("AKIA", "key")


def test_every_command_in_the_readme_exists() -> None:
    """Each line that begins with our command is one that its own help knows."""
    lines = README.read_text(encoding="utf-8").splitlines()
    named = {line.split()[1] for line in lines if line.startswith("perago ")}
    known = get_command(app)
    assert isinstance(known, TyperGroup)
    assert named <= set(known.commands), sorted(named - set(known.commands))
    assert {"run", "worker", "init-repo", "campaign"} <= named


def perago(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", "--project", str(project), *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_every_file_the_readme_points_to_exists() -> None:
    """A link that leads nowhere is a broken promise."""
    for link in re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / link).exists(), link
