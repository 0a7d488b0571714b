"""How a decision is written into the coordination store, and read back.

One key an epoch, ``decision/0000000001``, created if absent and never changed. What cannot be read back is a
``CodecError``, never "there is none": a node that took a newer program's record for nothing would decide against it.
"""

from __future__ import annotations

from collections.abc import Iterable

from perago_core import codec
from perago_core.errors import CodecError
from perago_core.policy.events import Decision
from perago_core.ports import Entry

PREFIX = "decision/"


def decision_key(epoch: int) -> str:
    """Name the key of an epoch; padded, so that key order is epoch order."""
    return f"{PREFIX}{epoch:010d}"


def encode_decision(decision: Decision) -> str:
    """Write a decision as text."""
    return codec.dumps(decision)


def decode_decision(entry: Entry) -> Decision:
    """Read the decision an entry holds, or raise ``CodecError`` saying which key holds what instead."""
    try:
        decision = codec.loads(entry.value, Decision)
    except CodecError as problem:
        message = f"the decision at {entry.key} cannot be read: {problem}"
        raise CodecError(message) from problem
    if entry.key != decision_key(decision.epoch):
        message = f"the decision at {entry.key} cannot be read: it says epoch {decision.epoch}, its key does not"
        raise CodecError(message)
    return decision


def latest_decision(entries: Iterable[Entry]) -> Decision | None:
    """Read the decision with the highest epoch; ``None`` only if there is no entry at all.

    Only the latest is decoded, but every key must be one of ours: an unknown key may be the newest decision.
    """
    latest: tuple[int, Entry] | None = None
    for entry in entries:
        epoch = _epoch_of(entry.key)
        if latest is None or epoch > latest[0]:
            latest = (epoch, entry)
    return None if latest is None else decode_decision(latest[1])


def _epoch_of(key: str) -> int:
    digits = key.removeprefix(PREFIX)
    if not (digits.isascii() and digits.isdecimal()) or key != decision_key(int(digits)):
        message = f"{key!r} is not the key of a decision"
        raise CodecError(message)
    return int(digits)
