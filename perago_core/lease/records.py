"""The keys and values of a lock in the coordination store.

``lock/<repository>/<branch>`` names the holder and vanishes with its lease. ``token/<repository>/<branch>`` counts the
holders and stays. What cannot be read back is a ``CodecError``, never "there is none".
"""

from __future__ import annotations

from attrs import field, frozen

from perago_core import codec
from perago_core.checks import line
from perago_core.keys import target_key
from perago_core.lease.events import TokenRecord
from perago_core.value import Value
from perago_core.values import Target


@frozen(cache_hash=True, repr=False)
class Holder(Value):
    """Who holds a lock, and by which lease."""

    owner: str = field(validator=line)
    lease: str = field(validator=line)


def lock_key(target: Target) -> str:
    """Name the lock of a target; two targets never share one (W-18)."""
    return f"lock/{target_key(target)}"


def token_key(target: Target) -> str:
    """Name the record of a target's holders."""
    return f"token/{target_key(target)}"


def encode_holder(owner: str, lease: str) -> str:
    """Write who holds a lock, and by which lease."""
    return codec.dumps(Holder(owner, lease))


def decode_holder(text: str) -> tuple[str, str]:
    """Read owner and lease of a lock, or raise ``CodecError``."""
    holder = codec.loads(text, Holder)
    return holder.owner, holder.lease


def encode_token(record: TokenRecord) -> str:
    """Write a holder's record. The same record is always the same text, so that its writer can swap it later."""
    return codec.dumps(record)


def decode_token(text: str) -> TokenRecord:
    """Read a holder's record, or raise ``CodecError``."""
    return codec.loads(text, TokenRecord)
