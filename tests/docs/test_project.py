"""What people look for first: who, where, what changed, how to take part, how to report."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, code, commands, make_targets, project, text

PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")


def test_the_addresses_share_one_prefix_and_lead_to_files_that_exist() -> None:
    urls: dict[str, str] = project()["urls"]
    home = urls["Repository"]
    assert {"Documentation", "Changelog", "Issues"} <= set(urls)
    assert all(url.startswith(home) for url in urls.values()), urls
    files = {name: url.partition("/blob/main/")[2] for name, url in urls.items() if "/blob/main/" in url}
    assert files["Changelog"] == "CHANGELOG.md"
    assert "Documentation" in files
    assert all((ROOT / path).is_file() for path in files.values()), files


def test_the_changelog_begins_with_what_is_not_released_yet_and_dates_the_rest() -> None:
    heads = re.findall(r"^## (.*)$", text("CHANGELOG.md"), re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", head) for head in heads[1:]), heads


@pytest.mark.parametrize("page", [*PAGES, ".github/pull_request_template.md"])
def test_every_command_a_page_names_is_one(page: str) -> None:
    unknown = commands(code(text(page))) - make_targets()
    assert not unknown, f"{page} names make {', '.join(sorted(unknown))}, which the Makefile does not have"


@pytest.mark.parametrize("page", PAGES)
def test_every_file_a_page_points_to_exists(page: str) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text(page)):
        assert (ROOT / link).exists(), f"{page}: {link}"


def test_the_security_policy_names_whoever_unpickles() -> None:
    """Spark's bodies and data source, the processes of one exploration, the suites; a fourth is added to the page."""
    unpickling = {
        _package(path)
        for folder in ("perago_core", "adapters", "simulation")
        for path in (ROOT / folder).rglob("*.py")
        if _imports(path, "pickle")
    }
    assert unpickling == {"perago_conformance", "perago_spark", "perago_simulation"}


def _package(path: Path) -> str:
    return next(part for part in path.relative_to(ROOT).parts if part.startswith(("perago_", "pyspark_")))


def _imports(path: Path, module: str) -> bool:
    names = {
        name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    return module in names
