"""Processes die inside transactions of the coordination store: all of a change is there or none."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from perago_local.coordination import SqliteCoordination
from tests.local.coordinating import done
from tests.local.crashing import Countdown, integrity, run_in_child

#: More than any call runs.
STATEMENTS_MAX = 20
BEFORE = {"lock": "held", "token": "1"}

Change: TypeAlias = Callable[[SqliteCoordination, str], object]

#: Each change, and what is there after it.
CHANGES: Mapping[str, tuple[Change, dict[str, str]]] = {
    "create": (lambda port, lease: port.create_if_absent("bound", "new", lease), {**BEFORE, "bound": "new"}),
    "swap": (lambda port, _lease: port.swap("token", "1", "2"), {**BEFORE, "token": "2"}),
    "delete": (lambda port, _lease: port.swap("token", "1", None), {"lock": "held"}),
    "revoke": (lambda port, lease: port.revoke(lease), {"token": "1"}),
    "keep alive": (lambda port, lease: port.keep_alive(lease), BEFORE),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_process_that_dies_before_any_statement_of_a_change_leaves_all_of_it_or_nothing(
    tmp_path: Path,
    name: str,
) -> None:
    """Nothing between the two states can be seen, and the next process finds neither a lock nor damage."""
    change, after = CHANGES[name]
    for statements in range(1, STATEMENTS_MAX):
        path = tmp_path / f"{statements}.db"
        with closing(SqliteCoordination(path)) as port:
            lease = done(port.grant(1000))
            done(port.create_if_absent("lock", "held", lease))
            done(port.create_if_absent("token", "1"))
        ended = run_in_child(partial(_die_at, path, change, lease, statements))
        assert integrity(path) == "ok"
        with closing(SqliteCoordination(path, busy_timeout=0.0)) as port:
            seen = {entry.key: entry.value for entry in done(port.list(""))}
            assert seen == (after if ended == 0 else BEFORE)
            assert done(port.swap("next", None, "goes on"))
        if ended == 0:
            assert statements > 2, "the call was not seen to die"
            return
        assert ended == -signal.SIGKILL
    pytest.fail(f"the call needs more than {STATEMENTS_MAX} statements: raise the bound")


def _die_at(path: Path, change: Change, lease: str, statements: int) -> None:
    countdown = Countdown(signal.SIGKILL)
    with closing(SqliteCoordination(path)) as port:
        countdown.set(statements)
        change(port, lease)
        countdown.set(0)
