"""The fault matrix of spark.md as scenarios, each with its verdict, for whichever way Spark runs.

After each of them the target is the input, or exactly input -> staged with every row once.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from perago_core.results import Failed
from perago_spark.format.seal import discrepancy
from tests.spark.lake import done
from tests.spark.yard import FOLDER, ROWS, Running, Yard, completed, reason, rows_of, wait_until


def counts_once(yard: Yard, fault: str, via: str = "arrow") -> None:
    """A task attempt that was lost after its upload leaves nothing that is linked."""
    completed(yard.run(fault, via))
    assert yard.marks.count("struck") == 1
    yard.published()


def duplicates_are_refused(yard: Yard, fault: str) -> None:
    """The control: the same fault, and tasks that link themselves. Were it not found out, 1250 rows of 1000."""
    with yard.start(fault, links_itself=True, keeps=True) as running:
        assert "whose seal says 4" in reason(running.ended())
    assert yard.lake.head == yard.before
    name = running.attempt.staging_name
    assert discrepancy(done(yard.lake.store.sink(yard.lake.target, name).list(FOLDER))) is not None
    staged = done(yard.lake.store.commit(yard.lake.target, name, "what would have been published"))
    rows = rows_of(yard.lake, staged.commit)
    assert (len(rows), len(set(rows))) == (ROWS + ROWS // 4, ROWS)


def fails_half_way(yard: Yard, fault: str) -> None:
    """The commit fails after some links, or after all and before the seal; the next attempt publishes all."""
    assert "the connection broke" in reason(yard.run(fault))
    yard.unchanged()
    completed(yard.run("none"))
    yard.published()


def lost(yard: Yard, fault: str) -> None:
    """The attempt is lost while tasks write, or in the middle of the commit, which no interrupt of Spark reaches."""
    with yard.start(fault) as running:
        running.wait("held")
        running.cancel()
        assert "the attempt was lost" in reason(running.ended())
        nothing_more(yard, fault)


def killed(yard: Yard, fault: str) -> None:
    """SIGKILL of the process that the body runs in: the driver, or the client of a server."""
    with yard.start(fault) as running:
        running.wait("held")
        (body,) = yard.bodies.running()
        os.kill(body, signal.SIGKILL)
        assert isinstance(running.ended().result, Failed)
        nothing_more(yard, fault)


def nothing_more(yard: Yard, fault: str) -> None:
    """From the attempt's end on nothing is put or linked, though what was held is let go if it still lives."""
    yard.marks.tell("over")
    yard.unchanged()
    held = int(yard.marks.detail("held"))
    yard.marks.allow()

    def settled() -> bool:
        late = fault == "hold put" or yard.marks.count("refused") > 0
        return is_gone(held) or (yard.marks.count("released") > 0 and late)

    wait_until(settled, f"what was held has died or was refused: {yard.marks.told()}")
    told = yard.marks.told()
    after = {each.split()[0] for each in told[told.index("over") :]}
    assert not after & {"linked", "sealed"}, told
    yard.unchanged()


def frozen_in_commit(yard: Yard, java: int, running: Running) -> None:
    """Freezing Java does not freeze ``commit``, which runs in Python. It seals, and only the core publishes."""
    os.kill(java, signal.SIGSTOP)
    try:
        yard.marks.allow()
        running.wait("sealed")
        assert yard.lake.head == yard.before
    finally:
        os.kill(java, signal.SIGCONT)
    completed(running.ended())
    yard.published()


def is_gone(pid: int) -> bool:
    """Say whether a process has ended, whoever has yet to take note of it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"
