"""Who holds the lock of a branch, and who held it last. Reads only."""

from __future__ import annotations

from attrs import frozen

from perago_core.answers import Answer, Done, Unknown
from perago_core.errors import CodecError
from perago_core.lease.messages import TokenRecord
from perago_core.lease.state import decode_holder, decode_token, lock_key, token_key
from perago_core.ports import Coordination
from perago_core.values import Target


@frozen
class Lock:
    """The lock of a target: the execution that holds it now, its lease, and the record of the last holder."""

    owner: str | None
    lease: str | None
    last: TokenRecord | None


def lock_of(coordination: Coordination, target: Target) -> Answer[Lock]:
    """Read the lock of a target; a record that cannot be read is nobody's and somebody's, so it is unknown."""
    standing = coordination.get(lock_key(target))
    if not isinstance(standing, Done):
        return standing
    token = coordination.get(token_key(target))
    if not isinstance(token, Done):
        return token
    try:
        owner, lease = (None, None) if standing.value is None else decode_holder(standing.value.value)
        last = None if token.value is None else decode_token(token.value.value)
    except CodecError as error:
        return Unknown(f"the lock of {target} cannot be read: {error}")
    return Done(Lock(owner, lease, last))
