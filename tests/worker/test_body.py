"""Bodies in processes of their own: what reaches the worker, and what they can do to it (issue 5, item 5; peer R1)."""

from __future__ import annotations

import errno
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from perago_core.answers import Done, Unknown
from perago_core.attempt.messages import BodyDone, BodyFailed
from perago_core.results import Completed, Failed
from perago_worker.bodies import pool, process, system
from perago_worker.bodies.lines import Lines
from perago_worker.bodies.notes import Logged, NoteWriter, Printed, Progressed, Transferred, decode
from perago_worker.bodies.pool import Bodies, TemplateError
from perago_worker.bodies.process import End, Running, as_text
from perago_worker.bodies.spec import Spec
from perago_worker.bodies.verdict import BodyFailure, Succeeded
from tests.worker.support import TASKS, Bench, given, processes_with


def spec(folder: Path, task: str, params: str = "{}", module: str = TASKS, **more: object) -> Spec:
    work, scratch = folder / "work", folder / "scratch"
    work.mkdir(exist_ok=True)
    scratch.mkdir(exist_ok=True)
    fields = {"deadline": 60.0, "grace": 0.3, "memory_limit": None, "output_limit": 1 << 20, "has_post": False, **more}
    return Spec(module, task, str(work), str(scratch), str(folder / "verdict"), params, **fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  one default for many tests


def until(condition: Callable[[], bool], patience: float = 30.0) -> bool:
    """Wait for something to become true; give whether it did."""
    end = time.monotonic() + patience
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


# ---------------------------------------------------------------------------------------------------------------------
# What works


@pytest.mark.parametrize(
    ("task", "params", "output"),
    [
        ("write", {"count": 3}, {"rows": 3}),
        ("async", {}, {"rows": 1}),
        ("no-workspace", {"count": 4, "unknown": "ignored"}, {"rows": 5}),
        ("dataclass", {"folder": "x"}, {"folder": "X", "depth": 2}),
        ("typed-dict", {"name": "ab"}, {"name": "abab"}),
        ("dict", {"a": 1, "b": [None]}, {"a": 1, "b": [None]}),
        ("nothing", {}, None),
        ("read", {}, 9),
        ("all-pass", {}, None),
        ("thread", {}, None),
        # Whatever a body writes where its notes go. Counterexample: brackets nested a thousand deep ended their reader.
        ("noise", {}, None),
    ],
)
def test_every_shape_of_task_runs_to_its_result(task: str, params: object, output: object, bench: Bench) -> None:
    ran = bench.run(task, given(params))
    assert isinstance(ran.result, Completed), ran.result
    assert json.loads(ran.result.output) == output


def test_how_far_the_files_are_reaches_whoever_watches(bench: Bench) -> None:
    ran = bench.run("write", given({"text": "x"}))
    told = [note for note in ran.notes if isinstance(note, Transferred)]
    assert (told[0].fraction or 0) <= 1
    assert Transferred(1.0, "fetched 2 of 2 files") in told
    assert told[-1] == Transferred(1.0, "staged 1 of 1 files")


def test_logs_progress_and_prints_reach_the_worker(bench: Bench) -> None:
    ran = bench.run("talk", given({"text": "you"}))
    assert Logged(20, "sample", "a record for you") in ran.notes
    assert Progressed(0.25, "files read") in ran.notes
    assert Progressed(1.0, "") in ran.notes
    printed = {note.text for note in ran.notes if isinstance(note, Printed)}
    assert printed == {"a printed line", "an error line", "from a child"}
    assert not [note for note in ran.notes if "nobody wants this" in as_text(note)]
    long = [note.text for note in ran.notes if isinstance(note, Logged) and note.level == 30]
    assert "".join(long) == "x" * 5000


def test_the_traceback_of_a_failed_body_is_in_its_log(bench: Bench) -> None:
    ran = bench.run("raise")
    text = "".join(note.text for note in ran.notes if isinstance(note, Logged))
    assert "Traceback" in text
    assert "sample_tasks.py" in text
    first = next(note.text for note in ran.notes if isinstance(note, Logged)).splitlines()
    assert first[0].startswith("sample_tasks.py, line "), "the author's own line comes first"
    assert first[1].startswith("RuntimeError: line one")


def test_a_long_record_is_cut_between_its_lines() -> None:
    """A path that is cut in the middle can be neither read nor opened."""
    lines = [f"  at /a/rather/long/path/to/file_{number}.scala:{number}" for number in range(400)]
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream:
        thread = threading.Thread(target=NoteWriter(writer).log, args=(40, "spark", "\n".join(lines)))
        thread.start()
        sent = b""
        while b"file_399." not in sent:
            sent += os.read(reader, 65536)
        thread.join()
        os.close(writer)
        assert stream.read() == b""
    notes = [found for line in sent.splitlines() if isinstance(found := decode(line), Logged)]
    assert [line for note in notes for line in note.text.splitlines()] == lines
    assert len(notes) > 1


def test_relative_paths_are_the_workspace_and_temporary_files_are_ours_to_remove(bench: Bench) -> None:
    ran = bench.run("temporary")
    assert isinstance(ran.result, Completed)
    temporary, workspace, current = json.loads(ran.result.output)
    assert current == workspace
    assert ran.files["data/relative.txt"] == b"relative"
    assert not Path(temporary).exists()
    assert not Path(temporary).is_relative_to(workspace)


def test_two_bodies_of_one_template_have_chances_of_their_own(bench: Bench) -> None:
    results = [bench.run("chance").result for _ in range(3)]
    assert len({each.output for each in results if isinstance(each, Completed)}) == 3


def test_a_body_sees_only_the_environment_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of the worker are not the body's."""
    monkeypatch.setenv("SOME_SECRET", "hunter2")
    bodies = Bodies([TASKS], environment={"SOME_SETTING": "fine"})
    end = bodies.start(spec(tmp_path, "environment")).wait(lambda _note: None)
    assert isinstance(end, Succeeded)
    assert "SOME_SETTING" in end.output
    assert "SOME_SECRET" not in end.output
    bodies.close()


def test_bodies_run_side_by_side(bodies: Bodies, tmp_path: Path) -> None:
    ends: list[End] = []

    def one(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        ends.append(bodies.start(spec(folder, "no-workspace", json.dumps({"count": number}))).wait(lambda _note: None))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(str(end) for end in ends) == sorted(str(Succeeded(f'{{"rows":{n + 1}}}')) for n in range(12))


# ---------------------------------------------------------------------------------------------------------------------
# What a body can do to us: nothing


def test_nothing_a_body_started_outlives_it(bench: Bench) -> None:
    """Children that ignore SIGTERM, in sessions of their own, and their children."""
    token = f"token-{os.getpid()}-{time.monotonic_ns()}"
    bench = Bench(bench.folder / "family", bench.bodies, files={"data/token.txt": token.encode()})
    assert isinstance(bench.run("family").result, Completed)
    assert processes_with(token) == []


def test_what_is_checked_is_what_is_published(bench: Bench) -> None:
    """A child that writes after the function returned is dead before the post-check looks."""
    ran = bench.run("late-writer")
    assert isinstance(ran.result, Completed), ran.result
    assert "data/late" not in ran.files


def test_a_body_whose_processes_cannot_be_ended_has_failed(tmp_path: Path) -> None:
    """Counterexample, seen: processes that fork and end outran the guard, and wrote into what was being published.

    Here the guard has no time, so that one that sleeps is enough.
    """
    bodies = Bodies(["tests.worker.impatient", TASKS])
    end = bodies.start(spec(tmp_path, "late-writer")).wait(lambda _note: None)
    assert isinstance(end, BodyFailure), end
    assert "left processes behind that could not be ended" in end.reason
    assert bodies.start(spec(tmp_path, "write")).wait(lambda _note: None) == Succeeded('{"rows":1}')
    bodies.close()


def test_a_stopped_body_is_woken_so_that_it_can_leave_in_order(bench: Bench) -> None:
    ran = bench.run("stopped")
    assert isinstance(ran.result, Failed)
    assert Logged(20, "sample", "leaving work") in ran.notes


def test_a_body_that_closes_every_descriptor_keeps_its_files_clean(bench: Bench) -> None:
    ran = bench.run("close-everything")
    assert isinstance(ran.result, Completed), ran.result
    assert {data for path, data in ran.files.items() if "file-" in path} == {b"mine"}
    assert {data for path, data in ran.files.items() if "kept-" in path} == {b""}


def test_a_flood_of_output_is_bounded_and_harmless(bench: Bench) -> None:
    ran = bench.run("flood")
    assert isinstance(ran.result, Completed)
    printed = [note.text for note in ran.notes if isinstance(note, Printed)]
    logged = [note.text for note in ran.notes if isinstance(note, Logged)]
    assert sum(map(len, printed)) < 2_000_000
    assert 0 < sum(map(len, logged)) < 2_000_000
    assert sum(text.endswith("bytes more, not kept") for text in printed) == 2, "one for prints, one for records"


def test_a_verdict_that_cannot_be_written_is_a_failure_with_the_reason_in_the_log(
    bodies: Bodies, tmp_path: Path
) -> None:
    """As on a full disk."""
    heard: list[str] = []
    made = evolve(spec(tmp_path, "no-workspace"), verdict=str(tmp_path / "nowhere" / "verdict"))
    end = bodies.start(made).wait(lambda note: heard.append(as_text(note)))
    assert isinstance(end, BodyFailure)
    assert "the body ended, and how could not be written down. Look at the disk" in end.reason
    assert [line for line in heard if "could not be written down: [Errno 2] No such file or directory" in line]
    assert not [line for line in heard if "Traceback" in line]


def test_a_stop_is_at_once_and_says_why(bodies: Bodies, tmp_path: Path) -> None:
    running = bodies.start(spec(tmp_path, "hang-long"))
    heard = threading.Event()

    def stop_it() -> None:
        heard.wait(30)
        running.stop("no longer ours")
        running.stop("again")

    timer = threading.Thread(target=stop_it)
    timer.start()
    begun = time.monotonic()
    end = running.wait(lambda _note: heard.set())
    timer.join()
    assert end == BodyFailure("the body was stopped: no longer ours")
    assert time.monotonic() - begun < 60, "the deadline of 600 s ended it, not the stop"
    running.stop("after the end, which is nothing")


@pytest.mark.parametrize("wait", [0.0, 0.002, 0.004, 0.008, 0.016])
def test_a_stop_is_heard_however_early_it_comes(bodies: Bodies, tmp_path: Path, wait: float) -> None:
    """Before the guard has read its orders, while it forks, before the body has left its group."""
    running = bodies.start(spec(tmp_path, "hang-long"))
    time.sleep(wait)
    running.stop("at once")
    assert running.wait(lambda _note: None) == BodyFailure("the body was stopped: at once")


def test_a_cancelled_attempt_ends_its_body_or_never_starts_it(bench: Bench) -> None:
    early, late = bench.attempt("hang-long"), bench.attempt("hang-long")
    for each in (early, late):
        bench.workspace.accept(each, "hang-long", "{}")
        assert isinstance(bench.workspace.prepare(each), Done)
    bench.workspace.cancel(early, "lost")
    assert bench.workspace.run(early) == Done(BodyFailed(early.execution, "the body was not started: lost"))

    def cancel_late() -> None:
        until(lambda: bool(bench.said()))
        bench.workspace.cancel(late, "lost")

    threading.Thread(target=cancel_late).start()
    assert bench.workspace.run(late) == Done(BodyFailed(late.execution, "the body was stopped: lost"))
    for each in (early, late):
        assert bench.workspace.remove(each) == Done(None)
    assert bench.sandboxes() == ()


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def started(bodies: Bodies, folder: Path, task: str) -> tuple[Running, int, int]:
    """Start a body and give it with the process ids of its guard and of itself."""
    template = bodies.warm()
    before = set(children_of(template))
    running = bodies.start(spec(folder, task))
    assert until((folder / "work" / "ran").exists)
    (guard,) = set(children_of(template)) - before
    (body,) = children_of(guard)
    return running, guard, body


def gone(pid: int) -> bool:
    """Wait until a process has ended, whether or not its parent has noticed."""
    return until(lambda: not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text())


def test_a_killed_guard_is_a_lost_body_and_takes_it_along(bodies: Bodies, tmp_path: Path) -> None:
    running, guard, body = started(bodies, tmp_path, "hang-long")
    os.kill(guard, signal.SIGKILL)
    end = running.wait(lambda _note: None)
    assert "is gone" in str(end)
    assert gone(body)


def test_a_body_dies_with_its_guard_even_if_the_template_is_gone(tmp_path: Path) -> None:
    bodies = Bodies([TASKS])
    running, guard, body = started(bodies, tmp_path, "hang-long")
    for pid in (bodies.warm(), guard):
        os.kill(pid, signal.SIGKILL)
    assert "is gone" in str(running.wait(lambda _note: None))
    assert gone(body)
    bodies.close()


def test_a_lost_body_is_unknown_to_the_core(bench: Bench) -> None:
    attempt = bench.attempt("hang-long")
    bench.workspace.accept(attempt, "hang-long", "{}")
    bench.workspace.prepare(attempt)
    template = bench.bodies.warm()
    before = set(children_of(template))

    def kill_the_guard() -> None:
        assert until(lambda: bool(bench.said()))
        (guard,) = set(children_of(template)) - before
        os.kill(guard, signal.SIGKILL)

    threading.Thread(target=kill_the_guard).start()
    assert isinstance(bench.workspace.run(attempt), Unknown)
    assert bench.workspace.remove(attempt) == Done(None)


def test_a_killed_template_harms_no_running_body_and_is_replaced(tmp_path: Path) -> None:
    bodies = Bodies([TASKS])
    running, _guard, _body = started(bodies, tmp_path, "hang-long")
    first = bodies.warm()
    os.kill(first, signal.SIGKILL)
    assert gone(first)
    other = tmp_path / "other"
    other.mkdir()
    assert bodies.start(spec(other, "no-workspace")).wait(lambda _note: None) == Succeeded('{"rows":2}')
    assert bodies.warm() != first
    running.stop("done with it")
    assert running.wait(lambda _note: None) == BodyFailure("the body was stopped: done with it")
    bodies.close()


def test_a_template_that_was_stopped_is_replaced_and_the_body_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counterexample, seen: a body stopped it, and each later body was waited for until its deadline, and lost."""
    monkeypatch.setattr(pool, "_BEGIN", 0.5)
    bodies = Bodies([TASKS])
    first = bodies.warm()
    os.kill(first, signal.SIGSTOP)
    assert bodies.start(spec(tmp_path, "no-workspace")).wait(lambda _note: None) == Succeeded('{"rows":2}')
    assert gone(first)
    bodies.close()


def test_a_body_that_cannot_be_followed_is_lost_for_that_reason_and_ended(
    bodies: Bodies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, _guard, body = started(bodies, tmp_path, "hang-long")

    def none_left() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(selectors, "DefaultSelector", none_left)
    assert "Too many open files" in str(running.wait(lambda _note: None))
    monkeypatch.undo()
    assert gone(body)


def test_a_guard_that_was_stopped_is_killed_with_its_body(
    bodies: Bodies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_PATIENCE", -59.0)  # the guard, which keeps the deadline, does not say so any more
    running, guard, body = started(bodies, tmp_path, "hang-long")
    os.kill(guard, signal.SIGSTOP)
    assert "does not answer" in str(running.wait(lambda _note: None))
    assert gone(guard)
    assert gone(body)


FEW = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
from perago_worker.bodies.pool import Bodies
from tests.worker.test_body import spec
bodies = Bodies(["tests.worker.sample_tasks"])
print(bodies.start(spec(Path(sys.argv[1]), "no-workspace")).wait(lambda note: None))
bodies.close()
"""


def test_a_body_runs_where_few_files_may_be_open(tmp_path: Path) -> None:
    """Counterexample, seen: with sixty, every body ended with exit code 1 and no word."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(  # noqa: S603  ourselves
        [sys.executable, "-c", FEW, str(tmp_path)], check=False, capture_output=True, text=True, env=environment
    )
    assert "Succeeded" in ran.stdout, ran.stdout + ran.stderr


WORKER = """
import sys
from pathlib import Path
from perago_worker.bodies.pool import Bodies
from tests.worker.test_body import spec
bodies = Bodies(["tests.worker.sample_tasks"])
bodies.start(spec(Path(sys.argv[1]), "hang-long")).wait(lambda note: print(note, flush=True))
"""


def test_a_killed_worker_leaves_no_process_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as worker:  # noqa: S603  ourselves
        assert worker.stdout is not None
        assert b"hanging" in worker.stdout.readline()
        (template,) = children_of(worker.pid)
        (guard,) = children_of(template)
        (body,) = children_of(guard)
        worker.kill()
    assert all(gone(pid) for pid in (template, guard, body))


# ---------------------------------------------------------------------------------------------------------------------
# Templates


def write_module(folder: Path, name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / f"{name}.py").write_text(source)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return name


TASK = """
import threading, time
from perago_worker import task
{more}
@task(name="count")
def count() -> int:
    return threading.active_count()
"""


def test_a_module_that_starts_threads_is_imported_by_each_body_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork of a process with threads has one thread, and every lock the others held."""
    more = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    name = write_module(tmp_path, "sample_threads", TASK.format(more=more), monkeypatch)
    bodies = Bodies([name])
    bodies.warm()
    assert bodies.start(spec(tmp_path, "count", module=name)).wait(lambda _note: None) == Succeeded("2")
    bodies.close()


def test_a_module_that_cannot_be_imported_fails_its_body_with_the_reason(
    bodies: Bodies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write_module(tmp_path, "sample_raises", "raise ImportError('no such wheel')", monkeypatch)
    end = bodies.start(spec(tmp_path, "count", module=name)).wait(lambda _note: None)
    assert isinstance(end, BodyFailure)
    assert not end.terminal


def test_a_module_that_ends_the_process_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write_module(tmp_path, "sample_exits", "import os; os._exit(7)", monkeypatch)
    bodies = Bodies([name])
    with pytest.raises(TemplateError, match="ended with code 7"):
        bodies.start(spec(tmp_path, "count", module=name))
    bodies.close()


def test_a_worker_whose_template_does_not_start_fails_the_attempt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write_module(bench.folder, "sample_exits_too", "import os; os._exit(7)", monkeypatch)
    bench.bodies = Bodies([name])
    bench.workspace = bench.open()
    ran = bench.run("no-workspace")
    assert isinstance(ran.result, Failed)
    assert "ended with code 7" in str(ran.result.refusal)


# ---------------------------------------------------------------------------------------------------------------------
# Lines and notes


def test_lines_are_cut_bounded_and_accounted_for() -> None:
    lines = Lines(10)
    assert list(lines.feed(b"one\ntw")) == [b"one"]
    assert list(lines.feed(b"o\nthree\n")) == [b"two"]
    assert list(lines.feed(b"x" * 5000)) == []
    assert list(lines.end()) == [f"... {6 + 4097 + 905} bytes more, not kept".encode()]
    assert [len(each) for each in Lines(10_000).feed(b"x" * 9000 + b"\n")] == [4096, 4096, 808]
    assert len(list(Lines(10).feed(b"\n" * 1000))) == 10  # a body may print nothing, for ever


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"{", b"[]", b"3", b'{"level": "x", "name": "", "text": ""}', b"\xff", b"[" * 4096, b"9" * 4096),
        *(b'{"fraction": NaN, "text": ""}', b'{"fraction": -1, "text": ""}', b'{"fraction": true, "text": ""}'),
    ],
)
def test_a_line_that_is_no_note_is_none(line: bytes) -> None:
    assert decode(line) is None


def test_the_operating_system_tells_of_children() -> None:
    child = subprocess.Popen(["sleep", "600"])  # noqa: S607  any sleep will do
    assert child.pid in system.children()
    child.kill()
    child.wait()
    assert child.pid not in system.children()


def test_body_events_carry_the_execution(bench: Bench) -> None:
    """P-40: a completion belongs to one execution."""
    attempt = bench.attempt("write")
    bench.workspace.accept(attempt, "write", "{}")
    bench.workspace.prepare(attempt)
    answer = bench.workspace.run(attempt)
    assert answer == Done(BodyDone(attempt.execution, changed=True, output='{"rows":1}'))
    bench.workspace.remove(attempt)
