"""A schema of pandera, or a model, as gates.

As pandera means it: what is not a number is missing; a missing value passes every check of values; two missing values
are alike where a column, or several together, must be unique. What changes the rows (``coerce``, parsers,
``strict="filter"``) is refused: a gate looks, and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from perago_spark.api.gates import Gate
from perago_spark.errors import DatasetError
from perago_spark.suites import rows

_LIBRARY: Final = "pandera"
#: What a schema or a column must not ask for.
_OPTIONS: Final = (
    "coerce",
    "parsers",
    "drop_invalid_rows",
    "add_missing_columns",
    "unique_column_names",
    "index",
    "default",
    "regex",
)
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "int8": ("tinyint",),
    "int16": ("smallint",),
    "int32": ("int",),
    "int64": ("bigint",),
    "float32": ("float",),
    "float64": ("double",),
    "bool": ("boolean",),
    "boolean": ("boolean",),
    "str": ("string",),
    "string": ("string",),
    "date": ("date",),
    "datetime64[ns]": ("timestamp_ntz", "timestamp"),
    "datetime64[us]": ("timestamp_ntz", "timestamp"),
    "datetime64[ns, utc]": ("timestamp",),
    "datetime64[us, utc]": ("timestamp",),
}
_FRACTIONS: Final = frozenset({"float", "double"})
_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], rows.Wanted]]] = {
    "equal_to": lambda given: rows.one_of([given["value"]]),
    "not_equal_to": lambda given: rows.unlike(rows.one_of([given["value"]])),
    "greater_than": lambda given: rows.between(given["min_value"], None, above=True),
    "greater_than_or_equal_to": lambda given: rows.between(given["min_value"], None),
    "less_than": lambda given: rows.between(None, given["max_value"], below=True),
    "less_than_or_equal_to": lambda given: rows.between(None, given["max_value"]),
    "in_range": lambda given: rows.between(
        given["min_value"], given["max_value"], above=not given["include_min"], below=not given["include_max"]
    ),
    "isin": lambda given: rows.one_of(given["allowed_values"]),
    "notin": lambda given: rows.unlike(rows.one_of(given["forbidden_values"])),
    "str_matches": lambda given: rows.like(given["pattern"], at_the_start=True),
    "str_contains": lambda given: rows.like(given["pattern"]),
    "str_startswith": lambda given: lambda column: column.startswith(given["string"]),
    "str_endswith": lambda given: lambda column: column.endswith(given["string"]),
    "str_length": lambda given: rows.long(*_lengths(given)),
}


def pandera_gates(demand: Any, columns: Mapping[str, str]) -> list[Gate]:  # noqa: ANN401  a schema, or a model
    """Translate it, for a frame with these columns."""
    schema: Any = demand.to_schema() if hasattr(demand, "to_schema") else demand
    if isinstance(schema, type) or not hasattr(schema, "columns"):
        found = schema.__name__ if isinstance(schema, type) else f"a {type(schema).__name__}"
        raise DatasetError("a DataFrameSchema or a DataFrameModel of pandera", found, "Pass the schema that has it")
    return rows.translated(_LIBRARY, _checks(schema, columns))


def _checks(schema: Any, columns: Mapping[str, str]) -> Iterator[rows.Check]:  # noqa: ANN401  pandera's
    yield "the schema", partial(_of_schema, schema, columns)
    for number, check in enumerate(schema.checks):
        yield f"check {check.name or number} of the whole frame", _untranslated
    for name, column in schema.columns.items():
        if name in columns or column.regex:
            kind = columns.get(name, "")
            yield f"column {name}", partial(_of_column, name, column, kind)
            for number, check in enumerate(column.checks):
                yield f"check {check.name or number} of column {name}", partial(_of_check, name, check, kind)


def _of_schema(schema: Any, columns: Mapping[str, str]) -> list[Gate]:  # noqa: ANN401  pandera's
    _plain(schema)
    if schema.dtype is not None or schema.strict not in {False, True}:
        raise rows.UntranslatedError("dtype of the whole schema" if schema.dtype is not None else "strict='filter'")
    absent = [name for name, each in schema.columns.items() if each.required and name not in columns]
    gates = [
        rows.known(f"pandera: columns of {schema.name or 'the schema'}", f"no {', '.join(absent)}" if absent else None)
    ]
    if schema.strict:
        more = [each for each in columns if each not in schema.columns]
        gates.append(rows.known("pandera: strict", f"{', '.join(more)} too many" if more else None))
    if schema.ordered:
        wanted = [each for each in schema.columns if each in columns]
        found = [each for each in columns if each in schema.columns]
        gates.append(rows.known("pandera: ordered", None if wanted == found else f"the order {', '.join(found)}"))
    # Pandera, too, compares by those that are there; one that is required and absent is said above.
    together = [each for each in schema.unique or () if each in columns]
    if together:
        fractions = [each for each in together if columns[each] in _FRACTIONS]
        gates.append(rows.differs(f"pandera: unique({', '.join(together)})", together, missing=fractions))
    return gates


def _of_column(name: str, column: Any, kind: str) -> list[Gate]:  # noqa: ANN401  pandera's
    _plain(column)
    gates: list[Gate] = []
    if column.dtype is not None:
        wanted = _kinds(str(column.dtype))
        objection = None if kind in wanted else f"{kind}, not {' or '.join(wanted)}"
        gates.append(rows.known(f"pandera: {name} is {column.dtype}", objection))
    if not column.nullable:
        gates.append(rows.has_value(f"pandera: {name} not nullable", name, missing=kind in _FRACTIONS))
    if column.unique:
        gates.append(rows.differs(f"pandera: {name} unique", [name], missing=[name] if kind in _FRACTIONS else ()))
    return gates


def _of_check(name: str, check: Any, kind: str) -> list[Gate]:  # noqa: ANN401  pandera's
    if check.name not in _CHECKS:
        _untranslated()
    for option, usual in (("ignore_na", True), ("raise_warning", False), ("groupby", None), ("element_wise", False)):
        if getattr(check, option) != usual:
            raise rows.UntranslatedError(f"{option}={getattr(check, option)!r}")
    try:
        wanted = _CHECKS[check.name](check.statistics)
    except KeyError:
        raise rows.UntranslatedError("not the one of pandera") from None
    return [rows.holds(f"pandera: {name} {check.error or check.name}", name, wanted, missing=kind in _FRACTIONS)]


def _plain(part: Any) -> None:  # noqa: ANN401  a schema or a column
    # Asked by identity: a default of 0 is one, and an index compares itself with nothing but its like.
    asked = [each for each in _OPTIONS if not any(getattr(part, each, None) is usual for usual in (None, False))]
    if "parsers" in asked and not part.parsers:
        asked.remove("parsers")
    if asked:
        raise rows.UntranslatedError(", ".join(asked))


def _kinds(dtype: str) -> tuple[str, ...]:
    exact = re.fullmatch(r"Decimal\((\d+), (\d+)\)", dtype)
    if exact is not None:
        return (f"decimal({exact[1]},{exact[2]})",)
    known = _KINDS.get(re.sub(r"^(string|str)\[.*\]$", r"\1", dtype.lower()))
    if known is None:
        raise rows.UntranslatedError(f"dtype {dtype}")
    return known


def _lengths(given: Mapping[str, Any]) -> tuple[int | None, int | None]:
    exact = given.get("exact_value")
    return (given.get("min_value"), given.get("max_value")) if exact is None else (exact, exact)


def _untranslated() -> list[Gate]:
    raise rows.UntranslatedError
