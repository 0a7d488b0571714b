"""An attempt that can lead nowhere fails for good, and before its body runs where that can be seen.

The core says what a dead end is (``perago_core.dead_end``). Here it is asked twice: when the workspace is made, so
that no body runs in vain, and when the attempt has failed because of where the branch is, so that it is not tried
again. The state machine knows nothing of it: its *failed* is told to the orchestrator as *failed for good*, which
publishes nothing either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, evolve

from perago_core.answers import Answer, Done
from perago_core.attempt.messages import BodyEvent, BodyFailed
from perago_core.dead_end import ABOUT_THE_HEAD
from perago_core.ports import Orchestrator, Workspace
from perago_core.results import Failed, FailedTerminally, Outcome, Refusal, Result
from perago_core.values import Attempt


@define
class DeadEnds:
    """What was found out about one attempt. ``ask`` returns why nothing of its task can be published any more."""

    ask: Callable[[], Refusal | None]
    before_the_body: Refusal | None = None
    after_the_body: Refusal | None = None
    asked_after: bool = False

    def ending(self, result: Result) -> Result:
        """Say how the attempt ends, given how its machine says it does. The store is asked once at most."""
        if isinstance(result, FailedTerminally) and self.before_the_body is not None:
            return FailedTerminally(self.before_the_body)
        if not isinstance(result, Failed) or result.refusal.classification not in ABOUT_THE_HEAD:
            return result
        if not self.asked_after:
            self.after_the_body = self.ask()
            self.asked_after = True
        return result if self.after_the_body is None else FailedTerminally(result.refusal)

    def told(self, outcome: Outcome) -> Outcome:
        """Return the outcome as the orchestrator was told of it."""
        return outcome if outcome.result is None else evolve(outcome, result=self.ending(outcome.result))

    def checked(self, workspace: Workspace) -> Workspace:
        """Return the workspace, in which no body begins at a dead end."""
        made: Any = _Checked(workspace, self)
        found: Workspace = made
        return found

    def telling(self, orchestrator: Orchestrator) -> Orchestrator:
        """Return the orchestrator, which is told of a dead end as final."""
        made: Any = _Telling(orchestrator, self)
        found: Orchestrator = made
        return found


class _Checked:
    """A workspace that looks before anything is downloaded; everything else is the workspace's own."""

    def __init__(self, workspace: Workspace, ends: DeadEnds) -> None:
        self._workspace = workspace
        self._ends = ends

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any method of a workspace
        return getattr(self._workspace, name)

    def prepare(self, attempt: Attempt) -> Answer[None]:
        self._ends.before_the_body = self._ends.ask()
        return self._workspace.prepare(attempt) if self._ends.before_the_body is None else Done(None, operations=0)

    def run(self, attempt: Attempt) -> Answer[BodyEvent]:
        found = self._ends.before_the_body
        if found is None:
            return self._workspace.run(attempt)
        return Done(BodyFailed(attempt.execution, str(found), terminal=True), operations=0)


class _Telling:
    """An orchestrator to which the end of an attempt is told as it is; everything else is the orchestrator's own."""

    def __init__(self, orchestrator: Orchestrator, ends: DeadEnds) -> None:
        self._orchestrator = orchestrator
        self._ends = ends

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any method of an orchestrator
        return getattr(self._orchestrator, name)

    def report(self, attempt: Attempt, result: Result) -> Answer[None]:
        return self._orchestrator.report(attempt, self._ends.ending(result))
