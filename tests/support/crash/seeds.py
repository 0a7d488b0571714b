"""How much is played, and where chance comes from: another seed each time, printed, so that it can be played again."""

from __future__ import annotations

import os
import secrets

VARIABLE = "PERAGO_CRASH_SEED"
#: ``make test-full`` plays all there is; everybody else a sample.
FULL = os.environ.get("PERAGO_MATRIX") == "full"


def seed() -> int:
    """Return the seed that was asked for, or a new one; the figure a test prints names it."""
    return int(os.environ.get(VARIABLE) or secrets.randbelow(1_000_000))
