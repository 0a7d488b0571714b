"""The site builds without a network, and every link and anchor in it leads somewhere."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests.docs.documents import ROOT, pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it as ``make docs`` does; a warning, such as a link that leads nowhere, is an error there."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(  # noqa: S603  our own Makefile
        ["make", "docs", f"SITE={folder}"],  # noqa: S607  make of the PATH
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Links(HTMLParser):
    """What a page points to, what it loads, and the anchors it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in {"script", "img", "iframe"} and "src" in given:
            self.loads.add(given["src"])
        if tag == "link" and given.get("rel") in {"stylesheet", "icon", "preload", "preconnect"}:
            self.loads.add(given["href"])


def test_every_document_is_a_page(site: Path) -> None:
    assert all((site / page).with_suffix(".html").is_file() for page in pages())


def test_every_link_and_anchor_leads_somewhere_on_the_site(site: Path) -> None:
    read = {page: Links(page) for page in site.rglob("*.html")}
    broken: list[str] = []
    for page, seen in read.items():
        for link in seen.links:
            path, anchor = urldefrag(unquote(link))
            if re.match(r"[a-z]+:", path):
                continue
            target = (page.parent / path).resolve() if path else page
            known = target in read and (not anchor or anchor in read[target].anchors)
            if not known and not (target.is_file() and target not in read):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        foreign = {load for load in Links(page).loads if re.match(r"(https?:)?//", load)}
        assert not foreign, page
