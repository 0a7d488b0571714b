"""The fault matrix of spark.md as scenarios, each with its verdict, for whichever way Spark runs.

After each of them the target is the input, or exactly input -> staged with every row once.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from perago_core.results import Failed
from perago_spark.format.seal import discrepancy
from tests.spark.fault_harness import FOLDER, ROWS, FaultHarness, Running, completed, reason, rows_of, wait_until
from tests.spark.lake import done


def counts_once(harness: FaultHarness, fault: str, via: str = "arrow") -> None:
    """A task attempt that was lost after its upload leaves nothing that is linked."""
    completed(harness.run(fault, via))
    assert harness.marks.count("struck") == 1
    harness.published()


def duplicates_are_refused(harness: FaultHarness, fault: str) -> None:
    """The control: the same fault, and tasks that link themselves. Were it not found out, 1250 rows of 1000."""
    with harness.start(fault, links_itself=True, keeps=True) as running:
        assert "whose seal says 4" in reason(running.ended())
    assert harness.lake.head == harness.before
    name = running.attempt.staging_name
    assert discrepancy(done(harness.lake.store.sink(harness.lake.target, name).list(FOLDER))) is not None
    staged = done(harness.lake.store.commit(harness.lake.target, name, "what would have been published"))
    rows = rows_of(harness.lake, staged.commit)
    assert (len(rows), len(set(rows))) == (ROWS + ROWS // 4, ROWS)


def fails_half_way(harness: FaultHarness, fault: str, via: str = "arrow") -> None:
    """The commit fails after some links, or after all and before the seal; the next attempt publishes all."""
    assert "the connection broke" in reason(harness.run(fault, via))
    harness.unchanged()
    completed(harness.run("none", via))
    harness.published()


def lost(harness: FaultHarness, fault: str, via: str = "arrow") -> None:
    """The attempt is lost while tasks write, or in the middle of the commit, which no interrupt of Spark reaches."""
    with harness.start(fault, via) as running:
        running.wait("held")
        running.cancel()
        assert "the attempt was lost" in reason(running.ended())
        nothing_more(harness, fault)


def killed(harness: FaultHarness, fault: str, via: str = "arrow") -> None:
    """SIGKILL of the process that the body runs in: the driver, or the client of a server."""
    with harness.start(fault, via) as running:
        running.wait("held")
        (body,) = harness.bodies.running()
        os.kill(body, signal.SIGKILL)
        assert isinstance(running.ended().result, Failed)
        nothing_more(harness, fault)


def nothing_more(harness: FaultHarness, fault: str) -> None:
    """From the attempt's end on nothing is put or linked, though what was held is let go if it still lives."""
    harness.marks.tell("over")
    harness.unchanged()
    held = int(harness.marks.detail("held"))
    harness.marks.allow()

    def settled() -> bool:
        late = fault == "hold put" or harness.marks.count("refused") > 0
        return is_gone(held) or (harness.marks.count("released") > 0 and late)

    wait_until(settled, f"what was held has died or was refused: {harness.marks.told()}")
    told = harness.marks.told()
    after = {each.split()[0] for each in told[told.index("over") :]}
    assert not after & {"linked", "sealed"}, told
    harness.unchanged()


def frozen_in_commit(harness: FaultHarness, java: int, running: Running) -> None:
    """Freezing Java does not freeze ``commit``, which runs in Python. It seals, and only the core publishes."""
    os.kill(java, signal.SIGSTOP)
    try:
        harness.marks.allow()
        running.wait("sealed")
        assert harness.lake.head == harness.before
    finally:
        os.kill(java, signal.SIGCONT)
    completed(running.ended())
    harness.published()


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, whoever has yet to take note of it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"
