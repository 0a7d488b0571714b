"""One line that says everything about a run: the table's digest, the setting, the choices.

    run 0123456789abcdef backing=soft,attempts=2,... 0.1.0.3

It is refused on another table, where the same choices would tell another story.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import fields, fields_dict, frozen

from perago_core.description import digest
from perago_core.errors import PeragoError
from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.model import Model
from perago_simulation.settings import Capabilities, Setting


class LineError(PeragoError, ValueError):
    """A line cannot be read, or it was written for another table."""


@frozen(repr=False)
class Line(Value):
    """A run as one line."""

    table: str
    setting: Setting
    choices: tuple[int, ...]


def line_of(model: Model, choices: Sequence[int]) -> str:
    """Write a run as one line."""
    return f"run {digest(model.table)} {_setting(model.setting)} {'.'.join(map(str, choices))}"


def read_line(text: str) -> Line:
    """Read a line back, strictly."""
    try:
        word, table, of, choices = text.split()
        if word != "run":
            raise LineError(f"not a run: {text!r}")
        return Line(table, _read(of), tuple(int(each) for each in choices.split(".")))
    except (ValueError, TypeError, KeyError) as problem:
        raise LineError(f"not a run: {problem}") from problem


def model_of(line: Line, model: Model | None = None) -> Model:
    """Give the model a line was written for: this one, or the production table's; else raise ``LineError``."""
    here = model or Model(line.setting)
    if digest(here.table) != line.table:
        raise LineError(f"the run was made on table {line.table}, and this is {digest(here.table)}")
    if here.setting != line.setting:
        raise LineError(f"the run was made in {line.setting.bounds()}, and this is {here.setting.bounds()}")
    return here


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
            words.append(f"{each.name}={int(value)}")
    return ",".join(words)


def _read(text: str) -> Setting:
    given: dict[str, object] = {}
    for word in text.split(","):
        name, value = word.split("=")
        if name == "backing":
            given[name] = Backing(value)
        elif name == "store":
            given[name] = Capabilities(**dict.fromkeys(value.split("+"), True)) if value != "-" else Capabilities()
        else:
            default = fields_dict(Setting)[name].default
            given[name] = bool(int(value)) if isinstance(default, bool) else int(value)
    return Setting(**given)  # type: ignore[arg-type]
