"""Both routes on a real lakeFS: Spark's own writer through the S3 gateway, and the data source with its links."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from perago_core.answers import NotDone
from perago_core.ports import Stored
from perago_lakefs import Connection
from perago_spark import SparkSettings
from perago_spark.errors import DatasetError
from perago_spark.format.seal import discrepancy
from perago_spark.source.options import WritePlace
from tests.cluster import s3a
from tests.cluster.lakes import LakeFSLake
from tests.cluster.servers import search_path
from tests.spark.lake import done
from tests.support.servers.faulty_proxy import FaultyProxy, Gate, Handling, always
from tests.support.servers.lakefs import LakeFS
from tests.support.servers.waiting import until

pytest.importorskip("pyspark")

from perago_spark.process.java import java_environment
from perago_spark.process.session import open_session
from perago_spark.source import native
from tests.spark.frames import numbers, read, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.update(java_environment(os.environ), PYTHONPATH=search_path())
    conf = {"spark.jars": s3a.jars(), "spark.driver.memory": "640m", "spark.sql.shuffle.partitions": "2"}
    session = open_session(SparkSettings("local[2,4]", conf), tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def lake(lakefs_server: LakeFS) -> LakeFSLake:
    return LakeFSLake(lakefs_server)


def write_natively(lake: LakeFSLake, frame: DataFrame, write: str, *by: str, overwrite: bool = True) -> None:
    native.write(frame, WritePlace(lake.source(), lake.stage(), "sales/orders/", write, by), overwrite=overwrite)


def test_what_is_written_natively_is_what_is_read(spark: SparkSession, lake: LakeFSLake) -> None:
    frame = numbers(spark)
    write_natively(lake, frame, "w-1", "k")
    ref = lake.committed()
    assert ref is not None
    options = lake.reading(ref, "sales/orders/")
    found = spark.read.format("perago").options(**options).load()
    assert (found.count(), found.distinct().count()) == (1000, 1000)
    assert found.exceptAll(frame).count() == 0
    assert not [each for each in lake.paths(ref) if "_temporary" in each or "_SUCCESS" in each or each.endswith("/")]
    assert lake.paths(lake.head) == ["README"]


def test_the_route_that_links_gives_the_same_rows(spark: SparkSession, lake: LakeFSLake) -> None:
    ref = write(lake, numbers(spark), "w-1")
    assert ref is not None
    found = read(spark, lake, ref)
    assert (found.count(), found.distinct().count()) == (1000, 1000)


def test_ten_thousand_tasks_of_which_few_have_rows(spark: SparkSession, lake: LakeFSLake) -> None:
    """Acceptance 7: the driver takes ten thousand messages; two requests for each file and none for a task without."""
    frame = spark.range(0, 10_000, 1, 10_000).where("id % 100 = 7").selectExpr("id", "id % 3 k", "'n' name")
    assert frame.rdd.getNumPartitions() == 10_000
    ref = write(lake, frame, "w-1")
    assert ref is not None
    found = read(spark, lake, ref)
    assert (found.count(), found.distinct().count()) == (100, 100)
    assert len([each for each in lake.paths(ref) if each.endswith(".parquet")]) == 100


def test_the_root_of_a_branch_is_refused(spark: SparkSession, lake: LakeFSLake) -> None:
    """There an overwrite through the gateway fails and empties the branch."""
    with pytest.raises(DatasetError, match="below the root"):
        native.write(numbers(spark), WritePlace(lake.source(), lake.stage(), "", "w-1", ()), overwrite=True)


def test_a_surplus_file_of_the_job_is_refused_and_nothing_is_staged(spark: SparkSession, lake: LakeFSLake) -> None:
    """A late attempt's second file: every row of it is there already."""
    place = WritePlace(lake.source(), lake.stage(), "sales/orders/", "w-1", ())
    area = done(place.sink.native_area(place.folder, place.write))  # type: ignore[attr-defined]  # stores that have one
    numbers(spark).write.options(**area.options).parquet(area.uri)
    listed: tuple[Stored, ...] = done(area.list())
    native.check_job(area, place.folder, 1000)
    (first, *_) = [each for each in listed if each.path.endswith(".parquet")]
    copied = first.path.replace("part-00000", "part-00009")
    done(place.sink.put(f"{area.folder}{copied}", BytesIO(done(area.tail(first, first.size)))))
    with pytest.raises(DatasetError, match=r"expected the 1000 rows that the job has counted .*; found 1250"):
        native.check_job(area, place.folder, 1000)
    assert done(place.sink.list("sales/")) == ()


def test_a_late_link_meets_a_name_that_is_gone(lake: LakeFSLake) -> None:
    """Acceptance 6, on the real server: the bytes are there, the name is not."""
    sink = lake.stage()
    stored = done(sink.put("sales/orders/part-00000.w-1.0-0.parquet", BytesIO(b"rows")))
    done(lake.store.drop(lake.target, lake.staging))
    assert isinstance(sink.link((stored,)), NotDone)
    assert isinstance(sink.seal("sales/orders/_seal", b"{}"), NotDone)
    assert lake.stagings() == ()


def test_four_thousand_files_are_linked_side_by_side(lakefs_server: LakeFS) -> None:
    """At 10 ms latency one after the other would be 40 s and more; lakeFS's own committer needed 22 minutes."""
    gate = Gate()
    with ThreadPoolExecutor(1) as pool, FaultyProxy(lakefs_server.url) as proxy:
        through = Connection(proxy.url, lakefs_server.access_key, lakefs_server.secret_key, pool=32)
        lake = LakeFSLake(lakefs_server, through)
        sink = lake.stage()
        one = done(sink.put("sales/orders/part-00000.w-1.0-0.parquet", BytesIO(b"rows")))
        paths = [f"sales/orders/part-{number:05d}.w-1.0-0.parquet" for number in range(4000)]
        stored = tuple(Stored(path, one.address, one.checksum, one.size) for path in paths)
        # Nothing goes on until all connections are busy, which a machine under load takes its time for.
        proxy.script = always(Handling(delay=0.01, before=gate))
        proxy.forget()
        linking = pool.submit(sink.link, stored)
        until(lambda: proxy.in_flight == 32)
        began = time.monotonic()
        gate.open()
        done(linking.result())
        took = time.monotonic() - began
        assert sum(proxy.counts().values()) <= 4001
        assert proxy.most_in_flight == 32
        proxy.script = always(Handling())
        assert len(done(sink.list("sales/orders/"))) == 4000
        assert discrepancy(done(sink.list("sales/orders/"))) is not None
    print(f"4,000 files linked in {took:.1f} s")  # noqa: T201  the figure
