"""``SparkDatasets``: what a Spark body is given. It reads from its input commit and writes to its own staging, by name.

    def rollup(ws: SparkDatasets, params: Params) -> Result:
        orders = ws.read("orders", columns=["day", "amount"])
        ws.write("rollup", orders.groupBy("day").sum("amount"), partition_by=["day"])
        return Result(days=ws.observed("rollup").rows)

There is no way to name a branch, a commit or a place outside the task's prefix, and none to publish (P-23). A body that
writes nothing stages nothing. Reading after writing gives the input: what is written is not there before all of it is.
Threads of the body may read and write at the same time, each its own data set.

Figures about the rows are taken while they are written, by Spark's ``Observation``, without a second pass:

    ws.write("orders", frame, observe={"revenue": F.sum("amount"), "unnamed": F.count_if(F.col("name").isNull())})
    ws.observed("orders").values["revenue"]

Spark counts only tasks that succeeded, so the figures are those of the rows that were staged, also when tasks failed
and ran again. Its count of rows must equal the seal's.

A streaming query runs inside the task, and its checkpoint is staged beside its outputs (``streams``):

    orders = ws.stream("orders", query="ingest")
    ws.run_query("ingest", orders.writeStream.foreachBatch(lambda batch, number: ws.write("all", batch, mode="append")))
"""

from __future__ import annotations

import logging
import operator
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, cast

from attrs import evolve, field, frozen

from perago_core.ports import Sink, Source, Stored
from perago_spark.api import external
from perago_spark.api import gates as gate
from perago_spark.api.checks import Rows
from perago_spark.api.columns import without
from perago_spark.api.external import External
from perago_spark.api.gates import Checks
from perago_spark.api.scope import DatasetScope
from perago_spark.api.upsert import upsert
from perago_spark.diagnosis.failures import explained
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.format import layout
from perago_spark.format.compaction import FILE_BYTES, wanted_files
from perago_spark.format.pruning import OPERATIONS, condition
from perago_spark.format.schema import check_append, merged_schema, plain_schema
from perago_spark.format.seal import dataset_of, discrepancy, tree_digest
from perago_spark.source.options import FORMAT, ReadPlace, StreamPlace, WritePlace, text_options
from perago_spark.streams.changes import At, unread
from perago_spark.streams.checkpoint import Checkpoint
from perago_spark.suites import Demand, gates_of
from perago_spark.tables.kinds import TABLES, made_table, table_kind
from perago_spark.tables.table import Table, TableWrite

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from perago_spark.format.proof import Provable

_LOG: Final = logging.getLogger("perago.gate")
#: A column, an operation and a value: ``("day", ">=", date(2024, 5, 1))``, ``("country", "in", ["de", "fr"])``.
Filter: TypeAlias = tuple[str, str, Any]
Mode: TypeAlias = Literal["append", "overwrite", "overwrite_partitions"]
Format: TypeAlias = Literal["parquet", "csv", "json", "orc", "delta", "iceberg"]
_MODES: Final = ("append", "overwrite", "overwrite_partitions")
#: Spark's own word for replacing only the partitions that are written.
_DYNAMIC: Final = "spark.sql.sources.partitionOverwriteMode"
_CODEC: Final = "spark.sql.parquet.compression.codec"
_CODECS: Final[Mapping[str, str]] = {
    **{each: each for each in ("snappy", "gzip", "zstd", "brotli", "none")},
    "uncompressed": "none",
    "lz4_raw": "lz4",
}
_MOST_ROWS: Final = "spark.sql.files.maxRecordsPerFile"
_ROUTES: Final = ("arrow", "native")
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@frozen
class Written:
    """The outcome of one write. ``changed`` is false if the data set already was what was written.

    ``rows`` are those of this write: what an append has added, what an overwrite has left, of the whole or in its
    partitions. ``columns`` are named with their types, ``values`` are the figures that were observed.
    """

    name: str
    rows: int
    files: int
    changed: bool
    columns: Mapping[str, str] = field(factory=dict[str, str])
    values: Mapping[str, Any] = field(factory=dict[str, Any])


@frozen
class _Shape:
    """How rows become files."""

    mode: str
    partition_by: tuple[str, ...]
    format: str
    via: str = "arrow"
    merge_schema: bool = False
    sort_by: tuple[str, ...] = ()
    files: int = 0
    most_rows: int | None = None


@frozen
class QueryRun:
    """One run of a streaming query: how many batches it did, and how many the query has done since it began."""

    name: str
    batches: int
    total: int


def _no_history(base: str, _folder: str) -> Sequence[At]:
    raise DatasetError("a task that may read earlier commits of its branch", f"none for {base}", "Run it by a worker")


class SparkDatasets:
    """The data sets below a task's prefix. ``staging`` is asked for a sink at the first write, and may refuse."""

    #: Tells a task's signature that this is a workspace, and of which kind.
    perago_workspace: ClassVar[str] = "spark"

    def __init__(
        self,
        spark: SparkSession,
        scope: DatasetScope,
        staging: Callable[[], Sink],
        pin: Callable[[str, str], str] = lambda _path, identity: identity,
        commits: Callable[[str, str], Sequence[At]] = _no_history,
    ) -> None:
        self.spark = spark
        self._scope = scope
        self._staging = staging
        self._pin = pin
        self._commits = commits
        self._checkpoints: dict[str, Checkpoint] = {}
        self._ran: dict[str, QueryRun] = {}
        self._targets: dict[str, WritePlace] = {}
        self._inputs: dict[str, External] = {}
        self._gated: dict[str, str] = {}
        self._failed: set[str] = set()
        #: Folders whose staged rows have not passed everything: their gates, ``rows``, the count of their seals.
        self._unmet: set[str] = set()
        self._sink: Sink | None = None
        self._writes = 0
        self._lock = threading.Lock()
        self._unfinished: set[str] = set()
        self._written: dict[str, Written] = {}
        self._changed: set[str] = set()
        self._tables: dict[str, Table] = {}

    def read(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        filters: Iterable[Filter] = (),
        schema: str = "",
        options: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Read a data set as it is in the input commit: Parquet, CSV, JSON or ORC, by the names of its files.

        ``columns`` and ``filters`` also save work: other columns, and files that cannot hold such rows, are not read.
        Of files that nobody wrote with ``write``, ``schema`` says the columns (``"id bigint, day date"``), and
        ``options`` how text is read: ``sep``, ``header``.
        """
        wanted = tuple(filters)
        known = (condition(column, operation, _values(value)) for column, operation, value in wanted)
        place = ReadPlace(
            self._scope.source,
            self._scope.readable(name),
            None if columns is None else tuple(columns),
            tuple(each for each in known if each is not None),
            self._described(schema),
            text_options(options or {}),
        )
        where = [_column(*each) for each in wanted]
        try:
            self._activate()
            kind = table_kind(self._scope.source, place.folder)
            if kind is not None:
                return self._table(place.folder, kind).read(where, columns)
            frame = self.spark.read.format(FORMAT).options(**place.options()).load()
            for each in where:
                frame = frame.where(each)
        except Exception as error:
            raise explained(error) from error
        return frame

    def write(
        self,
        name: str,
        frame: DataFrame,
        *,
        mode: Mode = "overwrite",
        partition_by: Sequence[str] = (),
        format: Format = "parquet",  # noqa: A002  Spark's own word
        via: Literal["arrow", "native"] = "arrow",
        merge_schema: bool = False,
        sort_by: Sequence[str] = (),
        files: int = 0,
        max_records_per_file: int | None = None,
        gates: Sequence[Demand] = (),
        rows: Rows | None = None,
        observe: Mapping[str, Column] | None = None,
    ) -> Written:
        """Write a data set to this execution's staging. Nobody sees it before the task is published.

        ``mode="overwrite_partitions"`` replaces the partitions that the frame has rows of, once in a task, and leaves
        the others. So does ``"overwrite"`` with ``partition_by`` where Spark's own setting asks for it
        (``spark.sql.sources.partitionOverwriteMode=dynamic``).
        ``merge_schema``: columns that the data set lacks are added to it, and rows without them have nothing there.
        ``sort_by`` sorts the rows within each file; ``files`` is how many there are to be (in a partitioned data set at
        least one for each value), ``max_records_per_file`` how many rows one may have.
        ``via="native"`` lets Spark's own Parquet writer do it: faster, and it sees equal content only by equal files.
        ``gates`` are what must be true of the rows (``gates``), or a suite of another library (``suites``); ``rows`` is
        a promise about their number (``checks``); ``observe`` takes figures on the way (``observed``).
        ``format`` of a table: its own metadata is part of the same commit, and it counts rows itself.
        """
        if format in TABLES:
            unknown = {"via": via == "native", "observe": observe, "gates": gates, "sort_by": sort_by, "files": files}
            _refuse_for_tables(mode, {**unknown, "max_records_per_file": max_records_per_file})
            dynamic = mode == "overwrite" and bool(partition_by) and self._is_dynamic()
            change = TableWrite("overwrite_partitions" if dynamic else mode, tuple(partition_by), merge_schema)
            return self._write_table(name, frame, lambda table: table.write(frame, change), rows, kind=format)
        _check_choice(mode, format, via)
        shape = _Shape(
            mode, tuple(partition_by), format, via, merge_schema, tuple(sort_by), files, max_records_per_file
        )
        return self._write_rows(name, frame, shape, gates, observe, rows=rows)

    def _write_rows(
        self,
        name: str,
        frame: DataFrame,
        shape: _Shape,
        gates: Sequence[Demand],
        observe: Mapping[str, Column] | None,
        *,
        rows: Rows | None = None,
        once: bool = False,
    ) -> Written:
        """Write files and a seal. ``once``: the frame is computed once, so that its gates are counted at once."""
        self._refuse_maintenance(name)
        folder = self._scope.writable(name)
        columns = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
        demanded = gates_of(gates, columns)
        for other in (each.reads for each in demanded if each.reads is not None):
            self._scope.readable(other)
        with self._writing(name):
            by_partition = shape.mode == "overwrite_partitions" or (
                shape.mode == "overwrite" and bool(shape.partition_by) and self._is_dynamic()
            )
            if folder in self._unmet and (by_partition or shape.mode == "append"):
                # What did not pass is staged, and would be published beside these rows.
                raise DatasetError(
                    f"a write that replaces all of {name!r}, whose rows did not pass what was demanded of them",
                    f"mode={shape.mode!r}, which keeps some",
                    "Let the body raise, or overwrite the whole data set",
                )
            place = evolve(
                self._place(folder, shape.partition_by),
                by_partition=by_partition,
                merge_schema=shape.merge_schema,
                format=shape.format,
                most_rows=self._most_rows(shape.most_rows),
            )
            checks = Checks.counting(demanded)
            if demanded and not once:
                checks = Checks.proving(demanded, None if shape.via == "native" else self._provable(columns))
            try:
                figures = self._save(frame, place, shape, checks, observe or {})
            except Exception as error:
                if checks.counts or place.unmet not in str(error):
                    raise
                # Nothing of it was linked. Under another name, because tasks of the first may still be writing.
                _LOG.info("%s: not all gates are met at first sight, the rows are written once more and counted", name)
                place = evolve(place, write=self._place(folder, ()).write)
                checks = Checks.counting(demanded)
                figures = self._save(frame, place, shape, checks, observe or {})
            self._failed.discard(folder)
            self._unmet.add(folder)
            written = self._outcome(name, place, "append" if by_partition else shape.mode)
            if by_partition and not written.changed:
                written = evolve(written, rows=figures.rows())
            if rows is not None:
                rows.check(name, written.rows)
            values = figures.checked(written.rows)
            found = {each: values.pop(each) for each in gate.names(demanded) if each in values}
            self._written[name] = evolve(written, columns=columns, values=values)
            if demanded:
                self._judge(name, place, checks, found)
            self._unmet.discard(folder)
        return self._written[name]

    def _judge(self, name: str, place: WritePlace, checks: Checks, figures: Mapping[str, Any]) -> None:
        """Hold the figures against the gates, write the verdicts beside the rows, and raise if one is not met."""
        listed: tuple[Stored, ...] = value_or_raise(place.sink.list(place.folder))
        seals = [seal for each in listed if (seal := layout.seal_of(each.path)) is not None]
        before = sum(each.rows for each in dataset_of(self._scope.source, place.folder).seals)
        counts = gate.Counts(before, sum(each.rows for each in seals), self._written[name].rows)
        found = checks.verdicts(figures, counts)
        for each in found:
            _LOG.info("%s: %s %s", name, each.gate, "passed" if each.passed else f"FAILED: {each.objection}")
        ours = next((str(each) for each in seals if each.write == place.write), None)
        if ours is not None:
            value_or_raise(place.sink.seal(f"{place.folder}{gate.RECORD}", gate.record(ours, found)))
        if not all(each.passed for each in found):
            self._failed.add(place.folder)
        gate.require(name, found)
        self._gated[place.folder] = ""

    def external(self, place: str) -> str:
        """Return the address of an input from outside, for Spark's own readers, with its identity recorded.

        A path of this machine, or an address of a bucket. Raises ``DatasetError`` if an earlier attempt of this task
        has read something else there; what is published says what it was made from.
        """
        found = external.external(place)
        external.check_pinned(found.identity, self._pin(found.identity.path, found.identity.text()))
        self._inputs[found.identity.path] = found
        return found.address

    def finish(self) -> None:
        """Record the inputs of what was written, and what was staged when the gates were passed. Nothing follows."""
        for each in self._inputs.values():
            external.check_untouched(each)
        if self._sink is None:
            return
        for folder in self._changed:
            if self._inputs:
                inputs = external.record(each.identity for _, each in sorted(self._inputs.items()))
                value_or_raise(self._sink.seal(f"{folder}{external.RECORD}", inputs))
        for folder in self._gated:
            self._gated[folder] = tree_digest(value_or_raise(self._sink.list(folder)))

    @property
    def gated(self) -> Mapping[str, str]:
        """The folders that passed their gates, each with a digest of what is staged."""
        return dict(self._gated)

    @property
    def failed(self) -> tuple[str, ...]:
        """The folders that did not pass their gates."""
        return tuple(sorted(self._failed))

    def upsert(
        self,
        name: str,
        frame: DataFrame,
        *,
        keys: Sequence[str],
        partition_by: Sequence[str] | None = None,
        merge_schema: bool = False,
        gates: Sequence[Demand] = (),
        observe: Mapping[str, Column] | None = None,
    ) -> Written:
        """Put rows into a data set by key: a row replaces those with the same key, all others stay.

        A frame with two rows of one key, or with a row without a key, is refused. Doing it again changes nothing.
        ``values`` of what is returned has ``given`` and ``replaced``, the numbers of rows.
        """
        known = dataset_of(self._scope.source, self._scope.writable(name))
        before = self.read(name) if known else None
        if known.seals:
            schema = plain_schema(frame.schema.json())
            if merge_schema:
                merged_schema(known.seals[-1].schema, schema, known.folder)
            else:
                check_append(known.seals[-1].schema, schema, known.folder)
        by = partition_by if partition_by is not None else known.seals[0].partition_by if known.seals else ()
        format = cast("Format", layout.format_of(known.files[0].path)) if known.files else "parquet"  # noqa: A001  Spark's word
        put = upsert(before, frame, keys, merge_schema=merge_schema)
        with self._only_once(name):
            # What is observed of an upsert is that of its first run.
            shape = _Shape("overwrite", tuple(by), format)
            self._write_rows(name, put.frame, shape, gates, observe, once=True)
            put.check(name)
            written = self._written[name]
            self._written[name] = evolve(written, values={**written.values, **put.counts()})
        return self._written[name]

    def merge(
        self,
        name: str,
        frame: DataFrame,
        *,
        keys: Sequence[str],
        format: Literal["delta", "iceberg"] | None = None,  # noqa: A002  Spark's own word
        merge_schema: bool = False,
        rows: Rows | None = None,
    ) -> Written:
        """Put rows into a table by their key columns: a key that is there gets the new row, any other is added.

        ``format`` is for a table that is not there yet. A key twice in the frame is refused where the table has it.
        ``rows`` of the outcome are those that were put in, with Iceberg also those that were copied beside them.
        """
        if not keys:
            raise DatasetError("the columns that tell rows of the table apart", "keys=[]", "Name at least one")

        def merged(table: Table) -> None:
            table.merge(frame, keys, merge_schema=merge_schema)

        return self._write_table(name, frame, merged, rows, kind=format)

    def stream(self, name: str, *, query: str, columns: Sequence[str] | None = None) -> DataFrame:
        """Read what was added to a data set since the commit up to which this query has read it, as a stream.

        The first run of a query reads all there is. A data set that was compacted meanwhile is read on; one whose rows
        were replaced or removed is refused.
        """
        folder = self._scope.readable(name)
        try:
            self._activate()
            known = self._checkpoint(query)
            head = (self._scope.commit, self._scope.source)
            todo = unread(folder, known.offset(folder), head, self._commit, self._commits)
            place = ReadPlace(self._scope.source, folder, None if columns is None else tuple(columns))
            return self.spark.readStream.format(FORMAT).options(**StreamPlace(place, todo).options()).load()
        except Exception as error:
            raise explained(error) from error

    def target(self, name: str, *, partition_by: Sequence[str] = ()) -> dict[str, str]:
        """Return the options with which a stream writes to a data set: ``writeStream.format("perago").options(...)``.

        Spark 4.1 or newer. ``outputMode("append")`` adds each batch, ``"complete"`` replaces the data set by it.
        """
        self._refuse_maintenance(name)
        with self._only_once(name):
            place = self._place(self._scope.writable(name), tuple(partition_by))
        self._targets[name] = place
        self._unfinished.add(name)
        return place.options()

    def run_query(self, name: str, writer: DataStreamWriter) -> QueryRun:
        """Run a streaming query until it has read all that is there, with its checkpoint as part of this task.

        ``writer`` is Spark's own, with sink and output mode set, not started. What it writes through ``ws`` (in
        ``foreachBatch``, or to ``target``) is published with the offsets and the state that belong to it, or not at
        all; the next run goes on from there. Sinks that write elsewhere are outside.
        """
        self._refuse_maintenance(name)
        if name in self._ran or f"query {name}" in self._unfinished:
            # The batches of a run that failed are in the outputs already, and would be there twice.
            raise DatasetError(f"one run of query {name!r} in a task", "another one before it", "Let the body raise")
        self._unfinished.add(f"query {name}")
        try:
            self._activate()
            known = self._checkpoint(name)
            before = known.batches
            query = writer.queryName(name).option("checkpointLocation", f"{known.place}").trigger(availableNow=True)
            query.start().awaitTermination()
            known.check_ended()
            for each, place in self._targets.items():
                self._written[each] = self._streamed(each, place)
                self._unfinished.discard(each)
                if self._written[each].changed:
                    self._changed.add(place.folder)
            self._targets.clear()
            if known.changed:
                place = self._place(known.folder, ())
                known.stage(place.sink, place.write)
                self._changed.add(known.folder)
        except Exception as error:
            raise explained(error) from error
        self._unfinished.discard(f"query {name}")
        self._ran[name] = QueryRun(name, known.batches - before, known.batches)
        return self._ran[name]

    def compact(self, name: str, *, file_bytes: int = FILE_BYTES) -> Written:
        """Rewrite a data set into files of about this size; leave it as it is if that would not make them fewer."""
        folder = self._scope.writable(name)
        if name in self._written or name in self._unfinished:
            # It would put the rows of the input back.
            raise DatasetError(f"a data set this body has not written: {name!r}", "a write of it", "Compact it alone")
        before = dataset_of(self._scope.source, folder)
        files = wanted_files(before, file_bytes)
        rows = sum(each.rows for each in before.seals)
        with self._writing(name):
            frame = self.read(name)
            by = before.seals[0].partition_by
            written = Written(name, rows, len(before.files), changed=False)
            if files < len(before.files):
                # Rows of one partition value meet in one task, else each task writes a file of each value.
                frame = frame.repartition(files, *by) if by else frame.coalesce(files)
                place = evolve(self._place(folder, by), preserving=True, format=layout.format_of(before.files[0].path))
                self._put(frame, place, "overwrite", "arrow")
                written = self._outcome(name, place, "overwrite")
            columns = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
            self._written[name] = evolve(written, columns=columns)
        return self._written[name]

    def rows(self, name: str) -> int:
        """Count the rows of a data set in the input commit, from its seals; 0 if there is none. Reads no data."""
        before = dataset_of(self._scope.source, self._scope.readable(name))
        if before and not before.seals:
            raise DatasetError(f"a data set with seals: {name!r}", "files without one", "Count it with read().count()")
        return sum(each.rows for each in before.seals)

    def observed(self, name: str) -> Written:
        """Return the outcome of the last write of a data set."""
        if name not in self._written:
            raise DatasetError(
                f"a data set this body has written: {sorted(self._written)}", repr(name), "Write it first"
            )
        return self._written[name]

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The data sets whose last write failed or is not finished; a body that leaves one must not succeed."""
        return tuple(sorted(self._unfinished))

    @property
    def changed(self) -> tuple[str, ...]:
        """The folders that differ from the input."""
        return tuple(sorted(self._changed))

    @contextmanager
    def _writing(self, name: str) -> Generator[None]:
        """Count the data set as unfinished until its write has succeeded."""
        self._unfinished.add(name)
        try:
            yield
        except Exception as error:
            raise explained(error) from error
        self._unfinished.discard(name)
        if self._written[name].changed:
            self._changed.add(self._scope.writable(name))

    @contextmanager
    def _only_once(self, name: str) -> Generator[None]:
        """Let a write that is wrong in hindsight count as unfinished; refuse one that would lose an earlier one."""
        if name in self._written or name in self._unfinished:
            # It is made from the rows of the input, and would undo what was written since.
            raise DatasetError(
                f"a data set this body has not written: {name!r}", "a write of it", "Unite the frames, upsert them once"
            )
        try:
            yield
        except Exception:
            self._unfinished.add(name)
            raise

    def _described(self, schema: str) -> str:
        """Translate Spark's short form of columns into its JSON."""
        if not schema:
            return ""
        from pyspark.sql.types import StructType  # noqa: PLC0415  importable without Spark

        self._activate()
        try:
            return StructType.fromDDL(schema).json()
        except Exception as error:
            raise DatasetError(
                "schema= as in 'id bigint, day date'", f"{schema!r}: {type(error).__name__}", "Correct it"
            ) from error

    def _most_rows(self, wanted: int | None) -> int:
        """Return how many rows a file may have: as asked for, else as Spark's own setting says."""
        if wanted is None:
            self._activate()
            wanted = int(str(self.spark.conf.get(_MOST_ROWS, "0")))
        return max(wanted, 0)

    def _compression(self) -> str:
        """Return what Spark's own setting says of Parquet, as Arrow names it."""
        self._activate()
        wanted = str(self.spark.conf.get(_CODEC, "snappy")).lower()
        if wanted not in _CODECS:
            raise DatasetError(f"{_CODEC} of {', '.join(_CODECS)}", repr(wanted), "Choose one, or write via='native'")
        return _CODECS[wanted]

    def _commit(self, commit: str) -> Source:
        ((_name, source),) = self._commits(commit, "")
        return source

    def _checkpoint(self, query: str) -> Checkpoint:
        """Bring the checkpoint of a query, once in a task, to a folder that no other execution uses."""
        from perago_spark.process.session import sees_folders  # noqa: PLC0415  importable without Spark

        if not sees_folders(self.spark):
            raise DatasetError(
                "a Spark in the task's own process for streams: spark.master local[...]",
                "one on other machines, which cannot see this one's folders",
                "Set spark.master to local[*], or read with ws.read",
            )
        if query not in self._checkpoints:
            folder = self._scope.checkpoint(query)
            place = Path(tempfile.mkdtemp(prefix=f"stream-{query}-"))
            self._checkpoints[query] = Checkpoint(self._scope.source, folder, place)
        return self._checkpoints[query]

    def _streamed(self, name: str, place: WritePlace) -> Written:
        """Compare what the batches of a stream have staged with their seals."""
        listed = value_or_raise(place.sink.list(place.folder))
        problem = discrepancy(listed)
        if problem is not None:
            raise DatasetError(f"the files that the seals of {place.folder!r} name", problem, "Try the task again")
        seals = (seal for each in listed if (seal := layout.seal_of(each.path)) is not None)
        ours = [each for each in seals if each.write.startswith(f"{place.write}-")]
        return Written(name, sum(each.rows for each in ours), sum(each.files for each in ours), bool(ours))

    def _refuse_maintenance(self, name: str) -> None:
        if self._scope.maintenance:
            raise DatasetError(
                "maintenance, which leaves the rows as they are",
                f"a write of {name!r}",
                "Use compact(), or a logical task",
            )

    def _table(self, folder: str, kind: str | None) -> Table:
        """Return the table of a folder, the same one throughout the task: a second write goes on from the first."""
        if folder not in self._tables:
            self._tables[folder] = made_table(self.spark, self._scope.source, folder, kind)
        return self._tables[folder]

    def _write_table(
        self, name: str, frame: DataFrame, change: Callable[[Table], None], rows: Rows | None, *, kind: str | None
    ) -> Written:
        self._refuse_maintenance(name)
        folder = self._scope.writable(name)
        with self._writing(name):
            self._activate()
            table = self._table(folder, kind)
            table.check_staged()
            place = self._place(folder, ())
            change(table)
            made = table.stage(place.sink, place.write)
            if rows is not None:
                rows.check(name, made.rows)
            columns = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
            self._written[name] = Written(name, made.rows, len(made.files), changed=True, columns=columns)
        return self._written[name]

    def _place(self, folder: str, partition_by: tuple[str, ...]) -> WritePlace:
        """Make the target of one write, with a unique identity. The first write asks for staging."""
        with self._lock:
            if self._sink is None:
                self._sink = self._staging()
            self._writes += 1
            write = f"{self._scope.execution}-{self._writes}"
        return WritePlace(self._scope.source, self._sink, folder, write, partition_by, compression=self._compression())

    def _save(
        self, frame: DataFrame, place: WritePlace, shape: _Shape, checks: Checks, observe: Mapping[str, Column]
    ) -> Figures:
        """Have Spark write the rows, and decide what can be decided on the way; return the figures it takes."""
        gated = checks.prepared(frame, self, place.unmet)
        # Partitions that are what they were are not staged: nothing but Spark then knows how many rows they have.
        watched, figures = observing(gated, {**observe, **checks.figures()}, count=place.by_partition)
        plain = without(watched, gate.names(checks.gates))
        shaped = _shaped(plain, shape.files, place.partition_by, shape.sort_by)
        proofs = tuple(checks.proofs.values())
        mode = "append" if place.by_partition else shape.mode
        self._put(shaped, evolve(place, proofs=proofs), mode, shape.via, is_sorted=bool(shape.sort_by))
        return figures

    def _provable(self, columns: Mapping[str, str]) -> Provable:
        """Say what can be shown of columns of these types."""
        from perago_spark.format.proof import Provable  # noqa: PLC0415  importable without Arrow

        return Provable(columns, self._keys)

    def _keys(self, name: str, key: str) -> Any | None:  # noqa: ANN401  Arrow's
        """Return the keys of another data set, if they are few and it is no table."""
        from perago_spark.format.reading import keys_of  # noqa: PLC0415  importable without Arrow

        folder = self._scope.readable(name)
        is_table = table_kind(self._scope.source, folder) is not None
        return None if is_table else keys_of(self._scope.source, folder, key)

    def _put(self, frame: DataFrame, place: WritePlace, mode: str, via: str, *, is_sorted: bool = False) -> None:
        """Have Spark write the frame."""
        self._activate()
        if via == "native":
            from perago_spark.source import native  # noqa: PLC0415  importable without Arrow

            native.write(frame, place, overwrite=mode == "overwrite")
            return
        if place.partition_by:
            # Rows that come sorted need one open file at a time.
            frame = frame if is_sorted else frame.sortWithinPartitions(*place.partition_by)
        frame.write.format(FORMAT).mode(mode).options(**place.options()).save()

    def _is_dynamic(self) -> bool:
        self._activate()
        return str(self.spark.conf.get(_DYNAMIC, "static")).lower() == "dynamic"

    def _activate(self) -> None:
        """Make the session active in the calling thread; without one Spark does not find the data source."""
        from perago_spark.process.session import activate  # noqa: PLC0415  importable without Spark

        activate(self.spark)

    def _outcome(self, name: str, place: WritePlace, mode: str) -> Written:
        """Compare what was staged with its seals. That ``save`` returned proves nothing; the listing does."""
        listed = value_or_raise(place.sink.list(place.folder))
        problem = discrepancy(listed)
        if problem is not None:
            raise DatasetError(f"the files that the seals of {place.folder!r} name", problem, "Try the task again")
        seals = [seal for each in listed if (seal := layout.seal_of(each.path)) is not None]
        ours = [each for each in seals if each.write == place.write]
        counted = ours if mode == "append" or ours else seals
        return Written(name, sum(each.rows for each in counted), sum(each.files for each in counted), bool(ours))


def _refuse_for_tables(mode: str, given: Mapping[str, object]) -> None:
    unknown = [name for name, value in given.items() if value]
    if unknown or mode not in _MODES:
        raise DatasetError(
            f"mode of {', '.join(_MODES)}, and nothing of {', '.join(given)} for a table",
            ", ".join(unknown) or f"mode={mode!r}",
            "Leave it out",
        )


def _check_choice(mode: str, format: str, via: str) -> None:  # noqa: A002  Spark's own word
    if mode not in _MODES or via not in _ROUTES or format not in layout.FORMATS:
        raise DatasetError(
            f"mode of {', '.join(_MODES)}, format of {', '.join(layout.FORMATS)} and via 'arrow' or 'native'",
            f"mode={mode!r}, format={format!r}, via={via!r}",
            "Choose one",
        )
    if via == "native" and format != "parquet":
        raise DatasetError("format 'parquet' with via='native'", repr(format), "Leave via out")


def _shaped(frame: DataFrame, files: int, by: tuple[str, ...], sort_by: tuple[str, ...]) -> DataFrame:
    """Deal rows out to so many tasks, each of which writes its files, and sort them there."""
    if files:
        # Rows of one partition value meet in one task, else each task writes a file of each value.
        frame = frame.repartition(files, *by) if by else frame.repartition(files)
    return frame.sortWithinPartitions(*by, *sort_by) if sort_by else frame


def _values(value: object) -> tuple[object, ...]:
    return tuple(cast("Iterable[object]", value)) if isinstance(value, list | tuple | set | frozenset) else (value,)


def _column(column: str, operation: str, value: Any) -> Column:  # noqa: ANN401  any value of a filter
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; and importable without Spark

    if operation not in OPERATIONS:
        raise DatasetError(f"an operation of {', '.join(OPERATIONS)}", repr(operation), "Use where() for anything else")
    if isinstance(value, list | tuple | set | frozenset) != (operation == "in"):
        raise DatasetError("one value, or a list of values with 'in'", f"{operation} {value!r}", "Correct the filter")
    found = F.col(column)
    if operation == "in":
        return found.isin(list(_values(value)))
    compared: Column = _COMPARISONS[operation](found, value)
    return compared


#: What the rows are counted under.
_ROWS: Final = "perago rows"


@frozen
class Figures:
    """What Spark observes while it writes; ``None`` where nothing was asked for."""

    observation: Observation | None

    def rows(self) -> int:
        """Return how many rows were written."""
        assert self.observation is not None, "asked for by whoever wants their number"
        return int(cast("int", self.observation.get[_ROWS]))

    def checked(self, rows: int) -> dict[str, Any]:
        """Return the figures; refuse them if they are not those of so many rows."""
        if self.observation is None:
            return {}
        if self.rows() != rows:
            raise DatasetError(f"as many rows observed as sealed: {rows}", str(self.rows()), "Try the task again")
        return {name: value for name, value in self.observation.get.items() if name != _ROWS}


def observing(frame: DataFrame, wanted: Mapping[str, Column], *, count: bool = False) -> tuple[DataFrame, Figures]:
    """Return the frame with figures observed, and where they will be found. ``count``: at least that of its rows."""
    if not wanted and not count:
        return frame, Figures(None)
    from pyspark.sql import Observation  # noqa: PLC0415  importable without Spark
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; as above

    observation = Observation()
    watched = frame.observe(
        observation, F.count(F.lit(1)).alias(_ROWS), *(each.alias(name) for name, each in wanted.items())
    )
    return watched, Figures(observation)
