"""One read or one write of a data set, as options of Spark's reader and writer.

Options are strings, and Spark hands them to processes we did not start. So source and sink travel as pickled values in
an option. Its key contains ``token``: Spark's own rule for redaction then hides the value in plans and logs.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from perago_core.ports import Sink, Source
from perago_spark.errors import DatasetError
from perago_spark.format.layout import checked_write
from perago_spark.format.pruning import Condition
from perago_spark.streams.changes import Unread

if TYPE_CHECKING:
    from perago_spark.format.proof import Proof

FORMAT: Final = "perago"
_HELP: Final = "Use .options(**ReadPlace(...).options()) or .options(**WritePlace(...).options()) of perago_spark"


@frozen
class ReadPlace:
    """One data set of one commit. Files that cannot hold rows which meet the conditions are not read.

    ``schema``: the columns of files without a seal, as Spark's JSON; ``text``: how such files of text are read.
    """

    source: Source
    folder: str
    columns: tuple[str, ...] | None = None
    conditions: tuple[Condition, ...] = ()
    schema: str = ""
    text: dict[str, str] = field(factory=dict[str, str])

    def options(self) -> dict[str, str]:
        """Encode it as options."""
        options = {
            "sourceToken": _pickled(self.source),
            "folder": self.folder,
            "conditions": _pickled(self.conditions),  # a day is to arrive as a day, and text as text
            "columnsOfFiles": self.schema,
            "text": json.dumps(self.text),
        }
        return options if self.columns is None else {**options, "columns": json.dumps(self.columns)}


@frozen
class StreamPlace:
    """What a streaming query has not read of one data set. Its columns are those of the newest commit."""

    place: ReadPlace
    unread: Unread

    def options(self) -> dict[str, str]:
        """Encode it as options."""
        return {**self.place.options(), "unreadToken": _pickled(self.unread)}


@frozen
class WritePlace:
    """One write to one data set of one staging name. ``source`` is the commit the staging name began at.

    ``preserving``: the rows must be those that were there; only their files are others. ``by_partition``: the rows of
    every partition value among those written replace what was there; other partitions stay. ``merge_schema``: columns
    that the data set lacks are added to it. ``most_rows``: rows that one file may have, 0 for any number. ``proofs``:
    what the rows must show on the way, or nothing is linked.
    """

    source: Source
    sink: Sink
    folder: str
    write: str
    partition_by: tuple[str, ...] = ()
    preserving: bool = False
    by_partition: bool = False
    merge_schema: bool = False
    format: str = "parquet"
    most_rows: int = 0
    compression: str = "snappy"
    proofs: tuple[Proof, ...] = ()

    @property
    def unmet(self) -> str:
        """What this write fails with if its gates are not met at first sight: to be found in what Spark makes of it."""
        return f"gates of {self.write} that are not met"

    def options(self) -> dict[str, str]:
        """Encode it as options."""
        return {
            "sourceToken": _pickled(self.source),
            "sinkToken": _pickled(self.sink),
            "folder": self.folder,
            "write": checked_write(self.write),
            "partitionBy": json.dumps(self.partition_by),
            "preserving": json.dumps(self.preserving),
            "byPartition": json.dumps(self.by_partition),
            "mergeSchema": json.dumps(self.merge_schema),
            "fileFormat": self.format,
            "mostRows": json.dumps(self.most_rows),
            "codec": self.compression,
            # With keys of other data sets in them, which are for nobody's log.
            "proofsToken": _pickled(self.proofs),
        }


#: How files of text are read, by Spark's own names.
_TEXT: Final = ("sep", "header")


def text_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of text files unchanged; refuse one that would be ignored."""
    unknown = sorted(set(options) - set(_TEXT))
    if unknown:
        raise DatasetError(f"options of {', '.join(_TEXT)}", ", ".join(unknown), "Leave it out: it has no effect")
    return dict(options)


def read_place(options: Mapping[str, str]) -> ReadPlace:
    """Decode the options of a read."""
    columns = options.get("columns")
    return ReadPlace(
        _unpickled(_needed(options, "sourceToken")),
        _needed(options, "folder"),
        None if columns is None else tuple(json.loads(columns)),
        _unpickled(options["conditions"]) if "conditions" in options else (),
        options.get("columnsOfFiles", ""),
        json.loads(options.get("text", "{}")),
    )


def stream_place(options: Mapping[str, str]) -> StreamPlace:
    """Decode the options of a stream."""
    return StreamPlace(read_place(options), _unpickled(_needed(options, "unreadToken")))


def write_place(options: Mapping[str, str]) -> WritePlace:
    """Decode the options of a write."""
    return WritePlace(
        _unpickled(_needed(options, "sourceToken")),
        _unpickled(_needed(options, "sinkToken")),
        _needed(options, "folder"),
        checked_write(_needed(options, "write")),
        tuple(json.loads(options.get("partitionBy", "[]"))),
        json.loads(options.get("preserving", "false")),
        json.loads(options.get("byPartition", "false")),
        json.loads(options.get("mergeSchema", "false")),
        options.get("fileFormat", "parquet"),
        json.loads(options.get("mostRows", "0")),
        options.get("codec", "snappy"),
        _unpickled(options["proofsToken"]) if "proofsToken" in options else (),
    )


def _needed(options: Mapping[str, str], key: str) -> str:
    value = options.get(key)
    if not value:
        raise DatasetError(f"the option {key!r}", "none", _HELP)
    return value


def _pickled(value: object) -> str:
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def _unpickled(text: str) -> Any:  # noqa: ANN401  a source or a sink of whichever store
    try:
        return pickle.loads(base64.b64decode(text))  # noqa: S301  whoever sets options runs code in this session anyway
    except (ValueError, pickle.UnpicklingError, ImportError, AttributeError) as error:
        raise DatasetError("a source or sink made by perago_spark", f"{type(error).__name__}", _HELP) from error
