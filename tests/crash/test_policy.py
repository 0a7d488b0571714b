"""The policy end to end: one decision for all, leases that are real, no silent start without coordination."""

from __future__ import annotations

import random
import re
import signal
import time
from pathlib import Path

import pytest

from perago_core.values import TaskStatus
from tests.support.crash.judging import Line, judge_line, judge_rest
from tests.support.crash.project import CrashProject, done, wait_for
from tests.support.crash.seeds import seed

TTL, TAKEOVER = 12.0, 1.3
LONG_LEASE = (f"budget.lease_ttl={TTL}",)


def test_six_workers_that_start_at_once_agree_on_one_stored_decision(tmp_path: Path) -> None:
    """S-27, W-08; one of them dies while it probes (CW-30, CW-32), another at any time, perhaps storing (CW-31)."""
    chance = random.Random(seed())
    with CrashProject(tmp_path / "p", "auto") as project:
        project.add_task("idle")
        store = project.folder / ".perago" / "store"
        prober = project.worker(until_idle=True)
        while prober.process.poll() is None and not any(store.glob(".probe-*")):
            time.sleep(0.002)  # a probe is over soon
        prober.signal(signal.SIGKILL)
        prober.wait()
        workers = [project.worker(until_idle=True) for _ in range(6)]
        time.sleep(chance.uniform(0.0, 2.0))
        workers[0].signal(signal.SIGKILL)
        codes = [worker.wait() for worker in workers]
        assert codes[1:] == [0] * 5, [worker.said() for worker in workers[1:]]
        late = project.worker(until_idle=True)
        assert late.wait() == 0, late.said()
        said = {_decision(worker.said()) for worker in (*workers[1:], late)}
        (decision,) = done(project.coordination.list("decision/"))
        assert said == {("atomic", "1")}, said
        assert '"atomic"' in decision.value
        # The probe of a dead worker stays in a folder that is no repository, and touches none.
        assert [path.name for path in store.iterdir() if not path.name.startswith(".probe-")] == []


def test_disable_runs_on_leases_and_a_successor_waits_for_the_end_of_a_dead_holders_lease(tmp_path: Path) -> None:
    """L-03, P-35: killed with the lease in hand and the publication decided; nobody publishes before it has ended."""
    with CrashProject(tmp_path / "p", "disable") as project:
        # The successor has started, and is kept from polling by other work until the holder is dead.
        project.add_task("other")
        project.plan("other", "wait")
        place = project.branch("other")
        other = Line(*place, project.start("other", ("other",), *place))
        # Given up long before its lease ends, so that it is the lease that keeps its successor waiting; few retries.
        project.add_task("held", {"PATIENCE": 4.0, "RETRIES": 3})
        project.plan("held", "change")
        successor = project.worker("other", "held", capacity=1, settings=LONG_LEASE)
        wait_for(lambda: project.orchestrator.open_tasks()[0].worker_id, "work for the successor", successor)
        target, first = project.branch("main")
        line = Line(target, first, project.start("held", ("held",), target, first))
        holder = project.worker("held", failpoint="kill store.head.after", settings=LONG_LEASE)
        assert holder.wait() == -9, holder.said()
        killed = time.monotonic()
        project.plan("other", "nothing")
        wait_for(lambda: not project.view(line.workflow).running, "successor that is accepted", successor)
        took = time.monotonic() - killed
        assert successor.drain() == 0, successor.said()
        attempts = project.view(line.workflow).attempts
        print(  # noqa: T201  the figure
            f"failover {took:.1f} s after the kill: lease {TTL:g} s, takeover wait {TAKEOVER:g} s; "
            f"{len(attempts)} attempts"
        )
        # Who finds the lease of the dead busy waits for its end; it used to fail, and be tried again, 30 times.
        assert [each for each in attempts if each.status is TaskStatus.FAILED] == []
        # The lease may have been as old as its time to live, so only the wait is certain. Speed is no promise.
        assert took >= TAKEOVER
        assert judge_line(project, line) + judge_line(project, other) == []
        # The folders of the dead are swept by the next worker that starts.
        last = project.worker(until_idle=True)
        assert last.wait() == 0, last.said()
        assert judge_rest(project, [line, other]) == []


@pytest.mark.parametrize(("policy", "starts"), [("auto", False), ("disable", False), ("soft", True), ("enable", True)])
def test_without_coordination_only_soft_and_enable_start_and_the_error_says_so(
    tmp_path: Path, policy: str, *, starts: bool
) -> None:
    """S-28: nobody decides alone in silence."""
    with CrashProject(tmp_path / "p", policy) as project:
        project.add_task("idle")
        worker = project.worker(until_idle=True, settings=("coordination.kind=none",))
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
