"""``perago policy``: a choice that contradicts the cluster's does not start, and the command it names helps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_worker.cli.project import Project as CliProject
from perago_worker.config.load import load
from perago_worker.runtime.assembly import assemble
from perago_worker.runtime.membership import LOOK_HOLDS
from tests.worker.projects import Project, new_project

RUN = ("run", "both", "--param", "text=hello")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project") as made:
        yield made


@pytest.mark.parametrize("policy", ["disable", "soft"])
def test_after_auto_another_policy_is_refused_at_the_start_and_the_advice_publishes(
    project: Project, policy: str
) -> None:
    """A1: both attempts failed with ``policy-changed``, and no command helped."""
    assert project.perago(*RUN, "--json").code == 0
    chosen = ("--set", f"fence.policy={policy}")
    refused = project.perago(*chosen, *RUN)
    assert refused.code == 2
    assert f"perago policy set {policy} --why" in refused.err
    assert project.perago("status", "--json").data == [], "nothing was started that nobody can finish"
    changed = project.perago("policy", "set", policy, "--why", "a test", "--who", "eve", "--json").data
    assert changed["changed"] is True
    assert (changed["decision"]["epoch"], changed["decision"]["detector"], changed["decision"]["why"]) == (
        2,
        "eve",
        "a test",
    )
    assert project.perago(*chosen, *RUN, "--json").data["status"] == "COMPLETED"
    assert project.perago(*RUN, "--json").data["status"] == "COMPLETED", "auto follows whatever stands"
    again = project.perago("policy", "set", policy, "--why", "once more", "--json").data
    assert (again["changed"], again["decision"]["epoch"]) == (False, 2)


def test_review_proposes_what_the_store_proves_and_writes_it_when_asked(project: Project) -> None:
    project.perago("policy", "set", "disable", "--why", "no proof yet")
    assert "contradict" in project.perago("--set", "fence.policy=soft", *RUN).err
    proposed = project.perago("policy", "review", "--json").data
    assert (proposed["decision"]["backing"], proposed["proposed"]["backing"]) == ("locked", "atomic")
    assert "--write" in project.perago("policy", "review").out
    assert project.perago("policy", "review", "--write").code == 2
    written = project.perago("policy", "review", "--write", "--why", "it is proved").out
    assert "atomic" in written
    assert "nothing to change" in project.perago("policy", "review").out
    assert project.perago("policy", "review", "--json").data["proposed"] is None
    told = project.perago("--set", "fence.policy=disable", "policy", "set", "soft", "--why", "speed")
    assert (told.code, "will not start" in " ".join(told.err.split())) == (0, True)


def test_without_a_coordination_store_there_is_nothing_to_show_or_change(project: Project) -> None:
    none = ("--set", "coordination.kind=none", "policy")
    for words in (("show",), ("set", "soft", "--why", "x"), ("review",)):
        told = project.perago(*none, *words)
        assert (told.code, "coordination.kind" in told.err) == (2, True)


def test_a_worker_under_way_rests_for_a_change_and_is_then_to_be_started_again(project: Project) -> None:
    """It is seen with its epoch, it is waited for, and when the next epoch stands its loop ends by itself."""
    settings, cli = load(project.folder, {}, {}), CliProject(project.folder)
    with assemble(settings, cli.stack, cli.tasks()) as assembled:
        name = assembled.runtime.node.worker_id
        shown = project.perago("policy", "show", "--json").data
        assert [(each["name"], each["epoch"], each["behind"]) for each in shown["workers"]] == [(name, 1, False)]
        refused = project.perago("policy", "set", "disable", "--why", "too soon", "--wait", "0", "--json")
        assert (refused.code, name in refused.data["reason"]) == (1, True), (
            "it does not look yet: its loop does not run"
        )
        assert project.perago("policy", "show", "--json").data["decision"]["epoch"] == 1
        loop = threading.Thread(target=assembled.worker.run)
        loop.start()
        changed = project.perago("policy", "set", "disable", "--why", "now", "--wait", "30", "--json")
        assert changed.data["changed"] is True, changed.data
        loop.join(20 * LOOK_HOLDS)
        assert not loop.is_alive()
        assert assembled.worker.moved
    assert project.perago("policy", "show", "--json").data["workers"] == []
    cli.close()


def test_a_change_that_is_forced_says_who_was_behind(project: Project) -> None:
    settings, cli = load(project.folder, {}, {}), CliProject(project.folder)
    with assemble(settings, cli.stack, cli.tasks()) as assembled:
        forced = project.perago("policy", "set", "disable", "--why", "it hangs", "--wait", "0", "--force")
        assert forced.code == 0, forced.err
        assert f"forced: worker {assembled.runtime.node.worker_id} of epoch 1 still works" in forced.out
        shown = project.perago("policy", "show")
        assert "behind" in shown.out
    cli.close()
