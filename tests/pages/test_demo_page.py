"""The demo's page in a real browser: the chart is there, all fits and can be read, and nothing is fetched."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from playwright.sync_api import Browser, expect

from examples.orders.page import page
from examples.orders.result import look
from tests.pages.test_counterexample_page import CONTRAST, Visit, browser, visit
from tests.worker import demo_data

pytestmark = pytest.mark.pages
__all__ = ["browser", "visit"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("demo")
    stack, ending = demo_data.lake(folder / "lake", demo_data.files([0, 1, 2, 3, 4]))
    result = look(stack, ending)
    file: Path = folder / "result.html"
    told = evolve(ending, promises=result.promises)
    file.write_text(page(told, result, ["it began", "it ended"], "timeline.html"), encoding="utf-8")
    return file.as_uri()


def test_it_says_first_whether_the_promises_held_and_shows_the_chart(visit: Visit, address: str) -> None:
    on = visit.to(address)
    expect(on.get_by_role("heading", level=1)).to_have_text("Every promise held")
    chart = on.get_by_role("img", name="Revenue by week and country")
    expect(chart).to_be_in_viewport(ratio=1)
    heights = chart.locator("rect").evaluate_all("all => all.map(each => each.getBoundingClientRect().height)")
    assert [round(each / heights[4]) for each in heights] == [3, 0, 0, 0, 1, 0, 0, 0, 1]
    colours = on.locator(".legend i").evaluate_all("all => all.map(each => getComputedStyle(each).backgroundColor)")
    filled = chart.locator("rect").evaluate_all("all => all.slice(0, 3).map(each => getComputedStyle(each).fill)")
    assert colours == filled
    assert len(set(colours)) == 3
    assert visit.asked == [address]


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(browser: Browser, address: str, width: int, height: int, scheme: str) -> None:
    looking = Visit(browser, width=width, height=height, scheme=scheme)
    on = looking.to(address)
    assert on.evaluate("document.documentElement.scrollWidth") == width
    for what in ("h1", "header p >> nth=1", ".legend li", ".promises li", ".promises b", "td", "th", ".history li"):
        assert on.locator(what).first.evaluate(CONTRAST) >= 4.5, what
    looking.context.close()
    assert looking.trouble == []
