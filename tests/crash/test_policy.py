"""The policy end to end: one decision for all, leases that are real, no silent start without coordination."""

from __future__ import annotations

import random
import re
import signal
import time
from pathlib import Path

import pytest

from perago_core.values import TaskStatus
from tests.crash.judging import Line, judge_line, judge_rest
from tests.crash.yard import Yard, done, wait_for

TTL, TAKEOVER = 3.0, 1.3


def test_six_workers_that_start_at_once_agree_on_one_stored_decision(tmp_path: Path) -> None:
    """S-27, W-08; two of them die while they probe or store (CW-30, CW-31), and leave no probe behind (CW-32)."""
    chance = random.Random(5)
    with Yard(tmp_path / "p", "auto") as yard:
        yard.add_task("idle")
        workers = [yard.worker(until_idle=True) for _ in range(6)]
        time.sleep(chance.uniform(0.5, 1.5))
        for victim in workers[:2]:
            victim.signal(signal.SIGKILL)
        codes = [worker.wait() for worker in workers]
        assert codes[2:] == [0] * 4, [worker.said() for worker in workers[2:]]
        late = yard.worker(until_idle=True)
        assert late.wait() == 0, late.said()
        said = {_decision(worker.said()) for worker in (*workers[2:], late)}
        (decision,) = done(yard.coordination.list("decision/"))
        assert said == {("atomic", "1")}, said
        assert '"atomic"' in decision.value
        left = sorted(path.name for path in (yard.folder / ".perago" / "store").iterdir())
        assert left == [], "CW-32: probing left something behind"


def test_disable_runs_on_leases_and_a_successor_waits_for_the_end_of_a_dead_holders_lease(tmp_path: Path) -> None:
    """L-03, P-35: killed with the lease in hand and the publication decided; nobody publishes before it has ended."""
    with Yard(tmp_path / "p", "disable") as yard:
        # Given up long before its lease ends, so that it is the lease that keeps its successors waiting.
        yard.add_task("held", {"PATIENCE": 0.9, "RETRIES": 1000})
        yard.plan("held", "change")
        target, first = yard.branch("main")
        line = Line(target, first, yard.start("held", ("held",), target, first))
        holder = yard.worker(fate="kill store.head.after")
        assert holder.wait() == -9, holder.said()
        killed = time.monotonic()
        successor = yard.worker()
        wait_for(lambda: "backing locked" in successor.said(), "the successor to start")
        started = time.monotonic()
        wait_for(lambda: not yard.view(line.workflow).running, "the successor to be accepted")
        took = time.monotonic() - killed
        assert successor.drain() == 0, successor.said()
        busy = [each for each in yard.view(line.workflow).attempts if each.status is TaskStatus.FAILED]
        print(  # noqa: T201  the figure
            f"failover {took:.1f} s after the kill, {started - killed:.1f} s of it to start a successor, "
            f"refused {len(busy)} times while the lease stood; lease {TTL:g} s, takeover wait {TAKEOVER:g} s"
        )
        # The lease may have been as old as its time to live, so only the wait is certain. Speed is no promise.
        assert took >= TAKEOVER
        assert judge_line(yard, line) == []
        assert judge_rest(yard, [line]) == []


@pytest.mark.parametrize(("policy", "starts"), [("auto", False), ("disable", False), ("soft", True), ("enable", True)])
def test_without_coordination_only_soft_and_enable_start_and_the_error_says_so(
    tmp_path: Path, policy: str, *, starts: bool
) -> None:
    """S-28: nobody decides alone in silence."""
    with Yard(tmp_path / "p", policy) as yard:
        yard.add_task("idle")
        worker = yard.worker(until_idle=True, settings=("coordination.kind=none",))
        code = worker.wait()
        if starts:
            assert code == 0, worker.said()
            assert "ledger False" in worker.said()
        else:
            assert code == 2, worker.said()
            assert "soft" in worker.said()
            assert "enable" in worker.said()


def _decision(said: str) -> tuple[str, str]:
    found = re.search(r"backing (\w+), epoch (\d+)", said)
    assert found is not None, said
    return found[1], found[2]
