"""The demo: a real pipeline, a worker killed at the worst moment, a zombie that wakes too late, and a clean history.

Everything is real: processes, signals, a git repository. The demo only chooses *when* a worker dies, by the failpoints
every worker has, and afterwards looks at what is there.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from attrs import frozen

from perago_core.answers import Answer, Done
from perago_core.values import Commit, CommitRef, Target, TaskStatus
from perago_worker.failing import VARIABLE
from perago_worker.loading import load
from perago_worker.pipelines import Pipelines, PipelineView, pipelines_of
from perago_worker.stack import Stack, open_stack

PIPELINE = "orders"
STEPS = ("ingest", "clean", "rollup")
TARGET = Target("lake", "main")
_PATIENCE = 3
#: No single part of the demo takes longer than this, or something is wrong.
_LIMIT = 60.0
_QUICK = """
[budget]
heartbeat_interval = 0.5

[worker]
poll_interval = 0.05
"""


class DemoError(Exception):
    """The story did not go as it must; what happened instead."""


@frozen
class Promise:
    """One thing that must be true at the end, and whether it is."""

    says: str
    held: bool
    found: str = ""


@frozen
class Ending:
    """What the demo came to."""

    view: PipelineView
    history: tuple[Commit, ...]
    promises: tuple[Promise, ...]

    @property
    def held(self) -> bool:
        """Say whether every promise held."""
        return all(each.held for each in self.promises)


Tell = Callable[[str], object]


def write_project(folder: Path) -> None:
    """Write the template's project with less patience, so that nobody waits a minute for a dead worker."""
    folder.mkdir(parents=True, exist_ok=True)
    template = files("perago_worker") / "template"
    tasks = (template / "pipeline.py").read_text(encoding="utf-8").replace("PATIENCE = 60", f"PATIENCE = {_PATIENCE}")
    (folder / "pipeline.py").write_text(tasks, encoding="utf-8")
    configuration = (template / "perago.toml").read_text(encoding="utf-8") + _QUICK
    (folder / "perago.toml").write_text(configuration, encoding="utf-8")


def play(folder: Path, tell: Tell) -> Ending:
    """Play the story in an empty folder."""
    write_project(folder)
    stack = open_stack(load(folder, {}, {}))
    words = pipelines_of(stack)
    first = _create(stack)
    tell(f"a repository with one commit, {first[:8]}, and a pipeline: ingest, clean, rollup")
    with _worker(folder, "kill store.publish.after 1 clean") as victim:
        workflow = _wait_for(lambda: _start(words, folder, stack, first), "worker 1 to register its tasks", victim)
        _wait_for(lambda: victim.poll() is not None, "worker 1 to be killed")
    published = _head(stack)
    tell("worker 1 did ingest, and was killed (SIGKILL) right after it had published clean, before it could say so")
    tell(f"the branch shows {published.ref[:8]}, which nobody has accepted; the orchestrator still waits for worker 1")
    with _worker(folder, "stop store.publish.before 1 rollup") as zombie:
        _wait_for(lambda: _completed(words, workflow, "clean"), "clean to be accepted", zombie)
        tell(f"worker 2 took over after {_PATIENCE} s of silence, found {published.ref[:8]} abandoned, and replaced it")
        _wait_for(lambda: _is_stopped(zombie.pid), "worker 2 to be stopped", zombie)
        tell("worker 2 was stopped (SIGSTOP) in rollup, with everything decided and the publication about to be sent")
        with _worker(folder) as successor:
            _wait_for(lambda: not _view(words, workflow).running, "the pipeline to end", successor)
            tell("worker 3 took rollup over, published, and was accepted; the pipeline is done")
            before = _head(stack)
            os.kill(zombie.pid, signal.SIGCONT)
            tell("worker 2 wakes and sends its publication, as if nothing had happened")
            refused = _wait_for(lambda: _refusal(words, workflow), "the zombie to give up", zombie)
            tell(f"the store refuses it: {_in_short(refused)}")
    return _judge(stack, _view(words, workflow), before, refused)


def _create(stack: Stack) -> CommitRef:
    made: Answer[CommitRef] = getattr(stack.store, "create")(TARGET, {"README.md": b"Orders, cleaned and summed up.\n"})  # noqa: B009
    if not isinstance(made, Done):
        raise DemoError(f"the branch could not be made: {made.reason}")
    return made.value


def _start(words: Pipelines, folder: Path, stack: Stack, first: CommitRef) -> str:
    """Start the pipeline as soon as the first worker has registered its tasks."""
    known = {each.name for each in getattr(stack.orchestrator, "definitions")()}  # noqa: B009
    if not set(STEPS) <= known:
        return ""
    return words.start(PIPELINE, load(folder, {}, {}).pipelines[PIPELINE], first)


@contextmanager
def _worker(folder: Path, fate: str = "") -> Generator[subprocess.Popen[bytes]]:
    """Run a real worker; on leaving, drain it, and kill it if that takes too long."""
    environment = {**os.environ, **({VARIABLE: fate} if fate else {})}
    with (folder / "worker.log").open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  our own interpreter and code
            [sys.executable, "-m", "perago_worker", "--project", str(folder), "worker", "--verbose"],
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(ready: Callable[[], object], what: str, worker: subprocess.Popen[bytes] | None = None) -> str:
    """Wait until it is so, and give what was found; a worker that ends meanwhile ends the demo."""
    until = time.monotonic() + _LIMIT
    while not (found := ready()):
        if worker is not None and worker.poll() is not None:
            raise DemoError(f"waited for {what}, and the worker ended with code {worker.returncode}; see worker.log")
        if time.monotonic() > until:
            raise DemoError(f"waited {_LIMIT:g} s for {what}; see worker.log")
        time.sleep(0.05)
    return str(found)


def _view(words: Pipelines, workflow: str) -> PipelineView:
    view = words.view(workflow)
    assert view is not None
    return view


def _completed(words: Pipelines, workflow: str, step: str) -> bool:
    attempts = _view(words, workflow).attempts
    return any(each.step == step and each.status is TaskStatus.COMPLETED for each in attempts)


def _refusal(words: Pipelines, workflow: str) -> str:
    """Give what the log of the given-up attempt of rollup says in the end."""
    (zombie, *_) = [each for each in _view(words, workflow).attempts if each.step == "rollup"]
    return next((line for line in words.log(zombie.task_id) if ": silent, " in line or ": failed, " in line), "")


def _in_short(refusal: str) -> str:
    """Give what was found, without the rest of the sentence and with short refs."""
    found = refusal.partition("; found ")[2].partition(". ")[0] or refusal
    return re.sub(r"\b[0-9a-f]{40}\b", lambda ref: ref[0][:8], found)


def _is_stopped(pid: int) -> bool:
    stopped = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    return stopped is not None and stopped.si_code == os.CLD_STOPPED


def _head(stack: Stack) -> Commit:
    found = stack.store.head(TARGET)
    assert isinstance(found, Done)
    assert found.value is not None
    return found.value.commit


def _judge(stack: Stack, view: PipelineView, before: Commit, refused: str) -> Ending:
    history: tuple[Commit, ...] = getattr(stack.store, "history")(TARGET).value  # noqa: B009
    refs = [commit.ref for commit in history]
    accepted = [each.ref for each in view.attempts if each.status is TaskStatus.COMPLETED]
    once = view.succeeded and len(accepted) == len(STEPS)
    linear = all(len(commit.parents) <= 1 for commit in history) and len(refs) == 1 + len(STEPS)
    promises = (
        Promise("every step was accepted exactly once", once, str(len(accepted))),
        Promise("every accepted result is on the branch", set(accepted) <= set(refs), ", ".join(refs)),
        Promise("the history is linear: the first commit and one for each step", linear, str(len(refs))),
        Promise("the zombie changed nothing", refs[0] == before.ref and bool(refused), refs[0]),
    )
    return Ending(view, history, promises)
