"""What a write has added to a Delta table, read from the table's own log: the only statement of what the table is.

Files that the log does not name were left by task attempts that lost; they are staged nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from perago_spark.errors import DatasetError
from perago_spark.tables.seal import LOG
from perago_spark.tables.table import Change

_ENTRY: Final = re.compile(r"(\d{20})\.json")
#: What a commit says it has written: of rows that were given, and of a merge.
_COUNTS: Final = ("numOutputRows", "numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def version_of(table: Path) -> int | None:
    """Return the newest version in a table's log; ``None``: there is no table."""
    log = table / LOG
    found = [int(known[1]) for each in log.iterdir() if (known := _ENTRY.fullmatch(each.name))] if log.is_dir() else []
    return max(found, default=None)


def change_of(table: Path, first: int, last: int) -> Change:
    """Read the entries of these versions; raise where one names a file outside the table."""
    files: dict[str, int] = {}
    rows = 0
    for version in range(first, last + 1):
        actions = [json.loads(line) for line in (table / LOG / f"{version:020d}.json").read_text("utf-8").splitlines()]
        for action in actions:
            files.update(_named(action, table.name))
        rows = _rows(actions, table.name)
    return Change(files, rows)


def _named(action: Mapping[str, Any], table: str) -> Iterator[tuple[str, int]]:
    for kind in ("add", "cdc"):
        if kind in action:
            yield _inside(action[kind]["path"], table), action[kind]["size"]
    vector: dict[str, Any] = action.get("add", {}).get("deletionVector") or {}
    if vector.get("storageType") == "p":
        raise _outside(vector["pathOrInlineDv"], table)


def _inside(path: str, table: str) -> str:
    """Decode a path; an absolute one, as a shallow clone has them, would not be on the branch."""
    if path.startswith("/") or ":" in path.partition("/")[0]:
        raise _outside(path, table)
    return unquote(path)


def _outside(path: str, table: str) -> DatasetError:
    return DatasetError(
        f"paths inside the table in the log of {table!r}", repr(path), "Copy the rows with ws.write, not by a clone"
    )


def _rows(actions: list[dict[str, Any]], table: str) -> int:
    """Return the rows of one commit as it counts them; what was only given must be what its files hold."""
    said: list[dict[str, Any]] = [each["commitInfo"] for each in actions if "commitInfo" in each]
    metrics: dict[str, str] = said[0].get("operationMetrics", {}) if said else {}
    written, *merged = (int(metrics.get(each, 0)) for each in _COUNTS)
    if any(each in metrics for each in _COUNTS[1:]):
        return sum(merged)
    held = [json.loads(each["add"].get("stats") or "{}").get("numRecords") for each in actions if "add" in each]
    if None not in held and sum(held) != written:
        raise DatasetError(f"files with {written} rows in {table!r}", str(sum(held)), "Try the task again")
    return written
