"""The demo on real servers, by configuration only: the same project, the same workers, lakeFS and Conductor below.

    python -m tests.support.servers.demo [--files] [--json]

Starts a lakeFS and a Conductor of its own, which are gone when it ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from attrs import evolve

from examples.orders.result import look
from examples.orders.story import FILES, SPARK, TARGET, DemoError, Edition, Ending, play, write_project
from perago_worker.config.load import load
from perago_worker.stack import open_stack
from tests.support.servers.conductor import Conductor
from tests.support.servers.lakefs import LakeFS

_SYSTEMS = """
[store]
kind = "lakefs"
url = "{lakefs.url}"
access_key = "{lakefs.access_key}"
secret_key = "{lakefs.secret_key}"

[orchestrator]
kind = "conductor"
url = "{conductor.api}"
poll_wait = 0.3
"""
#: Servers on the same two cores are slower than files and a database in the worker's own process.
_MORE_PATIENCE = 4
_PATIENCE = 6
#: Seconds for any one command of ours.
_COMMAND = 300.0


def play_on(folder: Path, edition: Edition, lakefs: LakeFS, conductor: Conductor, *, name: str = "lake") -> Ending:
    """Prepare both servers as an operator would, and play."""
    edition = evolve(
        edition,
        systems=_SYSTEMS.format(lakefs=lakefs, conductor=conductor),
        patience=max(edition.patience, _PATIENCE),
        limit=_MORE_PATIENCE * edition.limit,
    )
    write_project(folder, edition)
    _perago(folder, "init-repo", str(TARGET), "--namespace", f"{lakefs.namespaces}/{name}")
    _perago(folder, "register")
    _perago(folder, "pipeline", "register")
    begun = time.monotonic()
    ending = play(folder, edition, lambda line: _say(f"{time.monotonic() - begun:6.1f} s  {line}"), lambda _line: None)
    if edition.template != SPARK.template:
        return ending
    with closing(open_stack(load(folder, {}, {}))) as stack:
        return evolve(ending, promises=(*ending.promises, *look(stack, ending).promises))


def _perago(folder: Path, *words: str) -> None:
    ran = subprocess.run(  # noqa: S603  our own interpreter and code
        [sys.executable, "-m", "perago_worker", "--project", str(folder), *words],
        capture_output=True,
        text=True,
        timeout=_COMMAND,
        check=False,
    )
    if ran.returncode:
        raise DemoError(f"perago {' '.join(words)} ended with {ran.returncode}: {ran.stderr or ran.stdout}")
    _say(ran.stdout.strip())


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main(words: list[str]) -> int:
    """Play it, and say what held."""
    with tempfile.TemporaryDirectory(prefix="perago-demo-") as scratch:
        place = Path(scratch)
        _say("starting lakeFS and Conductor; half a minute")
        with LakeFS(folder=place / "lakefs") as lakefs, Conductor(folder=place / "conductor") as conductor:
            ending = play_on(place / "project", FILES if "--files" in words else SPARK, lakefs, conductor)
    if "--json" in words:
        told = {each.says: each.held for each in ending.promises}
        sys.stdout.write(json.dumps({"held": ending.held, "promises": told}, indent=2) + "\n")
    else:
        for each in ending.promises:
            sys.stdout.write(f"{'held  ' if each.held else 'BROKEN'}  {each.says}\n")
    return 0 if ending.held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
