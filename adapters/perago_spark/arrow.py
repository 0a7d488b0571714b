"""pyarrow, in one place. It comes without types, so that for type checkers it is anything; so are its batches here."""

from __future__ import annotations

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
