"""The facts the attempt's guards are patterns over. Each is one question with a short list of answers."""

from __future__ import annotations

from perago_core.attempt import events as e
from perago_core.attempt import failures as f
from perago_core.attempt.known import Known, intents_are_clear, is_accepted, is_current, is_ours, plan_of
from perago_core.plan import PlanKind
from perago_core.results import Completed
from perago_core.rows import Fact
from perago_core.values import Attempt, Backing


def _mode(attempt: Attempt, _known: Known, _event: object) -> str:
    return "read only" if attempt.read_only else "writable"


def _backing(attempt: Attempt, _known: Known, _event: object) -> str:
    return attempt.backing.value


def _guarded_by(attempt: Attempt, _known: Known, _event: object) -> str:
    return _GUARDED_BY[attempt.backing]


#: What keeps older attempts from acting once we have observed the head. ``soft`` has nothing and never asks.
_GUARDED_BY = {
    Backing.SOFT: "nothing",
    Backing.ATOMIC: "claim",
    Backing.CONDITIONAL: "revocation",
    Backing.LOCKED: "lease",
}


def _ledger(attempt: Attempt, _known: Known, _event: object) -> str:
    return "on" if attempt.ledger else "off"


def _sender(attempt: Attempt, _known: Known, event: e.BodyEvent) -> str:
    return "ours" if event.execution == attempt.execution else "foreign"


def _failure(_attempt: Attempt, _known: Known, event: e.BodyFailed) -> str:
    return "terminal" if event.terminal else "plain"


def _diff(_attempt: Attempt, known: Known, _event: object) -> str:
    return "changed" if known.changed else "unchanged"


def _staging(_attempt: Attempt, known: Known, _event: object) -> str:
    return "open" if known.staging else "none"


def _attempt(attempt: Attempt, _known: Known, event: e.TaskReloaded) -> str:
    return "current" if is_current(attempt, event.snapshot) else "stale"


def _time(_attempt: Attempt, _known: Known, event: f.TaskReloadUnknown) -> str:
    return "left" if event.now < event.attempt_until else "over"


def _claim(attempt: Attempt, _known: Known, event: e.ClaimStands | e.ClaimRead) -> str:
    return "ours" if is_ours(attempt, event.claim) else "not ours"


def _others(attempt: Attempt, known: Known, _event: object) -> str:
    return "some" if any(claim.execution != attempt.execution for claim in known.claims) else "none"


def _intents(attempt: Attempt, _known: Known, event: e.IntentsSettled) -> str:
    return "clear" if intents_are_clear(attempt, event) else "open"


def _predecessor(_attempt: Attempt, _known: Known, event: e.LeaseHeld) -> str:
    return "clean" if event.clean else "unclean"


def _verdict(_attempt: Attempt, known: Known, _event: object) -> str:
    assert known.decision is not None
    return known.decision.verdict


def _moves(_attempt: Attempt, known: Known, _event: object) -> str:
    return "to the input" if plan_of(known).kind is PlanKind.RETURN else "to a commit"


def _effect(_attempt: Attempt, known: Known, _event: object) -> str:
    return "ours" if known.published is not None and not known.uncertain else "not ours"


def _result(_attempt: Attempt, known: Known, _event: object) -> str:
    return "completed" if isinstance(known.result, Completed) else "failed"


def _reads_back(attempt: Attempt, _known: Known, _event: object) -> str:
    return "no" if attempt.read_only or (attempt.backing is Backing.SOFT and not attempt.ledger) else "yes"


def _intent(_attempt: Attempt, known: Known, _event: object) -> str:
    if not known.armed:
        return "none"
    return "uncertain" if known.uncertain else "armed"


def _acceptance(attempt: Attempt, _known: Known, event: e.TaskReloaded) -> str:
    return "ours" if is_accepted(attempt, event.snapshot) else "not ours"


FACTS = (
    Fact("mode", ("read only", "writable"), _mode),
    Fact("backing", ("soft", "atomic", "conditional", "locked"), _backing),
    Fact("guarded_by", ("nothing", "claim", "revocation", "lease"), _guarded_by),
    Fact("ledger", ("on", "off"), _ledger),
    Fact("sender", ("ours", "foreign"), _sender),
    Fact("failure", ("plain", "terminal"), _failure),
    Fact("diff", ("changed", "unchanged"), _diff),
    Fact("staging", ("open", "none"), _staging),
    Fact("attempt", ("current", "stale"), _attempt),
    Fact("time", ("left", "over"), _time),
    Fact("claim", ("ours", "not ours"), _claim),
    Fact("others", ("some", "none"), _others),
    Fact("intents", ("open", "clear"), _intents),
    Fact("predecessor", ("clean", "unclean"), _predecessor),
    Fact("verdict", ("merge", "replace", "return", "nothing", "refuse", "late"), _verdict),
    Fact("moves", ("to a commit", "to the input"), _moves),
    Fact("effect", ("ours", "not ours"), _effect),
    Fact("result", ("completed", "failed"), _result),
    Fact("reads_back", ("yes", "no"), _reads_back),
    Fact("intent", ("none", "armed", "uncertain"), _intent),
    Fact("acceptance", ("ours", "not ours"), _acceptance),
)
