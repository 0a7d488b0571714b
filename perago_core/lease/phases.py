"""What the lease machine waits for, in order, and the ways it may end."""

from __future__ import annotations

from perago_core.rows import Waiting


class Phase(Waiting):
    """A phase is named after what is awaited; the last four are the ends."""

    LEASE = "the lease"
    LOCK = "the lock that stands"
    TOKEN = "the last holder's record"  # noqa: S105 - a fencing token is no password
    OWN_TOKEN = "our record, with the next token"  # noqa: S105 - as above
    HELD = "the next tick or the wish to release"
    RENEWAL = "the renewal; the lock is still held"
    RELEASE_MARK = "our record, marked as released"
    RELEASE = "the end of the lease we give back"
    YIELD = "the end of the lease nobody needs, because the lock is another's"
    RETREAT = "the end of the lease after an acquisition that failed"
    RELEASED = "nothing more: given back"
    BUSY = "nothing more: another holds the lock"
    NOT_HELD = "nothing more: it was never ours"
    LOST = "nothing more: it was ours, or nearly, and is no longer"
