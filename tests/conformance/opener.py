"""How an implementation is opened for a test: in an empty folder; whatever it starts, it stops."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias, TypeVar

H = TypeVar("H")
Opener: TypeAlias = Callable[[Path], AbstractContextManager[H]]
