"""The guide is executed: its files are written, its commands are run, and what it shows is what they print.

In a page that is played, a block of Python or TOML whose first line is a comment with a file name is that file. A block
of ``console`` runs the lines that begin with ``$`` in one folder, in order; the other lines must be found in what the
command before them printed, in order. A command that is expected to fail says ``|| true``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perago_core.results import Classification
from perago_worker.cli import COMMANDS, SIMULATOR
from perago_worker.config.load import load
from tests.docs.documents import ROOT, blocks, pages, text

GUIDE = "specs/guide"
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"# (?P<name>[\w.-]+\.(?:py|toml))\n")


def test_the_pages_with_commands_are_played() -> None:
    """A page that shows a prompt and is not played would be a promise nobody keeps."""
    assert [page for page in pages() if "```console" in text(page)] == [
        f"{GUIDE}/first-day.md",  # by tests/people, with the built wheel
        f"{GUIDE}/howto/counterexample.md",
        f"{GUIDE}/howto/measure.md",
        f"{GUIDE}/howto/observe.md",
        f"{GUIDE}/howto/one-machine.md",
        f"{GUIDE}/howto/recover.md",
        f"{GUIDE}/howto/runs.md",
        f"{GUIDE}/howto/ui.md",
        f"{GUIDE}/howto/upgrade.md",
        f"{GUIDE}/howto/whole-run.md",
        f"{GUIDE}/howto/write-a-store.md",  # by tests/people, with the built wheel
        f"{GUIDE}/tutorial.md",
    ]


@pytest.mark.parametrize(
    "page",
    [
        "tutorial",
        *(f"howto/{name}" for name in ("recover", "runs", "ui", "whole-run", "measure", "observe", "counterexample")),
        *(f"howto/{name}" for name in ("one-machine", "upgrade")),
    ],
)
def test_a_page_happens_as_it_is_written(page: str, tmp_path: Path) -> None:
    play_page(page, tmp_path)
    if (tmp_path / "test_words.py").exists():
        assert shell(f"{sys.executable} -m pytest -q -p no:cacheprovider test_words.py", tmp_path).returncode == 0


def play_page(page: str, folder: Path, binaries: Path = Path(sys.executable).parent) -> None:
    """Write the files of a page and run its commands, in its order."""
    for block in BLOCK.finditer(text(f"{GUIDE}/{page}.md")):
        if block["language"] == "console":
            play(block["body"], folder, binaries)
        elif named := NAME.match(block["body"]):
            (folder / named["name"]).write_text(block["body"], encoding="utf-8")


def play(console: str, folder: Path, binaries: Path) -> None:
    """Run each command, and look for the lines after it in what it printed, in order."""
    printed, rest = "", ""
    for line in console.splitlines():
        if line.startswith("$ "):
            ran = shell(line.removeprefix("$ "), folder, binaries)
            printed = rest = ran.stdout + ran.stderr
            assert ran.returncode == 0, f"{line}\n{printed}"
        else:
            _, found, rest = rest.partition(line)
            assert found, f"{line!r} is not, or not in this order, in\n{printed}"


def shell(command: str, folder: Path, binaries: Path = Path(sys.executable).parent) -> subprocess.CompletedProcess[str]:
    """Run a line as a user does who has the project's commands on the path."""
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}
    return subprocess.run(  # noqa: S602  our own guide
        command, shell=True, cwd=folder, check=False, capture_output=True, text=True, timeout=300, env=environment
    )


def test_the_loop_of_an_embedded_core_runs_and_publishes(capsys: pytest.CaptureFixture[str]) -> None:
    """The loop fits on one screen, asks for the steps of the seed protocol in order, and ends COMPLETED."""
    (loop,) = [block for block in blocks(f"{GUIDE}/howto/embed.md", "python") if "step(" in block]
    exec(compile(loop, "embed.md", "exec"), {})  # noqa: S102  the guide is ours
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


def test_the_configuration_for_real_servers_is_one(tmp_path: Path) -> None:
    """Every name in it exists, and what users of lakeFS and Conductor have in their environment is added to it."""
    (configuration,) = [block for block in blocks(f"{GUIDE}/howto/cluster.md", "toml") if "lakefs" in block]
    (tmp_path / "perago.toml").write_text(configuration, encoding="utf-8")
    settings = load(tmp_path, {}, {"LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIA", "CONDUCTOR_AUTH_KEY": "key"})
    parts = (settings.store.kind, settings.orchestrator.kind, settings.coordination.kind)
    assert parts == ("lakefs", "conductor", "etcd")
    assert (settings.store.access_key, settings.orchestrator.key) == ("AKIA", "key")


def test_the_settings_of_telemetry_are_ones(tmp_path: Path) -> None:
    (block,) = [each for each in blocks(f"{GUIDE}/howto/observe.md", "toml") if "prometheus =" in each]
    (tmp_path / "perago.toml").write_text(block, encoding="utf-8")
    read = load(tmp_path, {}, {}).telemetry
    assert (read.prometheus, read.otlp) == ("127.0.0.1:9464", "http://127.0.0.1:4318")


def test_the_configuration_of_spark_is_one(tmp_path: Path) -> None:
    """Flags and sizes reach Spark as it writes them."""
    configuration, *_ = blocks(f"{GUIDE}/howto/spark.md", "toml")
    (tmp_path / "perago.toml").write_text(configuration, encoding="utf-8")
    settings = load(tmp_path, {}, {}).spark
    assert settings.master == "spark://spark.internal:7077"
    assert settings.conf == {"spark.executor.memory": "4g", "spark.ui.enabled": "false"}


def test_every_command_a_document_shows_exists() -> None:
    """Each line of a block that begins with our command is one that its own help knows."""
    shown = "\n".join(text(page) for page in pages())
    named = set(re.findall(r"^(?:\$ )?perago ([a-z-]+)", shown, re.MULTILINE))
    assert named <= {*COMMANDS, *SIMULATOR}, sorted(named - {*COMMANDS, *SIMULATOR})
    assert {"run", "worker", "init-repo", "campaign"} <= named


def test_every_refusal_is_explained_with_what_to_do() -> None:
    """A classification that is added without a line here leaves whoever meets it alone (L-10)."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (\S.*?) \| (\S.*?) \|$", text(f"{GUIDE}/howto/refusals.md"), re.MULTILINE)
    assert [name for name, _, _ in rows if name in {each.value for each in Classification}] == [
        name for name, _, _ in rows
    ]
    assert {name for name, _, _ in rows} == {each.value for each in Classification}


def test_the_reference_is_what_the_code_says() -> None:
    """Commands, settings and failpoints; ``make specs`` writes the pages anew."""
    checked = subprocess.run(
        [sys.executable, "specs/guide/generate.py", "--check"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
