"""The one coordination store: entries, and leases that end by the true time. A value; every call gives the next one.

Time is relative: a lease has so many moments left, and a moment that passes takes one from each. So worlds that differ
only in what the date is are one world, and what is explored holds for all time. A lease that has run out is gone with
its keys at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from perago_core.answers import Answer, Done, NotDone
from perago_core.calls import Call
from perago_core.ports import Entry

#: A key, its value, and the lease it is bound to, if any.
Bound: TypeAlias = tuple[str, str, str | None]


class Shared(NamedTuple):
    """What the store holds at one moment. ``leases`` are names, what is left of each, and how long a renewal lasts."""

    entries: tuple[Bound, ...] = ()
    leases: tuple[tuple[str, float, float], ...] = ()
    granted: int = 0

    def value(self, key: str) -> str | None:
        """Return what stands under a key."""
        return next((value for each, value, _ in self.entries if each == key), None)

    def under(self, prefix: str) -> tuple[Entry, ...]:
        """Return what stands under a prefix, in the order of keys."""
        return tuple(Entry(key, value) for key, value, _ in self.entries if key.startswith(prefix))


Served: TypeAlias = tuple[Answer[Any], Shared]


def later(shared: Shared) -> Shared:
    """Let one moment pass, and end what has run out."""
    aged = shared._replace(leases=tuple((name, left - 1, ttl) for name, left, ttl in shared.leases))
    over = {name for name, left, _ in aged.leases if left <= 0}
    return _ended(aged, over) if over else aged


def serve(shared: Shared, call: Call) -> Served:
    """Answer one call."""
    return _SERVE[call.method](shared, *call.args)


def _get(shared: Shared, key: str) -> Served:
    value = shared.value(key)
    return Done(None if value is None else Entry(key, value)), shared


def _list(shared: Shared, prefix: str) -> Served:
    return Done(shared.under(prefix)), shared


def _create_if_absent(shared: Shared, key: str, value: str, lease: str | None = None) -> Served:
    standing = shared.value(key)
    if standing is not None:
        return Done(Entry(key, standing)), shared
    if lease is not None and all(name != lease for name, _, _ in shared.leases):
        return NotDone("there is no such lease"), shared
    return Done(Entry(key, value)), _put(shared, key, value, lease)


def _swap(shared: Shared, key: str, expected: str | None, value: str | None) -> Served:
    if shared.value(key) != expected:
        return Done(value=False), shared
    bound_to = next((lease for each, _, lease in shared.entries if each == key), None)
    return Done(value=True), _put(shared, key, value, bound_to)


def _grant(shared: Shared, ttl: float) -> Served:
    name = f"lease-{shared.granted + 1}"
    return Done(name), shared._replace(leases=(*shared.leases, (name, ttl, ttl)), granted=shared.granted + 1)


def _keep_alive(shared: Shared, lease: str) -> Served:
    renewed = tuple((name, ttl if name == lease else left, ttl) for name, left, ttl in shared.leases)
    return Done(value=any(name == lease for name, _, _ in renewed)), shared._replace(leases=renewed)


def _revoke(shared: Shared, lease: str) -> Served:
    return Done(None), _ended(shared, {lease})


def _put(shared: Shared, key: str, value: str | None, lease: str | None) -> Shared:
    others = [bound for bound in shared.entries if bound[0] != key]
    if value is not None:
        others.append((key, value, lease))
    return shared._replace(entries=tuple(sorted(others, key=lambda bound: bound[0])))


def _ended(shared: Shared, over: set[str]) -> Shared:
    return shared._replace(
        leases=tuple(lease for lease in shared.leases if lease[0] not in over),
        entries=tuple(bound for bound in shared.entries if bound[2] not in over),
    )


_SERVE: Mapping[str, Callable[..., Served]] = {
    "get": _get,
    "list": _list,
    "create_if_absent": _create_if_absent,
    "swap": _swap,
    "grant": _grant,
    "keep_alive": _keep_alive,
    "revoke": _revoke,
}
