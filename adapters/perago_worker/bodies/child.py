"""The first moments of a body's process: let go of what it inherited, take up its own streams, limits and folder."""

from __future__ import annotations

import fcntl
import logging
import os
import resource
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from perago_worker.api.progress import listen
from perago_worker.bodies import system
from perago_worker.bodies import verdict as verdicts
from perago_worker.bodies.isolation import isolate
from perago_worker.bodies.notes import NoteHandler, NoteWriter
from perago_worker.bodies.spec import REPORTED, UNWRITTEN, Spec
from perago_worker.bodies.stages import STAGES

#: Where our own descriptor moves to, away from the low numbers that bodies close or take.
_OUT_OF_THE_WAY = 100


def run(stage: str, spec: Spec, notes: int, output: int, guard: int) -> int:
    """Run one stage in this process, and give its exit code."""
    os.setsid()
    if spec.hidden is not None:
        isolate(spec.hidden, str(Path(spec.verdict).parent))
    system.die_with(guard)  # after that: the kernel forgets the wish when a process enters a user namespace
    _settle_signals()
    _settle_streams(output)
    _settle_limits(spec)
    _settle_chance()
    _settle_logging(notes)
    os.environ["TMPDIR"] = tempfile.tempdir = spec.scratch
    # A relative path means the workspace. A file written beside it would vanish without a word.
    os.chdir(spec.workspace or spec.scratch)
    verdict = STAGES[stage](spec)
    code = REPORTED if isinstance(verdict, verdicts.BodyFailure) else 0
    if verdict is not None:
        try:
            verdicts.write(verdict, Path(spec.verdict))
        except OSError as trouble:
            sys.stderr.write(f"perago: how it ended could not be written down: {trouble}\n")
            code = UNWRITTEN
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the body may have closed it
            stream.flush()
    return code


def _settle_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _settle_streams(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  the process's own streams
    sys.stdout = open(1, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115  as above
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115  as above


def _settle_limits(spec: Spec) -> None:
    system.volunteer_for_out_of_memory()
    # A core file would lie in the workspace, and be published with it.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if spec.memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (spec.memory_limit, spec.memory_limit))


def _settle_chance() -> None:
    """Seed NumPy anew in each body. ``random`` reseeds itself after a fork; NumPy's own state does not."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _settle_logging(notes: int) -> None:
    # As far away as the limit of open files allows. Counterexample, seen: with fewer than a hundred no body started.
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    away = _OUT_OF_THE_WAY if limit == resource.RLIM_INFINITY else min(_OUT_OF_THE_WAY, limit - 1)
    writer = NoteWriter(fcntl.fcntl(notes, fcntl.F_DUPFD_CLOEXEC, away))
    os.close(notes)
    listen(writer.progress)
    root = logging.getLogger()
    root.handlers[:] = [NoteHandler(writer)]
    root.setLevel(min(root.level, logging.INFO) or logging.INFO)
