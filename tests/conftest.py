"""How all tests run: how hard Hypothesis tries, and which rows of the machines the run has fired (row coverage).

``PERAGO_ROW_COVERAGE=strict``, which ``make test`` sets, makes a row that no test fired fail the run. Without it the
report is only a report, because a selection of the tests is not expected to fire every row.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from hypothesis import HealthCheck, settings

from perago_core.answers import Event
from perago_core.machine.engine import Table
from perago_core.machine.rows import Row, State
from tests.core.machines import NAMES, load

# `pytest --hypothesis-profile=nightly` takes the other one.
settings.register_profile("ci", deadline=None, derandomize=False, print_blob=True)
settings.register_profile(
    "nightly",
    settings.get_profile("ci"),
    max_examples=5_000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ci")

STRICT = os.environ.get("PERAGO_ROW_COVERAGE") == "strict"

#: How many missing rows are named when nobody is strict about them.
NAMED = 8

#: The ids of the rows fired, by table. Tables that tests make for themselves are told apart by identity, and forgotten.
FIRED: WeakKeyDictionary[Table[Any, Any], set[str]] = WeakKeyDictionary()

_patch = pytest.MonkeyPatch()


def pytest_configure() -> None:
    choose: Callable[[Table[Any, Any], State[Any, Any], Event], tuple[Row, Any]] = Table[Any, Any].choose

    @wraps(choose)
    def watched(self: Table[Any, Any], state: State[Any, Any], event: Event) -> tuple[Row, Any]:
        row, known = choose(self, state, event)
        FIRED.setdefault(self, set()).add(row.id)
        return row, known

    _patch.setattr(Table, "choose", watched)


def pytest_unconfigure() -> None:
    _patch.undo()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Let no test leave a log behind: a command that ran in this process logs to a stream that is closed by now."""
    before = list(logging.root.handlers)
    try:
        return (yield)
    finally:
        logging.root.handlers[:] = before


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Before the summary is printed, because the summary shows the exit status too."""
    judged = STRICT and not session.config.option.collectonly
    if judged and session.exitstatus == pytest.ExitCode.OK and any(missing_rows().values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    missing = missing_rows()
    if config.option.collectonly or not missing:
        return
    bad = STRICT and any(missing.values())
    terminalreporter.section("row coverage", red=bad, green=STRICT and not bad)
    for line in report(missing):
        terminalreporter.line(line)


def missing_rows() -> Mapping[str, list[str]]:
    """Return the rows nobody fired, by machine: of every machine, or of those that ran at all if nobody is strict."""
    tables = {name: load(name) for name in NAMES if STRICT or f"perago_core.{name}" in sys.modules}
    return {
        name: [row.id for row in table.definition.rows if row.id not in FIRED.get(table, ())]
        for name, table in tables.items()
        if STRICT or table in FIRED
    }


def report(missing: Mapping[str, list[str]]) -> Iterator[str]:
    """Say for each machine how many rows were fired and which were not."""
    for name, rows in missing.items():
        total = len(load(name).definition.rows)
        named = rows if STRICT else rows[:NAMED]
        more = f" and {len(rows) - len(named)} more" if len(named) < len(rows) else ""
        tail = f"; not fired: {', '.join(named)}{more}" if rows else ""
        yield f"{name:9} {total - len(rows):3} of {total:3} rows fired{tail}"
