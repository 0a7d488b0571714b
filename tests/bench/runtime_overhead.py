"""What the runtime costs per trivial task on the embedded stack, from poll to report."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from attrs import frozen

from perago_core.answers import Done
from perago_core.ports import Assignment
from perago_core.values import Target
from perago_worker.api.registry import load_tasks
from perago_worker.config.load import load
from perago_worker.runtime.assembly import assemble
from perago_worker.stack import head_of, open_stack, pipelines_of

_TASKS = """
from pathlib import Path
from perago_worker import Workspace, task

@task(name="write", workspace=Workspace())
def write(workspace: Path) -> int:
    path = workspace / "count"
    count = int(path.read_text()) + 1 if path.exists() else 1
    path.write_text(str(count))
    return count

@task(name="nothing")
def nothing() -> None:
    pass
"""
_PROJECT = """
tasks = ["trivial"]
[worker]
poll_interval = 0.001
capacity = 1
[pipelines.write]
repository = "lake"
steps = [{ task = "write" }]
[pipelines.nothing]
repository = "lake"
steps = [{ task = "nothing" }]
"""


@frozen
class Figures:
    """Milliseconds per task."""

    p50: float
    p99: float


def figures(pipeline: str = "write", runs: int = 100) -> Figures:
    """Run a task of one line so many times, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "trivial.py").write_text(_TASKS, encoding="utf-8")
        (project / "perago.toml").write_text(_PROJECT, encoding="utf-8")
        settings = load(project, {}, {})
        stack = open_stack(settings)
        words, tasks = pipelines_of(stack), load_tasks(settings, project)
        words.register(tasks.values())
        target = Target("lake", "main")
        assert isinstance(getattr(stack.store, "create")(target), Done)  # noqa: B009  only the embedded store has it
        times: list[float] = []
        with assemble(settings, stack, tasks) as assembled:
            for _ in range(runs + 5):
                words.start(pipeline, settings.pipelines[pipeline], head_of(stack, target))
                begun = time.perf_counter()
                sent = stack.clock.now()
                polled = stack.orchestrator.poll("bench", (pipeline,), 1)
                assert isinstance(polled, Done)
                (assignment,) = polled.value
                assert isinstance(assignment, Assignment)
                assert assembled.runtime.run(assignment, sent).result is not None
                times.append((time.perf_counter() - begun) * 1000)
        sys.modules.pop("trivial", None)
    ordered = sorted(times[5:])  # the first few warm caches
    return Figures(ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)])


if __name__ == "__main__":
    for name in ("write", "nothing"):
        found = figures(name)
        print(f"{name}: p50 {found.p50:.1f} ms, p99 {found.p99:.1f} ms")
