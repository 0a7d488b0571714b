"""From the SIGKILL of a worker that has sent heartbeats to the next attempt: Conductor alone, and with our nudge."""

from __future__ import annotations

import tempfile
from pathlib import Path

from attrs import frozen

from tests.support.conductor.failover import PATIENCE, failover
from tests.support.servers.conductor import CONDUCTOR, Conductor

#: Seconds after which we wait no longer. Up to 272 were seen.
LIMIT = 330.0


@frozen
class Failover:
    """Seconds until a dead worker's task was handed out again."""

    alone: float
    nudged: float


def figures(server: Conductor, folder: Path) -> Failover:
    """Measure both on one server."""
    nudged = failover(folder / "nudged", server.api, nudge=True, limit=LIMIT)
    return Failover(failover(folder / "alone", server.api, nudge=False, limit=LIMIT), nudged)


def main() -> None:
    """Print the figures, if there is a server."""
    if not CONDUCTOR.is_there():
        print(f"Conductor {CONDUCTOR.version} was not obtained: make servers")
        return
    with tempfile.TemporaryDirectory() as folder, Conductor(folder=Path(folder) / "conductor") as server:
        found = figures(server, Path(folder))
        sooner = found.alone / found.nudged
        print(
            f"from a worker's death to the next attempt {found.nudged:5.1f} s = {sooner:4.1f}x sooner "
            f"than Conductor alone ({found.alone:.1f} s; response time-out {PATIENCE} s)"
        )


if __name__ == "__main__":
    main()
