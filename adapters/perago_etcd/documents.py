"""Reading etcd's documents: each field has its documented type, or the answer is none.

The gateway leaves out every field that is false, zero or empty, writes 64-bit numbers as text, and gives keys and
values in base64. A field that is there and of another type was written by somebody else.
"""

from __future__ import annotations

import base64
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from perago_core.contract import is_object

T = TypeVar("T")
Json: TypeAlias = Any


@frozen
class Pair:
    """A key and its value, as bytes."""

    key: bytes
    value: bytes


def pairs(found: Json) -> tuple[Pair, ...]:
    """Return the pairs of a range; none if the field is left out."""
    return tuple(
        Pair(_bytes(_field(each, "key", str)), _bytes(_field(each, "value", str, ""))) for each in _list(found, "kvs")
    )


def has_more(found: Json) -> bool:
    """Return whether a range goes on after the page."""
    return _field(found, "more", bool, default=False)


def revision(found: Json) -> str:
    """Return the revision an answer is of."""
    return _number(_field(found, "header", dict), "revision")


def succeeded(found: Json) -> bool:
    """Return whether the condition of a transaction held."""
    return _field(found, "succeeded", bool, default=False)


def first_range(found: Json) -> Json:
    """Return what a transaction has read instead."""
    first, *_ = _list(found, "responses")
    if not is_object(first["response_range"]):
        raise TypeError("response_range is no object")
    return first["response_range"]


def lease_id(found: Json) -> str:
    """Return the id of a lease that was granted."""
    return _number(found, "ID")


def time_to_live(found: Json) -> int:
    """Return the seconds a lease has; 0: it is gone."""
    return int(_number(found, "TTL", "0"))


def text(found: Json, name: str) -> str:
    """Return a field that is a text."""
    return _field(found, name, str, "")


def _field(found: Json, name: str, kind: type[T], default: T | None = None) -> T:
    value: Json = found.get(name, default)
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {str(value)[:40]!r} and no {kind.__name__}")
    return value


def _list(found: Json, name: str) -> list[Json]:
    return _field(found, name, list, [])


def _number(found: Json, name: str, default: str | None = None) -> str:
    value = _field(found, name, str, default)
    if not (value.isascii() and value.lstrip("-").isdecimal()):
        raise ValueError(f"{name} is {value[:40]!r} and no number")
    return value


def _bytes(encoded: str) -> bytes:
    return base64.b64decode(encoded, validate=True)
