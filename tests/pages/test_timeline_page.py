"""The page of a run that really happened, in a real browser: a worker killed after publishing, and what followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.pages.test_counterexample_page import CONTRAST, Visit, browser, step_shown, visit
from tests.worker.projects import IMPATIENT, killed_run, new_project

pytestmark = pytest.mark.pages
__all__ = ["browser", "visit"]


@pytest.fixture(scope="module")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert browser.is_connected()  # without a browser there is no point in running anything
    folder: Path = tmp_path_factory.mktemp("timeline")
    with new_project(folder, IMPATIENT) as project:
        workflow = killed_run(project)
        file = folder / "run.html"
        assert project.perago("timeline", workflow, "--html", str(file)).code == 0
        yield file.as_uri()


def test_it_opens_on_the_end_and_says_what_came_of_the_run(visit: Visit, address: str) -> None:
    on = visit.to(address)
    steps = on.locator(".step").count()
    assert step_shown(on) == steps
    expect(on.get_by_role("heading", level=1)).to_contain_text("Workflow both-")
    expect(on.get_by_role("heading", level=1)).to_contain_text("completed")
    expect(on.locator(".verdict.holds")).to_contain_text("2 result(s) accepted, 1 attempt(s) given up")
    expect(on.locator(".scene:visible .when")).to_contain_text("s")
    for what in ("[aria-current=step]", ".scene:visible .graph", ".scene:visible .card >> nth=0"):
        expect(on.locator(what)).to_be_in_viewport()
    assert visit.asked == [address]


def test_the_death_of_the_worker_can_be_found_and_stepped_over(visit: Visit, address: str) -> None:
    on = visit.to(address)
    on.get_by_role("link", name="write 1 is heard of no more").click()
    expect(on.locator(".scene:visible .card", has_text="Executions")).to_contain_text("dead")
    expect(on.locator(".scene:visible .card", has_text="flight")).to_contain_text("nobody waits for it")
    expect(on.locator("[aria-current=step] .mark .cross")).to_have_count(1)
    on.keyboard.press("ArrowRight")
    expect(on.get_by_role("heading", level=2)).to_contain_text("orchestrator gives up on write, attempt 1")
    on.get_by_role("link", name="store moves main").first.click()
    expect(on.locator(".scene:visible .node.head")).to_have_count(1)


def test_every_execution_has_a_colour_and_its_commits_have_it_too(visit: Visit, address: str) -> None:
    on = visit.to(address)
    for number, name in enumerate(("write 1", "write 2")):
        expect(on.locator(f".heads .lane.run-{number}")).to_have_text(name)
    expect(on.locator(".scene:visible .node.accepted")).to_have_count(2)
    # Made by the attempt that was killed, and reported by the one after it.
    expect(on.locator(".scene:visible .node.accepted.run-0")).to_have_count(1)
    expect(on.locator(".scene:visible .node.lost")).to_have_count(0)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(browser: Browser, address: str, width: int, height: int, scheme: str) -> None:
    looking = Visit(browser, width=width, height=height, scheme=scheme)
    on = looking.to(f"{address}#step-20")
    assert step_shown(on) == 20
    assert on.evaluate("document.documentElement.scrollWidth") == width
    assert on.evaluate("[...document.querySelectorAll('.what')].every((each) => each.scrollWidth <= each.clientWidth)")
    for what in ("h1", ".verdict", ".bounds", ".step .what", ".scene:visible .when", ".scene:visible .text"):
        assert on.locator(what).first.evaluate(CONTRAST) >= 4.5, what
    looking.context.close()
    assert looking.trouble == []
