"""Workspace and body as moves of their own, where a setting wants them: what may come of a body.

A body ends with or without a change, as the setting allows. Before it ends it may ask for a place to write, which is
what every Spark write does; it may have written there what the input has already, and a commit of it then finds
nothing. It may fail, for this time or for good, and a port may bring another execution's completion: both come out of
the budget of refusals.
"""

from __future__ import annotations

from collections.abc import Iterator

from perago_core.answers import Event
from perago_core.attempt import AttemptState
from perago_core.attempt import messages as m
from perago_core.values import Attempt, Content, Operation
from perago_simulation.world.settings import Setting

#: What came of a body, as a label tells it.
FAILS, FAILS_FOR_GOOD, ANOTHERS = "fails", "fails for good", "another's answer"
CHANGED, UNCHANGED, WANTS_TO_WRITE = "changed", "unchanged", "wants to write"
OTHER_CONTENT = "changed, other content"


def output_of(execution: str) -> str:
    """Return what a body returns: no two executions the same, so that it shows whose result somebody reports."""
    return f'"{execution}"'


def ended(setting: Setting, attempt: Attempt) -> Iterator[tuple[str, m.BodyDone]]:
    """Give every way a body may end well. One that maintains may have changed the content, whatever it says of itself.

    Then the workspace, which compares, says so.
    """
    execution = attempt.execution
    if setting.changes and attempt.operation is Operation.MAINTENANCE:
        for about, after in ((CHANGED, "rows"), (OTHER_CONTENT, "other rows")):
            compared = Content("rows", after)
            yield about, m.BodyDone(execution, changed=True, output=output_of(execution), content=compared)
    elif setting.changes:
        yield CHANGED, m.BodyDone(execution, changed=True, output=output_of(execution))
    if setting.no_ops:
        yield UNCHANGED, m.BodyDone(execution, changed=False, output=output_of(execution))


def played(setting: Setting, state: AttemptState) -> Iterator[tuple[str, Event]]:
    """Return all a body may answer while nothing goes wrong; to ask for a place to write once more changes nothing."""
    execution = state.subject.execution
    if state.subject.read_only:
        yield UNCHANGED, m.BodyDone(execution, changed=False)
    else:
        yield from ended(setting, state.subject)
        yield WANTS_TO_WRITE, m.StagingWanted(execution)


def failed(state: AttemptState) -> Iterator[tuple[str, Event]]:
    """Return what a body answers that does not end well. One that only reads must not ask for a place to write."""
    execution = state.subject.execution
    if state.subject.read_only:
        yield f"{WANTS_TO_WRITE}, which {FAILS}", m.StagingWanted(execution)
    yield FAILS, m.BodyFailed(execution, "no such column")
    yield FAILS_FOR_GOOD, m.BodyFailed(execution, "no such column", terminal=True)


def of_another() -> Iterator[tuple[str, Event]]:
    """Return the completions of an execution that is not the one that waits."""
    yield f"BodyDone, {ANOTHERS}", m.BodyDone("somebody else", changed=True)
    yield f"BodyFailed, {ANOTHERS}", m.BodyFailed("somebody else", "no such column")
    yield f"StagingWanted, {ANOTHERS}", m.StagingWanted("somebody else")
