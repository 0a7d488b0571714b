"""The lease of one attempt, kept alive in a thread of its own: a barrier may take longer than the lease lives.

The attempt looks at it before each of its steps and is told when it is lost, which stays so. The thread ends with the
attempt, also where the lease is left to run out because nobody knows what became of the publication under it.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from perago_core.driver import Ports, keep_alive

if TYPE_CHECKING:
    from perago_core.lease.run import Keeper


class LeaseThread:
    """Keeps the lease of one attempt alive over the attempt's own ports."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._stopping = threading.Event()

    def lock(self) -> AbstractContextManager[object]:
        """Return what the attempt and the thread take turns by."""
        return threading.Lock()

    def keep(self, keeper: Keeper) -> None:
        """Start the thread that keeps the lease alive."""
        arguments = (keeper, self._ports, self._stopping.wait)
        threading.Thread(target=keep_alive, args=arguments, name="lease", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end now."""
        self._stopping.set()
