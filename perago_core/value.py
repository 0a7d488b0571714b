"""The base of every frozen value: how it prints.

``attrs`` would write a ``__repr__`` for each class. That is more than half of what defining a class costs, and an
embedder pays it at import for each of some two hundred classes; one method here serves all of them.
"""

from __future__ import annotations

from attrs import fields, frozen


@frozen(repr=False)
class Value:
    """Prints as its class and its fields, without those that are private."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(type(self)) if each.repr)
        return f"{type(self).__name__}({shown})"
