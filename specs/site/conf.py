"""The site: README, the guide, the specs and the project's own pages, as they stand in the tree (``make docs``).

Documents keep their paths, so a link that works in the tree works on the site; one that does not, anchors included,
ends the build. A link to a source file leads to a page that shows it: the site needs no forge and no network.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import download_reference
from sphinx.application import Sphinx
from sphinx.highlighting import PygmentsBridge

ROOT = Path(__file__).parents[2]

#: What describes a folder: its README, or the module that is the package.
DESCRIPTIONS = ("README.md", "__init__.py")

# -- Sphinx's own names -----------------------------------------------------------------------------------------------
project = "Perago Core"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
include_patterns = ["*.md", "specs/**.md"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Perago Core"
# The README is the first page; whoever opens the folder is led there.
html_extra_path = ["index.html"]
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": False}
# A block without a language shows a shell or plain text.
highlight_language = "text"
# Else `--json` in prose becomes a dash.
smartquotes = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

#: What the navigation shows, in order. A document that is not in it ends the build.
NAVIGATION = {
    "Guide": ["specs/guide/README", "specs/guide/tutorial", "specs/guide/first-day"],
    "How to": [
        f"specs/guide/howto/{name}"
        for name in (
            "runs",
            "ui",
            "whole-run",
            "schedule",
            "spark",
            "one-machine",
            "cluster",
            "upgrade",
            "refusals",
            "embed",
            "write-a-store",
            "own-store",
            "recover",
            "measure",
            "observe",
            "counterexample",
        )
    ],
    "Reference": [f"specs/guide/reference/{name}" for name in ("commands", "configuration", "output", "failpoints")],
    "Explanation": [
        f"specs/guide/explanation/{name}" for name in ("fence", "backings", "crash-windows", "exploration")
    ],
    "Specs": [
        "specs/README",
        *(f"specs/{name}" for name in ("protocol", "ladder", "wide", "clauses", "properties")),
        *(f"specs/{name}" for name in ("windows", "cost", "mutants", "ablation", "cluster")),
        *(f"specs/{name}" for name in ("kill-matrix", "kill-matrix-bucket", "kill-matrix-lakefs", "wrong-answers")),
        *(f"specs/{name}" for name in ("evidence", "security", "tla/README", "migration")),
        "specs/adr/README",
    ],
    "Project": ["CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"],
}

#: A link to a file or a folder of the tree.
LINK = re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<path>[^()\s:#]+)\)")


def setup(app: Sphinx) -> None:
    """Hook into the build: before a document is read, once it has been, and when pages are written."""
    app.connect("source-read", read_document)
    app.connect("doctree-read", show_sources, priority=1)
    app.connect("html-collect-pages", source_pages)


def read_document(app: Sphinx, document: str, source: list[str]) -> None:
    """Give the first page and the index of decisions their part of the navigation, and folders a page."""
    del app
    source[0] = LINK.sub(lambda link: _led(document, link), source[0])
    if document == root_doc:
        source[0] += "".join(_contents(caption, pages) for caption, pages in NAVIGATION.items())
    if document == "specs/adr/README":
        source[0] += _contents("Decisions", [f"/{page}" for page in decisions()])


def decisions() -> list[str]:
    """Give the pages of decisions in order."""
    return sorted(f"specs/adr/{path.stem}" for path in (ROOT / "specs" / "adr").glob("[0-9]*.md"))


def _contents(caption: str, pages: list[str]) -> str:
    return "\n".join(["", "", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def _led(document: str, link: re.Match[str]) -> str:
    """Lead a link to a folder to what describes it; a folder that nothing describes stays a name."""
    path = _described(document, link["path"])
    return f"[{link['text']}]({path})" if path else link["text"]


def _described(document: str, link: str) -> str:
    folder = ROOT / posixpath.dirname(document) / link
    if not folder.is_dir():
        return link
    return next((posixpath.join(link, name) for name in DESCRIPTIONS if (folder / name).is_file()), "")


def show_sources(app: Sphinx, doctree: nodes.document) -> None:
    """Show a source file on a page of its own instead of offering it for download."""
    for link in list(doctree.findall(download_reference)):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(app.env.docname), str(link["reftarget"])))
        up = posixpath.relpath(f"source/{path}.html", posixpath.dirname(app.env.docname) or ".")
        link.replace_self(nodes.reference("", "", *link.children, refuri=up, internal=True))


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Give a page for each source file that a document points to."""
    bridge = PygmentsBridge("html", pygments_style)
    for path in sorted(set(_sources())):
        text = (ROOT / path).read_text(encoding="utf-8")
        body = bridge.highlight_block(text, {".py": "python", ".json": "json"}.get(Path(path).suffix, "text"))
        yield f"source/{path}", {"title": path, "body": f"<h1>{path}</h1>{body}"}, "page.html"
    del app


def _sources() -> Iterator[str]:
    for document in (*ROOT.glob("*.md"), *(ROOT / "specs").rglob("*.md")):
        here = document.relative_to(ROOT).as_posix()
        for link in LINK.finditer(document.read_text(encoding="utf-8")):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(here), _described(here, link["path"])))
            if not path.endswith(".md") and (ROOT / path).is_file():
                yield path
