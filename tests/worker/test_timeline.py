"""``perago timeline`` tells a run that really happened: a worker killed after its publication, and its replacement."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago_report.scenes import Scene, Standing, Story
from perago_simulation.runs.trace_check import check_trace
from perago_worker.config.load import load
from perago_worker.ops.timeline import timeline
from perago_worker.pipelines.protocol import pipelines_of
from tests.worker.projects import IMPATIENT, Project, killed_run, new_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with new_project(tmp_path_factory.mktemp("told"), IMPATIENT) as made:
        killed_run(made)
        yield made


@pytest.fixture(scope="module")
def told(project: Project) -> Story:
    (view,) = project.views()
    return timeline(load(project.folder, {}, {}).worker.trace, project.stack().store, view)


def said(told: Story, pattern: str) -> Scene:
    """The first scene that says this."""
    found = [scene for scene in told.scenes if re.search(pattern, f"{scene.lane} {scene.says}")]
    assert found, [f"{scene.lane} {scene.says}" for scene in told.scenes]
    return found[0]


def test_the_traces_of_real_workers_are_what_the_table_says(project: Project) -> None:
    """Trace conformance: also that of a worker that was killed, which ends in the middle."""
    assert len(project.traces()) >= 3
    for path in project.traces():
        checked = check_trace(path.read_text(encoding="utf-8").splitlines())
        assert checked.divergence is None, path
        assert checked.steps > 5
        assert project.process("check-trace", str(path)).returncode == 0


def test_every_step_of_every_trace_is_a_scene_in_the_order_of_its_trace(project: Project, told: Story) -> None:
    steps = [scene for scene in told.scenes if scene.rows]
    lines = [line for path in project.traces() for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(steps) == sum(json.loads(line)["type"] == "TraceRecord" for line in lines)
    for name in told.executions:
        own = [scene.rows[0] for scene in steps if scene.rows[0].execution == name]
        assert [row.next for row in own[:-1]] == [row.phase for row in own[1:]]
    times = [float(scene.when.removesuffix(" s")) for scene in told.scenes]
    assert times == sorted(times)


def test_it_says_who_was_killed_what_was_found_and_what_replaced_it(told: Story) -> None:
    assert told.lanes[:2] == ("orchestrator", "write 1")
    assert told.lanes[-2:] == ("store", "coordination")
    order = (
        r"^orchestrator hands out write, attempt 1, to worker ",
        r"^write 1 asks to merge \w+ into main$",
        r"^write 1 is heard of no more; it waited for the movement of the target$",
        r"^orchestrator gives up on write, attempt 1: no sign of life",
        r"^orchestrator hands out write, attempt 2",
        r"^write 2 asks who owns the other claims: timed out$",
        r"^write 2 asks to replace main's head by \w+$",
        r"^store moves main from \w+ to \w+$",
        r"^write 2 reports: completed with ",
        r"^orchestrator hands out total",
    )
    numbers = [said(told, pattern).number for pattern in order]
    assert numbers == sorted(numbers)
    assert said(told, "write 1 is heard of no more").label[1] == "crash"
    assert told.breaks == 0
    assert "Every accepted result is on the branch" in told.verdict


def test_the_branch_is_drawn_as_it_was_known_to_be_at_each_step(told: Story) -> None:
    """A worker that was killed tells nobody that its publication landed: it is seen when somebody reads the head."""
    staged = said(told, "^write 1 commits its staging branch").says.split()[-1]
    gone = said(told, "^write 1 is heard of no more")
    assert gone.head != staged
    assert [line.standing for line in gone.requests] == ["sent"]
    assert "nobody waits for it" in gone.requests[0].text
    found = said(told, rf"^write 2 looks at main: sees {staged}")
    assert found.head == staged
    assert found.requests == ()
    moved = said(told, rf"^store moves main from {staged} to ")
    nodes = {node.ref: node for node in moved.nodes}
    assert nodes[staged].standing in {Standing.STAGED, Standing.ABANDONED}
    assert nodes[moved.head].execution == "write 2"
    last = told.scenes[-1]
    assert [node.standing for node in last.nodes if node.accepted] == [Standing.BRANCH] * 2
    assert [line.standing.split()[0] for line in last.tasks].count("accepted") == 2
    places = [node.place for node in last.nodes]
    assert len(set(places)) == len(places)


def test_records_come_and_go(told: Story) -> None:
    """Claims stay; an intent is open until somebody settles it, for a dead worker the next one."""
    armed = said(told, "^write 1 writes down what it is about to do")
    assert [(line.name, line.text) for line in armed.records if line.changed] == [("intent", "of write 1")]
    swept = said(told, "^write 2 settles open intents: none is left")
    assert [line.name for line in swept.records] == ["claim", "claim"]
    assert {line.name for line in told.scenes[-1].records} == {"claim"}


def test_the_command_tells_it_as_text_as_data_and_as_a_page(project: Project, told: Story, tmp_path: Path) -> None:
    (view,) = project.views()
    text = project.perago("timeline", view.workflow_id)
    assert text.code == 0
    assert max(map(len, text.out.splitlines()[2:-1])) <= 80
    assert "is heard of no more" in " ".join(text.out.split())
    data = project.perago("timeline", view.workflow_id, "--json").data
    assert [each["number"] for each in data["steps"]] == list(range(1, len(told.scenes) + 1))
    assert data["problem"] == ""
    page = tmp_path / "run.html"
    made = project.perago("timeline", view.workflow_id, "--html", str(page))
    assert made.code == 0
    assert made.out == ""
    assert page.read_text(encoding="utf-8").count('class="scene"') == len(told.scenes)
    assert project.perago("timeline", view.workflow_id, "--html", str(tmp_path / "no" / "folder.html")).code == 2


def test_a_task_is_told_with_all_its_attempts_and_without_the_others(project: Project) -> None:
    (view,) = project.views()
    second = next(each.task_id for each in view.attempts if each.step == "write" and each.number > 1)
    steps = project.perago("timeline", second, "--json").data["steps"]
    assert {"write 1", "write 2"} <= {each["who"] for each in steps}
    assert not any(each["who"].startswith("total") for each in steps)


def test_missing_and_broken_traces_are_said_with_the_fix(project: Project, tmp_path: Path) -> None:
    (view,) = project.views()
    empty = project.perago("--set", f"worker.trace={tmp_path}", "timeline", view.workflow_id, width=400)
    assert empty.code == 2
    assert "found none. They are where its workers ran: name that folder with --set worker.trace=FOLDER" in empty.err
    for text in ("", "{}", '{"type":"State"}\n', "\xff\n"):
        broken = tmp_path / f"{view.workflow_id}_write-001-0000.jsonl"
        broken.write_text(text, encoding="latin-1")
        found = project.perago("--set", f"worker.trace={tmp_path}", "timeline", view.workflow_id, width=400)
        assert found.code == 2
        assert f"{broken} cannot be read as a trace" in found.err


def test_traces_that_are_elsewhere_are_not_missed(project: Project, tmp_path: Path) -> None:
    """The workers of a run may have been on different machines: what is here is told."""
    stack = project.stack()
    (view,) = project.views()
    place = pipelines_of(stack).find(view.attempts[0].task_id)
    assert place is not None
    for path in project.traces():
        if "write-001" in path.name:
            (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    alone = timeline(tmp_path, stack.store, view, place.logical_task)
    assert alone.scenes[-1].label[1] == "give up"
    assert "dead" in {line.standing for line in alone.scenes[-1].runs}
