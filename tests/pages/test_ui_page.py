"""``perago ui`` in a real browser: every page, live, in light and dark, wide and narrow, with hostile bodies.

Pictures of every page go to the folder that ``PERAGO_SCREENSHOTS`` names, for whoever wants to look at them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from perago_core.answers import Unknown
from perago_local.coordination import SqliteCoordination
from tests.pages.test_counterexample_page import CONTRAST, Visit, browser, visit
from tests.worker.projects import IMPATIENT, Project, killed_run, new_project
from tests.worker.test_cli_runs import in_background, wait_for
from tests.worker.test_ui import Visitor, serving

pytestmark = pytest.mark.pages
__all__ = ["browser", "visit"]

#: Bodies take their time on a busy machine.
expect.set_options(timeout=60_000)

HOSTILE = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>\"'"
MORE_TASKS = f'''
@task(name="speak", workspace=Workspace(), retries=1, retry_delay=0.1, response_timeout=20)
def speak(workspace: Path) -> Sum:
    """Say what would be markup, and fail."""
    print({HOSTILE!r})
    raise ValueError({HOSTILE!r})


@task(name="wait", workspace=Workspace(), response_timeout=20)
def wait(workspace: Path, params: Params) -> dict[str, str]:
    """Say that it waits, and wait for a file."""
    print("waiting")
    Path(params.text).write_text("it runs")
    while not Path(params.text + ".go").exists():
        time.sleep(0.05)
    print("waited")
    return {{"said": {HOSTILE!r}}}
'''
PIPELINES = """
[pipelines.talk]
repository = "lake"
steps = [{{ name = "first", task = "write", params = {{ count = 2 }} }}, {{ task = "speak" }}, {{ task = "total" }}]

[pipelines.slow]
repository = "lake"
steps = [
    {{ name = "begin", task = "write" }},
    {{ task = "wait", params = {{ text = "{gate}" }} }},
    {{ task = "total" }},
]
"""


@pytest.fixture(scope="module")
def project(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Give a project in which a worker was killed, a run has failed, and one was refused."""
    assert browser.is_connected()  # without a browser there is no point in running anything
    folder = tmp_path_factory.mktemp("ui")
    with new_project(folder / "shop", IMPATIENT + MORE_TASKS, PIPELINES.format(gate=folder / "gate")) as made:
        killed_run(made)
        assert made.process("run", "talk").returncode == 1
        yield made


@pytest.fixture(scope="module")
def looker(project: Project) -> Iterator[Visitor]:
    with serving(project) as made:
        yield made


@pytest.fixture(scope="module")
def address(looker: Visitor) -> str:
    return looker.server.door.address


def run_of(looker: Visitor, pipeline: str) -> str:
    return str(looker.look("runs", pipeline=pipeline)["runs"][0]["workflow_id"])


def test_runs_are_listed_filtered_and_found_by_whatever_is_printed(visit: Visit, address: str, looker: Visitor) -> None:
    on = visit.to(address)
    expect(on.get_by_role("row")).to_have_count(3)
    expect(on.get_by_role("row", name=re.compile("talk-"))).to_contain_text("failed")
    expect(on.get_by_role("row", name=re.compile("talk-"))).to_contain_text("1/3")
    on.get_by_label("State").select_option("completed")
    expect(on.get_by_role("row", name=re.compile("both-"))).to_have_count(1)
    expect(on.get_by_role("row")).to_have_count(2)
    on.go_back()
    expect(on.get_by_role("row")).to_have_count(3)
    on.keyboard.press("/")
    on.keyboard.type("speak")
    on.keyboard.press("Enter")
    expect(on.get_by_role("heading", level=1)).to_have_text(run_of(looker, "talk"))
    expect(on.locator("[aria-pressed=true]")).to_contain_text("speak")


def test_a_page_of_runs_that_is_not_there_says_what_to_do(visit: Visit, address: str) -> None:
    on = visit.to(f"{address}#/?state=paused")
    expect(on.get_by_text("There is no such run")).to_be_visible()
    on.get_by_role("link", name="Show all runs").click()
    expect(on.get_by_role("row")).to_have_count(3)


def test_a_project_without_runs_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    looking = Visit(browser)  # its console tells that there is no branch yet
    with new_project(tmp_path) as fresh, serving(fresh) as made:
        on = looking.to(made.server.door.address)
        expect(on.get_by_text("No run yet")).to_be_visible()
        expect(on.get_by_text("perago run both")).to_be_visible()
        on.get_by_role("link", name="Cluster").click()
        expect(on.get_by_text("the first worker that starts decides")).to_be_visible()
        expect(on.get_by_text("No worker is there.")).to_be_visible()
        picture(on, "fresh")
        on.get_by_role("link", name="Branches").click()
        expect(on.get_by_text("lake/main is not there yet: the first")).to_be_visible()
        assert on.locator(".unknown").count() == 0, "it is known to be nowhere"
        looking.context.close()
    assert all("404" in each for each in looking.trouble), looking.trouble


def test_a_run_shows_its_attempts_over_time_and_what_is_known_of_each(
    visit: Visit, address: str, looker: Visitor
) -> None:
    on = visit.to(f"{address}#/run/{run_of(looker, 'both')}")
    rows = on.locator(".gantt button")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("write attempt 1")
    boxes = [rows.nth(at).locator(".bar").bounding_box() for at in range(3)]
    lefts = [box["x"] for box in boxes if box is not None]
    assert lefts == sorted(lefts), "an attempt that began later is further right"
    assert len(set(lefts)) == 3
    rows.nth(0).focus()
    on.keyboard.press("Enter")
    expect(on.locator(".panel").first).to_contain_text("write, attempt 1")
    expect(on.locator(".panel").first).to_contain_text("timed out")
    expect(on.locator(".findings")).to_contain_text("attempt 2 was accepted")
    assert on.evaluate("document.activeElement.matches('.gantt button:first-child')"), "the focus stays"
    rows.nth(2).click()
    expect(on.locator(".findings")).to_contain_text("it is done: its result was accepted and stays")
    expect(on.locator(".findings")).to_contain_text("settled as accepted")
    on.reload()
    expect(on.locator("[aria-pressed=true]")).to_contain_text("total")


def test_its_timeline_can_be_stepped_through_in_the_page(visit: Visit, address: str, looker: Visitor) -> None:
    on = visit.to(f"{address}#/run/{run_of(looker, 'both')}")
    on.get_by_text("Step through what happened").click()
    inside = on.frame_locator("iframe")
    expect(inside.get_by_role("heading", level=1)).to_contain_text("completed")
    inside.get_by_role("button", name="First step").click()
    expect(inside.locator(".scene:visible")).to_have_count(1)
    picture(on, "timeline")


def test_what_bodies_say_is_text_and_runs_nowhere(visit: Visit, address: str, looker: Visitor) -> None:
    on = visit.to(f"{address}#/run/{run_of(looker, 'talk')}")
    expect(on.locator(".log")).to_contain_text(HOSTILE)
    expect(on.locator(".note.bad")).to_contain_text(HOSTILE)
    expect(on.locator(".panel").first).to_contain_text(HOSTILE)
    assert on.locator("main img, main script").count() == 0
    assert on.title() != "owned"
    on.get_by_text("Step through what happened").click()
    expect(on.frame_locator("iframe").get_by_role("heading", level=1)).to_be_visible()
    assert on.frame_locator("iframe").locator("img").count() == 0
    assert on.title() != "owned"


def test_a_run_and_its_log_are_followed_to_the_end_without_reloading(
    browser: Browser, visit: Visit, tmp_path: Path
) -> None:
    assert browser.is_connected()
    gate = tmp_path / "gate"
    with (
        new_project(tmp_path / "shop", IMPATIENT + MORE_TASKS, PIPELINES.format(gate=gate)) as slow,
        serving(slow) as made,
        in_background(slow, "run", "slow") as process,
    ):
        on = visit.to(made.server.door.address)
        wait_for(gate)
        on.get_by_role("link", name=re.compile("slow-")).click()
        expect(on.locator(".log")).to_contain_text("wait.1waiting")
        expect(on.locator(".head")).to_contain_text("running")
        expect(on.locator(".gantt")).to_contain_text("not begun")
        assert on.get_by_role("button", name="Cancel", exact=True).count() == 0, "it is read only"
        before = on.locator(".gantt button").nth(1).locator(".num").text_content()
        expect(on.locator(".gantt button").nth(1).locator(".num")).not_to_have_text(before or "")
        gate.with_name("gate.go").touch()
        expect(on.locator(".log")).to_contain_text("waited")
        expect(on.locator(".head")).to_contain_text("completed")
        expect(on.locator(".gantt")).not_to_contain_text("not begun")
        expect(on.locator("dl pre").nth(1)).to_contain_text("onerror")
        assert on.title() != "owned"
        assert process.wait(timeout=120) == 0
        assert {each.split("?")[0].rsplit("/", 1)[0] for each in visit.asked} <= {
            made.server.door.address[:-1],
            f"{made.server.door.address}api",
        }, "it asks nobody else"


def test_a_run_is_cancelled_and_gone_on_with_after_a_question(visit: Visit, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with (
        new_project(tmp_path / "shop", IMPATIENT + MORE_TASKS, PIPELINES.format(gate=gate)) as slow,
        serving(slow, actions=True) as made,
        in_background(slow, "run", "slow"),
    ):
        wait_for(gate)
        on = visit.to(f"{made.server.door.address}#/run/{run_of(made, 'slow')}")
        on.get_by_role("button", name="Cancel", exact=True).click()
        on.get_by_role("button", name="No", exact=True).click()
        expect(on.get_by_role("dialog")).to_have_count(0)
        expect(on.locator(".head")).to_contain_text("running")
        on.get_by_role("button", name="Cancel", exact=True).click()
        picture(on, "actions")
        on.get_by_role("button", name="Yes, cancel").click()
        expect(on.locator(".head")).to_contain_text("terminated")
        expect(on.locator(".note.bad")).to_contain_text("cancelled in the browser")
        on.get_by_role("button", name="Retry").click()
        on.get_by_role("button", name="Yes, retry").click()
        expect(on.locator(".head")).to_contain_text("running")
        expect(on.get_by_role("button", name="Cancel", exact=True)).to_be_visible()


def test_a_branch_shows_what_was_accepted_and_what_was_not_and_is_verified(visit: Visit, address: str) -> None:
    on = visit.to(f"{address}#/branch")
    expect(on.get_by_role("heading", level=1)).to_have_text("lake/main")
    expect(on.locator(".branch > li:not(.aside) .pill")).to_have_text(["accepted", "accepted", "accepted", "no record"])
    # The first attempt's worker was killed; the second has reported what it published.
    expect(on.locator(".branch > .aside")).to_contain_text("superseded")
    on.get_by_role("button", name="Verify").click()
    expect(on.locator(".note.good")).to_contain_text("It holds: 3 accepted result(s)")
    expect(on.locator(".branch > li:not(.aside) .pill")).to_have_text(["accepted", "accepted", "accepted", "no record"])
    on.locator(".branch a").first.click()
    expect(on.locator(".gantt")).to_be_visible()


def test_the_cluster_shows_policy_locks_intents_claims_and_audit(visit: Visit, address: str) -> None:
    on = visit.to(f"{address}#/cluster")
    expect(on.get_by_role("heading", level=2)).to_have_count(5)
    expect(on.locator("main")).to_contain_text("atomic, since epoch 1")
    expect(on.locator("main")).to_contain_text("Nothing is open: every publication is settled.")
    expect(on.locator("main")).to_contain_text("Nobody has ever held it.")
    on.get_by_text("4 claim(s)").click()
    expect(on.locator("td a", has_text=re.compile("^both-[^/]*.write$"))).to_have_count(2)
    on.get_by_text("4 record(s)").click()
    expect(on.get_by_role("row", name=re.compile("superseded"))).to_have_count(1)


def test_what_nobody_can_say_is_shown_as_unknown(
    browser: Browser, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_asked: object, **_more: object) -> Unknown:
        return Unknown("nobody answers")

    monkeypatch.setattr(SqliteCoordination, "list", silent)
    monkeypatch.setattr(SqliteCoordination, "get", silent)
    looking = Visit(browser)  # its console tells of every answer that is none
    on = looking.to(f"{address}#/cluster")
    expect(on.locator(".note.unknown")).to_have_count(4)
    expect(on.locator(".note.unknown").first).to_contain_text("Unknown: the decision cannot be read: nobody answers")
    assert on.get_by_text("Nothing is open").count() == 0
    picture(on, "unknown")
    on.get_by_role("link", name="Branches").click()
    expect(on.locator(".branch .pill.unknown")).to_have_count(4)
    expect(on.locator(".note.unknown").first).to_contain_text("nobody answers")
    looking.context.close()
    assert all("503" in each for each in looking.trouble), looking.trouble


def test_a_server_that_has_ended_is_said_to_have(browser: Browser, project: Project) -> None:
    looking = Visit(browser)
    with in_background(project, "ui", "--no-browser") as process:
        assert process.stdout is not None
        on = looking.to(process.stdout.readline().strip())
        expect(on.get_by_role("row")).to_have_count(3)
    expect(on.locator(".note.unknown")).to_contain_text("perago ui does not answer")
    looking.context.close()


PAGES = {
    "runs": ("", "main td"),
    "run": ("#/run/{talk}", ".log div"),
    "branch": ("#/branch", ".branch .text"),
    "cluster": ("#/cluster", "main dd"),
}
SMALL = ("h1", "h2 small", ".pill", ".facts", "th", ".when", ".note", "dt", ".commit small", ".log b", ".legend li")


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_and_can_be_read(  # noqa: PLR0917  one of each
    browser: Browser, address: str, looker: Visitor, name: str, width: int, height: int, scheme: str
) -> None:
    looking = Visit(browser, width=width, height=height, scheme=scheme)
    path, there = PAGES[name]
    on = looking.to(address + path.format(talk=run_of(looker, "talk")))
    expect(on.locator(there).first).to_be_visible()
    expect(on.locator("main .soft", has_text="looking…")).to_have_count(0)
    assert on.evaluate("document.documentElement.scrollWidth") <= width
    # The 4.5 to 1 that WCAG asks of small text.
    for what in SMALL:
        for each in on.locator(what).all()[:12]:
            if each.is_visible():
                assert each.evaluate(CONTRAST) >= 4.5, (what, each.text_content())
    assert on.evaluate(
        "[...document.querySelectorAll('button, a, input, select, summary')].every((e) => e.tabIndex >= 0)"
    )
    picture(on, f"{name}-{scheme}-{width}")
    looking.context.close()
    assert looking.trouble == []


def picture(on: Page, name: str) -> None:
    folder = os.environ.get("PERAGO_SCREENSHOTS")
    if folder:
        on.screenshot(path=Path(folder) / f"ui-{name}.png", full_page=True)
