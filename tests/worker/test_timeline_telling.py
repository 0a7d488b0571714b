"""What a recorded run says of itself: every row of the table in words, and what is broken if something is."""

from __future__ import annotations

import json
from collections.abc import Iterable
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
from perago_report.scenes import Standing, Story
from perago_report.timeline import tell

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
