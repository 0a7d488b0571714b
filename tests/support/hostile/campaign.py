"""Throw wrong answers at every call of a port, and count what was made of them: no crash, no hang, no false done."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from typing import Any, Final, TypeAlias

from attrs import define, field

from perago_core.answers import Answer, Done, NotDone, Unknown
from tests.support.hostile.server import Hostile

Calls: TypeAlias = Mapping[str, Callable[[], Answer[Any]]]
#: Seconds after which a call hangs; the clients of a campaign wait for tenths of one.
_HANGS: Final = 60.0
#: Requests of a call that are answered rightly before one is not.
_DEPTH: Final = 3


@define
class Figures:
    """What a campaign has seen. ``broken``: in the words of whoever has to mend it."""

    protocol: str
    seed: int
    thrown: int = 0
    calls: Counter[str] = field(factory=Counter[str])
    said: Counter[str] = field(factory=Counter[str])
    broken: list[str] = field(factory=list[str])

    def __str__(self) -> str:
        said = ", ".join(f"{count:,} {name}" for name, count in sorted(self.said.items()))
        return (
            f"{self.protocol}: {self.thrown:,} wrong answers at {len(self.calls)} calls (seed {self.seed}): {said}; "
            f"{len(self.broken)} crashes, hangs or false dones"
        )


def campaign(protocol: str, server: Hostile, calls: Calls, amount: int, seed: int) -> Figures:
    """Make calls until so many wrong answers were thrown. Of a poll, a task that cannot be read may be left out."""
    server.chance = random.Random(seed)
    chance = random.Random(seed + 1)
    figures = Figures(protocol, seed)
    with ThreadPoolExecutor(1) as pool:
        true = {name: _true(server, name, call) for name, call in calls.items()}
        while figures.thrown < amount and len(figures.broken) < 20:
            name = chance.choice(list(calls))
            server.turns(chance.randrange(_DEPTH))
            running = pool.submit(calls[name])
            try:
                answer = running.result(_HANGS)
            except StillRunning:
                figures.broken.append(f"{name} hangs after {server.sent}")
                server.stop()
                break
            except Exception as crash:  # noqa: BLE001  whatever leaves a port is a finding
                figures.broken.append(f"{name} raises {crash!r:.200} after {server.sent}")
                continue
            _note(figures, name, server, answer, true[name])
    return figures


def _true(server: Hostile, name: str, call: Callable[[], Answer[Any]]) -> object:
    """Give what a call answers to a server that is right: if that is not done, the campaign would prove nothing."""
    server.turns(None)
    answer = call()
    assert isinstance(answer, Done), (name, answer)
    return answer.value


def _note(figures: Figures, name: str, server: Hostile, answer: Answer[Any], true: object) -> None:
    thrown = list(server.sent)
    if not thrown and isinstance(answer, Done):
        return  # it had all it asked for before the server turned
    figures.thrown += len(thrown)
    figures.calls[name] += 1
    if not isinstance(answer, Done):
        figures.said["not done" if isinstance(answer, NotDone) else "unknown"] += 1
        assert isinstance(answer, NotDone | Unknown)
    elif thrown[-1].only_a_field and (answer.value == true or (name, answer.value) == ("poll", ())):
        # The last one counts: what was locked out (401) is sent again with a new token.
        figures.said["rightly done"] += 1
    else:
        figures.broken.append(f"{name} says {answer!r:.200} after {thrown}")
