"""Have Conductor look at a workflow now: it then gives up whatever has been silent for too long.

Without it, a worker that dies after a heartbeat was noticed after 3 to 272 s, whatever the response time-out; with it,
at once. It is the same decision its own sweeper takes later, and on a workflow that is fine or over it changes nothing.
"""

from __future__ import annotations

from perago_conductor.connection import Connection, Gone
from perago_core.answers import Answer, Done


def nudge(connection: Connection, workflow_id: str) -> Answer[None]:
    """Ask once; done also when the workflow is gone."""
    answer = connection.ask("PUT", "/workflow/decide/{id}", {"id": workflow_id})
    return Done(None) if isinstance(answer, Done | Gone) else answer
