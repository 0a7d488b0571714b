"""The rows for what may come from outside at any time: attempt lost, lease lost, time over.

One rule, expanded visibly over the phases (rule 4 of the state machine):

* before the publication is sent, an interruption refuses it;
* while it is on its way, an interruption makes it unknown, whether the request was sent or not;
* once the result is on its way, an interruption changes nothing.

``AttemptLost`` is silent outside ``soft``: the task may already be somebody else's. So is every interruption of a
claim: it leaves the claim unknown, and a FAILED from whoever lost it would end the winner's attempt (S-40).
"""

from __future__ import annotations

from perago_core.attempt import asks as ask
from perago_core.attempt import failures as f
from perago_core.attempt.phases import AFTER_REPORT, BEFORE_PUBLICATION, BEYOND_SOFT, FROM_PUBLICATION, UNDER_LEASE
from perago_core.attempt.phases import Phase as P
from perago_core.attempt.table import STRONG
from perago_core.rows import ALWAYS, Event, Row, when


def _unknown_publication(prefix: str, event: type[Event]) -> tuple[Row, ...]:
    """The interruption takes the same ways as an unknown publication."""
    by_name = ("revocation", "lease")
    return (
        Row(f"{prefix}1", P.PUBLICATION, event, when(guarded_by="nothing"), P.REPORT, ask.report_failed),
        Row(f"{prefix}2", P.PUBLICATION, event, when(guarded_by="claim"), P.OWN_HEAD, ask.read_head),
        Row(f"{prefix}3", P.PUBLICATION, event, when(guarded_by=by_name), P.OWN_REVOCATION, ask.drop_staging),
    )


def _without(phases: tuple[P, ...], *excluded: P) -> tuple[P, ...]:
    return tuple(phase for phase in phases if phase not in excluded)


_RESOLVING = _without(FROM_PUBLICATION, P.PUBLICATION)
_WITH_SOFT = _without((*BEFORE_PUBLICATION, *FROM_PUBLICATION), *BEYOND_SOFT)
#: Nobody knows yet whose the attempt is.
_CLAIMING = (P.CLAIM, P.CLAIM_CHECK)

INTERRUPTS: tuple[Row, ...] = (
    *(
        Row(f"AL-{phase.name}-soft", phase, f.AttemptLost, when(backing="soft"), P.REPORT, ask.report_failed)
        for phase in _WITH_SOFT
    ),
    *(
        Row(f"AL-{phase.name}", phase, f.AttemptLost, when(backing=STRONG), P.CLEAN_UP, ask.clean_up)
        for phase in _WITH_SOFT
    ),
    *(Row(f"AL-{phase.name}", phase, f.AttemptLost, ALWAYS, P.CLEAN_UP, ask.clean_up) for phase in BEYOND_SOFT),
    *(Row(f"AL-{phase.name}", phase, f.AttemptLost, ALWAYS, phase) for phase in AFTER_REPORT),
    *(
        Row(f"DE-{phase.name}", phase, f.DeadlineExceeded, ALWAYS, P.REPORT, ask.report_failed)
        for phase in (*_without(BEFORE_PUBLICATION, *_CLAIMING), *_RESOLVING)
    ),
    *(Row(f"DE-{phase.name}", phase, f.DeadlineExceeded, ALWAYS, P.CLEAN_UP, ask.clean_up) for phase in _CLAIMING),
    *_unknown_publication("DE-PUBLICATION-", f.DeadlineExceeded),
    *(Row(f"DE-{phase.name}", phase, f.DeadlineExceeded, ALWAYS, phase) for phase in AFTER_REPORT),
    *(Row(f"LL-{phase.name}", phase, f.LeaseLost, ALWAYS, P.REPORT, ask.report_failed) for phase in UNDER_LEASE),
    *_unknown_publication("LL-PUBLICATION-", f.LeaseLost),
    *(Row(f"LL-{phase.name}", phase, f.LeaseLost, ALWAYS, phase) for phase in (*_RESOLVING, *AFTER_REPORT)),
)
