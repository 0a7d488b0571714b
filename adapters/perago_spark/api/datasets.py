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
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, cast

from attrs import evolve, field, frozen

from perago_core.ports import Sink, Source
from perago_spark.api.checks import Rows
from perago_spark.diagnosis.failures import explained
from perago_spark.errors import DatasetError, value_or_raise
from perago_spark.format import layout
from perago_spark.format.compaction import FILE_BYTES, wanted_files
from perago_spark.format.pruning import OPERATIONS, condition
from perago_spark.format.seal import dataset_of, discrepancy
from perago_spark.source.options import FORMAT, ReadPlace, WritePlace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

#: A column, an operation and a value: ``("day", ">=", date(2024, 5, 1))``, ``("country", "in", ["de", "fr"])``.
Filter: TypeAlias = tuple[str, str, Any]
Mode: TypeAlias = Literal["append", "overwrite", "overwrite_partitions"]
_MODES: Final = ("append", "overwrite", "overwrite_partitions")
#: Spark's own word for replacing only the partitions that are written.
_DYNAMIC: Final = "spark.sql.sources.partitionOverwriteMode"
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
class DatasetScope:
    """What a body may touch: its execution, the commit it reads, and the prefix it may write below.

    ``maintenance``: it may only write what leaves the content as it is (H-11).
    """

    execution: str
    source: Source
    prefix: str
    read_only: bool
    maintenance: bool = False


class SparkDatasets:
    """The data sets below a task's prefix. ``staging`` is asked for a sink at the first write, and may refuse."""

    #: Tells a task's signature that this is a workspace, and of which kind.
    perago_workspace: ClassVar[str] = "spark"

    def __init__(self, spark: SparkSession, scope: DatasetScope, staging: Callable[[], Sink]) -> None:
        self.spark = spark
        self._scope = scope
        self._staging = staging
        self._sink: Sink | None = None
        self._writes = 0
        self._lock = threading.Lock()
        self._unfinished: set[str] = set()
        self._written: dict[str, Written] = {}
        self._changed: set[str] = set()

    def read(self, name: str, *, columns: Sequence[str] | None = None, filters: Iterable[Filter] = ()) -> DataFrame:
        """Read a data set as it is in the input commit.

        ``columns`` and ``filters`` also save work: other columns, and files that cannot hold such rows, are not read.
        """
        wanted = tuple(filters)
        known = (condition(column, operation, _values(value)) for column, operation, value in wanted)
        place = ReadPlace(
            self._scope.source,
            layout.folder(self._scope.prefix, name),
            None if columns is None else tuple(columns),
            tuple(each for each in known if each is not None),
        )
        where = [_column(*each) for each in wanted]
        try:
            self._activate()
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
        format: Literal["parquet"] = "parquet",  # noqa: A002  Spark's own word
        via: Literal["arrow", "native"] = "arrow",
        rows: Rows | None = None,
        observe: Mapping[str, Column] | None = None,
    ) -> Written:
        """Write a data set to this execution's staging. Nobody sees it before the task is published.

        ``mode="overwrite_partitions"`` replaces the partitions that the frame has rows of, once in a task, and leaves
        the others. So does ``"overwrite"`` with ``partition_by`` where Spark's own setting asks for it
        (``spark.sql.sources.partitionOverwriteMode=dynamic``).
        ``via="native"`` lets Spark's own Parquet writer do it: faster, and it sees equal content only by equal files.
        ``rows`` is a promise about their number (``contracts``); ``observe`` takes figures on the way (``observed``).
        """
        if mode not in _MODES or via not in _ROUTES or format != "parquet":
            raise DatasetError(
                "mode 'append', 'overwrite' or 'overwrite_partitions', format 'parquet' and via 'arrow' or 'native'",
                f"mode={mode!r}, format={format!r}, via={via!r}",
                "Choose one",
            )
        if self._scope.maintenance:
            raise DatasetError(
                "maintenance, which leaves the rows as they are",
                f"a write of {name!r}",
                "Use compact(), or a logical task",
            )
        folder = layout.folder(self._scope.prefix, name)
        with self._writing(name):
            by_partition = mode == "overwrite_partitions" or (
                mode == "overwrite" and bool(partition_by) and self._is_dynamic()
            )
            # Partitions that are what they were are not staged: nothing but Spark then knows how many rows they have.
            observed_frame, figures = observing(frame, observe or {}, count=by_partition)
            place = evolve(self._place(folder, tuple(partition_by)), by_partition=by_partition)
            spark_mode = "append" if by_partition else mode
            self._save(observed_frame, place, spark_mode, via)
            written = self._outcome(name, place, spark_mode)
            if by_partition and not written.changed:
                written = evolve(written, rows=figures.rows())
            if rows is not None:
                rows.check(name, written.rows)
            columns = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
            self._written[name] = evolve(written, columns=columns, values=figures.checked(written.rows))
        return self._written[name]

    def compact(self, name: str, *, file_bytes: int = FILE_BYTES) -> Written:
        """Rewrite a data set into files of about this size; leave it as it is if that would not make them fewer."""
        folder = layout.folder(self._scope.prefix, name)
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
                place = evolve(self._place(folder, by), preserving=True)
                self._save(frame, place, "overwrite", "arrow")
                written = self._outcome(name, place, "overwrite")
            columns = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
            self._written[name] = evolve(written, columns=columns)
        return self._written[name]

    def rows(self, name: str) -> int:
        """Count the rows of a data set in the input commit, from its seals; 0 if there is none. Reads no data."""
        before = dataset_of(self._scope.source, layout.folder(self._scope.prefix, name))
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
        if self._scope.read_only:
            raise DatasetError(
                "a task that may write", f"a write of {name!r} in a read-only one", "Declare it writable"
            )
        self._unfinished.add(name)
        try:
            yield
        except Exception as error:
            raise explained(error) from error
        self._unfinished.discard(name)
        if self._written[name].changed:
            self._changed.add(layout.folder(self._scope.prefix, name))

    def _place(self, folder: str, partition_by: tuple[str, ...]) -> WritePlace:
        """Make the target of one write, with a unique identity. The first write asks for staging."""
        with self._lock:
            if self._sink is None:
                self._sink = self._staging()
            self._writes += 1
            write = f"{self._scope.execution}-{self._writes}"
        return WritePlace(self._scope.source, self._sink, folder, write, partition_by)

    def _save(self, frame: DataFrame, place: WritePlace, mode: str, via: str) -> None:
        """Have Spark write the frame."""
        self._activate()
        if via == "native":
            from perago_spark.source import native  # noqa: PLC0415  importable without Arrow

            native.write(frame, place, overwrite=mode == "overwrite")
            return
        if place.partition_by:
            # Rows that come sorted need one open file at a time.
            frame = frame.sortWithinPartitions(*place.partition_by)
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
