"""Installed without anything, with the simulator only, with the worker: each command works or names what is missing."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.documents import project
from tests.people.conftest import Built, Installed

Install = Callable[..., Installed]


def test_the_wheel_holds_every_package_its_types_and_the_templates_and_the_sdist_what_builds_it(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    packages = {name.partition("/")[0] for name in names if name.endswith("/py.typed")}
    assert {"perago_core", "perago_local", "perago_worker", "perago_simulation"} <= packages
    assert {"perago_worker/template/pipeline.py", "perago_worker/template/perago.toml"} <= names
    assert not any(name.startswith("tests/") for name in names)
    with tarfile.open(built.sdist) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "adapters/perago_worker/__main__.py"} <= inside


def test_without_extras_the_command_gives_its_version_and_says_in_one_line_what_is_missing(
    install: Install, tmp_path: Path
) -> None:
    bare = install()
    for name in project()["scripts"]:
        assert bare(tmp_path, name, "--version").stdout == f"perago {project()['version']}\n"
        for words in ((), ("--help",), ("run", "orders")):
            ran = bare(tmp_path, name, *words)
            assert (ran.returncode, ran.stdout) == (1, "")
            assert ran.stderr == "error: typer is not installed: pip install 'perago-core[worker]'\n"
    assert bare(tmp_path, "python", "-c", "import perago_core; perago_core.Backing").returncode == 0


def test_with_the_simulator_alone_its_commands_work_and_the_others_name_the_worker(
    install: Install, tmp_path: Path
) -> None:
    simulator = install("simulation")
    assert "explore" in simulator(tmp_path, "perago", "--help").stdout
    explored = simulator(tmp_path, "perago", "explore", "--backing", "atomic")
    assert explored.returncode == 0, explored.stderr
    for words in (("run", "orders"), ("status",), ("init",)):
        ran = simulator(tmp_path, "perago", *words)
        assert "pip install 'perago-core[worker]'" in ran.stderr or words == ("init",), ran.stderr
        assert "Traceback" not in ran.stderr


def test_with_the_worker_alone_the_simulator_is_named(install: Install, tmp_path: Path) -> None:
    worker = install("worker")
    ran = worker(tmp_path, "perago", "campaign", "--schedules", "1000", "--out", "found")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.strip() == "error: pyarrow is not installed: pip install 'perago-core[simulation]'"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("perago ru", {"run", "runs"}), ("perago runs --st", {"--state"}), ("perago --ver", {"--version"})],
)
def test_the_shell_completes_commands_and_options(
    typed: str, offered: set[str], install: Install, tmp_path: Path
) -> None:
    ran = install("worker")(
        tmp_path,
        "perago",
        _PERAGO_COMPLETE="complete_bash",
        COMP_WORDS=typed,
        COMP_CWORD=str(len(typed.split()) - 1),
    )
    assert set(ran.stdout.split()) == offered, ran.stderr
