"""What the tests of documents share: where they are, and which commands the Makefile has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def text(path: str) -> str:
    """Return a file of the project by its path from the root."""
    return (ROOT / path).read_text(encoding="utf-8")


def project() -> dict[str, Any]:
    """Return the ``[project]`` table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads(text("pyproject.toml"))["project"]
    return table


def make_targets() -> set[str]:
    """Return every target of the Makefile that is a command."""
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", text("Makefile"), re.MULTILINE))


def commands(shell: str) -> set[str]:
    """Return the make targets named by lines of shell, documents included: ``make a b`` names two."""
    return {target for words in re.findall(r"\bmake((?: +[a-z][a-z-]*)+)", shell) for target in words.split()}


def code(markdown: str) -> str:
    """Return what a document shows as code, blocks and spans: prose may use the word "make" as well."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", markdown, re.DOTALL))


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a document in one language."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", text(page), re.DOTALL | re.MULTILINE)
    return found


def pages() -> list[str]:
    """Return every document of the tree that people write: those at the root, the guide, and the decisions."""
    found = [*ROOT.glob("*.md"), *(ROOT / "specs").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)
