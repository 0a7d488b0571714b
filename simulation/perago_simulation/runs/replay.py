"""A run is its list of choices: carried out again it gives the same worlds, and it can be stored and sent around.

The stored form is JSON lines: a header (schema, digest of the table, setting, property, problem), then one line per
label. A stored run is refused on another table, where it would tell another story.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from copy import copy
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, cast, get_type_hints

from attrs import field, fields, fields_dict, frozen, has

from perago_core.answers import Event
from perago_core.attempt import AttemptState, Known
from perago_core.errors import PeragoError, ProtocolError
from perago_core.machine.description import digest
from perago_core.machine.rows import ALWAYS, Row, Step
from perago_core.value import Value
from perago_core.values import Attempt, Backing
from perago_simulation.explore.exploration import Violation
from perago_simulation.explore.first_violation import STUCK
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import PROPERTIES, Property, When
from perago_simulation.runs.embedding import runtime_name, store_name
from perago_simulation.world.capabilities import Capabilities
from perago_simulation.world.model import Label, Model, Moves
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import World

#: The row that is named where a runtime of somebody's own goes another way than the table.
OWN_ROW = "own"

SCHEMA = "perago.simulation.run/1"

V = TypeVar("V", bound=Value)


class ReplayError(PeragoError, ValueError):
    """A run cannot be carried out here, or cannot be read back; the message says where and why."""


@frozen(repr=False)
class Told(Value):
    """What an execution was told in a step, and the row of the attempt's table that fired."""

    execution: str
    event: Event
    row: Row


@frozen(repr=False)
class ReplayedMove(Value):
    """One move: its number from 1, its label, its index among the choices, the worlds around it, who was told what.

    Nothing was before the first move, so its ``before`` is ``None``. A hand-out tells its execution two things at once.
    """

    number: int
    label: Label
    choice: int
    before: World | None
    after: World
    told: tuple[Told, ...] = ()

    @property
    def row(self) -> str:
        """The id of the row that fired last; empty if nobody was told anything."""
        return self.told[-1].row.id if self.told else ""


@frozen(repr=False)
class Stored(Value):
    """A run as it is kept: what it ran on, what it shows (nothing, if ``property`` is empty), and its labels."""

    table: str
    setting: Setting
    property: str = ""
    problem: str = ""
    trace: tuple[Label, ...] = field(default=())


def replay(model: Model, choices: Sequence[Label | int]) -> tuple[ReplayedMove, ...]:
    """Carry out a run, given by labels or by indices among what can happen; raise ``ReplayError`` where it cannot."""
    watched = _Watched(model)
    steps: list[ReplayedMove] = []
    world: World | None = None
    for number, choice in enumerate(choices, start=1):
        step = _choose(number, choice, world, watched.moves(world))
        steps.append(step)
        world = step.after
    return tuple(steps)


def replay_stored(stored: Stored, model: Model | None = None, *, force: bool = False) -> tuple[ReplayedMove, ...]:
    """Carry out a stored run, on the production table if no model is given.

    Another table or another setting is a ``ReplayError``. With ``force`` it is tried for as long as its labels fit.
    """
    model = model or Model(stored.setting)
    if not force and stored.table != (here := digest(model.table)):
        message = (
            f"this run was recorded on table {stored.table}; here the table is {here}. Explore again, or force it."
        )
        raise ReplayError(message)
    if not force and stored.setting != model.setting:
        message = f"this run was recorded in {stored.setting.bounds()}; here it is {model.setting.bounds()}"
        raise ReplayError(message)
    return replay(model, stored.trace)


def store(model: Model, violation: Violation) -> Stored:
    """Make what is kept of a violation that was found in this model."""
    return Stored(digest(model.table), model.setting, violation.property, violation.problem, violation.trace)


def dump(stored: Stored) -> str:
    """Write a run as JSON lines. Equal runs give equal text."""
    header = {
        "schema": SCHEMA,
        "table": stored.table,
        "setting": _plain(stored.setting),
        "property": stored.property,
        "problem": stored.problem,
    }
    lines = (header, *map(list, stored.trace))
    return "".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in lines)


def load(text: str) -> Stored:
    """Read a run back, or raise ``ReplayError``: strict, nothing is guessed."""
    try:
        # Not splitlines: a line of JSON may hold characters that it, but not JSON, takes for the end of a line.
        header, *labels = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as problem:
        message = f"not a stored run: {problem}"
        raise ReplayError(message) from problem
    given = dict(cast("dict[str, object]", header)) if isinstance(header, dict) else {}
    schema = given.pop("schema", None)
    if schema != SCHEMA:
        message = f"unknown schema {schema!r}; this version reads {SCHEMA!r}"
        raise ReplayError(message)
    trace = tuple(_label(number, each) for number, each in enumerate(labels, start=1))
    stored = _made(Stored, {**given, "trace": trace})
    for name in ("table", "property", "problem"):
        if not isinstance(getattr(stored, name), str):
            message = f"{name} must be a string, not {getattr(stored, name)!r}"
            raise ReplayError(message)
    return stored


# ---------------------------------------------------------------------------------------------------------------------
# Carrying out


class _Watched:
    """A model that also says, for each move, who was told what."""

    def __init__(self, model: Model) -> None:
        self._told: list[Told] = []
        self._table = model.table
        self._step = model.step
        self._model = copy(model)
        # The model remembers steps it has taken. Here each must be seen, so nothing is remembered.
        self._model.step = lru_cache(maxsize=0)(self._fire)

    def moves(self, world: World | None) -> Iterator[tuple[Label, World, tuple[Told, ...]]]:
        moves: Moves = self._model.beginnings() if world is None else self._model.moves(world)
        self._told.clear()
        for label, after in moves:
            yield label, after, tuple(self._told)
            self._told.clear()

    def _fire(self, state: AttemptState, event: Event) -> Step[Attempt, Known]:
        taken = self._step(state, event)
        self._told.append(Told(state.subject.execution, event, self._row(state, event, taken.state)))
        return taken

    def _row(self, state: AttemptState, event: Event, after: AttemptState) -> Row:
        """Return the row of the table that leads there; where none does, somebody's own runtime goes its own way."""
        try:
            fired = self._table.fire(state, event)
            if fired.state == after:
                return fired.row
            says = f"the table's row {fired.row.id} leads to {fired.state.phase.name}"
        except ProtocolError as problem:
            says = str(problem)
        return Row(OWN_ROW, state.phase, type(event), ALWAYS, after.phase, note=f"Not the table's way: {says}")


def _choose(
    number: int, choice: Label | int, world: World | None, moves: Iterator[tuple[Label, World, tuple[Told, ...]]]
) -> ReplayedMove:
    possible = [
        ReplayedMove(number, label, index, world, after, told) for index, (label, after, told) in enumerate(moves)
    ]
    found = [step for step in possible if choice in (step.label, step.choice)]
    if len({step.after for step in found}) == 1:
        return found[0]
    can = "; ".join(f"{step.choice}: {' '.join(step.label)}" for step in possible) or "nothing"
    wanted = f"choice {choice}" if isinstance(choice, int) else repr(" ".join(choice))
    what = "fits more than one move, so give its index" if found else "cannot happen"
    message = f"step {number}: {wanted} {what}; what can happen here: {can}"
    raise ReplayError(message)


# ---------------------------------------------------------------------------------------------------------------------
# Plain data


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(each) for each in cast("tuple[object, ...]", value)]
    if isinstance(value, Value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(type(value))}
    return value


def _made(kind: type[V], given: object) -> V:
    """Make a value from plain data. Fields nobody knows are refused; fields added since have their defaults."""
    if not isinstance(given, dict):
        message = f"expected the fields of {kind.__name__}, found {given!r}"
        raise ReplayError(message)
    hints = get_type_hints(kind)
    data = cast("dict[str, object]", given)
    if unknown := sorted(data.keys() - hints.keys()):
        message = f"{kind.__name__} has no {', '.join(unknown)}"
        raise ReplayError(message)
    try:
        return kind(**{name: _read(hints[name], value) for name, value in data.items()})
    except (TypeError, ValueError) as problem:
        message = f"not a {kind.__name__}: {problem}"
        raise ReplayError(message) from problem


def _read(hint: Any, value: object) -> object:  # noqa: ANN401  a type hint may be anything
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if isinstance(hint, type) and has(hint):
        return _made(cast("type[Value]", hint), value)
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _label(number: int, given: object) -> Label:
    label = cast("list[object]", given) if isinstance(given, list) else []
    match label:
        case [str(who), str(what), str(about)]:
            return who, what, about
        case _:
            message = f"label {number} is not three strings: {given!r}"
            raise ReplayError(message)


# ---- What a run shows: the property it breaks, found by judging every world it passes through.


#: All that is judged. Where one step breaks several, what becomes of the branch is told, not how somebody misbehaved.
EVERYTHING = tuple({each.id: each for each in (*PROPERTIES, *JUDGED)}.values())


def verdict(
    model: Model, steps: Sequence[ReplayedMove], properties: Sequence[Property] = EVERYTHING
) -> Violation | None:
    """Return the property a run breaks last, or ``None`` if it breaks none.

    The last, because a run is kept for the property at its end: on the shortest way to a clean-history violation an
    accepted result may already have been lost, and that is another run's story.
    """
    trace = tuple(step.label for step in steps)
    gives_up = _gives_up(model, steps)
    if gives_up is not None:
        return Violation(STUCK, gives_up, trace)
    broken: dict[str, tuple[int, Violation]] = {}
    for step in steps:
        judged = {When.ALWAYS, When.AT_REST} if model.at_rest(step.after) else {When.ALWAYS}
        for each in properties:
            if each.id not in broken and each.when in judged:
                problem = each.judge(model.setting, step.after)
                if problem is not None:
                    broken[each.id] = (step.number, Violation(each.id, problem, trace))
    return max(broken.values(), key=lambda each: each[0])[1] if broken else None


def _gives_up(model: Model, steps: Sequence[ReplayedMove]) -> str | None:
    """Look one step further: a table, store or runtime that gives up does so when it is asked what comes next."""
    try:
        for _ in model.moves(steps[-1].after) if steps else model.beginnings():
            pass
    except Exception as error:  # noqa: BLE001  whatever somebody's own runtime raises
        return f"{type(error).__name__}: {error}"
    return None


# ---- One line that says everything about a run: table digest, setting, choices, and whose store and runtime.
#
#     run 0123456789abcdef backing=soft,attempts=2,... 0.1.0.3
#     run 0123456789abcdef backing=soft,attempts=2,... 0.1.0.3 store=my_store:MyStore
#
# It is refused on another table, store or runtime, where the same choices would tell another story.


class LineError(PeragoError, ValueError):
    """A line cannot be read, or it was written for another table, store or runtime."""


@frozen(repr=False)
class ReplayLine(Value):
    """A run as one line. ``store`` and ``runtime`` are names, and empty where they are ours."""

    table: str
    setting: Setting
    choices: tuple[int, ...]
    store: str = ""
    runtime: str = ""


def line_of(model: Model, choices: Sequence[int]) -> str:
    """Write a run as one line."""
    own = "".join(f" {what}={name}" for what, name in _own(model))
    return f"run {digest(model.table)} {_setting(model.setting)} {'.'.join(map(str, choices)) or '-'}{own}"


def command_of(model: Model, choices: Sequence[int]) -> str:
    """Write the command that replays a run."""
    own = "".join(f" --{what} {shlex.quote(name)}" for what, name in _own(model))
    return f"perago replay {shlex.quote(line_of(model, choices))}{own}"


def read_line(text: str) -> ReplayLine:
    """Read a line back, strictly."""
    try:
        word, table, of, choices, *rest = text.split()
        if word != "run":
            raise LineError(f"not a run: it begins with {word!r}, not with 'run'")
        own = dict(each.split("=", 1) for each in rest)
        if unknown := sorted(own.keys() - {"store", "runtime"}):
            raise LineError(f"not a run: nobody knows {', '.join(unknown)}; after the choices come store= and runtime=")
        made = () if choices == "-" else tuple(int(each) for each in choices.split("."))
        return ReplayLine(table, _read_setting(of), made, **own)
    except (ValueError, TypeError) as problem:
        if isinstance(problem, LineError):
            raise
        raise LineError(f"not a run: {problem}; it is written 'run TABLE SETTING CHOICES'") from problem


def model_of(line: ReplayLine, model: Model | None = None) -> Model:
    """Return the model a line was written for: this one, or the production table's; else raise ``LineError``."""
    here = model or Model(line.setting)
    if digest(here.table) != line.table:
        raise LineError(
            f"the run was made on table {line.table}, and this is {digest(here.table)}: the same choices would tell "
            "another story. Go back to the version that wrote the line, or look for the violation anew."
        )
    for what, told, found in (
        ("store", line.store, store_name(here)),
        ("runtime", line.runtime, runtime_name(here)),
    ):
        if told != found:
            hint = f"add --{what} {told}" if told else f"leave out --{what}"
            raise LineError(f"the run was made on {what} {told or '(ours)'}, and this is {found or '(ours)'}: {hint}")
    if here.setting != line.setting:
        raise LineError(f"the run was made in {line.setting.bounds()}, and this is {here.setting.bounds()}")
    return here


def _own(model: Model) -> list[tuple[str, str]]:
    """Name what is not ours."""
    names = (("store", store_name(model)), ("runtime", runtime_name(model)))
    return [(what, name) for what, name in names if name]


def _setting(setting: Setting) -> str:
    words: list[str] = []
    for each in fields(Setting):
        value = getattr(setting, each.name)
        if isinstance(value, Backing):
            words.append(f"backing={value.value}")
        elif isinstance(value, Capabilities):
            able = [flag.name for flag in fields(Capabilities) if getattr(value, flag.name)]
            words.append(f"store={'+'.join(able) or '-'}")
        elif value != each.default:
            words.append(f"{each.name}={value if isinstance(value, str) else int(value)}")
    return ",".join(words)


def _read_setting(text: str) -> Setting:
    given: dict[str, object] = {}
    known = fields_dict(Setting)
    for word in text.split(","):
        name, value = word.split("=")
        if name not in known:
            raise LineError(f"not a run: a setting has no {name!r}; it has {', '.join(known)}")
        if name == "backing":
            given[name] = Backing(value)
        elif name == "store":
            given[name] = _capabilities([] if value == "-" else value.split("+"))
        else:
            given[name] = _bound(value, known[name].default)
    return Setting(**given)  # type: ignore[arg-type]


def _bound(value: str, default: object) -> object:
    if isinstance(default, str):
        return value
    return bool(int(value)) if isinstance(default, bool) else int(value)


def _capabilities(able: Sequence[str]) -> Capabilities:
    known = [each.name for each in fields(Capabilities)]
    if unknown := [each for each in able if each not in known]:
        raise LineError(f"not a run: a store has no {', '.join(unknown)}; it may have {', '.join(known)}")
    return Capabilities(**{name: name in able for name in known})
