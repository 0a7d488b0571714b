"""Stream logs that may be moved: what Spark writes down with the folder in it is kept with a name in its place.

Spark's streams remember files by their whole address: the sink's log which files are in a table, a source's log which
ones were read. The next attempt works in another folder. With the old addresses it would find none of the table's
files, and read all of them once more as new ones.

The sink's log also hides the table from everybody else: where there is one, Spark reads what it lists and nothing else.
So it is kept apart from the table, whose folder then holds just its files, which any reader of Parquet lists; what the
log does not list, a write that failed, is removed first.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

#: Stands for the workspace in a log that is kept. No folder of anybody has this name.
_ROOT: Final = "file:///perago-workspace"
_NOT_IN_ADDRESSES: Final = re.compile(r'[\x00-\x20"<>\\^`{|}%\[\]#?\x7f]')
_SINK_LOG: Final = "_spark_metadata"
_CHECKPOINTS: Final = "_checkpoints"


def keep_logs(workspace: Path, tables: Path, storage: Path) -> None:
    """Take what Spark left and leave what can be published and taken up in another folder."""
    for checksum in list(workspace.rglob(".*.crc")):
        checksum.unlink()
    sinks = storage / "_sinks"
    shutil.rmtree(sinks, ignore_errors=True)
    for log in list(tables.rglob(_SINK_LOG)):
        _remove_unlisted(log)
        kept = sinks / log.parent.relative_to(tables)
        kept.parent.mkdir(parents=True, exist_ok=True)
        log.rename(kept)
    _replace(storage, _address(workspace), _ROOT)


def restore_logs(workspace: Path, tables: Path, storage: Path) -> None:
    """Put the logs back to where Spark looks for them, with the addresses of this folder."""
    _replace(storage, _ROOT, _address(workspace))
    sinks = storage / "_sinks"
    for folder in list(_folders_of_logs(sinks)):
        folder.rename(tables / folder.relative_to(sinks) / _SINK_LOG)
    shutil.rmtree(sinks, ignore_errors=True)


def _address(workspace: Path) -> str:
    """Name the folder as Hadoop does in logs. Java leaves letters of all languages as they are, Python would not."""
    return "file://" + _NOT_IN_ADDRESSES.sub(lambda found: f"%{ord(found[0]):02X}", str(workspace.resolve()))


def _folders_of_logs(sinks: Path) -> Iterator[Path]:
    """Return the folders that hold a log: files named after batches."""
    yield from {path.parent for path in sinks.rglob("*") if path.is_file()}


def _replace(storage: Path, old: str, new: str) -> None:
    logs = [*storage.glob("_sinks/**/*"), *storage.glob(f"{_CHECKPOINTS}/**/sources/*/*")]
    for log in logs:
        if log.is_file():
            text = log.read_text(encoding="utf-8")
            log.write_text(text.replace(f'"{old}/', f'"{new}/'), encoding="utf-8")


def _remove_unlisted(log: Path) -> None:
    """Remove the files of a table that its sink's log does not list."""
    table = log.parent
    listed = set(_listed(log))
    for path in list(table.rglob("*")):
        inside = path.relative_to(table)
        if path.is_file() and inside.parts[0] != _SINK_LOG and path.resolve() not in listed:
            path.unlink()


def _listed(log: Path) -> Iterator[Path]:
    """Return the files a sink's log lists. Compaction only gathers: what was added is in some batch that is left."""
    for batch in log.iterdir():
        lines = batch.read_text(encoding="utf-8").splitlines()[1:]
        for entry in map(json.loads, lines):
            yield Path(unquote(urlsplit(str(entry["path"])).path)).resolve()
