"""The demo: a real pipeline, a worker killed at the worst moment, a zombie that wakes too late, and a clean history.

Everything is real: processes, signals, a git repository, Spark. The demo only chooses *when* a worker dies, by the
failpoints every worker has, and afterwards looks at what is there.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

from attrs import field, frozen

from perago_core.answers import Done
from perago_core.pipelines import Pipelines, PipelineView
from perago_core.ports import BranchCreator
from perago_core.values import Commit, CommitRef, Target, TaskStatus
from perago_worker.config.load import load
from perago_worker.runtime.failpoints import VARIABLE
from perago_worker.stack import Stack, open_stack, pipelines_of

PIPELINE = "orders"
STEPS = ("ingest", "clean", "rollup")
TARGET = Target("lake", "main")
#: Seconds between two words about what is going on; each is asked of the orchestrator.
_PACE = 0.5


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
        """Return whether every promise held."""
        return all(each.held for each in self.promises)


@frozen
class Edition:
    """Which project is played, and how patiently.

    ``patience``: seconds until a silent worker is given up; a busy machine must have let it say something by then.
    ``limit``: no single part takes longer, or something is wrong. ``systems``: where it is played, as settings; on the
    embedded stack if there are none.
    """

    template: str
    patience: int
    heartbeat: float
    limit: float
    systems: str = field(default="", repr=False)


FILES = Edition("", patience=3, heartbeat=0.5, limit=60)
SPARK = Edition("spark", patience=8, heartbeat=1.0, limit=600)

#: Three Sparks are started and each does little: a Java that compiles less is ready sooner.
_LEISURELY = "[spark.conf]\n"
_HASTY = f'{_LEISURELY}spark.driver.extraJavaOptions = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"\n'

#: Takes a line of the story; and what is going on right now, which the next such line replaces.
Tell = Callable[[str], object]


def write_project(folder: Path, edition: Edition) -> None:
    """Write a template's project with less patience, so that nobody waits a minute for a dead worker."""
    folder.mkdir(parents=True, exist_ok=True)
    template = files("perago_worker") / "template" / edition.template
    tasks = (template / "pipeline.py").read_text(encoding="utf-8")
    impatient = tasks.replace("PATIENCE = 60", f"PATIENCE = {edition.patience}")
    (folder / "pipeline.py").write_text(impatient, encoding="utf-8")
    quick = (
        f"\n[budget]\nheartbeat_interval = {edition.heartbeat}\ncompletion_reserve = {4 * edition.heartbeat}\n"
        "\n[worker]\npoll_interval = 0.05\n"
    )
    configuration = (template / "perago.toml").read_text(encoding="utf-8").replace(_LEISURELY, _HASTY)
    (folder / "perago.toml").write_text(configuration + quick + edition.systems, encoding="utf-8")


def play(folder: Path, edition: Edition, tell: Tell, murmur: Tell) -> Ending:
    """Play the story in an empty folder."""
    write_project(folder, edition)
    with closing(open_stack(load(folder, {}, {}))) as stack:
        first = _create(stack)
        tell(f"a repository with one commit, {first[:8]}, and a pipeline: ingest, clean, rollup")
        return _Play(folder, edition, stack, pipelines_of(stack), tell, murmur).run(first)


@frozen
class _Play:
    folder: Path
    edition: Edition
    stack: Stack
    pipelines: Pipelines
    tell: Tell
    murmur: Tell

    def run(self, first: CommitRef) -> Ending:
        tell, wait = self.tell, self._wait_for
        with self._worker("kill store.publish.after 1 clean") as victim:
            workflow = wait(lambda: self._start(first), "worker 1 to register its tasks", victim)
            wait(lambda: victim.poll() is not None, "worker 1 to be killed", workflow=workflow)
        published = _head(self.stack)
        tell("worker 1 did ingest, and was killed (SIGKILL) right after it had published clean, before it could say so")
        tell(
            f"the branch shows {published.ref[:8]}, which nobody has accepted; "
            "the orchestrator still waits for worker 1"
        )
        with self._worker("stop store.publish.before 1 rollup") as zombie:
            wait(lambda: self._completed(workflow, "clean"), "clean to be accepted", zombie, workflow)
            tell(
                f"worker 2 took over after {self.edition.patience} s of silence, found {published.ref[:8]} "
                "on the branch, and reported it: nothing was computed twice"
            )
            wait(lambda: _is_stopped(zombie.pid), "worker 2 to be stopped", zombie, workflow)
            tell(
                "worker 2 was stopped (SIGSTOP) in rollup, with everything decided and the publication about to be sent"
            )
            with self._worker() as successor:
                wait(lambda: not self._view(workflow).running, "the pipeline to end", successor, workflow)
                tell("worker 3 took rollup over, published, and was accepted; the pipeline is done")
                before = _head(self.stack)
                os.kill(zombie.pid, signal.SIGCONT)
                tell("worker 2 wakes and sends its publication, as if nothing had happened")
                refused = wait(lambda: self._refusal(workflow), "the zombie to give up", zombie)
                tell(f"the store refuses it, and it keeps silent: {_in_short(refused)}")
        return _judge(_history(self.stack, first), self._view(workflow), before, refused)

    def _start(self, first: CommitRef) -> str:
        """Start the pipeline as soon as the first worker has registered its tasks."""
        if not set(STEPS) <= set(self.pipelines.registered()):
            return ""
        return self.pipelines.start(PIPELINE, load(self.folder, {}, {}).pipelines[PIPELINE], first)

    @contextmanager
    def _worker(self, failpoint: str = "") -> Generator[subprocess.Popen[bytes]]:
        """Run a real worker; on leaving, drain it, and kill it if that takes too long."""
        environment = {**os.environ, **({VARIABLE: failpoint} if failpoint else {})}
        with (self.folder / "worker.log").open("ab") as output:
            process = subprocess.Popen(  # noqa: S603  our own interpreter and code
                [sys.executable, "-m", "perago_worker", "--project", str(self.folder), "worker", "--verbose"],
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
                process.wait(self.edition.limit)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _wait_for(
        self,
        ready: Callable[[], object],
        what: str,
        worker: subprocess.Popen[bytes] | None = None,
        workflow: str = "",
    ) -> str:
        """Wait until it is so, and give what was found; a worker that ends meanwhile ends the demo."""
        until = time.monotonic() + self.edition.limit
        murmured = 0.0
        while not (found := ready()):
            if worker is not None and worker.poll() is not None:
                raise DemoError(
                    f"waited for {what}, and the worker ended with code {worker.returncode}; see worker.log"
                )
            if time.monotonic() > until:
                raise DemoError(f"waited {self.edition.limit:g} s for {what}; see worker.log")
            if time.monotonic() - murmured > _PACE:
                self.murmur(self._going_on(workflow) or f"waiting for {what}")
                murmured = time.monotonic()
            time.sleep(0.05)
        return str(found)

    def _going_on(self, workflow: str) -> str:
        """Say how far the last attempt is, if its body has said so."""
        attempts = self._view(workflow).attempts if workflow else ()
        running = [each for each in attempts if each.status is TaskStatus.IN_PROGRESS]
        if not running:
            return ""
        progress_lines = [line for line in self.pipelines.log(running[-1].task_id) if line.startswith("progress ")]
        return f"{running[-1].step}: {progress_lines[-1].removeprefix('progress ')}" if progress_lines else ""

    def _view(self, workflow: str) -> PipelineView:
        view = self.pipelines.view(workflow)
        assert view is not None
        return view

    def _completed(self, workflow: str, step: str) -> bool:
        attempts = self._view(workflow).attempts
        return any(each.step == step and each.status is TaskStatus.COMPLETED for each in attempts)

    def _refusal(self, workflow: str) -> str:
        """Return what the log of the given-up attempt of rollup says in the end."""
        (zombie, *_) = [each for each in self._view(workflow).attempts if each.step == "rollup"]
        log_lines = self.pipelines.log(zombie.task_id)
        return next((line for line in log_lines if ": silent, " in line or ": failed, " in line), "")


def _create(stack: Stack) -> CommitRef:
    """Return the head of the branch; the embedded store's has to be made."""
    found = stack.store.head(TARGET)
    if isinstance(found, Done) and found.value is not None:
        return found.value.commit.ref
    if not isinstance(stack.store, BranchCreator):
        raise DemoError(f"there is no branch {TARGET}: create it in the store, then try again")
    made = stack.store.create(TARGET, {"README.md": b"Orders, cleaned and summed up.\n"})
    if not isinstance(made, Done):
        raise DemoError(f"the branch could not be made: {made.reason}")
    return made.value


def _in_short(refusal: str) -> str:
    """Return what was found, without the rest of the sentence and with short refs."""
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


def _history(stack: Stack, first: CommitRef) -> tuple[Commit, ...]:
    """Return the commits of the branch, newest first, back to the one the pipeline began at."""
    found = stack.store.history(TARGET)
    assert isinstance(found, Done)
    older = [commit.ref for commit in found.value].index(first)
    return found.value[: older + 1]


def _judge(history: tuple[Commit, ...], view: PipelineView, before: Commit, refused: str) -> Ending:
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
