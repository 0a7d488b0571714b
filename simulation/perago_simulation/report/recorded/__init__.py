"""A run that really happened, told from the traces its workers wrote: the same scenes as a simulated one."""

from __future__ import annotations

from perago_simulation.report.recorded.moments import Recording, Word, read
from perago_simulation.report.recorded.telling import tell

__all__ = ["Recording", "Word", "read", "tell"]
