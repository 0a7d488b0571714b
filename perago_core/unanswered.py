"""Unanswered calls are made again while the attempt has time, where making one twice is as good as making it once.

A body of three hours is not thrown away because a read after it met a hiccup of one second. Which calls may be made
again is declared here, by what the ports promise of them. It is done between the conversation and the ports, so no
machine knows of it: *unknown* reaches one when its attempt has no time left to wait.

Never made again: what moves a branch, opens or commits a staging name, reports, or swaps a value. The second answer of
those says nothing about the first request: a swap that had landed unseen answers that somebody else was faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from perago_core.answers import Answer, Unknown
from perago_core.calls import Call, Dialogue, clock, pause

T = TypeVar("T")

#: The calls of each port that read, or that leave behind and answer the same however often they are made.
IDEMPOTENT: Mapping[str, frozenset[str]] = {
    "orchestrator": frozenset({"reload"}),
    "store": frozenset({"head", "look", "since", "claim", "read_claim", "claims", "staging_names", "barrier", "drop"}),
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
    turn = pauses(until)
    while isinstance(answer, Unknown) and (yield from turn()):
        answer = yield call
    return answer


def pauses(until: Callable[[], float]) -> Callable[[], Dialogue[bool]]:
    """Return a wait before the next try: each longer than the one before; it says no when there is no time for one.

    The time is over at ``until``, and ``LONGEST`` after the first wait. No wait takes more than half of what is left:
    heartbeats move a deadline that is nearer than the longest wait, and a wait up to it would end before they do.
    """
    seconds, longest = PAUSE, math.inf

    def turn() -> Dialogue[bool]:
        nonlocal seconds, longest
        now = yield from clock()
        longest = min(longest, now + LONGEST)
        left = min(until(), longest) - now
        if left <= PAUSE:
            return False
        yield from pause(max(PAUSE, min(seconds, left / 2)))
        seconds = min(2 * seconds, PAUSE_MAX)
        return True

    return turn
