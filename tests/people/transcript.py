"""A page of the guide as a recording: what its commands print, line for line, with what differs each time left out.

    python -m tests.people.transcript        write what is printed now into the page

Unlike the other pages of the guide, which show what to look for, a recording leaves out no line. Ids, times, paths and
ports are shown as ``…``; so are the widths of columns, which follow from them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.documents import ROOT
from tests.docs.test_guide import BLOCK, NAME, shell

PAGE = ROOT / "specs" / "guide" / "first-day.md"

#: What is never twice the same, in the order in which it is looked for.
_VARIES = (
    (re.compile(r'File "[^"]*/(perago_\w+/[^"]+)", line \d+'), r'File "…/\1", line …'),
    (re.compile(r"to worker \S+"), "to worker …"),
    (re.compile(r"the path: .*"), "the path: …"),
    (re.compile(r"https://errors\.pydantic\.dev/\S+"), "…"),
    (re.compile(r"http://127\.0\.0\.1:\d+/[\w-]+/"), "http://127.0.0.1:…/…/"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b"), "…"),
    (re.compile(r"(?<![\d-])(\d+ (h|min) )?\d+(\.\d+)? (s|min|h)\b"), "… s"),  # minutes on a busy machine
    (re.compile(r"\b[0-9a-f]{8,}\b"), "…"),
    (re.compile(r" {3,}"), "  "),
)
#: How a Python underlines the expression that raised; not every version does.
_UNDERLINED = re.compile(r"[^\n]*? [~^]+\n")


def replay(page: str, folder: Path, binaries: Path) -> str:
    """Write the files of a page and run its commands in their order; give the page with what they print."""

    def played(block: re.Match[str]) -> str:
        if named := NAME.match(block["body"]):
            (folder / named["name"]).write_text(block["body"], encoding="utf-8")
        if block["language"] != "console":
            return block[0]
        lines = [line for line in block["body"].splitlines() if line.startswith("$ ")]
        return "".join(("```console\n", *(f"{line}\n{_printed(line, folder, binaries)}" for line in lines), "```"))

    return BLOCK.sub(played, page)


def _printed(line: str, folder: Path, binaries: Path) -> str:
    ran = shell(f"exec 2>&1; {line.removeprefix('$ ')}", folder, binaries)
    assert ran.returncode == 0, f"{line}\n{ran.stdout}"
    shown = _UNDERLINED.sub("", ran.stdout.replace(str(folder), "…"))
    for pattern, instead in _VARIES:
        shown = pattern.sub(instead, shown)
    return "".join(f"{each.rstrip()}\n" for each in shown.splitlines() if each.strip())


def main() -> None:
    """Record the page anew, with the commands of this environment."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = replay(PAGE.read_text(encoding="utf-8"), Path(folder).resolve(), Path(sys.executable).parent)
    PAGE.write_text(recorded, encoding="utf-8")
    subprocess.run(["git", "diff", "--stat", str(PAGE)], cwd=ROOT, check=False)  # noqa: S603, S607  for whoever recorded


if __name__ == "__main__":
    main()
