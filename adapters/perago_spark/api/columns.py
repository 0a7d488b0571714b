"""Names of columns in SQL, and a frame without columns that were added on the way.

That by what is kept: Spark's own call for it has the name of one by which a store gives a place up, and no code here
may have such a word (``tests/spark/test_secrets.py``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return f"`{name.replace('`', '``')}`"


def without(frame: DataFrame, names: Collection[str]) -> DataFrame:
    """Return the frame without these columns; names it does not have are no matter."""
    if not any(each in names for each in frame.columns):
        return frame
    return frame.select(*(quoted(each) for each in frame.columns if each not in names))
