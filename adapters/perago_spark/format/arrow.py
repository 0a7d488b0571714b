"""pyarrow, imported once and typed ``Any``, and ``gc.freeze`` for what is imported along with it.

pyarrow has no type information: imported here, no other module needs to silence a type checker.

A Python worker of Spark runs a full garbage collection after each task, which walks every module ever imported there.
With pyarrow and the client of a store among them that takes 80 ms, more than a small task itself: ten thousand tasks of
a few rows spent ten minutes on it. ``gc.freeze`` takes what lives now out of every later collection.
"""

from __future__ import annotations

import gc
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")
pq: Any = import_module("pyarrow.parquet")

Batch: TypeAlias = Any
Column: TypeAlias = Any
Footer: TypeAlias = Any
Kind: TypeAlias = Any
Schema: TypeAlias = Any


@cache
def freeze_imports() -> None:
    """Freeze once per process. Call it when everything that a task needs has been imported."""
    gc.freeze()
