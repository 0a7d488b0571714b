"""A run worked off here, or followed while others do: its progress, what its bodies say, and what Ctrl-C does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

import typer
from attrs import define, field, frozen
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from perago_core.pipelines import Pipelines, PipelineView
from perago_core.values import Attempt, TaskStatus
from perago_worker.api.registry import Registry
from perago_worker.bodies.notes import Changed, Note, Progressed, Transferred
from perago_worker.bodies.process import as_text
from perago_worker.cli.console import messages
from perago_worker.cli.project import Project
from perago_worker.cli.render import show
from perago_worker.runtime.assembly import Assembled, assemble
from perago_worker.runtime.worker import draining_on_signals

#: Seconds between two looks whether anybody works at all.
_LOOK_FOR_WORKERS = 10.0


@frozen
class Seen:
    """How a run stood when it was left, and what its attempts changed, as far as that happened here."""

    view: PipelineView
    changed: Mapping[str, str] = field(factory=dict[str, str])

    def show(self, *, as_json: bool = False) -> None:
        """Show it."""
        show(self.view, as_json=as_json, changed=self.changed)

    def tell(self, *, as_json: bool) -> NoReturn:
        """Show it and end the command; the exit code is 0 only if every step was accepted."""
        self.show(as_json=as_json)
        raise typer.Exit(0 if self.view.succeeded else 1)


@define
class Ear:
    """Shows what bodies say while they run, and remembers what they changed."""

    changed: dict[str, str] = field(factory=dict[str, str])

    def hear(self, attempt: Attempt, note: Note) -> None:
        """Show one note."""
        if isinstance(note, Changed):
            self.changed[attempt.task_id] = note.text
            return
        if isinstance(note, Progressed):
            return
        step = attempt.logical_task.rpartition("/")[2]
        for line in as_text(note).splitlines():
            messages.print(f"[cyan]{escape(step)}[/cyan] {escape(line)}")


def work_off(project: Project, tasks: Registry, pipelines: Pipelines, begin: Callable[[], str], steps: int) -> Seen:
    """Begin it when a worker stands that can work it off; one whose policy changes meanwhile is started again.

    Where the orchestrator can, nothing but this run is taken: whoever runs one pipeline does not want to wait for
    another's.
    """
    workflow_id = ""
    ear = Ear()
    while True:
        with assemble(project.settings, project.stack, tasks, ear.hear) as assembled:
            stopping = Stopping(project.settings.worker.drain_limit)
            with draining_on_signals(assembled.worker, stopping.say):
                workflow_id = workflow_id or begin()
                alone = pipelines.work_only_on(workflow_id)
                messages.print(f"[dim]run {workflow_id}[/dim]")
                view = _work(pipelines, workflow_id, steps, assembled, alone=alone)
        if not view.running or not assembled.worker.moved:
            return Seen(view, ear.changed)


@define
class Stopping:
    """Says what Ctrl-C does, and by when."""

    limit: float
    _asked: int = field(default=0, init=False)

    def say(self, signal: str) -> None:
        """Speak for one signal."""
        self._asked += 1
        if self._asked > 1:
            messages.print(
                f"{signal}: stopping now; what was not published is tried again by whoever goes on with the run"
            )
            return
        by = time.strftime("%H:%M:%S", time.localtime(time.time() + self.limit))
        messages.print(
            f"{signal}: the step that runs may end, until {by} at the latest; no other is begun. Again: stop at once"
        )


def _work(pipelines: Pipelines, workflow_id: str, steps: int, assembled: Assembled, *, alone: bool) -> PipelineView:
    """Let the worker work until the pipeline has ended, or the worker was told to stop."""
    worker = assembled.worker
    helper = threading.Thread(target=worker.run, name="worker")
    helper.start()
    view: PipelineView | None = None
    try:
        with _Bar(steps, assembled.progress) as bar:
            while True:
                works = helper.is_alive()
                view = bar.show(pipelines, workflow_id)
                if not view.running or not works:
                    return view
                helper.join(0.05)
    finally:
        worker.drain()
        if alone and view is not None and not view.running and not view.succeeded:
            worker.drain()  # what still runs is of a run that was ended: nobody will take its result
        helper.join()


def follow(pipelines: Pipelines, workflow_id: str, steps: int) -> Seen:
    """Watch until the pipeline has ended, or nobody wants to watch any more."""
    messages.print(f"started {workflow_id}")
    looked = time.monotonic()
    with _Bar(steps) as bar:
        view = bar.show(pipelines, workflow_id)
        try:
            while view.running:
                time.sleep(0.3)
                view = bar.show(pipelines, workflow_id)
                if time.monotonic() - looked > _LOOK_FOR_WORKERS:
                    looked = time.monotonic()
                    for task in pipelines.unattended(view):
                        messages.print(f"[yellow]warning:[/yellow] no worker asks for {task}; start `perago worker`")
        except KeyboardInterrupt:
            messages.print(f"it goes on without you; look with `perago show {workflow_id}`")
    return Seen(view)


class _Bar(Progress):
    """How far a pipeline is, and its last step, if its body runs here and says so; for a Spark task, Spark does."""

    def __init__(self, steps: int, notes: Mapping[str, Progressed] | None = None) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        super().__init__(*columns, console=messages, transient=True)
        self._task = self.add_task("starting", total=steps)
        self._notes: Mapping[str, Progressed] = notes or {}

    def show(self, pipelines: Pipelines, workflow_id: str) -> PipelineView:
        """Look at the pipeline and show how far it is."""
        view = pipelines.view(workflow_id)
        assert view is not None
        last = view.attempts[-1] if view.attempts else None
        what = "starting" if last is None else f"{last.step}, attempt {last.number}: {last.status.value.lower()}"
        note = self._notes.get(last.task_id) if last is not None and last.status is TaskStatus.IN_PROGRESS else None
        # What is fetched or staged is no part of the body's own work.
        within = 0.0 if note is None or isinstance(note, Transferred) else note.fraction or 0.0
        self.update(
            self._task,
            completed=len(view.output) + within,
            description=what if note is None else f"{what}, {escape(as_text(note))}",
        )
        return view
