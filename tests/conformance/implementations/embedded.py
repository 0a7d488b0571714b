"""The embedded stack: git, SQLite and local folders together, as a user gets them without installing anything."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from perago_conformance.harness import Stack, WorkspaceHarness
from perago_local.coordination import SqliteCoordination
from perago_local.orchestrator import SqliteOrchestrator
from tests.conformance.implementations.files import workspace as open_workspace
from tests.conformance.implementations.sqlite import SqliteCoordinationHarness, SqliteOrchestratorHarness
from tests.conformance.opener import Opener
from tests.conformance.skipping_clock import SkippingClock

#: Seconds that no machine is too busy for; waiting them out costs nothing on this clock.
LONG = 300.0


@contextmanager
def stack(folder: Path) -> Generator[Stack, None, None]:
    with open_workspace(folder) as workspace, stack_on(workspace, folder) as found:
        yield found


@contextmanager
def stack_on(workspace: WorkspaceHarness, folder: Path) -> Generator[Stack, None, None]:
    """Give a workspace, with the store it is on, the embedded orchestrator and coordination store."""
    clock, tasks, keys = SkippingClock(), folder / "orchestrator.db", folder / "coordination.db"
    with (
        closing(SqliteOrchestrator(tasks, clock=clock)) as orchestrator,
        closing(SqliteCoordination(keys, clock=clock)) as coordination,
    ):
        yield Stack(
            SqliteOrchestratorHarness(tasks, orchestrator, clock, LONG),
            workspace.store,
            workspace,
            SqliteCoordinationHarness(keys, coordination, clock, LONG),
            clock,
        )


STACKS: Mapping[str, Opener[Stack]] = {"embedded": stack}
