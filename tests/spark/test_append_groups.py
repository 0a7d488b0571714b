"""How rows are laid out: small batches become large row groups, and a full file is followed by another."""

from __future__ import annotations

from io import BytesIO
from itertools import count

import pytest

pytest.importorskip("pyarrow")

from perago_spark.format.arrow import pa, pq
from perago_spark.format.parquet import Uploads
from tests.spark.lake import Lake, done

BATCH = pa.RecordBatch.from_pydict({"id": list(range(100)), "name": [f"row {number}" for number in range(100)]})


def groups(lake: Lake, batches: int, **limits: int) -> list[int]:
    """Write so many batches; give the row groups of each file."""
    numbers = count()
    sink = lake.stage()
    written = Uploads(sink, "orders/", (), lambda: f"part-{next(numbers)}.parquet", **limits).write([BATCH] * batches)
    done(sink.link(tuple(stored for stored, _ in written)))
    at = lake.committed()
    assert at is not None
    found: list[int] = []
    for stored, file in written:
        with done(lake.source(at).get(stored.path)) as stream:
            read = pq.ParquetFile(BytesIO(stream.read()))
        assert read.metadata.num_rows == file.rows
        found.append(read.num_row_groups)
    assert sum(file.rows for _, file in written) == batches * BATCH.num_rows
    return found


def test_small_batches_become_one_row_group(lake: Lake) -> None:
    """A group for each of Spark's batches takes three times as long to write, and more to read."""
    assert groups(lake, 50) == [1]


def test_a_full_file_is_followed_by_another(lake: Lake) -> None:
    assert len(groups(lake, 50, full=1_000)) > 1
