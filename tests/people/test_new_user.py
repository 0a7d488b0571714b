"""A new user, from an empty folder and an installed wheel: write, run, break, look, cancel, go on."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.people.conftest import Installed

CARELESS = '''
"""A task of somebody who learns."""

import time
from pathlib import Path

from perago_worker import Workspace, task


@task(name="report", workspace=Workspace(prefix="report"), retries=0)
def report(workspace: Path) -> int:
    print("adding up")
    {line}
    (workspace / "sum.txt").write_text("7")
    return 7
'''


def write(folder: Path, line: str) -> None:
    (folder / "mine.py").write_text(CARELESS.format(line=line), encoding="utf-8")


def test_the_first_day(install: Callable[..., Installed], tmp_path: Path) -> None:
    perago = install("worker")
    lost = perago(tmp_path, "perago", "status")
    assert (lost.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "`perago init` writes a project" in lost.stderr

    made = perago(tmp_path, "perago", "init", "shop")
    assert "next: cd shop && perago run orders" in made.stdout + made.stderr
    shop = tmp_path / "shop"
    ran = perago(shop, "perago", "run", "orders")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"^ingest +1 +completed +[\d.]+ s +[0-9a-f]{8} +[0-9a-f]{8}", ran.stdout, re.MULTILINE)
    assert re.search(r'^rollup: wrote 1 file\(s\), [\d,]+ bytes; gave \{"countries": 5', ran.stdout, re.MULTILINE)
    assert "next: `perago history` shows the branch, `perago verify` proves it" in ran.stdout
    assert perago(shop, "perago", "verify").returncode == 0

    settings = (shop / "perago.toml").read_text(encoding="utf-8")
    (shop / "perago.toml").write_text(settings.replace('["pipeline"]', '["pipeline", "mine"]'), encoding="utf-8")
    write(shop, "1 / 0")
    broken = perago(shop, "perago", "run", "report")
    assert broken.returncode == 1
    assert "report adding up" in broken.stderr
    assert "ZeroDivisionError: division by zero" in broken.stdout
    run = re.search(r"^(report-\w+): failed", broken.stdout, re.MULTILINE)
    assert run is not None
    assert "adding up" in perago(shop, "perago", "logs", "report").stdout

    write(shop, "time.sleep(3600)")
    with subprocess.Popen([perago.folder / "bin" / "perago", "retry", run[1]], cwd=shop) as going_on:  # noqa: S603
        until = time.monotonic() + 60
        while perago(shop, "perago", "logs", "report").stdout.count("adding up") < 2:
            assert time.monotonic() < until
        cancelled = perago(shop, "perago", "cancel", run[1].removeprefix("report-")[:6], "--json")
        assert json.loads(cancelled.stdout)["status"] == "TERMINATED"
        assert going_on.wait(60) == 1

    write(shop, "pass")
    mended = perago(shop, "perago", "retry", run[1], "--from-failed")
    assert mended.returncode == 0, mended.stderr
    assert "gave 7" in mended.stdout
    listed = perago(shop, "perago", "runs", "--json")
    assert [(each["name"], each["status"]) for each in json.loads(listed.stdout)] == [
        ("report", "COMPLETED"),
        ("orders", "COMPLETED"),
    ]

    for line, says in {
        "tasks = [": "is not valid TOML",
        '[store]\nkind = "s3"': "store.kind",
        '[fence]\npolcy = "soft"': "there is no such setting; known here: policy",
        '[store]\nkind = "lakefs"': "pip install 'perago-core[lakefs]'",
        '[orchestrator]\nkind = "conductor"': "pip install 'perago-core[conductor]'",
    }.items():
        kept = "" if line.startswith(("tasks", "[fence]")) else 'tasks = ["mine"]\n'
        (shop / "perago.toml").write_text(kept + line, encoding="utf-8")
        wrong = perago(shop, "perago", "history", "lake/main") if "lakefs" in line else perago(shop, "perago", "status")
        assert (wrong.returncode, wrong.stdout) == (2, ""), line
        assert says in wrong.stderr, wrong.stderr
        assert "Traceback" not in wrong.stderr
