"""What must hold of the calls one execution really made, in the order in which they reached its ports.

``order`` judges the table: what an attempt may ask for. Between the table and a port stand the conversations, the
driver, the calls it makes again and the lease it tends, and each of them could put a call where none may be.
Counterexample: a table in perfect order, and a driver that renews the lease before each command. Renewing takes two
seconds, and what was seen at the head is two seconds old when the plan is sent.

``Recorded`` stands in front of a port and writes down what reaches it; ``broken_orders`` judges what was written.
"""

# ruff: noqa: E501  one clause, one line
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from perago_core.answers import Answer, Done, Unknown
from perago_core.attempt.state import is_current
from perago_core.errors import CodecError
from perago_core.lease.state import decode_token, token_key
from perago_core.ledger import records
from perago_core.ports import Clock, Entry
from perago_core.results import Completed
from perago_core.value import Value
from perago_core.values import Attempt, Backing


@frozen(repr=False)
class Made(Value):
    """One call that reached a port: ``store.publish``, with what, when it was sent, and what was answered."""

    name: str
    args: tuple[Any, ...]
    at: float
    answer: Answer[Any]


class Recorded:
    """A port that writes down what reaches it. In front of a clock, only its sleeping is a call."""

    def __init__(self, name: str, port: object, clock: Clock, made: list[Made]) -> None:
        self._name = name
        self._port = port
        self._clock = clock
        self._made = made

    def __getattr__(self, method: str) -> Callable[..., Any]:
        serve: Callable[..., Any] = getattr(self._port, method)
        if method in {"now", "wall", "sink", "read"}:  # they wait for nobody
            return serve

        def call(*args: object) -> object:
            at = self._clock.now()
            answer: object = None
            try:
                answer = serve(*args)
            finally:
                told: Answer[Any] = answer if isinstance(answer, Value) else Unknown("no answer")  # type: ignore[assignment]
                self._made.append(Made(f"{self._name}.{method}", args, at, told))
            return answer

        return call


Sees: TypeAlias = Callable[[Attempt, Made], bool]
Judge: TypeAlias = Callable[[Attempt, Sequence[Made]], bool]


@frozen(repr=False)
class CallClause(Value):
    """One clause about the calls of one execution; ``breaks`` says whether they break it."""

    id: str
    says: str
    breaks: Judge
    backings: tuple[Backing, ...] = tuple(Backing)
    ledger: bool = False


# ---------------------------------------------------------------------------------------------------------------------
# Calls that mean something


def _is(*names: str) -> Sees:
    return lambda _attempt, made: made.name in names


def _done(*names: str) -> Sees:
    return lambda _attempt, made: made.name in names and isinstance(made.answer, Done)


def _true(name: str, made: Made) -> bool:
    return made.name == name and isinstance(made.answer, Done) and made.answer.value is True


def _own_task(attempt: Attempt, made: Made) -> bool:
    return made.name == "orchestrator.reload" and made.args == (attempt.workflow_id, attempt.task_id)


def _fence(attempt: Attempt, made: Made) -> bool:
    return _own_task(attempt, made) and isinstance(made.answer, Done) and is_current(attempt, made.answer.value)


def _stale(attempt: Attempt, made: Made) -> bool:
    return _own_task(attempt, made) and isinstance(made.answer, Done) and not is_current(attempt, made.answer.value)


def _success(attempt: Attempt, made: Made) -> bool:
    if made.name != "orchestrator.report" or not isinstance(made.args[1], Completed):
        return False
    return made.args[1].ref != attempt.input


def _token_taken(attempt: Attempt, made: Made) -> bool:
    return _true("coordination.swap", made) and made.args[0] == token_key(attempt.target)


def _intents_listed(attempt: Attempt, made: Made) -> bool:
    return _done("coordination.list")(attempt, made) and made.args[0] == records.open_prefix(attempt.target)


def _armed(attempt: Attempt, made: Made) -> bool:
    """The pointer, which is written after the record: with it a sweep of the target finds the intent."""
    if made.name not in {"coordination.create_if_absent", "coordination.get"} or not isinstance(made.answer, Done):
        return False
    return made.args[0] == records.open_key(attempt.target, attempt.execution) and made.answer.value is not None


# ---------------------------------------------------------------------------------------------------------------------
# Orders

#: Seconds that are lost when times are added up.
_TICK = 1e-6


def _never(end: Sees, *, unless: Sees, after: Sees | None = None) -> Judge:
    """No ``end`` follows an ``after``, or the beginning, ``unless`` that came in between."""

    def breaks(attempt: Attempt, calls: Sequence[Made]) -> bool:
        waits = after is None
        for made in calls:
            if waits and end(attempt, made):
                return True
            if after is not None and after(attempt, made):
                waits = True
            elif unless(attempt, made):
                waits = False
        return False

    return breaks


def _nothing(_attempt: Attempt, _made: Made) -> bool:
    return False


def _stale_reports(attempt: Attempt, calls: Sequence[Made]) -> bool:
    """A sweep of the ledger asks about the own task too, as one that may claim what it settles.

    That is no attempt fence: an attempt that ended meanwhile goes on to the store, which has its name no more, and its
    report is for a task that has ended (decision 45).
    """
    stale = sweeping = False
    for made in calls:
        if stale and made.name == "orchestrator.report":
            return True
        if made.name == "coordination.list":
            sweeping = _intents_listed(attempt, made)
        stale = stale or (_stale(attempt, made) and not sweeping)
    return False


def _not_the_head(_attempt: Attempt, calls: Sequence[Made]) -> bool:
    """The call right before a publication is the look at the head that its plan expects."""
    seen: str | None = None
    for made in calls:
        if made.name == "store.publish" and made.args[0].expected != seen:
            return True
        seen = None
        if made.name == "store.head" and isinstance(made.answer, Done) and made.answer.value is not None:
            seen = made.answer.value.commit.ref
    return False


def _no_wait(attempt: Attempt, calls: Sequence[Made]) -> bool:
    """After a predecessor that has not given its token back, revoking begins the takeover wait later, or never."""
    unclean: bool = False
    since: float | None = None
    for made in calls:
        if made.name == "coordination.get" and made.args[0] == token_key(attempt.target):
            unclean = _left_behind(made.answer)
        elif _token_taken(attempt, made) and unclean:
            since = made.at
        elif made.name == "store.staging_names" and since is not None:
            return made.at - since < attempt.budget.takeover_wait - _TICK
    return False


def _no_barrier(_attempt: Attempt, calls: Sequence[Made]) -> bool:
    """Later than the first look for older names: a sweep of the ledger looks again, and has a barrier of its own."""
    looked = passed = False
    for made in calls:
        if made.name == "store.publish" and looked and not passed:
            return True
        looked = looked or made.name == "store.staging_names"
        passed = passed or (looked and made.name == "store.barrier" and isinstance(made.answer, Done))
    return False


def _left_behind(answer: Answer[Entry | None]) -> bool:
    if not isinstance(answer, Done) or answer.value is None:
        return False
    try:
        return not decode_token(answer.value.value).released
    except CodecError:
        return True


def _after_the_lease(attempt: Attempt, calls: Sequence[Made]) -> bool:
    """A lease is good from when it was asked for, or renewed, until its time to live is over but for the margin."""
    good_for = attempt.budget.lease_ttl - attempt.budget.lease_margin
    until = float("-inf")
    for made in calls:
        if _done("coordination.grant")(attempt, made) or _true("coordination.keep_alive", made):
            until = made.at + good_for
        elif made.name == "store.publish" and made.at > until:
            return True
    return False


_SEND = _is("store.publish")
_REPORT = _is("orchestrator.report")
_BY_NAME = (Backing.CONDITIONAL, Backing.LOCKED)
_STRONG = (Backing.ATOMIC, *_BY_NAME)
_LOCKED = (Backing.LOCKED,)


def _sent_unknown(_attempt: Attempt, made: Made) -> bool:
    return made.name == "store.publish" and isinstance(made.answer, Unknown)


# fmt: off
CALL_CLAUSES = (
    CallClause("S-05b", "after a publication without an answer success is reported only past an attempt fence", _never(_success, after=_sent_unknown, unless=_fence)),
    CallClause("S-05c", "a publication is sent once", _never(_SEND, after=_SEND, unless=_nothing)),
    CallClause("S-07", "who is stale does not report", _stale_reports, _STRONG),
    CallClause("S-07b", "a result is reported once", _never(_REPORT, after=_REPORT, unless=_nothing)),
    CallClause("S-08a", "nothing is staged but past an attempt fence", _never(_is("store.open_staging"), unless=_fence)),
    CallClause("S-08", "nothing is published but past an attempt fence later than its name and its commit", _never(_SEND, after=_is("store.open_staging", "store.commit"), unless=_fence)),
    CallClause("S-08b", "nothing is published but past an attempt fence, name or no name", _never(_SEND, unless=_fence)),
    CallClause("S-08c", "nothing is published but past an attempt fence later than the lease", _never(_SEND, after=_token_taken, unless=_fence), _LOCKED),
    CallClause("S-09", "between seeing the head that a plan expects and sending it nobody is asked, and nobody waits", _not_the_head),
    CallClause("S-18", "nothing is published but past the own intent, where a sweep finds it", _never(_SEND, unless=_armed), ledger=True),
    CallClause("S-18b", "nothing is published but past a list of the open intents", _never(_SEND, unless=_intents_listed), ledger=True),
    CallClause("S-24", "nothing is published after the end of the lease, counted from its last renewal", _after_the_lease, _LOCKED),
    CallClause("S-24b", "after an unclean release nobody is revoked before the wait is over", _no_wait, _LOCKED),
    CallClause("S-30b", "nothing is published by name but past a barrier, later than the look for older names", _no_barrier, _BY_NAME),
    CallClause("S-30c", "nothing is published by name but past a look for older names", _never(_SEND, unless=_done("store.staging_names")), _BY_NAME),
)
# fmt: on


def broken_orders(attempt: Attempt, calls: Sequence[Made]) -> tuple[str, ...]:
    """Name the clauses that the calls of an execution break."""
    return tuple(each.id for each in _concerning(attempt) if each.breaks(attempt, calls))


def _concerning(attempt: Attempt) -> Iterator[CallClause]:
    for each in CALL_CLAUSES:
        if attempt.backing in each.backings and (attempt.ledger or not each.ledger):
            yield each
