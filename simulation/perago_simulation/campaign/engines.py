"""Who makes the schedules: anything that does a function to many items and gives the results as they come."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Protocol, TypeVar

from attrs import frozen

from perago_core.errors import PeragoError
from perago_core.value import Value

T = TypeVar("T")
R = TypeVar("R")


class EngineError(PeragoError):
    """Whoever makes the schedules cannot; says why in one line. What came before it stays good."""


class Engine(Protocol):
    """Does work somewhere. Results come in any order; one that is lost raises, and what came before it stays good."""

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Do this to each item."""
        ...


@frozen(repr=False)
class Processes(Value):
    """Processes of this machine, as many as it has processors if nobody says."""

    count: int | None = None

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Do this to each item."""
        # Spawned, not forked: a forked child would inherit whatever threads and locks the caller happens to have.
        with ProcessPoolExecutor(self.count or os.cpu_count() or 1, get_context("spawn")) as pool:
            waiting = [pool.submit(function, each) for each in items]
            try:
                for each in as_completed(waiting):
                    yield each.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
