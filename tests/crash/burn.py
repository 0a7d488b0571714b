"""``make burn``: a seeded nemesis over real processes and servers, and what was injected, survived and lost.

    make burn STACK=servers POLICY=auto MINUTES=20 SEED=7

Rounds, until the time is over. Each has fresh branches, a plan of faults drawn from its own seed, and a rest in which
everything is mended and must come to its end; then it is judged from the servers alone. A fault has *survived* if the
round it was in held. After a round that did not, the line that plays it again is printed, its plan is made smaller by
playing parts of it, and the simulator is asked for a run that breaks the same promise with the faults that are left.

With ``SHARED=32`` so many workflows share one branch, each with a folder of its own (``SCOPES=disjoint``), or each also
reading what the next one writes (``crossed``), in one round that lasts as long as all of it. Then S-42 and S-43 are
judged too, and with disjoint scopes that nobody was ever refused.

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
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import NoReturn

from perago_simulation.world.settings import SCOPES
from tests.specs.evidence import note_burn
from tests.support.burn.faults import Fault, Kind, late_replacements, plan
from tests.support.burn.field import STACKS, Field
from tests.support.burn.round import BACKINGS, Round, play
from tests.support.burn.scenario import scenario
from tests.support.burn.sharing import Sharing
from tests.support.burn.shrinking import shrunk
from tests.support.burn.verdict import Verdict
from tests.support.crash.seeds import seed

_CONTROL = "soft"
#: Seconds of a round in which faults come, and between two of them. A server's restart alone takes some.
_ROUND = {"embedded": 40.0, "bucket": 50.0, "servers": 75.0}
_GAP = {"embedded": 1.5, "bucket": 2.0, "servers": 3.0}
_PATIENCE = 900.0
#: Replays that making a plan smaller may cost.
_REPLAYS = 16


def main(*words: str) -> int:
    """Burn, print, and give the exit code: 0 if nothing was lost that was promised, or the control lost something."""
    asked = argparse.ArgumentParser(prog="make burn", description="Break a real stack at random.")
    asked.add_argument("--stack", choices=STACKS, default="embedded")
    asked.add_argument("--policy", choices=("auto", "disable", _CONTROL), default="auto")
    asked.add_argument("--minutes", type=float, default=5.0)
    asked.add_argument("--seed", type=int, default=None)
    asked.add_argument("--only", default="", help="the numbers of the faults of a plan that are played, e.g. 3,7")
    asked.add_argument("--shared", type=int, default=0, help="so many workflows on one branch; 0: each has its own")
    asked.add_argument("--scopes", choices=[each for each in SCOPES if each], default="disjoint")
    asked.add_argument("--files-only", action="store_true", help="no task on Spark")
    asked.add_argument("--shrink", action="store_true", help="make a smaller plan of the control's loss too")
    asked.add_argument("--record", action="store_true", help="note the figures in specs/evidence.json")
    given = asked.parse_args(words)
    only = frozenset(int(each) for each in given.only.split(",") if each) or None
    first = seed() if given.seed is None else given.seed
    sharing = Sharing(given.shared, given.scopes) if given.shared else None
    if sharing is not None and given.policy != "auto":
        asked.error("workflows share a branch under --policy auto only")
    lasts = 60 * given.minutes if sharing is not None else _ROUND[given.stack]
    rounds: list[Round] = []
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="perago-burn-")))
        # The control has one fault, in one pipeline of files; those that share a branch are of files too.
        spark = not given.files_only and given.policy != _CONTROL and sharing is None
        field = closing.enter_context(Field.on(given.stack, folder / "p", given.policy, sharing, spark=spark))
        began = time.monotonic()
        for number in count():
            rounds.append(_round(field, given.policy, first + number, only, lasts))
            verdict = rounds[-1].verdict
            if verdict.lost or (given.shrink and verdict.registered):
                _shrink(field, given.policy, first + number, rounds[-1], lasts)
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
        again += _words(sharing)
        what = f"{given.stack}, {given.shared} workflows on one branch" if sharing is not None else given.stack
        where = {"stack": what, "backing": BACKINGS[given.stack][given.policy], "command": again}
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


def faults_of(stack: str, policy: str, seed: int, kinds: Collection[Kind], seconds: float) -> tuple[Fault, ...]:
    """Draw the plan of one round; one of the control is one late replacement."""
    if policy == _CONTROL:
        return late_replacements(seed, seconds, gap=_GAP[stack])[:1]
    return plan(seed, seconds, kinds, gap=_GAP[stack])


def _words(sharing: Sharing | None) -> str:
    return "" if sharing is None else f" SHARED={sharing.workflows} SCOPES={sharing.scopes}"


def _round(
    field: Field, policy: str, seed: int, only: Collection[int] | None, seconds: float, *, name: str = ""
) -> Round:
    drawn = faults_of(field.kind, policy, seed, field.kinds, seconds)
    faults = [each for each in drawn if only is None or each.number in only]
    began = time.monotonic()
    # A round of the control is over when its one fault is, however slow the machine.
    longest = _PATIENCE if policy == _CONTROL else seconds
    played = play(field, name or f"r{seed}", policy, faults, longest)
    verdict = played.verdict
    _say(
        f"{field.kind}, {policy}, seed {seed}: {sum(played.injected.values())} of {len(faults)} faults, "
        f"{verdict.completed} of {verdict.runs} runs completed, {verdict.accepted} accepted of {verdict.attempts} "
        f"attempts, {verdict.traced} steps conform, {len(verdict.lost)} lost, "
        f"{len(verdict.registered)} as registered, {time.monotonic() - began:.0f} s"
    )
    _say(*(f"  lost: {each}" for each in verdict.lost), *(f"  as registered: {each}" for each in verdict.registered))
    if verdict.lost or not verdict.accepted or policy == _CONTROL:
        _say(*(f"  {each}" for each in (*played.log, *played.said)))
    return played


def _shrink(field: Field, policy: str, seed: int, broken: Round, seconds: float) -> None:
    """Print how to play a broken round again, with fewer faults if fewer break it, and in the simulator if it can."""
    minutes = f"{seconds / 60:g}" if field.sharing is not None else "0"
    again = f"make burn STACK={field.kind} POLICY={policy} SEED={seed} MINUTES={minutes}{_words(field.sharing)}"
    _say(f"again: {again}")
    clauses, names = _clauses(broken.verdict), count()

    def breaks(faults: Sequence[Fault]) -> bool:
        only = {each.number for each in faults}
        played = _round(field, policy, seed, only, seconds, name=f"s{seed}-{next(names)}")
        return bool(_clauses(played.verdict) & clauses)

    left = shrunk(broken.faults, breaks, _REPLAYS)
    _say(f"again, smaller: {again} ONLY={','.join(str(each.number) for each in left)}", *(f"  {each}" for each in left))
    _say(scenario(BACKINGS[field.kind][policy], left, clauses))


def _clauses(verdict: Verdict) -> frozenset[str]:
    """Name the promises that were broken, whether or not they were meant to hold."""
    return frozenset(each.partition(" ")[0] for each in (*verdict.lost, *verdict.registered))


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
