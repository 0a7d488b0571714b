"""Spark's workers collect garbage after each task, and so walk through every module that was ever imported there.

With the client of a store among them that takes 80 ms, more than a small task itself: ten thousand tasks of a few rows
took ten minutes for it. What is imported stays anyway, so it is taken out of every later walk, once.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def spare_imports() -> None:
    """Do it once, when everything needed has been imported."""
    spare_what_lives()


def spare_what_lives() -> None:
    """Leave what lives now out of later collections: also for what a function remembers from task to task."""
    gc.freeze()
