"""A campaign's folder: what it is about, and its outcomes as a data set of Parquet files, one for each range.

    campaign.json                                 which campaign it is
    outcomes/schedules-<start>-<stop>.parquet     whole or not at all; nobody writes one twice

Any reader of Parquet takes ``outcomes`` as one table: DuckDB, pandas, Spark.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from perago_core.errors import PeragoError
from perago_simulation.campaign.outcomes import Arrow, Piece, arrow, make
from perago_simulation.campaign.plan import Campaign, Range, cut, missing

_NAME: Final = re.compile(r"schedules-(\d+)-(\d+)\.parquet")
#: Schedules that are made again before a campaign goes on.
_SAMPLE: Final = 100


class CampaignError(PeragoError, ValueError):
    """A folder is not the campaign's own, or does not hold what this version would make."""


@frozen
class Folder:
    """The folder of one campaign."""

    path: Path

    @property
    def outcomes(self) -> Path:
        """Name the data set."""
        return self.path / "outcomes"

    def open(self, campaign: Campaign, *, resume: bool) -> None:
        """Begin a campaign here, or go on with the one that was begun; refuse anything else."""
        document = campaign.document()
        found = self._found()
        if found is not None and not resume:
            made = sum(stop - start for start, stop in self.done())
            raise CampaignError(
                f"expected no campaign in {self.path}; found one with {made:,} schedules. Go on with it by "
                "--resume, or name another folder"
            )
        if found is not None and found != document:
            differing = ", ".join(
                sorted(key for key in document.keys() | found.keys() if document.get(key) != found.get(key))
            )
            raise CampaignError(
                f"expected the campaign of {self.path}; found another {differing}. Ask what it was begun with, "
                f"{json.dumps(found)}, or name another folder"
            )
        self.outcomes.mkdir(parents=True, exist_ok=True)
        if found is None:
            self._write(self.path / "campaign.json", json.dumps(document, indent=1).encode())
        else:
            self._check_sample(campaign)

    def done(self) -> list[Range]:
        """Return the ranges that are here, in order."""
        names = (_NAME.fullmatch(each.name) for each in self.outcomes.iterdir()) if self.outcomes.is_dir() else ()
        return sorted((int(found[1]), int(found[2])) for found in names if found is not None)

    def missing(self, schedules: int, size: int) -> list[Range]:
        """Return what is still to be made, in pieces."""
        return list(cut(missing(self.done(), schedules), size))

    def store(self, piece: Piece) -> None:
        """Add the outcomes of one range."""
        self._write(self._file(piece.start, piece.stop), piece.parquet)

    def tables(self, schedules: int) -> Iterator[Arrow]:
        """Read the outcomes of the first so many schedules, in order, each once."""
        pc, pq = arrow("pyarrow.compute"), arrow("pyarrow.parquet")
        at = 0
        for start, stop in self.done():
            table = pq.read_table(self._file(start, stop))
            kept = pc.and_(pc.greater_equal(table["seed"], at), pc.less(table["seed"], schedules))
            yield table.filter(kept)
            at = max(at, stop)

    def _file(self, start: int, stop: int) -> Path:
        return self.outcomes / f"schedules-{start:012d}-{stop:012d}.parquet"

    def _found(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.path / "campaign.json").read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise CampaignError(
                f"expected a campaign in {self.path}; found a campaign.json nobody can read: {error}. Remove it"
            ) from None
        return found

    def _check_sample(self, campaign: Campaign) -> None:
        """Make a few schedules again: what this version makes must be what the other one has made."""
        done = self.done()
        if not done:
            return
        pa, pq = arrow(), arrow("pyarrow.parquet")
        (start, stop) = done[0]
        kept = pq.read_table(self._file(start, stop)).slice(0, _SAMPLE)
        again = pq.read_table(pa.BufferReader(make((campaign, (start, min(stop, start + _SAMPLE)))).parquet))
        if kept["digest"].to_pylist() != again["digest"].to_pylist():
            raise CampaignError(
                f"expected the outcomes of {self.path} to come out the same again; found others for the same numbers: "
                "the simulator has changed since. Begin a new campaign"
            )

    def _write(self, place: Path, data: bytes) -> None:
        # The name begins with a dot, so that no reader takes a half of it for a part of the data set.
        half = place.with_name(f".{place.name}.{os.getpid()}")
        half.write_bytes(data)
        half.replace(place)
