"""A parallel map on Spark, with the results as they come: the engine of simulation campaigns."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, TypeVar

from attrs import field, frozen

from perago_spark.process.java import java_environment
from perago_spark.process.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")
#: Items of one job for each slot.
_EACH: Final = 4


@frozen
class SparkMap:
    """Starts Spark for one pass over the items, and stops it after.

    Function and items must be importable by the workers: on a cluster, install the project there or give
    ``spark.submit.pyFiles``.
    """

    settings: SparkSettings = field(factory=SparkSettings)

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Apply the function to each item; yield the results in the order they are done."""
        os.environ.update(java_environment(os.environ))
        # RDDs take it from here, and not from the setting that frames take it from.
        if self.settings.master.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        from perago_spark.process.session import open_session  # noqa: PLC0415  importable without Spark

        with TemporaryDirectory(prefix="perago-spark-") as scratch:
            session = open_session(self.settings, Path(scratch))
            try:
                yield from mapped(session.sparkContext, function, items)
            finally:
                session.stop()


def mapped(context: SparkContext, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield the results as they come, one job of items at a time.

    Not one large job: its results are there only when all of them are, and whoever is killed before that has nothing.
    Not one job for each item either, which costs half as much again. Two jobs run at a time, so that the tasks of the
    next fill the slots that the last tasks of one leave free.
    """
    at_once = _EACH * context.defaultParallelism

    def one(item: T) -> R:
        result = function(item)
        # Also what the function caches from item to item: see ``format.arrow`` for what a collection costs.
        gc.freeze()
        return result

    def job(some: Sequence[T]) -> list[R]:
        return context.parallelize(some, len(some)).map(one).collect()

    with ThreadPoolExecutor(2, "perago-spark") as pool:
        jobs = [pool.submit(job, items[at : at + at_once]) for at in range(0, len(items), at_once)]
        try:
            for each in as_completed(jobs):
                yield from each.result()
        finally:
            for each in jobs:
                each.cancel()
            context.cancelAllJobs()
