"""Schemas as text: Spark's own JSON, without what a folder of Parquet files cannot promise.

Nullability is left out. A column that happens to have no nulls today is the same column when it has one tomorrow, and
what is read from files is nullable for Spark anyway.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from perago_spark.errors import DatasetError

_NULLABLE: Final = frozenset({"nullable", "containsNull", "valueContainsNull"})
#: What a folder's name can hold and give back unchanged.
_PARTITION_TYPES: Final = frozenset({"byte", "short", "integer", "long", "string", "boolean", "date"})


def plain_schema(text: str) -> str:
    """Normalise a schema: everything nullable, no metadata. Equal text means equal columns."""
    return json.dumps(_plain(json.loads(text)), sort_keys=True)


def _plain(found: Any) -> Any:  # noqa: ANN401  any JSON
    match found:
        case dict():
            known = cast("dict[str, Any]", found)
            kept = {key: True if key in _NULLABLE else _plain(value) for key, value in known.items()}
            return {**kept, "metadata": {}} if "metadata" in kept else kept
        case list():
            return [_plain(each) for each in cast("list[object]", found)]
        case _:
            return found


def columns_of(schema: str) -> dict[str, str]:
    """Return the columns and their types, as text."""
    found: Any = json.loads(schema)
    return {each["name"]: _type(each["type"]) for each in found["fields"]}


def selected(schema: str, columns: tuple[str, ...], folder: str) -> str:
    """Return the schema of these columns, in this order."""
    found: Any = json.loads(schema)
    fields = {each["name"]: each for each in found["fields"]}
    unknown = [name for name in columns if name not in fields]
    if unknown or not columns:
        raise DatasetError(
            f"columns of {folder!r}, which has {', '.join(fields)}",
            ", ".join(unknown) or "an empty list",
            "Correct columns=, or leave it out to read all of them",
        )
    return json.dumps({**found, "fields": [fields[name] for name in columns]}, sort_keys=True)


def check_partitioning(schema: str, partition_by: tuple[str, ...], folder: str) -> None:
    """Refuse partition columns that a folder's name cannot hold."""
    known = columns_of(schema)
    for name in partition_by:
        if known.get(name) not in _PARTITION_TYPES:
            raise DatasetError(
                f"partition columns of type {', '.join(sorted(_PARTITION_TYPES))} in {folder!r}",
                f"{name}: {known.get(name, 'no such column')}",
                "Derive such a column first, for example F.to_date(...)",
            )
    if len(set(partition_by)) == len(known):
        raise DatasetError("a column beside the partition columns", ", ".join(known), "Partition by fewer columns")


def check_append(old: str, new: str, folder: str) -> None:
    """Refuse an append whose columns differ, naming each difference."""
    if old == new:
        return
    was, now = columns_of(old), columns_of(new)
    differing = [f"{name}: {kind} is missing" for name, kind in was.items() if name not in now]
    differing += [f"{name}: {kind} is new" for name, kind in now.items() if name not in was]
    differing += [
        f"{name}: {now[name]} instead of {was[name]}" for name in was if now.get(name, was[name]) != was[name]
    ]
    raise DatasetError(
        f"the columns of {folder!r}: {', '.join(f'{name}: {kind}' for name, kind in was.items())}",
        "; ".join(differing) or f"them in another order: {', '.join(now)}",
        "Select and cast the columns to match, or write with merge_schema=True, or with mode='overwrite'"
        if all(now.get(name, kind) == kind for name, kind in was.items())
        else "Select and cast the columns to match, or write with mode='overwrite'",
    )


def merged_schema(old: str, new: str, folder: str) -> str:
    """Return the columns of both, those of the data set first; refuse one whose type would change.

    Columns that only one of them has are missing in the rows of the other. Their order does not matter.
    """
    was, now = columns_of(old), columns_of(new)
    changed = [f"{name}: {now[name]} instead of {kind}" for name, kind in was.items() if now.get(name, kind) != kind]
    # Spark does not tell them apart, and could read neither.
    known = {name.lower(): name for name in was}
    changed += [f"{name} beside {known[name.lower()]}" for name in now if name not in was and name.lower() in known]
    if changed:
        raise DatasetError(
            f"columns that can be added to those of {folder!r}",
            "; ".join(changed),
            "Cast or rename them, or write with mode='overwrite'",
        )
    first, second = json.loads(old), json.loads(new)
    added = [each for each in second["fields"] if each["name"] not in was]
    return json.dumps({**first, "fields": [*first["fields"], *added]}, sort_keys=True)


def _type(found: Any) -> str:  # noqa: ANN401  a name, or JSON for a nested type
    return found if isinstance(found, str) else json.dumps(found, sort_keys=True)
