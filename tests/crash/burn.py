"""``make burn``: a seeded nemesis over real processes and servers, and what was injected, survived and lost.

    make burn STACK=servers POLICY=auto MINUTES=20 SEED=7

Rounds, until the time is over. Each has fresh branches, a plan of faults drawn from its own seed, and a rest in which
everything is mended and must come to its end; then it is judged from the servers alone. A fault has *survived* if the
round it was in held. After a round that did not, the line that plays it again is printed, and its plan is made smaller:
halves of it are played again, as long as the loss comes back.

Under ``soft`` the plan is what that backing is registered to lose results to, late replacements, and the burn ends at
the first loss: a burn that sees none there could not see one anywhere, and fails. So does one in which nothing was
accepted: there was nothing to lose.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import NoReturn

from tests.specs.evidence import note_burn
from tests.support.burn.faults import Fault, Kind, late_replacements, plan
from tests.support.burn.field import STACKS, Field
from tests.support.burn.round import BACKINGS, Round, play
from tests.support.burn.verdict import Verdict
from tests.support.crash.seeds import seed

_CONTROL = "soft"
#: Seconds of a round in which faults come, and between two of them. A server's restart alone takes some.
_ROUND = {"embedded": 40.0, "bucket": 50.0, "servers": 75.0}
_GAP = {"embedded": 1.5, "bucket": 2.0, "servers": 3.0}
_PATIENCE = 900.0
#: Replays that making a plan smaller may cost.
_REPLAYS = 6


def main(*words: str) -> int:
    """Burn, print, and give the exit code: 0 if nothing was lost that was promised, or the control lost something."""
    asked = argparse.ArgumentParser(prog="make burn", description="Break a real stack at random.")
    asked.add_argument("--stack", choices=STACKS, default="embedded")
    asked.add_argument("--policy", choices=("auto", "disable", _CONTROL), default="auto")
    asked.add_argument("--minutes", type=float, default=5.0)
    asked.add_argument("--seed", type=int, default=None)
    asked.add_argument("--only", default="", help="the numbers of the faults of a plan that are played, e.g. 3,7")
    asked.add_argument("--record", action="store_true", help="note the figures in specs/evidence.json")
    given = asked.parse_args(words)
    only = frozenset(int(each) for each in given.only.split(",") if each) or None
    first = seed() if given.seed is None else given.seed
    rounds: list[Round] = []
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="perago-burn-")))
        field = closing.enter_context(Field.on(given.stack, folder / "p", given.policy))
        began = time.monotonic()
        for number in count():
            rounds.append(_round(field, given.policy, first + number, only))
            verdict = rounds[-1].verdict
            if verdict.lost:
                _shrink(field, given.policy, first + number, rounds[-1])
            if (
                verdict.lost
                or time.monotonic() - began > 60 * given.minutes
                or (given.policy == _CONTROL and verdict.registered)
            ):
                break
    _say(*figures(rounds, given.stack, given.policy))
    blind = blindness([each.verdict for each in rounds], given.policy)
    if blind:
        _say(f"{blind}: this burn is blind")
    elif given.policy == _CONTROL:
        _say(f"control: {_CONTROL} lost as registered")
    if given.record and not blind:
        again = f"make burn STACK={given.stack} POLICY={given.policy} MINUTES={given.minutes:g} SEED={first}"
        where = {"stack": given.stack, "backing": BACKINGS[given.stack][given.policy], "command": again}
        note_burn({**where, "minutes": (time.monotonic() - began) / 60, **_record(rounds)})
    return 1 if blind or any(each.verdict.lost for each in rounds) else 0


def blindness(verdicts: Collection[Verdict], policy: str) -> str:
    """Say why a burn shows nothing; empty if it shows something.

    Counterexample: a round whose Conductor was killed and came back empty had no run at all, and lost nothing.
    """
    if not any(each.accepted for each in verdicts):
        return "nothing was accepted"
    if policy == _CONTROL and not any(each.registered for each in verdicts):
        return f"{_CONTROL} lost nothing"
    return ""


def faults_of(stack: str, policy: str, seed: int, kinds: Collection[Kind]) -> tuple[Fault, ...]:
    """Draw the plan of one round; one of the control is one late replacement."""
    if policy == _CONTROL:
        return late_replacements(seed, _ROUND[stack], gap=_GAP[stack])[:1]
    return plan(seed, _ROUND[stack], kinds, gap=_GAP[stack])


def _round(field: Field, policy: str, seed: int, only: Collection[int] | None, name: str = "") -> Round:
    faults = [each for each in faults_of(field.kind, policy, seed, field.kinds) if only is None or each.number in only]
    began = time.monotonic()
    # A round of the control is over when its one fault is, however slow the machine.
    longest = _PATIENCE if policy == _CONTROL else _ROUND[field.kind]
    played = play(field, name or f"r{seed}", policy, faults, longest)
    verdict = played.verdict
    _say(
        f"{field.kind}, {policy}, seed {seed}: {sum(played.injected.values())} of {len(faults)} faults, "
        f"{verdict.completed} of {verdict.runs} runs completed, {verdict.accepted} accepted of {verdict.attempts} "
        f"attempts, {verdict.traced} steps conform, {len(verdict.lost)} lost, "
        f"{len(verdict.registered)} as registered, {time.monotonic() - began:.0f} s"
    )
    _say(*(f"  lost: {each}" for each in verdict.lost), *(f"  as registered: {each}" for each in verdict.registered))
    if verdict.lost or verdict.registered:
        _say(*(f"  {each}" for each in played.log))
    return played


def _shrink(field: Field, policy: str, seed: int, broken: Round) -> None:
    """Print how to play a broken round again, and look for fewer faults that still break it."""
    _say(f"again: make burn STACK={field.kind} POLICY={policy} SEED={seed} MINUTES=0")
    left = [each.number for each in broken.faults]
    for replay in range(_REPLAYS):
        halves = (left[: len(left) // 2], left[len(left) // 2 :])
        half = halves[replay % 2]
        if not half:
            break
        if _round(field, policy, seed, half, f"s{replay}").verdict.lost:
            left = half
            again = ",".join(map(str, left))
            _say(f"again, smaller: make burn STACK={field.kind} POLICY={policy} SEED={seed} MINUTES=0 ONLY={again}")


def _record(rounds: Collection[Round]) -> dict[str, object]:
    """Give what the page of evidence says of a burn."""
    injected = sum((each.injected for each in rounds), Counter[Kind]())
    return {
        "rounds": len(rounds),
        "accepted": sum(each.verdict.accepted for each in rounds),
        "lost": sum(len(each.verdict.lost) for each in rounds),
        "registered": sum(len(each.verdict.registered) for each in rounds),
        "injected": {kind.value: injected[kind] for kind in Kind if injected[kind]},
    }


def figures(rounds: Collection[Round], stack: str, policy: str) -> Iterator[str]:
    """Say for each class of faults how many were injected, and how many of them into rounds that lost something."""
    injected, lost = Counter[Kind](), Counter[Kind]()
    for each in rounds:
        injected += each.injected
        if each.verdict.lost or each.verdict.registered:
            lost += each.injected
    accepted = sum(each.verdict.accepted for each in rounds)
    yield f"{stack}, {BACKINGS[stack][policy]} backing, {len(rounds)} round(s), {accepted} accepted results"
    yield f"{'fault':40} {'injected':>9} {'survived':>9} {'lost':>6}"
    for kind in Kind:
        if injected[kind]:
            yield f"{kind.value:40} {injected[kind]:9} {injected[kind] - lost[kind]:9} {lost[kind]:6}"
    never = [kind.value for kind in Kind if not injected[kind]]
    if never:
        yield f"not injected: {', '.join(never)}"


def _leave(*_: object) -> NoReturn:
    raise SystemExit(1)


def _say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)  # noqa: T201  the figures


if __name__ == "__main__":
    # Whoever is ended takes its servers and workers along.
    signal.signal(signal.SIGTERM, _leave)
    sys.exit(main(*sys.argv[1:]))
