"""A production run as a story: the traces its workers wrote, the orchestrator's view, and the commits of the store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from perago_core.answers import Done
from perago_core.attempt.messages import HeadSeen
from perago_core.errors import CodecError
from perago_core.pipelines import PipelineView
from perago_core.ports import Store
from perago_core.values import Commit, CommitRef
from perago_report.recording import Recording, Word, read
from perago_report.scenes import Story
from perago_report.timeline import tell
from perago_worker.runtime.telemetry import trace_prefix

#: How far back a commit that no trace explains is followed.
_GENERATIONS = 50


class TimelineError(Exception):
    """There is nothing to tell; the message says what is missing and where it should be."""


def timeline(folder: Path, store: Store, view: PipelineView, logical_task: str = "") -> Story:
    """Tell a workflow, or only one of its tasks, from the traces in a folder."""
    found = _recordings(folder, view.workflow_id, logical_task)
    if not found:
        what = logical_task or view.workflow_id
        raise TimelineError(
            f"expected traces of {what} in {folder}; found none. They are where its workers ran: name that folder with "
            "--set worker.trace=FOLDER"
        )
    concerned = {each.attempt.task_id for each in found}
    words = tuple(
        Word(
            each.task_id, f"{each.step}, attempt {each.number}", each.status, each.ended_at, each.reason, _ref(each.ref)
        )
        for each in view.attempts
        if each.task_id in concerned
    )
    about = f"task {logical_task} of a workflow that is" if logical_task else f"workflow {view.workflow_id}:"
    title = f"{about} {view.status.lower()}"
    return tell(title, found, words, _history(store, found))


def _ref(ref: str | None) -> CommitRef | None:
    return None if ref is None else CommitRef(ref)


def _recordings(folder: Path, workflow_id: str, logical_task: str) -> tuple[Recording, ...]:
    found: list[Recording] = []
    for path in sorted(folder.glob(f"{trace_prefix(logical_task or workflow_id)}*.jsonl")):
        try:
            recording = read(path.read_text(encoding="utf-8").splitlines(), path.stem)
        except (OSError, UnicodeDecodeError, CodecError, ValueError) as error:
            raise TimelineError(f"{path} cannot be read as a trace: {error}. Move it away, or restore it") from None
        attempt = recording.attempt
        if attempt.workflow_id == workflow_id and logical_task in {"", attempt.logical_task}:
            found.append(recording)
    return _named(sorted(found, key=lambda each: each.records[0].at if each.records else 0))


def _named(recordings: Iterable[Recording]) -> tuple[Recording, ...]:
    """Call each execution by its step and attempt; a second execution of one attempt says so."""
    taken: dict[str, int] = {}
    named: list[Recording] = []
    for each in recordings:
        step = each.attempt.logical_task.partition("/")[2] or each.attempt.logical_task
        name = f"{step} {each.attempt.number}"
        taken[name] = taken.get(name, 0) + 1
        again = f" ({taken[name]})" if taken[name] > 1 else ""
        named.append(Recording(f"{name}{again}", each.attempt, each.records))
    return tuple(named)


def _history(store: Store, recordings: Iterable[Recording]) -> dict[str, tuple[str, ...]]:
    """Ask the store for the ancestors of heads that somebody saw, as far as the run's own inputs."""
    known = {each.attempt.input for each in recordings}
    parents: dict[str, tuple[str, ...]] = {}
    for each in recordings:
        for record in each.records:
            if isinstance(record.event, HeadSeen) and record.event.head is not None:
                commit: Commit | None = record.event.head.commit
                for _ in range(_GENERATIONS):
                    if commit is None or commit.ref in parents or commit.ref in known:
                        break
                    parents[commit.ref] = commit.parents
                    commit = _look(store, each.attempt.target.repository, commit)
    return parents


def _look(store: Store, repository: str, child: Commit) -> Commit | None:
    if not child.parents:
        return None
    found = store.look(repository, child.parents[0])
    return found.value if isinstance(found, Done) else None
