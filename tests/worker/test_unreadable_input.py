"""An input that is no JSON may hold a password: the reason says where it is wrong and quotes nothing of it."""

from __future__ import annotations

import pytest

from perago_core.results import FailedTerminally
from tests.worker.support import Bench

UNREADABLE = {
    '"geheim': "Unterminated string starting at: line 1 column 1",
    '{"password": "geheim" "more"}': "Expecting ',' delimiter: line 1 column 23",
    '{"password": "\\geheim"}': "Invalid \\escape: line 1 column 15",
    "geheim": "Expecting value: line 1 column 1",
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_the_reason_quotes_nothing(bench: Bench, text: str) -> None:
    result = bench.run("write", lambda _ref: text).result
    assert isinstance(result, FailedTerminally)
    assert UNREADABLE[text] in str(result.refusal)
    assert "geheim" not in str(result)
