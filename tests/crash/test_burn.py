"""The burn: its plans come from their seed alone, its judges see a loss, and ``soft`` shows the one it is known for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from attrs import evolve
from typer.testing import CliRunner

from perago_core.values import CommitRef
from perago_simulation.cli import app as simulation
from perago_simulation.properties.sharing import SHARING
from perago_simulation.world.state import COMPLETED
from tests.crash.burn import blindness
from tests.support.burn.faults import ABANDONED, Fault, Kind, late_replacements, plan
from tests.support.burn.field import Field
from tests.support.burn.round import play
from tests.support.burn.scenario import BOUNDS, NONE, scenario, setting_of
from tests.support.burn.sharing import Sharing
from tests.support.burn.shrinking import shrunk
from tests.support.burn.verdict import Verdict, judge, registered, shared_world
from tests.support.burn.wall_clock import WallClock, compiler
from tests.support.crash.project import done
from tests.support.crash.seeds import FULL


def test_a_plan_is_drawn_from_its_seed_alone_and_every_kind_comes_before_any_comes_often() -> None:
    drawn = plan(7, 100.0, frozenset(Kind), gap=2.0)
    assert drawn == plan(7, 100.0, frozenset(Kind), gap=2.0)
    assert drawn != plan(8, 100.0, frozenset(Kind), gap=2.0)
    assert {each.kind for each in drawn[: len(Kind)]} == set(Kind)
    assert [each.number for each in drawn] == list(range(len(drawn)))
    assert all(0 < each.at < 100.0 for each in drawn)
    assert {each.kind for each in plan(7, 100.0, {Kind.KILL}, gap=2.0)} == {Kind.KILL}


def test_what_may_be_broken_is_what_the_register_says_of_that_backing_and_those_faults() -> None:
    assert "S-01" in registered({"soft"}, {Kind.STOP_AT})
    assert registered({"atomic"}, {Kind.STOP_AT, Kind.KILL}) == frozenset()
    assert registered({"soft"}, ()) == frozenset()
    assert registered({"locked"}, {Kind.RESENT}) >= {"S-02b"}


def test_a_burn_that_could_have_lost_nothing_is_blind() -> None:
    held = Verdict(3, 3, 9, 9, 400, (), ())
    nothing = Verdict(0, 0, 0, 0, 12, (), ())
    assert blindness([nothing, nothing], "auto") == "nothing was accepted"
    assert blindness([nothing, held], "auto") == ""
    assert blindness([held], "soft") == "soft lost nothing"
    assert blindness([held, evolve(held, registered=("S-01",))], "soft") == ""


@pytest.mark.parametrize("guilty", [{4}, {0, 11}, {3, 4}, {1, 6, 9}])
def test_a_plan_is_shrunk_to_the_faults_that_break_something(guilty: set[int]) -> None:
    played: list[tuple[int, ...]] = []

    def breaks(faults: Sequence[int]) -> bool:
        played.append(tuple(faults))
        return guilty <= set(faults)

    assert set(shrunk(range(12), breaks, 100)) == guilty
    assert len(set(played)) == len(played), "none is played twice"
    played.clear()
    assert guilty <= set(shrunk(range(12), breaks, 3)), "what is left breaks, however few replays there are"
    assert len(played) <= 3


def test_every_kind_of_fault_is_one_of_the_simulator_or_said_to_be_none() -> None:
    assert BOUNDS.keys() | NONE == set(Kind)
    for bound in set(BOUNDS.values()):
        assert hasattr(setting_of("atomic", (), adopts=False), bound)


def test_the_faults_of_a_loss_become_a_run_of_the_simulator_where_it_has_one() -> None:
    """The one of ``soft`` is registered; where the machine holds, what was seen is below its ports."""
    (fault, *_) = late_replacements(1, 60.0, gap=5.0)
    found = scenario("soft", [fault], {"S-01"})
    told = CliRunner().invoke(simulation, ["replay", found.partition("perago replay '")[2].rstrip("'")])
    assert "S-01" in told.output, (found, told.output)
    kill = evolve(fault, kind=Kind.KILL, first="")
    assert "look below the ports" in scenario("atomic", [kill], {"S-01"})
    assert "does not judge" in scenario("soft", [fault], {"L-01"})


@pytest.mark.skipif(compiler() is None, reason="nothing compiles the library")
def test_a_worker_can_be_shown_another_wall_clock_while_its_other_clocks_go_on(tmp_path: Path) -> None:
    clock = WallClock.made(tmp_path / "clocks", "one")
    looks = "import time\nwhile input():\n    print(time.time(), time.monotonic(), flush=True)"
    with subprocess.Popen(  # noqa: S603  our own words
        [sys.executable, "-c", looks],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **clock.variables},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seconds in (0, 7200, -86400, 0):
            clock.jump(seconds)
            before = time.time(), time.monotonic()
            process.stdin.write("look\n")
            process.stdin.flush()
            wall, monotonic = map(float, process.stdout.readline().split())
            assert before[0] + seconds <= wall <= time.time() + seconds
            assert before[1] <= monotonic <= time.monotonic()
        process.stdin.write("\n")
        process.stdin.flush()


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    with Field.on("embedded", tmp_path / "p", "auto") as made:
        yield made


def test_every_judge_of_a_burn_sees_an_accepted_result_that_was_taken_off_its_branch(field: Field) -> None:
    """Two runs hold; then somebody moves the branch back, past everything of ours."""
    field.new_pipelines("seen")
    pipeline = field.pipelines[0]
    ran = field.project.perago("run", pipeline.name)
    assert ran.returncode == 0, ran.stderr
    held = judge(field, {"atomic"}, Counter[Kind]())
    assert (held.lost, held.registered, held.completed, held.accepted) == ((), (), 1, 3)
    assert held.traced > 0
    head = done(field.project.store.head(pipeline.target))
    assert head is not None
    _move(field, pipeline.target.branch, head.commit.parents[0])
    lost = judge(field, {"atomic"}, Counter[Kind]()).lost
    assert any(each.startswith("S-01 perago verify says: lost:") for each in lost), lost
    assert any(each.startswith("S-01") and "is not on the branch any more" in each for each in lost), lost


def test_what_was_accepted_of_a_run_that_failed_is_not_held_against_a_later_round(field: Field) -> None:
    """The orchestrator forgets that run before the next round is judged; the ledger does not."""
    field.new_pipelines("first")
    pipeline = field.pipelines[-1]
    path, failing = field.project.folder / "perago.toml", field.project.plan("failing", "fail")
    before, step, after = path.read_text(encoding="utf-8").rpartition('{ name = "s1"')
    path.write_text(before + step + after.replace(f"plans/{pipeline.task}", f"plans/{failing.name}"), encoding="utf-8")
    assert field.project.perago("run", pipeline.name).returncode == 1
    failed = judge(field, {"atomic"}, Counter[Kind]())
    assert (failed.lost, failed.runs, failed.completed, failed.accepted) == ((), 1, 0, 1)
    field.new_pipelines("second")
    assert judge(field, {"atomic"}, Counter[Kind]()).lost == ()


def test_workflows_that_share_a_branch_lose_nothing_to_each_other_and_their_judges_would_see_it(tmp_path: Path) -> None:
    """One worker dies after it has published; the judges see a lost file, and work that was not disjoint after all."""
    (killed, *_) = plan(1, 60.0, {Kind.KILL_AT}, gap=0.5)
    killed = evolve(killed, point=ABANDONED)
    with Field.on("embedded", tmp_path / "p", "auto", Sharing(3)) as field:
        played = play(field, "shared", "auto", [killed], 60.0)
        assert played.injected == {Kind.KILL_AT: 1}
        assert (played.verdict.lost, played.verdict.registered) == ((), ())
        assert played.verdict.completed == played.verdict.runs >= 3

        views = [
            [field.project.view(each.workflow_id) for each in field.project.pipelines.newest(1000) if each.name == name]
            for name in (pipeline.name for pipeline in field.pipelines)
        ]
        setting, world = shared_world(field, Sharing(3, "overlapping"), [found[::-1] for found in views])
        serialisable, _ = SHARING
        assert len([task for task in world.tasks if task.status == COMPLETED]) == played.verdict.accepted
        assert "which changed it" in (serialisable.judge(setting, world) or "")

        target = field.pipelines[0].target
        _move(field, target.branch, field.pipelines[0].first)
        lost = judge(field, {"atomic"}, Counter[Kind]()).lost
        assert any(each.startswith("S-01 perago verify says: lost:") for each in lost), lost
        assert any("does not hold in p0/token what was accepted last" in each for each in lost), lost


def _move(field: Field, branch: str, ref: CommitRef) -> None:
    repository = field.project.folder / ".perago" / "store" / "lake.git"
    (repository / "refs" / "heads" / branch).write_text(f"{ref}\n", encoding="ascii")


def test_soft_loses_an_accepted_result_to_a_late_replacement_as_registered_so_the_burn_is_not_blind(
    tmp_path: Path,
) -> None:
    """One fault, the first of the control's plan; without it nothing is lost."""
    (fault, *_) = late_replacements(1, 60.0, gap=5.0)
    with Field.on("embedded", tmp_path / "p", "soft") as field:
        played = play(field, "control", "soft", [fault], 600.0)
    assert played.injected == {Kind.STOP_AT: 1}
    assert any(each.startswith("S-01") for each in played.verdict.registered), played


@pytest.mark.skipif(not FULL, reason="three rounds of a burn and more; PERAGO_MATRIX=full")
def test_a_loss_on_a_real_stack_is_shrunk_to_the_one_fault_that_causes_it(tmp_path: Path) -> None:
    """``soft`` is the deliberately broken stack: of four faults only the late replacement can take a result away."""
    (late, *_) = late_replacements(1, 60.0, gap=5.0)
    others = (Kind.WALL, Kind.STRANGER, Kind.TWICE)
    faults = [late, *(evolve(late, number=each, kind=kind, first="") for each, kind in enumerate(others, 1))]
    names = count()
    with Field.on("embedded", tmp_path / "p", "soft") as field:

        def breaks(some: Sequence[Fault]) -> bool:
            found = play(field, f"shrunk{next(names)}", "soft", some, 600.0).verdict
            return any(each.startswith("S-01") for each in (*found.lost, *found.registered))

        assert breaks(faults)
        left = shrunk(faults, breaks, 8)
    assert left == (late,)
    assert scenario("soft", left, {"S-01"}).startswith("scenario, S-01")
