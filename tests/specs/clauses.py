"""Which test shows which clause, as the tests themselves say: ``@pytest.mark.clause("S-12", "P-03")``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


@cache
def marked() -> Mapping[str, tuple[str, ...]]:
    """Return for each clause the tests marked with it, as ``folder/module::name``, in alphabetical order."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        module = path.relative_to(TESTS).with_suffix("").as_posix()
        for test in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
                for clause in _clauses(test):
                    found.setdefault(clause, []).append(f"{module}::{test.name}")
    return {clause: tuple(sorted(tests)) for clause, tests in found.items()}


def _clauses(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for each in test.decorator_list:
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.clause":
            yield from (ast.literal_eval(argument) for argument in each.args)
