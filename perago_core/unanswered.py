"""Unanswered calls are made again while the attempt has time, where making one twice is as good as making it once.

A body of three hours is not thrown away because a read after it met a hiccup of one second. Which calls may be made
again is declared here, by what the ports promise of them. It is done between the conversation and the ports, so no
machine knows of it: *unknown* reaches one when its attempt has no time left to wait.

Never made again: what moves a branch, opens or commits a staging name, reports, or swaps a value. The second answer of
those says nothing about the first request: a swap that had landed unseen answers that somebody else was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from perago_core.answers import Answer, Unknown
from perago_core.calls import Call, Dialogue, clock, pause

T = TypeVar("T")

#: The calls of each port that read, or that leave behind and answer the same however often they are made.
IDEMPOTENT: Mapping[str, frozenset[str]] = {
    "orchestrator": frozenset({"reload"}),
    "store": frozenset({"head", "look", "claim", "read_claim", "claims", "staging_names", "barrier", "drop"}),
    "coordination": frozenset({"get", "list", "create_if_absent"}),
}

#: Seconds before a call is made again the first time; then twice as many each time, up to the second number.
PAUSE = 0.1
PAUSE_MAX = 2.0
#: Seconds after which even a living attempt takes *unknown* for the answer: what fails for so long is no hiccup.
LONGEST = 300.0


def asking_again(dialogue: Dialogue[T], until: Callable[[], float]) -> Dialogue[T]:
    """Carry a conversation on; a call that may be made again and went unanswered is, before ``until`` and no later.

    ``until`` is asked each time: a deadline moves as heartbeats are answered, and is over at once when the attempt is.
    """
    try:
        call = next(dialogue)
        while True:
            answer = yield call
            if isinstance(answer, Unknown) and is_idempotent(call):
                answer = yield from _again(call, answer, until)
            call = dialogue.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def is_idempotent(call: Call) -> bool:
    """Return whether a call made twice leaves behind and answers what it does when it is made once."""
    return call.method in IDEMPOTENT.get(call.port, ())


def _again(call: Call, answer: Answer[Any], until: Callable[[], float]) -> Dialogue[Answer[Any]]:
    now = yield from clock()
    longest = now + LONGEST
    seconds = PAUSE
    while isinstance(answer, Unknown) and now + seconds < min(until(), longest):
        yield from pause(seconds)
        answer = yield call
        now = yield from clock()
        seconds = min(2 * seconds, PAUSE_MAX)
    return answer
