"""A Delta table under faults: whatever breaks, it is what one attempt wrote, or what it was."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from tests.specs.evidence import note_count
from tests.support.crash.seeds import FULL, seed
from tests.tables.faults import play
from tests.tables.rounds import TableHarness


def test_a_delta_table_is_what_one_attempt_wrote_or_what_it_was(harness: TableHarness) -> None:
    told = play(harness, seed() if FULL else 7)
    if FULL:
        note_count("tests/tables/test_delta_faults.py", told)
