"""The request that starts a run on Conductor, as the guide shows it, on a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import blocks
from tests.support.servers.conductor import CONDUCTOR, Conductor
from tests.support.servers.sharing import demand

pytestmark = pytest.mark.servers


def test_the_request_of_the_guide_starts_a_run_that_workers_complete(tmp_path: Path) -> None:
    demand(CONDUCTOR)
    (start,) = blocks("specs/guide/howto/schedule.md", "sh")
    with Conductor(folder=tmp_path / "conductor") as conductor:
        project = tmp_path / "shop"
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "CONDUCTOR_SERVER_URL": conductor.api,
            "PERAGO_ORCHESTRATOR__KIND": "conductor",
            "PERAGO_ORCHESTRATOR__TIMEOUT": "120",  # the machine may be busy
            "NO_PROXY": "127.0.0.1",
        }

        def shell(line: str, folder: Path = project) -> str:
            ran = subprocess.run(  # noqa: S603  our own guide
                ["/bin/sh", "-ec", line],
                cwd=folder,
                env=environment,
                check=False,
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
            return ran.stdout

        shell(f"perago init {project}", tmp_path)
        shell("perago register && perago pipeline register && perago run orders")
        before = json.loads(shell("perago history --json"))
        started = shell(start).strip()
        shell("perago worker --until-idle")
        assert json.loads(shell(f"perago show {started} --json"))["status"] == "COMPLETED"
        # The same orders again change nothing.
        assert json.loads(shell("perago history --json")) == before
