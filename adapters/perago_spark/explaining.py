"""From the long texts of the Java side to the one line that says what to do.

A data source runs in processes that Spark starts; what is raised there arrives as an exception of Spark, with our
own words somewhere inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from perago_spark.errors import DatasetError, StoppedError

_OURS: Final = re.compile(r"perago_spark\.errors\.DatasetError: expected (.+?); found (.+)\. ([^\n]+?)\.\s*(?:\n|$)")
_KNOWN: Final[Mapping[str, DatasetError]] = {
    "No module named 'pyarrow'": DatasetError(
        "pyarrow in the Python that Spark starts for its workers",
        "none there",
        "Set spark.pyspark.python to this interpreter, or install pyarrow on the executors",
    ),
    "No module named 'perago": DatasetError(
        "perago-core in the Python that Spark starts for its workers",
        "none there",
        "Set spark.pyspark.python to this interpreter, or install perago-core[spark] on the executors",
    ),
    "DATA_SOURCE_NOT_FOUND": DatasetError(
        "a thread that belongs to a Spark session",
        "one without, so that Spark does not find the data source",
        "Call it from the thread of the body, or set the active session in your own",
    ),
    "cancelled": DatasetError("a job that runs to its end", "a cancelled one", "The attempt was lost or timed out"),
}


def explained(error: BaseException) -> Exception:
    """Give the exception to raise instead: ours if one is inside, a known cause, or the error itself."""
    if isinstance(error, DatasetError | StoppedError):
        return error
    for text in _texts(error):
        found = _OURS.search(text)
        if found is not None:
            return DatasetError(*found.groups())
    for text in _texts(error):
        for sign, meaning in _KNOWN.items():
            if sign in text:
                return meaning
    return error if isinstance(error, Exception) else RuntimeError(str(error))


def _texts(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield str(at)
        at = at.__cause__ or at.__context__
