"""Spark writes to a bucket: from executors, each file once; what those leave who die is collected, and never read.

The bucket is a real S3, behind a proxy that sees every request. The cluster is started before the tests say where the
bucket is, and its executors have no variable that says so: they know it from the sink that was sent to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from secrets import token_hex

import pytest
from attrs import evolve

from perago_bucket.client import bucket
from tests.cluster.lakes import BucketLake
from tests.cluster.servers import HOSTS, Standalone
from tests.spark import scenarios
from tests.spark.fault_harness import FaultHarness, completed
from tests.spark.lake import done
from tests.support.bucket.harness import connection_to
from tests.support.servers.faulty_proxy import FaultyProxy
from tests.support.servers.sharing import shared_versitygw

pytest.importorskip("pyspark")

#: What a write of four tasks uploads: their files, and the seal that names them.
UPLOADED = 4 + 1


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultyProxy]:
    with FaultyProxy(shared_versitygw().url) as proxy:
        yield proxy


@pytest.fixture
def lake(proxy: FaultyProxy) -> BucketLake:
    """Give a prefix of its own, reached through the proxy."""
    connection = connection_to(shared_versitygw(), token_hex(8))
    options = tuple((name, proxy.url if name == "aws_endpoint_url" else value) for name, value in connection.options)
    made = BucketLake(evolve(connection, options=options))
    proxy.forget()
    return made


def uploads(proxy: FaultyProxy) -> Counter[str]:
    """Count the uploads of bytes of files, by their object."""
    return Counter(each.path for each in list(proxy.seen) if each.method == "PUT" and "/data/perago-" in each.path)


def held(lake: BucketLake) -> set[str]:
    """Collect what nothing reaches, and name the objects with bytes of files that are left."""
    done(lake.store.collect_objects(lake.target.repository, (), 0.0))
    found = bucket(lake.connection).list(f"{lake.target.repository}/data")
    return {each.key for each in found if "/data/perago-" in each.key}


def named(lake: BucketLake) -> set[str]:
    """Name the objects that the head needs."""
    listed = done(lake.source().list())
    return {f"{lake.target.repository}/data/{each.address}" for each in listed if each.path != "README"}


def test_executors_write_straight_to_the_bucket_and_every_file_once(
    harness: FaultHarness, lake: BucketLake, proxy: FaultyProxy, cluster: Standalone
) -> None:
    completed(harness.run("none"))
    harness.published()
    assert list(uploads(proxy).values()) == [1] * UPLOADED
    assert held(lake) == named(lake)
    assert len(held(lake)) == UPLOADED
    ran = cluster.applications()
    assert len(ran) == len(HOSTS)
    assert ran[0] & ran[1], "both executors have worked for it"


def test_a_task_whose_executor_died_counts_once_and_what_it_had_uploaded_is_collected(
    harness: FaultHarness, lake: BucketLake, proxy: FaultyProxy
) -> None:
    scenarios.counts_once(harness, "executor SIGKILL")
    assert list(uploads(proxy).values()) == [1] * (UPLOADED + 1), "under another name: nothing is written over"
    assert held(lake) == named(lake)
    assert len(held(lake)) == UPLOADED


def test_a_commit_that_fails_half_way_publishes_nothing_and_the_next_attempt_all(
    harness: FaultHarness, lake: BucketLake
) -> None:
    scenarios.fails_half_way(harness, "half a link")
    assert held(lake) == named(lake)


def test_a_lost_attempt_links_nothing_any_more(harness: FaultHarness, lake: BucketLake) -> None:
    scenarios.lost(harness, "hold put")
    assert held(lake) == set()


def test_a_killed_driver_publishes_nothing(harness: FaultHarness, lake: BucketLake) -> None:
    scenarios.killed(harness, "hold link")
    assert held(lake) == set()
