"""Settings of Spark that this adapter decides itself, refused by name: ignored in silence, they would mislead.

Counterexample, seen: ``spark.sql.sources.partitionOverwriteMode=dynamic`` was set and had no effect, and the run of one
day removed all others. That one is honoured now; what cannot be is refused here, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

_COMMITTER: Final = "Leave it out: files become part of a data set only by this way of Spark's to commit a job"
_LOCAL: Final = "Leave it out: it decides how files of this machine are written beside a data set"
_OWN: Final[Mapping[str, str]] = {
    "spark.master": "Set master in [spark] instead",
    "spark.remote": "Set remote in [spark] instead",
    "spark.api.mode": "Set remote in [spark] instead; with it a session is one of Spark Connect",
    "spark.pyspark.driver.python": "Leave it out: a body runs in the worker's own Python; workers of Spark take "
    "spark.pyspark.python",
    "mapreduce.fileoutputcommitter.algorithm.version": _COMMITTER,
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": _COMMITTER,
    "fs.file.impl": _LOCAL,
    "fs.file.impl.disable.cache": _LOCAL,
}
#: Settings of which one value is what is done anyway.
_ONLY: Final[Mapping[str, tuple[str, str]]] = {
    "spark.sql.parquet.outputTimestampType": (
        "TIMESTAMP_MICROS",
        "Leave it out: points in time are written as microseconds, else they have no least and greatest value",
    ),
}
_HADOOP: Final = "spark.hadoop."


def refusals(conf: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each key that would have no effect. No value is quoted: it may be a secret."""
    for key, value in conf.items():
        fix = _OWN.get(key.removeprefix(_HADOOP))
        only, instead = _ONLY.get(key, (value, ""))
        if fix is not None:
            yield f"{key} would have no effect. {fix}"
        elif value.upper() != only.upper():
            yield f"{key} would have no effect. {instead}"
