"""Values cross process boundaries whole: a plan to a racer, a state to another explorer."""

from __future__ import annotations

import copy
import pickle

import pytest

from perago_core import fence, start
from perago_core.value import Value
from perago_core.values import Attempt, Backing, Commit, CommitRef, Head, StagedRef, Target

ATTEMPT = Attempt("wf", "task", 0, "wf/step", 1, "run", Target("lake", "main"), CommitRef("A"), Backing.ATOMIC)
CASE = fence.Case(ATTEMPT, StagedRef("lake", "name", CommitRef("C"), "tree"), Head(Commit(CommitRef("A"), (), "t")))
DECISION = fence.decide(CASE)
STATE = start(ATTEMPT).state


@pytest.mark.parametrize("value", [ATTEMPT, CASE, DECISION, STATE, STATE.known], ids=lambda value: type(value).__name__)
def test_a_value_survives_being_sent_elsewhere(value: Value) -> None:
    """Without slots a class takes the state of its slotted base, which has no fields: every field was lost."""
    if not isinstance(value, fence.Case):
        hash(value)  # a cached hash must not travel: strings hash differently in every process
    sent = pickle.loads(pickle.dumps(value))  # noqa: S301  our own pickle
    assert sent == value
    assert b"_attrs_cached_hash" not in pickle.dumps(value)
    assert copy.deepcopy(value) == copy.copy(value) == value
