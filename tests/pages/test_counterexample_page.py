"""The page of a counterexample, looked at and stepped through in a real browser.

The browser is the system's Chromium (``PERAGO_CHROMIUM`` names another). Where there is none these tests are skipped,
and fail if ``PERAGO_PAGES=required``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from playwright.sync_api import Browser, Page, expect, sync_playwright

from perago_core.values import Backing
from perago_report import Story, page
from perago_simulation.explore.search import explore
from perago_simulation.report.story import story
from perago_simulation.world.model import Model
from perago_simulation.world.settings import setting

pytestmark = pytest.mark.pages

HOSTILE = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>\"'"


def the_story() -> Story:
    where = setting(Backing.SOFT, crashes=0)
    (violation,) = [each for each in explore(where).violations if each.property == "S-01"]
    return story(Model(where), violation)


def chromium() -> str:
    named = os.environ.get("PERAGO_CHROMIUM")
    found = named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found and os.environ.get("PERAGO_PAGES") == "required":
        pytest.fail("no Chromium here, and PERAGO_PAGES=required; on Debian: apt-get install chromium")
    return found or pytest.skip("no Chromium here")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = chromium()
    with sync_playwright() as playwright:
        # A sandbox cannot be made by root, and a page that fetches nothing needs none.
        launched = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    file: Path = tmp_path_factory.mktemp("pages") / "lost.html"
    file.write_text(page(the_story()), encoding="utf-8")
    return file.as_uri()


class Visit:
    """An open page, and everything about it that should not happen."""

    def __init__(self, browser: Browser, *, width: int = 1280, height: int = 800, scheme: str = "light") -> None:
        dark = scheme == "dark"
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        self.page: Page = self.context.new_page()
        self.trouble: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def to(self, address: str) -> Page:
        self.page.goto(address)
        return self.page


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    made = Visit(browser)
    yield made
    made.context.close()
    assert made.trouble == []


def step_shown(on: Page) -> int:
    """The one scene in sight, which the list, the slider and the spoken status agree with."""
    scenes = on.locator(".scene:visible")
    expect(scenes).to_have_count(1)
    number = int((scenes.get_attribute("id") or "").removeprefix("step-"))
    expect(on.locator("[aria-current=step]")).to_have_attribute("href", f"#step-{number}")
    expect(on.get_by_role("slider")).to_have_value(str(number))
    expect(on.get_by_role("status")).to_contain_text(f"Step {number}: ")
    return number


def test_it_opens_on_the_violating_step_and_says_what_is_broken(visit: Visit, address: str) -> None:
    on = visit.to(address)
    assert step_shown(on) == 22
    expect(on.get_by_role("heading", level=1)).to_have_text("S-01 Every accepted result stays on the branch")
    expect(on.locator(".alarm:visible")).to_contain_text("Accepted M1 is not on the branch any more")
    expect(on.get_by_role("heading", level=2)).to_have_text("store moves main from M1 to C0")
    expect(on.locator(".bounds")).to_contain_text("1 step(s) of 2 attempt(s)")
    # What must be seen without scrolling: the step in the list, the graph, the tasks.
    for what in ("[aria-current=step]", ".scene:visible .graph", ".scene:visible .card >> nth=0"):
        expect(on.locator(what)).to_be_in_viewport()


def test_the_keyboard_steps(visit: Visit, address: str) -> None:
    on = visit.to(address)
    for key, step in (
        ("ArrowRight", 22),
        ("ArrowLeft", 21),
        ("ArrowUp", 20),
        ("Home", 1),
        ("ArrowLeft", 1),
        ("ArrowRight", 2),
        ("ArrowDown", 3),
        ("End", 22),
    ):
        on.keyboard.press(key)
        assert step_shown(on) == step, key
        expect(on.locator("[aria-current=step]")).to_be_in_viewport()
    on.keyboard.press("Control+ArrowLeft")
    assert step_shown(on) == 22
    on.keyboard.press("Home")
    assert on.url == f"{address}#step-1"


def test_a_step_can_be_clicked_and_reached_by_tab_and_keeps_the_focus(visit: Visit, address: str) -> None:
    on = visit.to(address)
    on.get_by_role("link", name="e1 commits its staging branch").click()
    assert step_shown(on) == 12
    on.keyboard.press("ArrowRight")
    assert step_shown(on) == 13
    assert on.evaluate("document.activeElement.getAttribute('href')") == "#step-13"
    on.keyboard.press("Tab")
    on.keyboard.press("Enter")
    assert step_shown(on) == 14
    on.get_by_role("link", name="Broken at step 22").click()
    assert step_shown(on) == 22


def test_buttons_and_slider_step(visit: Visit, address: str) -> None:
    on = visit.to(address)
    last = on.get_by_role("button", name="Last step")
    expect(last).to_be_disabled()
    on.get_by_role("button", name="Step back").click()
    assert step_shown(on) == 21
    on.get_by_role("button", name="First step").click()
    assert step_shown(on) == 1
    on.get_by_role("button", name="Step on").click()
    assert step_shown(on) == 2
    on.get_by_role("slider").focus()
    on.keyboard.press("ArrowRight")
    assert step_shown(on) == 3
    last.click()
    assert step_shown(on) == 22


@pytest.mark.parametrize(("anchor", "step"), [("#step-12", 12), ("#step-999", 22), ("#step-0", 1), ("#elsewhere", 22)])
def test_an_anchor_names_a_step(visit: Visit, address: str, anchor: str, step: int) -> None:
    assert step_shown(visit.to(address + anchor)) == step


def test_a_changed_address_changes_the_step(visit: Visit, address: str) -> None:
    on = visit.to(f"{address}#step-3")
    on.evaluate("location.hash = '#step-7'")
    assert step_shown(on) == 7


def test_the_graph_shows_the_world_after_the_step(visit: Visit, address: str) -> None:
    on = visit.to(f"{address}#step-20")

    def classes(ref: str) -> set[str]:
        return set((on.locator(f".scene:visible [data-ref='{ref}']").get_attribute("class") or "").split())

    assert {"branch", "accepted", "head"} <= classes("M1")
    assert {"staged"} <= classes("C0")
    expect(on.locator(".scene:visible .card", has_text="flight")).to_contain_text("replace main's head by C0")
    expect(on.locator(".scene:visible .card", has_text="Tasks")).to_contain_text("accepted M1")
    on.keyboard.press("End")
    assert {"lost", "accepted"} <= classes("M1")
    assert {"branch", "head"} <= classes("C0")
    assert on.get_by_role("img", name="Commits after step 22: main at C0").is_visible()
    on.keyboard.press("Home")
    expect(on.locator(".scene:visible [data-ref]")).to_have_count(1)


def test_it_asks_the_network_for_nothing(visit: Visit, address: str) -> None:
    visit.to(address)
    assert visit.asked == [address]


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(browser: Browser, address: str, width: int, height: int, scheme: str) -> None:
    visit = Visit(browser, width=width, height=height, scheme=scheme)
    on = visit.to(f"{address}#step-20")
    assert step_shown(on) == 20
    assert on.evaluate("document.documentElement.scrollWidth") == width
    for what in ("h2:visible", ".scene:visible .graph", "[data-go=on]"):
        expect(on.locator(what)).to_be_in_viewport()
    assert on.evaluate("[...document.querySelectorAll('.what')].every((each) => each.scrollWidth <= each.clientWidth)")
    # The 4.5 to 1 that WCAG asks of small text.
    for what in ("h1", ".bounds", ".step .what", ".step .number", ".scene:visible .standing", ".scene:visible .text"):
        assert on.locator(what).first.evaluate(CONTRAST) >= 4.5, what
    dark = on.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(20, 22, 26)"
    assert dark is (scheme == "dark")
    visit.context.close()
    assert visit.trouble == []


#: The contrast of an element's text with what lies behind it.
CONTRAST = """(element) => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => numbers(colour).slice(0, 3)
    .map((each) => each / 255).map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const clear = (each) => numbers(getComputedStyle(each).backgroundColor)[3] === 0;
  let behind = element;
  while (behind.parentElement && clear(behind)) behind = behind.parentElement;
  const [a, b] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(light);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


def test_on_a_phone_stepping_keeps_the_graph_in_sight(browser: Browser, address: str) -> None:
    visit = Visit(browser, width=390, height=844)
    on = visit.to(address)
    on.get_by_role("button", name="Step back").click()
    assert step_shown(on) == 21
    expect(on.locator(".scene:visible .graph")).to_be_in_viewport()
    on.get_by_role("link", name="e0 commits its staging branch").click()
    assert step_shown(on) == 5
    expect(on.locator(".scene:visible .graph")).to_be_in_viewport()
    visit.context.close()
    assert visit.trouble == []


def test_it_prints_dark_on_light_with_its_title_bounds_and_every_step(visit: Visit, address: str) -> None:
    on = visit.to(address)
    on.emulate_media(media="print", color_scheme="dark")
    assert on.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert on.locator("h1").evaluate(CONTRAST) >= 7
    assert on.title() == "S-01 every accepted result stays on the branch · Perago"
    expect(on.locator(".bounds")).to_be_visible()
    expect(on.locator(".step:visible")).to_have_count(22)
    expect(on.locator(".controls")).to_be_hidden()
    assert (
        on.evaluate("document.body.scrollHeight > innerHeight && getComputedStyle(document.body).overflow") == "visible"
    )


def test_without_scripts_the_address_still_chooses_the_step(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    on = context.new_page()
    on.goto(address)
    expect(on.locator(".scene:visible")).to_have_id("step-22")
    on.get_by_role("link", name="e1 commits its staging branch").click()
    expect(on.locator(".scene:visible")).to_have_id("step-12")
    context.close()


def test_hostile_text_is_only_text(browser: Browser, tmp_path: Path) -> None:
    told = the_story()
    scenes = tuple(evolve(scene, says=HOSTILE, problem=HOSTILE) for scene in told.scenes)
    file = tmp_path / "hostile.html"
    text = page(evolve(told, property=HOSTILE, clause=HOSTILE, problem=HOSTILE, bounds=HOSTILE, scenes=scenes))
    file.write_text(text, encoding="utf-8")
    visit = Visit(browser)
    on = visit.to(file.as_uri())
    assert on.title() != "owned"
    expect(on.get_by_role("heading", level=2)).to_have_text(f"store {HOSTILE}")
    expect(on.locator("img")).to_have_count(0)
    visit.context.close()
    assert visit.trouble == []
