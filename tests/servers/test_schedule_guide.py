"""What starts runs on Conductor, as the guide shows it, on a real one: a request, and Conductor's own clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from tests.docs.documents import blocks
from tests.support.conductor.operating import eventually
from tests.support.servers.conductor import CONDUCTOR, Conductor
from tests.support.servers.sharing import demand

pytestmark = pytest.mark.servers

PAGE = "specs/guide/howto/schedule.md"


@frozen
class Shop:
    """A project on a Conductor of its own, with the template's pipelines."""

    folder: Path
    conductor: Conductor

    def shell(self, line: str, folder: Path | None = None) -> str:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "CONDUCTOR_SERVER_URL": self.conductor.api,
            "PERAGO_ORCHESTRATOR__KIND": "conductor",
            "PERAGO_ORCHESTRATOR__TIMEOUT": "120",  # the machine may be busy
            "NO_PROXY": "127.0.0.1",
        }
        ran = subprocess.run(  # noqa: S603  our own guide
            ["/bin/sh", "-ec", line],
            cwd=folder or self.folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def asked(self, line: str) -> Any:  # noqa: ANN401  a JSON document
        return json.loads(self.shell(line))


@pytest.fixture(scope="module")
def conductor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conductor]:
    """Start one with a clock of its own, for this page only: the shared one starts nothing by itself."""
    demand(CONDUCTOR)
    with Conductor(folder=tmp_path_factory.mktemp("conductor"), schedules=True) as server:
        yield server


@pytest.fixture
def shop(tmp_path: Path, conductor: Conductor) -> Shop:
    made = Shop(tmp_path / "shop", conductor)
    made.shell(f"perago init {made.folder}", tmp_path)
    return made


def test_the_request_of_the_guide_starts_a_run_that_workers_complete(shop: Shop) -> None:
    start, _schedule = blocks(PAGE, "sh")
    shop.shell("perago register && perago pipeline register && perago run orders")
    before = shop.asked("perago history --json")
    started = shop.shell(start).strip()
    shop.shell("perago worker --until-idle")
    assert shop.asked(f"perago show {started} --json")["status"] == "COMPLETED"
    # The same orders again change nothing.
    assert shop.asked("perago history --json") == before


def test_conductors_own_schedule_starts_runs_that_each_begin_at_the_newest_accepted_commit(shop: Shop) -> None:
    """Its input names one commit for ever. Each run adds a line to what the run before it has left."""
    _start, schedule = blocks(PAGE, "sh")
    (tally,) = blocks(PAGE, "python")
    (pipeline,) = blocks(PAGE, "toml")
    for name, more in (("pipeline.py", tally), ("perago.toml", pipeline)):
        with (shop.folder / name).open("a", encoding="utf-8") as file:
            file.write(f"\n\n{more}")
    assert '"0 15 2 * * *"' in schedule
    shop.shell("perago register && perago pipeline register && perago run nights")
    shop.shell(schedule.replace("0 15 2 * * *", "*/5 * * * * *"))

    def nights() -> list[dict[str, Any]]:
        return [each for each in shop.asked("perago runs --json --limit 100") if each["name"] == "nights"]

    # One was ours, two are Conductor's; a busy machine may be given more.
    eventually(lambda: len(nights()) > 2, "two nights")
    shop.shell('curl --fail --silent --request PUT "$CONDUCTOR_SERVER_URL/scheduler/schedules/nights/pause"')
    shop.shell("perago worker --until-idle")
    ended = nights()
    assert {each["status"] for each in ended} == {"COMPLETED"}, ended
    lines = shop.shell("git --git-dir .perago/store/lake.git show main:tally/nights.txt")
    assert lines == "one more\n" * len(ended)
