"""The base of every frozen value: how it prints.

``attrs`` would write a ``__repr__`` for each class. That is more than half of what defining a class costs, and an
embedder pays it at import for each of some two hundred classes; one method here serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from attrs import Attribute, fields, frozen


@frozen(repr=False)
class Value:
    """Prints as its class and its fields, without those that are private."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(type(self)) if each.repr)
        return f"{type(self).__name__}({shown})"


#: Marks a field that records of older releases do not have; read without it, they have its default.
ADDED: Mapping[str, bool] = {"added": True}
#: Marks one that is not even written while it has its default: what nobody declared leaves every record as it was.
DECLARED: Mapping[str, bool] = {"added": True, "declared": True}

Validator: TypeAlias = Callable[[Any, "Attribute[Any]", Any], None]


def _complain(instance: object, attribute: Attribute[Any], value: object, wanted: str) -> None:
    message = f"{type(instance).__name__}.{attribute.name} must be {wanted}, not {value!r}"
    raise ValueError(message)


def text(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Accept a string with something in it."""
    if not isinstance(value, str) or not value.strip():
        _complain(instance, attribute, value, "a non-empty string")


def line(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Accept any string, also an empty one."""
    if not isinstance(value, str):
        _complain(instance, attribute, value, "a string")


def count(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Accept an integer that is zero or more; ``True`` is not a number here."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        _complain(instance, attribute, value, "an integer of zero or more")


def flag(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Accept ``True`` or ``False`` and nothing that merely looks like them."""
    if not isinstance(value, bool):
        _complain(instance, attribute, value, "True or False")


def seconds(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Accept a number of seconds that is zero or more; infinity is allowed and means "no limit", NaN is not."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        _complain(instance, attribute, value, "a number of seconds, zero or more")


def a(*kinds: type) -> Validator:
    """Accept an instance of one of the kinds."""
    wanted = " or ".join(kind.__name__ for kind in kinds)

    def check(instance: object, attribute: Attribute[Any], value: object) -> None:
        if not isinstance(value, kinds):
            _complain(instance, attribute, value, wanted)

    return check


def maybe(check: Validator) -> Validator:
    """Accept ``None`` or whatever ``check`` accepts."""

    def wrapped(instance: object, attribute: Attribute[Any], value: object) -> None:
        if value is not None:
            check(instance, attribute, value)

    return wrapped


def many(check: Validator) -> Validator:
    """Accept a tuple whose every element ``check`` accepts; a list is refused, because it could change later."""

    def wrapped(instance: object, attribute: Attribute[Any], value: object) -> None:
        if not isinstance(value, tuple):
            _complain(instance, attribute, value, "a tuple")
        for element in cast("tuple[object, ...]", value):
            check(instance, attribute, element)

    return wrapped
