"""The checkpoint of a streaming query: offsets, finished batches and state, as the branch has them.

It is brought to a folder of the task before the query runs, and what the query has changed there is staged beside its
outputs. So an attempt that is lost takes its offsets with it, and the next one goes on where the accepted commit
stands. A folder that outlives the attempt would say of a batch that nobody published that it is done.

A folder of its own for each execution also in one process: Spark keeps state in memory by the folder and the version,
and would take that of a lost attempt for that of the accepted one.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

from perago_core.ports import Sink, Source, Stored
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.tables.seal import STREAMS, TableSeal, sizes_of, table_seal_of

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FETCHING: Final = 8
#: What tells that a file is the one that was brought: Spark replaces a file by a new one, and never writes into it.
_Seen: TypeAlias = tuple[int, int, int]


def checkpoint_folder(prefix: str, query: str) -> str:
    """Return the folder of a query's checkpoint. No data set has such a name: theirs begin with a letter or digit."""
    if _NAME.fullmatch(query) is None:
        raise DatasetError("a query's name of letters, digits, '_', '-' and '.'", repr(query), "Choose another one")
    return f"{prefix}{STREAMS}{query}/"


class Checkpoint:
    """The checkpoint of one query in a folder of this task, as the input commit has it until the query runs."""

    def __init__(self, source: Source, folder: str, place: Path) -> None:
        self.folder = folder
        self.place = place
        self._source = source
        listed: tuple[Stored, ...] = value_or_raise(source.list(folder))
        self._stored = {each.path.removeprefix(folder) for each in listed if table_seal_of(each.path) is None}
        with ThreadPoolExecutor(_FETCHING) as pool:
            list(pool.map(self._fetch, sorted(self._stored)))
        self._brought = dict(self._found())

    @property
    def batches(self) -> int:
        """How many batches are done, of all runs of the query."""
        return 1 + max(self._numbers("commits"), default=-1)

    def check_ended(self) -> None:
        """Refuse a query that stopped inside a batch: its outputs may have rows that its offsets do not."""
        if max(self._numbers("offsets"), default=-1) + 1 != self.batches:
            raise DatasetError(
                f"a query that has ended each batch it began: {self.folder!r}",
                f"batch {self.batches} begun and not ended",
                "Let the body raise; the next attempt does the batch again",
            )

    def offset(self, folder: str) -> str:
        """Return the commit up to which this query has read a data set; ``""``: it has read nothing of it."""
        last = max(self._numbers("offsets"), default=None)
        if last is None:
            return ""
        lines = (self.place / "offsets" / str(last)).read_text(encoding="utf-8").splitlines()
        for line in lines[2:]:
            match _parsed(line):
                case {"folder": found, "commit": str(commit)} if found == folder:
                    return commit
                case _:
                    pass
        return ""

    def stage(self, sink: Sink, write: str) -> None:
        """Put what the query has written, and remove what it has removed; seal the folder last."""
        found = dict(self._found())
        added = sorted(path for path, seen in found.items() if self._brought.get(path) != seen)
        stored = tuple(self._put(sink, path) for path in added)
        listed: tuple[Stored, ...] = value_or_raise(sink.list(self.folder))
        gone = tuple(each.path for each in listed if each.path.removeprefix(self.folder) not in found)
        value_or_raise(sink.link(stored, gone))
        kept = {each.path: each for each in (*listed, *stored) if each.path not in gone}
        sizes = sizes_of(kept.values())
        value_or_raise(sink.seal(f"{self.folder}{TableSeal(write, len(sizes), sum(sizes))}", b""))

    @property
    def changed(self) -> bool:
        """Whether the query has done anything since the checkpoint was brought."""
        return dict(self._found()) != self._brought

    def _numbers(self, log: str) -> Iterator[int]:
        folder = self.place / log
        if folder.is_dir():
            yield from (int(each.name) for each in folder.iterdir() if each.name.isdecimal())

    def _found(self) -> Iterator[tuple[str, _Seen]]:
        """List the folder without the checksums that Hadoop writes beside each file."""
        for each in self.place.rglob("*"):
            if each.is_file() and not (each.name.startswith(".") and each.suffix == ".crc"):
                known = each.stat()
                yield each.relative_to(self.place).as_posix(), (known.st_ino, known.st_mtime_ns, known.st_size)

    def _fetch(self, path: str) -> None:
        place = self.place / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with value_or_raise(self._source.get(f"{self.folder}{path}")) as stream, place.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)

    def _put(self, sink: Sink, path: str) -> Stored:
        with (self.place / path).open("rb") as file:
            stored: Stored = value_or_raise(sink.put(f"{self.folder}{path}", file))
        return stored


def _parsed(line: str) -> Any:  # noqa: ANN401  an offset of whichever source
    try:
        return json.loads(line)
    except ValueError:
        return None
