"""What a recovery waits for, in order, and the four ways it may end."""

from __future__ import annotations

from perago_core.rows import Waiting


class Phase(Waiting):
    """A phase is named after what is awaited; the last four are the ends."""

    RECORD = "the intent, read afresh"
    EARLIER_SETTLEMENT = "the word whether somebody has settled it already"
    AUTHORITY = "the orchestrator's word on its task"
    OWNERS = "the claim records that could own its commits"
    TARGETS = "the targets as they are now"
    EARLIER_PLAN = "the word whether an exclusive recovery has begun to move them"
    PLAN = "the durable plan"
    RELOCATION = "the targets back at their inputs"
    SETTLEMENT = "the settlement that stands"
    AUDIT = "the audit record that stands"
    CLOSING = "the end of the open entries"
    SETTLED = "nothing more: it is settled"
    DEFERRED = "nothing more for now: untouched, a later sweep decides"
    REFUSED = "nothing more: kept as it is, a person decides"
    PROBED = "nothing more: looked at, nothing written"
