"""State is data: every value of the core as JSON text and back, with a schema version.

Writing is canonical: equal values give equal text, so "is what stands ours?" is a comparison of content (T-W9). Reading
is strict: an unknown schema, an unknown type, a field missing or too many, or a value that cannot exist is a
``CodecError`` naming it. Nothing is coerced and nothing is guessed (R-19).

A value is an object with its ``type`` and its fields; the types of the four machines are prefixed with the machine's
name. An enum is its value, a tuple is a list, infinity is the string ``"inf"``.
"""

from __future__ import annotations

import json
import math
import sys
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Any,
    NoReturn,
    TypeAlias,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from attrs import NOTHING, fields, resolve_types

from perago_core.answers import Done
from perago_core.contract import is_list, is_object
from perago_core.errors import CodecError
from perago_core.machine.rows import Definition, K, S, State
from perago_core.value import Value

if TYPE_CHECKING:
    from perago_core.machine.engine import Table

SCHEMA = 1

Json: TypeAlias = Any
V = TypeVar("V", bound=Value)

#: What JSON holds as it is. Their kinds, such as enums that are texts, are not.
_ATOMS = frozenset({str, int, bool, type(None)})
_MACHINES = {"attempt": "ATTEMPT", "policy": "POLICY", "lease": "LEASE", "recovery": "RECOVERY"}
#: What machines and conversations are made of, as opposed to what they know and say. A state is read by its machine.
_NOT_STORED = ("perago_core.calls", "perago_core.machine.engine", "perago_core.machine.rows")


def dumps(value: Value) -> str:
    """Write a value as canonical JSON text with the schema version."""
    return json.dumps({"schema": SCHEMA, **plain(value)}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def loads(text: str, kind: type[V]) -> V:
    """Read a value of this kind back, or raise ``CodecError``."""
    try:
        data: Json = json.loads(text)
    except (ValueError, RecursionError) as problem:  # ten thousand brackets are malformed like any other text
        message = f"not JSON: {problem}"
        raise CodecError(message) from problem
    return load(data, kind)


def load_state(text: str, table: Table[S, K]) -> State[S, K]:
    """Read a stored state of this machine back, or raise ``CodecError``; ``drive`` takes it and goes on."""
    state = loads(text, Value)
    if not _is_state(state) or not isinstance(state.phase, table.definition.phases):
        _fail(f"expected a state of the {table.definition.name} machine, found {state!r}")
    return state


def load(data: Json, kind: type[V]) -> V:
    """Read a value of this kind from decoded JSON, or raise ``CodecError``."""
    if not is_object(data):
        _fail(f"expected an object, found {type(data).__name__}")
    known = dict(data)
    schema = known.pop("schema", None)
    if type(schema) is not int or schema != SCHEMA:  # True and 1.0 are equal to 1 and are not version 1
        _fail(f"schema {_shown(schema)} is not known here; this program reads {SCHEMA}")
    value = _value(known)
    if not isinstance(value, kind):
        _fail(f"expected a {kind.__name__}, found a {type(value).__name__}")
    return value


def plain(value: object) -> Json:
    """Return a value as what JSON can hold, without the schema version."""
    if type(value) in _ATOMS:  # nearly all there is, and each step of an attempt is written
        return value
    if _is_state(value):
        return _plain_state(value)
    if isinstance(value, Value):
        written: Any = _written  # a class has a hash, which is all that a cache asks for
        kind, own = written(type(value))
        found = {name: getattr(value, name) for name in own}
        return {"type": kind, **{name: plain(each) for name, each in found.items() if each != own[name]}}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [plain(each) for each in cast("tuple[object, ...]", value)]
    if isinstance(value, float):
        return _plain_float(value)
    if isinstance(value, int | str):
        return value
    return _fail(f"a {type(value).__name__} has no place in a stored value")


@cache
def _written(kind: type[Value]) -> tuple[str, Mapping[str, object]]:
    """Return the tag of a type, and its fields, each with the value that is not written."""
    own = [each for each in fields(kind) if each.init]
    return tag(kind), {each.name: each.default if each.metadata.get("declared") else NOTHING for each in own}


def _plain_float(value: float) -> Json:
    if math.isnan(value):
        _fail("NaN has no place in a stored value")
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return int(value) if value.is_integer() else value  # 5.0 and 5 are equal, so they give the same text


def tag(kind: type) -> str:
    """Name a type: its class, prefixed with the machine it belongs to."""
    package = kind.__module__.split(".")[1]
    return f"{package}.{kind.__name__}" if package in _MACHINES else kind.__name__


@cache
def registry() -> Mapping[str, type[Value]]:
    """Return every type that can be stored, by its name."""
    for package in (*_MACHINES, "ledger", "fence", "results", "budget", "machine.trace", "measured"):
        import_module(f"perago_core.{package}")
    found: dict[str, type[Value]] = {}
    waiting = list(Value.__subclasses__())
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        module = sys.modules[kind.__module__]
        ours = kind.__module__.startswith("perago_core.") and kind.__module__ not in _NOT_STORED
        if ours and kind is not Done and getattr(module, kind.__name__, None) is kind:
            found[tag(kind)] = kind
    return found


def _plain_state(state: State[Any, Any]) -> Json:
    return {
        "type": "State",
        "machine": type(state.phase).__module__.split(".")[1],
        "phase": state.phase.name,
        "subject": plain(state.subject),
        "known": plain(state.known),
        "pending": plain(state.pending),
    }


def _state(data: dict[str, Json]) -> State[Any, Any]:
    _exactly(data, {"machine", "phase", "subject", "known", "pending"}, "State")
    machine = data["machine"]
    if not isinstance(machine, str) or machine not in _MACHINES:
        _fail(f"State.machine: {_shown(machine)} is none of {sorted(_MACHINES)}")
    table = getattr(import_module(f"perago_core.{machine}"), _MACHINES[machine])
    definition: Definition[Any, Any] = table.definition
    if not isinstance(data["phase"], str) or data["phase"] not in definition.phases.__members__:
        _fail(f"State.phase: {machine} has no phase {_shown(data['phase'])}")
    phase = definition.phases[data["phase"]]
    subject, known = _kinds(definition)
    pending = _read(tuple[Value, ...], data["pending"], "State.pending")
    if not all(type(command) in definition.waits.get(phase, ()) for command in pending):
        _fail(f"State.pending: {machine} does not wait for that in phase {phase.name}")
    return State(
        phase,
        _read(subject, data["subject"], "State.subject"),
        _read(known, data["known"], "State.known"),
        pending,
    )


def _kinds(definition: Definition[Any, Any]) -> tuple[type[Value], type[Value]]:
    """Return the types of a machine's subject and of what it knows, as its opening declares them."""
    subject, opened = get_type_hints(definition.opening).values()
    return subject, get_args(opened)[1]


def _value(data: Json) -> Value:
    if not is_object(data):
        _fail(f"expected an object with a type, found {_shown(data)}")
    given = dict(data)
    name = given.pop("type", None)
    if name == "State":
        return _state(given)
    kind = registry().get(name) if isinstance(name, str) else None
    if kind is None:
        _fail(f"no type {_shown(name)} is known here")
    hints = _hints(kind)
    added = {each.name for each in fields(kind) if each.metadata.get("added")}
    _exactly({**dict.fromkeys(added), **given}, set(hints), str(name))
    try:
        return kind(**{field: _read(hints[field], value, f"{name}.{field}") for field, value in given.items()})
    except ValueError as problem:
        if isinstance(problem, CodecError):
            raise
        raise CodecError(str(problem)) from problem


def _hints(kind: type[Value]) -> Mapping[str, Any]:
    resolve_types(kind)  # attrs remembers which classes it has resolved
    return {each.name: each.type for each in fields(kind) if each.init}


def _exactly(given: dict[str, Json], wanted: set[str], name: str) -> None:
    if set(given) != wanted:
        problem = f"{name} has the fields {sorted(wanted)}, not {sorted(given)}"
        _fail(f"{problem}: was it written by a newer release? Then use that one")


def _read(hint: Any, data: Json, where: str) -> Any:  # noqa: ANN401  a type annotation and what it describes
    """Read what an annotation describes; the annotation is the schema."""
    hint = getattr(hint, "__supertype__", hint)
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        return _read_union(get_args(hint), data, where)
    if origin is tuple:
        return _read_tuple(get_args(hint), data, where)
    if hint is float:
        return _read_float(data, where)
    if hint in {int, str, bool}:
        return data if type(data) is hint else _fail(f"{where}: expected {hint.__name__}, found {_shown(data)}")
    if isinstance(hint, type) and issubclass(hint, Enum):
        if data not in [member.value for member in hint]:
            _fail(f"{where}: {_shown(data)} is no {hint.__name__}")
        return hint(data)
    value = _value(data)
    if isinstance(hint, type) and not isinstance(value, hint):
        _fail(f"{where}: expected {hint.__name__}, found {type(value).__name__}")
    return value


def _read_union(members: tuple[Any, ...], data: Json, where: str) -> Any:  # noqa: ANN401  as above
    if data is None and type(None) in members:
        return None
    others = [member for member in members if member is not type(None)]
    if len(others) == 1:
        return _read(others[0], data, where)
    value = _value(data)
    if not isinstance(value, tuple(others)):
        _fail(f"{where}: a {type(value).__name__} does not belong here")
    return value


def _read_tuple(members: tuple[Any, ...], data: Json, where: str) -> tuple[Any, ...]:
    if not is_list(data):
        _fail(f"{where}: expected a list, found {_shown(data)}")
    items = data
    if len(members) == 2 and members[1] is Ellipsis:  # noqa: PLR2004  tuple[X, ...]
        return tuple(_read(members[0], item, where) for item in items)
    if len(items) != len(members):
        _fail(f"{where}: expected {len(members)} elements, found {len(items)}")
    return tuple(_read(member, item, where) for member, item in zip(members, items, strict=True))


def _read_float(data: Json, where: str) -> float:
    if data in ("inf", "-inf"):
        return float(data)
    if isinstance(data, bool) or not isinstance(data, int | float):
        _fail(f"{where}: expected a number, found {_shown(data)}")
    # NaN, which JSON has no way to write, and 1e999, and an integer that a float would round
    if not abs(data) <= sys.float_info.max or float(data) != data:
        _fail(f"{where}: {data!r} is not a finite number, or not one a float can hold")
    return float(data)


def _is_state(value: object) -> TypeGuard[State[Any, Any]]:
    return isinstance(value, State)


def _shown(data: Json) -> str:
    """Show what was found, unless it is nested: that can be too deep to print."""
    kind = "an object" if is_object(data) else "a list" if is_list(data) else None
    return kind or repr(data)


def _fail(problem: str) -> NoReturn:
    raise CodecError(problem)
