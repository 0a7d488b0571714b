"""The policy of a working cluster is changed three times on a real lakeFS: nothing is lost, and nobody is stuck."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.lakefs.scene import Scene
from tests.lakefs.test_command import Project, project
from tests.specs.evidence import note_count
from tests.support.servers.lakefs import LakeFS

__all__ = ["project"]

#: Workflows of two steps each that run while the policy changes.
RUNS = 40 if os.environ.get("PERAGO_MATRIX") == "full" else 4
CHANGES = [("disable", "locked"), ("enable", "conditional"), ("disable", "locked")]


@contextmanager
def workers(project: Project, count: int, log: Path) -> Generator[list[subprocess.Popen[bytes]]]:
    """Let workers run, and drain them at the end."""
    command = [sys.executable, "-m", "perago_worker", "--project", str(project.folder), "worker"]
    with log.open("wb") as out:
        running = [
            subprocess.Popen(command, env=project.environment, stdout=out, stderr=subprocess.STDOUT)  # noqa: S603  ours
            for _ in range(count)
        ]
        try:
            yield running
        finally:
            for each in running:
                each.terminate()
            for each in running:
                each.wait(60)


def test_a_policy_that_changes_three_times_under_load_loses_nothing_and_leaves_nobody_behind(
    project: Project, bare: Scene, tmp_path: Path
) -> None:
    project.perago("init-repo")
    bare.input = bare.head()
    first = project.ask("run", "twice")
    assert first["status"] == "COMPLETED"
    log = tmp_path / "workers.log"
    with workers(project, 2, log) as running, ThreadPoolExecutor(1) as pool:
        load = pool.submit(lambda: [project.ask("run", "twice", "--on", "local") for _ in range(RUNS)])
        epochs: list[int] = []
        for policy, backing in CHANGES:
            changed = project.ask("policy", "set", policy, "--why", "a test under load", "--wait", "120")
            assert (changed["changed"], changed["decision"]["backing"]) == (True, backing)
            epochs.append(changed["decision"]["epoch"])
        ran = load.result(400)
        assert epochs == [2, 3, 4]
        assert [each["status"] for each in ran] == ["COMPLETED"] * RUNS, log.read_text("utf-8")
        attempts = [each for view in ran for each in view["attempts"]]
        assert {each["status"] for each in attempts} == {"COMPLETED"}, "a change costs nobody a retry"
        shown = project.ask("policy", "show")
        assert [each.poll() for each in running] == [None, None], log.read_text("utf-8")
        assert [(each["epoch"], each["behind"]) for each in shown["workers"]] == [(4, False)] * 2
    assert bare.file() == b"of the input" + b"!!" * (RUNS + 1)
    assert len(bare.history()) == 1 + 2 * (RUNS + 1)
    note_count(
        "tests/lakefs/test_policy_under_load.py::a_policy_that_changes_three_times",
        f"the policy of a lakeFS changed {len(CHANGES)} times while {RUNS} workflows of two steps ran: all completed, "
        "each step at its first attempt, 0 commits missing or twice, both workers under the last epoch",
    )


def test_init_repo_ends_with_a_probe_and_offers_the_next_epoch_where_the_stored_one_was_a_fallback(
    project: Project, lakefs_server: LakeFS
) -> None:
    """A2: a cluster that fell back before the hook was there is told how to get what it has now."""
    del lakefs_server
    project.perago("policy", "set", "disable", "--why", "there is no hook yet")
    told = project.ask("init-repo")
    assert (told["probed"], told["offer"]) == ("conditional", "perago policy review --write --why '...'")
    project.perago("policy", "review", "--write", "--why", "there is one now")
    assert project.ask("init-repo")["offer"] is None
    assert "conditional" in project.perago("policy", "show")


def test_without_the_hook_a_lease_or_nothing_is_chosen_as_the_migration_page_says(project: Project) -> None:
    """specs/migration.md, step 3: at the start by a setting, later by a command."""
    page = (Path(__file__).parents[2] / "specs" / "migration.md").read_text("utf-8")
    assert "--set fence.policy=disable" in page
    assert "perago policy set disable --why" in page
    assert project.ask("--set", "fence.policy=disable", "run", "twice")["status"] == "COMPLETED"
    stored = project.ask("policy", "show")["decision"]
    assert (stored["backing"], stored["evidence"]) == ("locked", "chosen")
    assert "perago policy set soft" in project.perago("--set", "fence.policy=soft", "run", "twice", code=2)
    project.perago("policy", "set", "soft", "--why", "as it was before")
    assert project.ask("--set", "fence.policy=soft", "run", "twice")["status"] == "COMPLETED"
    assert project.ask("policy", "set", "disable", "--why", "back to a lock")["decision"]["epoch"] == 3
