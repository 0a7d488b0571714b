"""What the demo says of its result: right data is called right, and each way to be wrong is found."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve

from examples.orders.chart import Chart, drawn, short, tick_step
from examples.orders.page import page
from examples.orders.result import look
from examples.orders.story import DemoError, Promise
from tests.worker import demo_data

pytest.importorskip("pyarrow")

RIGHT = [0, 1, 2, 3, 4]


def broken(folder: Path, content: dict[str, bytes]) -> list[str]:
    return [each.says for each in look(*demo_data.lake(folder, content)).promises if not each.held]


def test_every_order_with_an_amount_is_counted_once(tmp_path: Path) -> None:
    stack, ending = demo_data.lake(tmp_path / "lake", demo_data.files(RIGHT))
    result = look(stack, ending)
    assert [each.held for each in result.promises] == [True, True, True]
    assert result.rows == {"raw/orders": 7, "clean/orders": 5, "report/revenue": 3}
    assert result.chart.labels == ("05 Jan", "12 Jan", "19 Jan")
    assert result.chart.series == {"DE": (30.0, 0.0, 0.0), "FR": (0.0, 10.0, 0.0), "IT": (0.0, 0.0, 10.0)}


@pytest.mark.parametrize("ids", [[0, 1, 2, 3], [0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 5]], ids=["lost", "twice", "another"])
def test_a_row_that_is_lost_or_there_twice_is_found(tmp_path: Path, ids: list[int]) -> None:
    """What a task that links its own files would leave: a successful step with rows twice."""
    assert any("exactly once" in each for each in broken(tmp_path / "lake", demo_data.files(ids)))


def test_a_sum_that_is_not_the_data_s_is_found(tmp_path: Path) -> None:
    found = broken(tmp_path / "lake", demo_data.files(RIGHT, told=Decimal("30.01")))
    assert [each for each in found if "the same sum, 50.00" in each]


def test_a_step_that_said_something_else_than_the_branch_shows_is_found(tmp_path: Path) -> None:
    stack, ending = demo_data.lake(tmp_path / "lake", demo_data.files(RIGHT))
    output = {**ending.view.output, "clean": {"result": {"rows": 6}}}
    result = look(stack, evolve(ending, view=evolve(ending.view, output=output)))
    assert [each.found for each in result.promises if not each.held] == ["[7, 6, 3]"]


def test_a_result_that_is_not_there_ends_the_demo_in_one_line(tmp_path: Path) -> None:
    stack, ending = demo_data.lake(tmp_path / "lake", {"README.md": b"nothing else"})
    with pytest.raises(DemoError, match="expected rows in raw/orders/; found no file there"):
        look(stack, ending)


@pytest.mark.parametrize(("highest", "step"), [(0, 1), (4, 1), (5.1, 2), (49, 10), (1_234_567, 500_000), (0.3, 0.1)])
def test_lines_are_at_round_numbers(highest: float, step: float) -> None:
    assert tick_step(highest) == pytest.approx(step)


def test_numbers_on_the_axis_are_short() -> None:
    assert [short(each) for each in (0, 250, 2_500, 500_000, 1_500_000)] == ["0", "250", "2.5k", "500k", "1.5M"]


def test_columns_are_as_high_as_their_numbers_and_stand_on_each_other() -> None:
    chart = Chart("Sums & more", ("one", "two"), {"A": (1.0, 3.0), "B": (1.0, 1.0)})
    root = ET.fromstring(drawn(chart))  # noqa: S314  our own words
    parts = [{name: float(each.attrib[name]) for name in ("x", "y", "height")} for each in root.iter("rect")]
    below, above, higher, _top = parts
    assert above["y"] + above["height"] == pytest.approx(below["y"], abs=0.02)
    assert higher["height"] == pytest.approx(3 * below["height"], abs=0.05)
    assert [each.text for each in root.iter("title")] == ["A, one: 1", "B, one: 1", "A, two: 3", "B, two: 1"]


def test_an_empty_chart_is_a_chart() -> None:
    assert list(ET.fromstring(drawn(Chart("Nothing", (), {}))).iter("rect")) == []  # noqa: S314  our own words


def test_the_page_is_whole_and_believes_nothing_it_is_told(tmp_path: Path) -> None:
    stack, ending = demo_data.lake(tmp_path / "lake", demo_data.files(RIGHT))
    hostile = "<script>alert(1)</script>"
    spoilt = evolve(ending, promises=(Promise(hostile, held=False, found=hostile),))
    text = page(spoilt, look(stack, ending), [hostile], "timeline.html")
    assert "<script" not in text
    assert "A promise was broken" in text
    assert re.findall(r'(?:src|href)="([^"]*)"', text) == ["timeline.html"]
    assert not re.search(r"\$\w", text)
