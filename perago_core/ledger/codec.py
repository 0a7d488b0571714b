"""How the ledger's records are written as text, and read back, each under its own key.

Writing is canonical, so "is what stands ours?" is a comparison of content, never of existence or length (T-W9). Reading
gives ``Unreadable`` for a newer schema, for anything malformed and for a record that stands under another's key;
whoever asked keeps the record as it is (R-19).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from attrs import field, frozen

from perago_core import codec
from perago_core.checks import text
from perago_core.errors import CodecError
from perago_core.ledger.keys import audit_key, intent_key, maintained_key, prepared_key, settled_key
from perago_core.ledger.records import Audit, Intent, Prepared, Settlement
from perago_core.ports import Entry
from perago_core.value import Value
from perago_core.values import Maintained, Target

Record: TypeAlias = Intent | Prepared | Settlement | Audit
R = TypeVar("R", Intent, Prepared, Settlement, Audit)


@frozen(cache_hash=True, repr=False)
class Unreadable(Value):
    """A record stands under this key and this program must not guess what it says."""

    key: str = field(validator=text)
    reason: str = field(validator=text)

    def __str__(self) -> str:
        return f"the record at {self.key} cannot be read: {self.reason}"


def encode(record: Record | Maintained) -> str:
    """Write a record as text; equal records give equal text."""
    return codec.dumps(record)


def pointer(operation_id: str) -> str:
    """Write what stands under an open key: nothing but whose intent it is, so that the record is always read afresh."""
    return json.dumps({"schema": codec.SCHEMA, "operation_id": operation_id}, sort_keys=True)


def decode(kind: type[R], entry: Entry) -> R | Unreadable:
    """Read the record an entry holds, or say why it cannot be read."""
    try:
        record = codec.loads(entry.value, kind)
    except CodecError as problem:
        return Unreadable(entry.key, str(problem))
    expected = _KEYS[kind](record.operation_id)
    return record if entry.key == expected else Unreadable(entry.key, f"what it says belongs under {expected}")


def decode_maintained(target: Target, entry: Entry) -> Maintained | Unreadable:
    """Read one accepted maintenance publication of a target, or say why it cannot be read."""
    try:
        record = codec.loads(entry.value, Maintained)
    except CodecError as problem:
        return Unreadable(entry.key, str(problem))
    expected = maintained_key(target, record.ref)
    return record if entry.key == expected else Unreadable(entry.key, f"what it says belongs under {expected}")


_KEYS: Mapping[type[Any], Callable[[str], str]] = {
    Intent: intent_key,
    Prepared: prepared_key,
    Settlement: settled_key,
    Audit: audit_key,
}
