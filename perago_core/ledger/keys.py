"""Where the ledger keeps what, on the one key-value store.

==============================  =====================================================================================
``intent/<operation>``          the full record of an open intent
``open/<target>/<operation>``   one pointer for each target of an open intent: what a sweep of that target lists
``prepared/<operation>``        what exclusive recovery is about to move
``settled/<operation>``         the settlement that stands
``audit/<operation>``           the one audit record
``maintained/<target>/<ref>``   an accepted maintenance publication
==============================  =====================================================================================

Listing ``open/<target>/`` is bounded by the open intents of that target: what is settled leaves the prefix (L-08).
"""

from __future__ import annotations

from perago_core.keys import escape, target_key, unescape
from perago_core.values import CommitRef, Target

DECISIONS = "decision/"
INTENTS = "intent/"


def intent_key(operation_id: str) -> str:
    """Name the record of an intent."""
    return INTENTS + escape(operation_id)


def open_prefix(target: Target) -> str:
    """Name what holds the open intents of one target and of no other."""
    return f"open/{target_key(target)}/"


def open_key(target: Target, operation_id: str) -> str:
    """Name the pointer by which a sweep of the target finds an intent."""
    return open_prefix(target) + escape(operation_id)


def operation_of(target: Target, key: str) -> str:
    """Read the operation id back from a pointer's key."""
    return unescape(key.removeprefix(open_prefix(target)))


def prepared_key(operation_id: str) -> str:
    """Name the plan of an exclusive recovery."""
    return f"prepared/{escape(operation_id)}"


def settled_key(operation_id: str) -> str:
    """Name the settlement of an operation."""
    return f"settled/{escape(operation_id)}"


def audit_key(operation_id: str) -> str:
    """Name the audit record of an operation."""
    return f"audit/{escape(operation_id)}"


def maintained_prefix(target: Target) -> str:
    """Name what holds the accepted maintenance of one target."""
    return f"maintained/{target_key(target)}/"


def maintained_key(target: Target, ref: CommitRef) -> str:
    """Name the record of one accepted maintenance publication."""
    return maintained_prefix(target) + escape(ref)
