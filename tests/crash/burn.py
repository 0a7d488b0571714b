"""``make burn``: storms on the embedded stack until the time is over, and what was injected, survived and lost.

Each round is a storm of its own project and seed: workers are killed, stopped and resumed, tasks handed out twice. The
backings that promise something take turns. Then the control: the pauses that ``soft`` is registered to lose results to
are played under ``soft``. A burn that sees no loss there could not see one anywhere, and fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path

from tests.crash.storm import Size, storm
from tests.support.crash.matrix import POLICIES, discover, play_batch
from tests.support.crash.project import CrashProject
from tests.support.crash.registered import registered
from tests.support.crash.seeds import seed

_SIZE = Size(branches=4, workflows=2, steps=5)
_CONTROL = "soft"
#: Where a pause leaves a publication that is sent later.
_LATE = "store.publish.before"


def main() -> int:
    """Burn, print, and give the exit code: 0 if nothing was lost that was promised, and the control lost something."""
    asked = argparse.ArgumentParser(description="Break the embedded stack at random.")
    asked.add_argument("--minutes", type=float, default=5.0)
    asked.add_argument("--seed", type=int, default=None)
    given = asked.parse_args()
    first = seed() if given.seed is None else given.seed
    ends = time.monotonic() + 60 * given.minutes
    injected, survived, lost = Counter[str](), 0, list[str]()
    backings = [(name, policy) for name, policy in POLICIES.items() if name != _CONTROL]
    with tempfile.TemporaryDirectory(prefix="perago-burn-") as folder:
        for number in count():
            backing, policy = backings[number % len(backings)]
            with CrashProject(Path(folder) / f"{number}", policy) as project:
                report = storm(project, _SIZE, first + number)
            print(f"{backing}: {report}", flush=True)  # noqa: T201  progress
            injected += Counter(killed=report.kills, stopped=report.pauses, duplicated=report.duplicates)
            survived += report.on_branch
            lost += [f"{backing}, seed {first + number}: {each}" for each in report.broken]
            if time.monotonic() > ends and number + 1 >= len(backings):
                break
        control = _documented_losses(Path(folder))
    faults = ", ".join(f"{amount} {name}" for name, amount in injected.items())
    print(f"injected: {faults}\nsurvived: {survived} accepted results, each on its branch once")  # noqa: T201  the figures
    print(f"lost: {len(lost)}", *lost, sep="\n")  # noqa: T201  as above
    print(f"control: {_CONTROL} lost {len(control)} as registered" + ("" if control else ": this burn is blind"))  # noqa: T201  as above
    return 0 if control and not lost else 1


def _documented_losses(folder: Path) -> list[str]:
    """Play the pauses before a publication under ``soft``, and give the promises that were broken as registered."""
    points = discover(folder / "discover", POLICIES[_CONTROL])
    cases = [case for case in points if case.point == _LATE]
    allowed = registered(_CONTROL, "stop")
    verdicts = play_batch(folder / "control", POLICIES[_CONTROL], "stop", cases)
    return [f"{each.case}: {sentence}" for each in verdicts for sentence in each.broken if allowed(sentence)]


if __name__ == "__main__":
    sys.exit(main())
