"""What the policy machine waits for, in order, and the ways it may end."""

from __future__ import annotations

from perago_core.rows import Waiting


class Phase(Waiting):
    """A phase is named after what is awaited; the last seven are the ends, each failure under its own name."""

    SETTINGS = "the settings"
    DECISION = "the stored decision"
    PROBE = "the store's behaviour"
    PROBE_PAUSE = "the end of the wait before another probe"
    STORED = "the decision that stands at our epoch"
    STORE_PAUSE = "the end of the wait before storing again"
    RESOLVED = "nothing more: the backing is known"
    UNCOORDINATED = "nothing more: the policy needs a coordination store and there is none"
    UNREADABLE = "nothing more: nobody knows what was decided"
    INCAPABLE = "nothing more: the store is proved unable of what is required"
    OVERRULED = "nothing more: the cluster decided against what is required"
    UNPROVED = "nothing more: no probe came to an answer"
    UNAGREED = "nothing more: the decision could not be stored"
