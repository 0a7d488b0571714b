"""Upsert: rows of a frame replace those of a data set with the same key; the others stay.

    ws.upsert("customers", changed, keys=["id"])

Both are put together, the rows of each key meet, and the data set keeps the frame's row if there is one: one pass, in
which the frame is computed once. Computed twice, for its keys and for its rows, a frame that is not the same each time
(``rand``, a changing source) could remove a row and not bring the one that replaces it.

Which of two rows of one key counts would be chance, so a frame that has two is refused, and so is one without a key: a
missing value equals nothing, and the row would be added once more by each retry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from perago_spark.api.columns import without
from perago_spark.errors import DatasetError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

_NEW: Final = "perago new"
_COUNT: Final = "perago count"


@frozen
class Upsert:
    """The rows that a data set is to have, and what was seen on the way to them; known once they are written."""

    frame: DataFrame
    keys: tuple[str, ...]
    seen: Observation

    def check(self, name: str) -> None:
        """Raise unless each row of the frame had a key, and each key one row."""
        found: dict[str, Any] = dict(self.seen.get)
        keys = ", ".join(self.keys)
        if found["twice"] is not None:
            raise DatasetError(
                f"one row for each key ({keys}) in what is put into {name!r}",
                f"more than one with {found['twice']}",
                "Choose one of them first, for example with dropDuplicates or a window",
            )
        if found["without"]:
            raise DatasetError(
                f"a value in each key column ({keys}) of what is put into {name!r}",
                f"{found['without']} row(s) without one",
                "Leave these rows out, or give them a key",
            )

    def counts(self) -> dict[str, int]:
        """Return how many rows the frame had, and how many of the data set they replace."""
        found: dict[str, Any] = dict(self.seen.get)
        return {"given": int(found["given"]), "replaced": int(found["replaced"])}


def upsert(before: DataFrame | None, frame: DataFrame, keys: Sequence[str], *, merge_schema: bool) -> Upsert:
    """Put a frame and the data set it goes into together. ``before``: ``None`` if there is none yet."""
    from pyspark.sql import Observation, Window  # noqa: PLC0415  importable without Spark
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  Spark's custom; as above

    unknown = [each for each in keys if each not in frame.columns]
    if unknown or not keys:
        raise DatasetError(f"keys= among the columns {', '.join(frame.columns)}", ", ".join(unknown) or "none", "Name")
    both = frame.withColumn(_NEW, F.lit(1))
    if before is not None:
        both = before.withColumn(_NEW, F.lit(0)).unionByName(both, allowMissingColumns=merge_schema)
    of_key = Window.partitionBy(*keys)
    both = both.withColumn(_COUNT, F.sum(_NEW).over(of_key))
    is_new, key = F.col(_NEW) == 1, F.to_json(F.struct(*keys))
    seen = Observation()
    watched = both.observe(
        seen,
        F.min(F.when(is_new & (F.col(_COUNT) > 1) & ~_missing(keys), key)).alias("twice"),
        F.count_if(is_new & _missing(keys)).alias("without"),
        F.count_if(is_new).alias("given"),
        F.count_if(~is_new & (F.col(_COUNT) > 0)).alias("replaced"),
    )
    kept = without(watched.where(is_new | (F.col(_COUNT) == 0)), (_NEW, _COUNT))
    return Upsert(kept, tuple(keys), seen)


def _missing(keys: Sequence[str]) -> Any:  # noqa: ANN401  a column
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  as above

    found: Any = F.lit(False)  # noqa: FBT003  Spark's
    for each in keys:
        found = found | F.col(each).isNull()
    return found
