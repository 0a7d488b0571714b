"""Where Spark's own writer may write: a folder outside every branch, whose files can be taken over into a store.

A store that Spark itself can write to offers such a folder: its sink has the method ``native_area``. For any other
store it is a folder on this machine, and its files are put into the sink one by one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

from attrs import frozen

from perago_core.answers import Answer, Done, NotDone
from perago_core.ports import Sink, Stored


class Area(Protocol):
    """A folder of one write. Nobody reads it, so that whatever a late task leaves there harms nobody."""

    @property
    def uri(self) -> str:
        """Say where it is, as Spark names it."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """Give what Spark's writer must be told to reach it."""
        ...

    def list(self) -> Answer[tuple[Stored, ...]]:
        """List what lies there, by paths relative to it."""
        ...

    def tail(self, found: Stored, size: int) -> Answer[bytes]:
        """Read the last bytes of a file, where Parquet says what is in it."""
        ...

    def take(self, found: Stored, path: str) -> Answer[Stored]:
        """Make a file ready to be linked under a path."""
        ...


class AreaSink(Sink, Protocol):
    """The sink of a store that Spark can write to."""

    def native_area(self, folder: str, write: str) -> Answer[Area]:
        """Give the area of one write."""
        ...


@contextmanager
def area_of(sink: Sink, folder: str, write: str) -> Generator[Answer[Area]]:
    """Give the area of one write, for as long as it is needed."""
    if hasattr(sink, "native_area"):
        yield cast("AreaSink", sink).native_area(folder, write)
        return
    # Below the task's own folder: whoever ends a killed body removes that.
    place = Path(tempfile.mkdtemp(prefix="native-"))
    try:
        yield Done(LocalArea(place / write, sink))
    finally:
        shutil.rmtree(place, ignore_errors=True)


@frozen
class LocalArea:
    """A folder on this machine. Every executor must see it too, so it serves one machine or a shared disk."""

    folder: Path
    sink: Sink

    @property
    def uri(self) -> str:
        """Say where it is, as Spark names it."""
        return self.folder.as_uri()

    @property
    def options(self) -> Mapping[str, str]:
        """Have no sums of every 512 bytes kept beside each file: every byte gets into a sum when it is taken over."""
        return {
            "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "fs.file.impl.disable.cache": "true",  # else whoever asked first has decided for all
        }

    def list(self) -> Answer[tuple[Stored, ...]]:
        """List what lies there."""
        if not self.folder.is_dir():
            return NotDone(f"expected {self.folder} to hold what Spark wrote, found no such folder on this machine")
        return Done(tuple(sorted(self._found(), key=lambda each: each.path)))

    def tail(self, found: Stored, size: int) -> Answer[bytes]:
        """Read the last bytes of a file."""
        with Path(found.address).open("rb") as file:
            file.seek(max(0, found.size - size))
            return Done(file.read())

    def take(self, found: Stored, path: str) -> Answer[Stored]:
        """Put a file into the sink; from then on it is not needed here."""
        place = Path(found.address)
        with place.open("rb") as file:
            taken = self.sink.put(path, file)
        place.unlink()
        return taken

    def _found(self) -> Iterator[Stored]:
        for parent, _, names in os.walk(self.folder):
            for each in (Path(parent) / name for name in names):
                yield Stored(each.relative_to(self.folder).as_posix(), str(each), "", each.stat().st_size)
