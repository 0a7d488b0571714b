"""``perago timeline`` tells a run that really happened: a worker killed after its publication, and its replacement."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perago_core import outcome, start, step
from perago_core.answers import Event
from perago_core.attempt import ATTEMPT, messages
from perago_core.machine import codec
from perago_core.machine.trace import Tracer
from perago_core.values import (
    Attempt,
    Backing,
    Commit,
    CommitRef,
    Head,
    StagedRef,
    Target,
    TaskSnapshot,
    TaskStatus,
)
from perago_report import page
from perago_report.recording import Recording, Word, read
from perago_report.scenes import Scene, Standing, Story
from perago_report.timeline import tell
from perago_simulation.runs.trace_check import check_trace
from perago_worker.config.load import load
from perago_worker.ops.timeline import timeline
from perago_worker.stack import pipelines_of
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


def test_it_says_who_was_killed_what_was_found_and_who_reported_it(told: Story) -> None:
    assert told.lanes[:2] == ("orchestrator", "write 1")
    assert told.lanes[-2:] == ("store", "coordination")
    order = (
        r"^orchestrator hands out write, attempt 1, to worker ",
        r"^write 1 asks to merge \w+ into main$",
        r"^write 1 is heard of no more; it waited for the movement of the target$",
        r"^orchestrator gives up on write, attempt 1: no sign of life",
        r"^orchestrator hands out write, attempt 2",
        r"^write 2 lists the claims of its task",
        r"^write 2 asks who owns the other claims: timed out$",
        r"^write 2 claims the right to publish",
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
    reported = said(told, rf"^write 2 reports: completed with {staged}")
    nodes = {node.ref: node for node in reported.nodes}
    assert reported.head == staged
    assert nodes[staged].execution == "write 1"
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


# ---- What a recorded run says of itself: every row of the table in words, and what is broken if something is.


VECTORS = Path(__file__).parents[2] / "specs" / "vectors" / "attempt.json"
MAIN = Target("lake", "main")


def recorded(attempt: Attempt, happens: Iterable[Event], name: str, at: Iterable[int] = ()) -> Recording:
    """Let things happen to an attempt, and read the trace it writes."""
    lines: list[str] = []
    times = iter(at)
    trace = Tracer("attempt", lines.append, lambda: next(times, 0))
    state = start(attempt).state
    for event in happens:
        fired = ATTEMPT.fire(state, event)
        trace(state, event, fired)
        state = fired.state
    return read(lines, name)


@cache
def vectors() -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]}


def of_vector(vector: dict[str, Any]) -> Recording:
    happens = [codec.load({**each["event"], "schema": codec.SCHEMA}, Event) for each in vector["steps"]]
    return recorded(codec.load({**vector["subject"], "schema": codec.SCHEMA}, Attempt), happens, "load 2")


def test_every_row_of_the_table_can_be_told() -> None:
    """One vector for each row: all answers and all interruptions have words, and none is left out."""
    rows: set[str] = set()
    for vector in vectors().values():
        recording = of_vector(vector)
        told = tell(vector["name"], [recording])
        fired = [scene.rows[0].id for scene in told.scenes if scene.rows]
        assert fired == vector["rows"], vector["name"]
        assert all(scene.says and "None" not in scene.says for scene in told.scenes), vector["name"]
        assert not told.breaks, vector["name"]
        rows.update(fired)
    assert rows == {row.id for row in ATTEMPT.definition.rows}


@pytest.mark.parametrize("name", ["straight on 1", "straight on 5", "straight on 9"])
def test_a_told_vector_is_a_page(name: str) -> None:
    recording = of_vector(vectors()[name])
    text = page(tell(name, [recording]))
    assert text.count('class="scene"') == text.count('class="step')
    assert text.count("<script>") == 1


def an_attempt(task: str, number: int, given: str) -> Attempt:
    return Attempt(
        "wf", f"{task}-{number}", 0, f"wf/{task}", number, f"run-{task}-{number}", MAIN, CommitRef(given), Backing.SOFT
    )


def publishing(attempt: Attempt, commit: str) -> list[Event]:
    """An attempt that goes well on the soft backing, and moves the branch from its input to its commit."""
    ours = TaskSnapshot("wf", attempt.task_id, 0, TaskStatus.IN_PROGRESS)
    staged = StagedRef("lake", attempt.staging_name, CommitRef(commit), f"tree-{commit}")
    return [
        messages.WorkspaceReady(),
        messages.BodyDone(attempt.execution, changed=True),
        messages.TaskReloaded(ours),
        messages.StagingOpened(),
        messages.Uploaded(),
        messages.Staged(staged),
        messages.TaskReloaded(ours),
        messages.HeadSeen(Head(Commit(attempt.input, (), "tree"))),
        messages.Published(CommitRef(commit)),
        messages.Reported(),
        messages.CleanedUp(),
    ]


def completed(attempt: Attempt, ref: str, at: int) -> Word:
    return Word(attempt.task_id, attempt.task_id, TaskStatus.COMPLETED, at, ref=CommitRef(ref))


def lost() -> Story:
    """Somebody resets the branch after a result was accepted; the next attempt sees where it is."""
    one, two = an_attempt("load", 1, "A"), an_attempt("sum", 1, "A")
    first = recorded(one, publishing(one, "P"), "load 1", range(100, 111))
    second = recorded(two, publishing(two, "Q"), "sum 1", range(200, 211))
    return tell("a run", [first, second], [completed(one, "P", 109), completed(two, "Q", 209)])


def test_an_accepted_result_that_left_the_branch_breaks_S_01_at_the_step_that_shows_it() -> None:  # noqa: N802
    told = lost()
    assert (told.property, told.problem) == ("S-01", "accepted P is not on the branch any more")
    broken = told.scenes[told.breaks - 1]
    assert f"{broken.lane} {broken.says}" == "sum 1 looks at main: sees A"
    assert {node.ref: node.standing for node in broken.nodes}["P"] is Standing.LOST
    assert "S-01" in page(told)
    assert told.opens() == told.breaks


def test_a_strangers_commits_on_top_lose_nothing_once_the_store_has_said_what_they_stand_on() -> None:
    one, two = an_attempt("load", 1, "A"), an_attempt("sum", 1, "P")
    happens = publishing(two, "Q")
    happens[7] = messages.HeadSeen(Head(Commit(CommitRef("S2"), (CommitRef("S1"),), "tree")))
    first = recorded(one, publishing(one, "P"), "load 1", range(100, 111))
    second = recorded(two, happens[:8], "sum 1", range(200, 208))
    told = tell("a run", [first, second], [completed(one, "P", 109)], {"S1": ("P",), "S2": ("S1",)})
    assert told.breaks == 0
    nodes = {node.ref: node for node in told.scenes[-1].nodes}
    assert (nodes["S1"].stranger, nodes["S2"].stranger, nodes["P"].stranger) == (True, True, False)
    assert [nodes[ref].place.column for ref in ("A", "P", "S1", "S2")] == [0, 1, 2, 3]


def test_nothing_is_claimed_of_a_head_whose_ancestors_nobody_knows() -> None:
    one, two = an_attempt("load", 1, "A"), an_attempt("sum", 1, "P")
    happens = publishing(two, "Q")
    happens[7] = messages.HeadSeen(Head(Commit(CommitRef("S9"), (CommitRef("S8"),), "tree")))
    first = recorded(one, publishing(one, "P"), "load 1", range(100, 111))
    second = recorded(two, happens[:8], "sum 1", range(200, 208))
    known = tell("a run", [first], [completed(one, "P", 109)])
    assert known.verdict.endswith("Every accepted result is on the branch as it was last seen.")
    told = tell("a run", [first, second], [completed(one, "P", 109)])
    assert told.breaks == 0
    assert told.verdict.endswith("may be on the branch: these traces do not show it.")


def test_a_clock_that_was_set_back_does_not_change_the_order_of_an_execution() -> None:
    one = an_attempt("load", 1, "A")
    happens = publishing(one, "P")
    told = tell("a run", [recorded(one, happens, "load 1", [500, 510, 90, 91, 92, 93, 94, 95, 96, 97, 98])])
    rows = [scene.rows[0] for scene in told.scenes if scene.rows]
    assert [row.next for row in rows[:-1]] == [row.phase for row in rows[1:]]
    assert told.scenes[-1].when == "+0.010 s"


def test_executions_that_overlap_are_told_by_time() -> None:
    one, two = an_attempt("load", 1, "A"), an_attempt("load", 2, "A")
    told = tell(
        "a run",
        [
            recorded(one, publishing(one, "P")[:3], "load 1", [100, 300, 500]),
            recorded(two, publishing(two, "Q")[:2], "load 2", [200, 400]),
        ],
    )
    assert [scene.lane for scene in told.scenes if scene.rows] == ["load 1", "load 2", "load 1", "load 2", "load 1"]


def test_an_open_task_is_not_dead_and_one_that_was_given_up_is() -> None:
    one = an_attempt("load", 1, "A")
    recording = recorded(one, publishing(one, "P")[:4], "load 1", range(100, 104))
    open_word = Word(one.task_id, "load, attempt 1", TaskStatus.IN_PROGRESS)
    assert [line.standing for line in tell("a run", [recording], [open_word]).scenes[-1].runs] == ["running"]
    given_up = Word(one.task_id, "load, attempt 1", TaskStatus.TIMED_OUT, 900, "silent")
    told = tell("a run", [recording], [given_up])
    assert [scene.says for scene in told.scenes[-2:]] == [
        "is heard of no more; it waited for the changes on the staging branch",
        "gives up on load, attempt 1: silent",
    ]
    assert [line.standing for line in told.scenes[-1].tasks] == ["timed out"]


def test_nothing_recorded_is_a_story_without_scenes() -> None:
    told = tell("nothing", [])
    assert told.scenes == ()
    assert 'max="0"' in page(told)


def test_the_recorded_run_is_the_one_that_ran() -> None:
    """The events of a trace lead to the same end when they happen again."""
    one = an_attempt("load", 1, "A")
    state = start(one).state
    for record in recorded(one, publishing(one, "P"), "load 1").records:
        state = step(state, record.event).state
    assert outcome(state) is not None
