"""Recipes that start runs by the clock: each line and unit of the guide is taken as it stands, with other paths."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from perago_worker.config.settings import WorkerSettings
from tests.docs.documents import blocks

PAGE = "specs/guide/howto/schedule.md"
BINARIES = Path(sys.executable).parent
#: What cron gives to a command, and nothing else.
BARE = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin", "LOGNAME": "perago"}
FIELD = re.compile(r"(\*|\d+(-\d+)?)(/\d+)?(,(\d+(-\d+)?))*")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    made = run(f"{BINARIES}/perago init {folder}", tmp_path)
    assert made.returncode == 0, made.stderr
    return folder


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  our own guide
        ["/bin/sh", "-c", line],
        cwd=folder,
        env={**BARE, "HOME": str(folder)},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )


def runs(shop: Path) -> list[str]:
    asked = run(f"{BINARIES}/perago runs --json", shop)
    assert asked.returncode == 0, asked.stderr
    return [each["status"] for each in json.loads(asked.stdout)]


def placed(recipe: str, shop: Path) -> str:
    """Put the paths of this machine in the place of the guide's."""
    assert "/srv/shop" in recipe
    assert "/opt/perago/bin/perago" in recipe
    return recipe.replace("/srv/shop", str(shop)).replace("/opt/perago/bin", str(BINARIES))


def test_the_line_of_cron_runs_the_pipeline_and_leaves_one_out_while_the_last_still_runs(shop: Path) -> None:
    (line,) = blocks(PAGE, "text")
    *fields, command = placed(line.strip(), shop).split(" ", 5)
    assert len(fields) == 5
    assert all(FIELD.fullmatch(field) for field in fields), fields
    # Cron ends a command at a percent sign, and takes the backslash before one away.
    assert not re.search(r"(?<!\\)%", command)
    command = command.replace("\\%", "%")
    ran = run(command, shop)
    (log,) = shop.glob("nightly-2*.log")
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, ""), log.read_text()
    assert runs(shop) == ["COMPLETED"]
    beside = run(f"flock nightly.lock /bin/sh -c {shlex.quote(command)}", shop)
    assert beside.returncode == 1
    assert runs(shop) == ["COMPLETED"]


def units() -> dict[str, str]:
    found = blocks(PAGE, "ini")
    return {block.splitlines()[0].removeprefix("# "): block for block in found}


def parsed(unit: str) -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read_string(unit)
    return parser


def test_systemd_understands_every_line_of_the_units(shop: Path, tmp_path: Path) -> None:
    """It ignores what it does not, with a warning that only this command shows."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("expected systemd-analyze, to verify units with; found none")

    def verify(right: str, wrong: str) -> list[str]:
        for name, unit in units().items():
            text = unit if name.endswith(".timer") else placed(unit, shop)
            (tmp_path / name).write_text(text.replace(right, wrong), encoding="utf-8")
        files = [str(tmp_path / name) for name in units()]
        ran = subprocess.run(  # noqa: S603  found on the path
            [analyze, "--man=no", "verify", *files], check=False, capture_output=True, text=True, timeout=120
        )
        return [line for line in (ran.stdout + ran.stderr).splitlines() if str(tmp_path) in line]

    assert verify("KillMode", "KillMode") == []
    (complaint,) = verify("KillMode", "KillMod")
    assert "KillMod" in complaint


def test_the_units_are_those_of_the_text_and_the_timer_starts_the_run(shop: Path) -> None:
    assert set(units()) == {"perago-worker.service", "perago-orders.service", "perago-orders.timer"}
    worker = parsed(units()["perago-worker.service"])["Service"]
    assert worker["KillMode"] == "mixed"
    assert float(worker["TimeoutStopSec"]) > WorkerSettings().drain_limit
    started = run(command_of("perago-orders.service", shop), shop)
    assert started.returncode == 0, started.stderr
    assert runs(shop) == ["COMPLETED"]
    worked = run(f"{command_of('perago-worker.service', shop)} --until-idle", shop)
    assert worked.returncode == 0, worked.stderr
    assert all(json.loads(line) for line in worked.stderr.splitlines())


def command_of(name: str, shop: Path) -> str:
    service = parsed(placed(units()[name], shop))["Service"]
    assert service["WorkingDirectory"] == service["ReadWritePaths"] == str(shop)
    return service["ExecStart"]
