"""The burn: its plans come from their seed alone, its judges see a loss, and ``soft`` shows the one it is known for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from perago_core.values import CommitRef
from tests.crash.burn import blindness
from tests.support.burn.faults import Kind, late_replacements, plan
from tests.support.burn.field import Field
from tests.support.burn.round import play
from tests.support.burn.verdict import Verdict, judge, registered
from tests.support.crash.project import done


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
