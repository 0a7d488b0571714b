"""The simulated coordination store: keys, and leases that end on the simulated clock."""

from __future__ import annotations

from typing import ClassVar

from attrs import define

from perago_core.answers import Answer, Done, NotDone
from perago_core.ports import Clock, Entry
from perago_simulation.ports.serving import ByReference, Dispatcher, served


@define
class _Lease:
    ttl: float
    until: float


class SimulatedCoordination(ByReference):
    """The ``Coordination`` port over memory."""

    PORT: ClassVar[str] = "coordination"

    def __init__(self, dispatcher: Dispatcher, clock: Clock, *, leases: bool = True) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self._grants = leases
        self._clock = clock
        self._entries: dict[str, tuple[str, str | None]] = {}
        self._leases: dict[str, _Lease] = {}
        self._granted = 0

    @served
    def get(self, key: str) -> Answer[Entry | None]:
        """Read one key."""
        return Done(self._standing(key))

    @served
    def create_if_absent(self, key: str, value: str, lease: str | None = None) -> Answer[Entry]:
        """Create the key unless it exists."""
        standing = self._standing(key)
        if standing is not None:
            return Done(standing)
        if lease is not None and lease not in self._leases:
            return NotDone(f"there is no lease {lease}: it has run out or was revoked")
        self._entries[key] = (value, lease)
        return Done(Entry(key, value))

    @served
    def swap(self, key: str, expected: str | None, value: str | None) -> Answer[bool]:
        """Change the value if it is the expected one; a key bound to a lease stays bound to it."""
        standing = self._standing(key)
        if (None if standing is None else standing.value) != expected:
            return Done(value=False)
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = (value, self._entries.get(key, ("", None))[1])
        return Done(value=True)

    @served
    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Answer[tuple[Entry, ...]]:
        """List the entries under a prefix in key order."""
        self._let_leases_end()
        found = sorted(key for key in self._entries if key.startswith(prefix) and key > after)[:limit]
        return Done(tuple(Entry(key, self._entries[key][0]) for key in found))

    @served
    def grant(self, ttl: float) -> Answer[str]:
        """Get a lease."""
        if not self._grants:
            return NotDone("this coordination store grants no leases: `locked` does not run on it")
        if not 0 < ttl < float("inf"):
            return NotDone(f"a lease lives for a finite time over 0 s, not {ttl!r}")
        self._granted += 1
        lease = f"lease-{self._granted}"
        self._leases[lease] = _Lease(ttl, self._clock.now() + ttl)
        return Done(lease)

    @served
    def keep_alive(self, lease: str) -> Answer[bool]:
        """Renew a lease."""
        self._let_leases_end()
        held = self._leases.get(lease)
        if held is None:
            return Done(value=False)
        held.until = self._clock.now() + held.ttl
        return Done(value=True)

    @served
    def revoke(self, lease: str) -> Answer[None]:
        """End a lease and its keys."""
        self.end(lease)
        return Done(None)

    def end(self, lease: str) -> None:
        """Let a lease end now, as if its time had run out."""
        with self.dispatcher.lock:
            self._leases.pop(lease, None)
            self._entries = {key: entry for key, entry in self._entries.items() if entry[1] != lease}

    def leases(self) -> tuple[str, ...]:
        """Return the leases that live."""
        with self.dispatcher.lock:
            self._let_leases_end()
            return tuple(self._leases)

    def _standing(self, key: str) -> Entry | None:
        self._let_leases_end()
        found = self._entries.get(key)
        return None if found is None else Entry(key, found[0])

    def _let_leases_end(self) -> None:
        now = self._clock.now()
        for lease in [name for name, each in self._leases.items() if each.until <= now]:
            self.end(lease)
