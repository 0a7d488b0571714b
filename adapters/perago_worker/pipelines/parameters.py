"""Parameters of a pipeline: what is given, held against what is declared, and one of them spread over a range.

[pipelines.orders.params]
rows = 1000                       # a default, which is also its type
day = { type = "date" }           # must be given
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import date, timedelta
from difflib import get_close_matches
from typing import Any

from perago_worker.config.load import SettingsError
from perago_worker.config.settings import ParamSettings

#: Runs that one range may ask for; more is a mistake.
_MOST = 1000
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_WHOLE = re.compile(r"-?\d+")
_KINDS: Mapping[str, tuple[type, ...]] = {"text": (str,), "int": (int,), "number": (int, float), "bool": (bool,)}


def complete(pipeline: str, declared: Mapping[str, ParamSettings], given: Mapping[str, Any]) -> dict[str, Any]:
    """Add the defaults to what is given; ``SettingsError`` for one that is unknown, missing or of another type."""
    unknown = sorted(given.keys() - declared.keys())
    if unknown:
        raise SettingsError(
            f"pipeline {pipeline} has no parameter {unknown[0]!r}; {instead(unknown[0], declared)}{how(declared)}"
        )
    values = {name: given.get(name, each.default) for name, each in declared.items()}
    for name, each in declared.items():
        if values[name] is None:
            raise SettingsError(
                f"pipeline {pipeline} needs --param {name}=VALUE of type {each.type}: it has no default"
            )
        if not fits(each.type, values[name]):
            found = f"{type(values[name]).__name__} {str(values[name])!r}"
            raise SettingsError(f"pipeline {pipeline}: expected type {each.type} for parameter {name!r}; found {found}")
    return values


def fits(kind: str, value: object) -> bool:
    """Return whether a value is of a declared type; a date is text as JSON writes it."""
    if kind == "date":
        return isinstance(value, str) and _day(value) is not None
    return isinstance(value, _KINDS[kind]) and (kind == "bool" or not isinstance(value, bool))


def spread(text: str) -> tuple[str, tuple[Any, ...]]:
    """Read NAME=FIRST..LAST, of days or whole numbers, or NAME=A,B,C; the ends are part of it."""
    name, sign, wanted = text.partition("=")
    if not sign or not name or not wanted:
        raise SettingsError(
            f"--over must read NAME=FIRST..LAST or NAME=A,B,C, e.g. day=2026-01-01..2026-01-31; found {text!r}"
        )
    first, dots, last = wanted.partition("..")
    if not dots:
        return name, tuple(_value(each.strip()) for each in wanted.split(","))
    values = _days(first, last) if _DAY.fullmatch(first) else _numbers(first, last)
    if not values:
        raise SettingsError(
            f"--over {text}: expected a first that is not after the last, both days or both whole numbers"
        )
    if len(values) > _MOST:
        raise SettingsError(f"--over {text}: that is {len(values)} runs; ask for at most {_MOST} at a time")
    return name, values


def instead(name: str, known: Collection[str]) -> str:
    """Say what else may have been meant."""
    close = get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"it has {', '.join(sorted(known))}" if known else "it has none"


def how(known: Collection[str]) -> str:
    """Say how a pipeline comes to have parameters, to whoever gives the first one to a pipeline without any."""
    return (
        "" if known else ': quote it in a step, e.g. params = { rows = "${params.rows}" }, and `perago run` asks for it'
    )


def _value(text: str) -> object:
    return int(text) if _WHOLE.fullmatch(text) else text


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def _days(first: str, last: str) -> tuple[str, ...]:
    begin, end = _day(first), _day(last)
    if begin is None or end is None:
        return ()
    return tuple((begin + timedelta(days=each)).isoformat() for each in range((end - begin).days + 1))


def _numbers(first: str, last: str) -> tuple[int, ...]:
    if not _WHOLE.fullmatch(first) or not _WHOLE.fullmatch(last):
        return ()
    return tuple(range(int(first), min(int(last), int(first) + _MOST) + 1))
