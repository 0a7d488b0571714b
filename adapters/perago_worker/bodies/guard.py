"""The guard of one body: starts it, stops it when time or the worker says so, and leaves nothing of it alive.

Runs no code of the author and keeps no state worth saving. Its line to the worker is its life line: when the worker is
gone, the line closes, and the body ends with it.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
from contextlib import suppress
from typing import NoReturn

from perago_worker.bodies import child, system
from perago_worker.bodies.spec import Ended, Spec, read_spec, write

#: Seconds to wait for processes that were killed: the kernel may take its time with one that is busy in a driver.
_PATIENCE = 5.0
_STOP = "stopped"
_DEADLINE = "deadline"
_SURVIVED = "survived"


def main(line: socket.socket, notes: int, output: int) -> NoReturn:
    """Guard one body and end. Called in a process forked for nothing else."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # the worker's stop is the worker's business
        system.adopt_orphans()
        spec = _receive(line)
        if spec is not None:
            line.sendall(b"%d\n" % os.getpid())  # the worker waits for it: a template may have been stopped
            ended = Guard(line, notes, output, read_spec(spec)).run()
            with suppress(OSError):  # nobody listens any more
                line.sendall(write(ended))
        code = 0
    finally:
        os._exit(code)


def _receive(line: socket.socket) -> bytes | None:
    """Read what is to be run, and not a byte more: a stop may follow at once. ``None``: the worker is gone already."""
    received = bytearray()
    while not received.endswith(b"\n"):
        waiting = line.recv(1 << 16, socket.MSG_PEEK)
        if not waiting:
            return None
        received += line.recv(waiting.find(b"\n") + 1 or len(waiting))
    return bytes(received)


class Guard:
    """Watches the stages of one body, one after the other."""

    def __init__(self, line: socket.socket, notes: int, output: int, spec: Spec) -> None:
        self._line = line
        self._notes = notes
        self._output = output
        self._spec = spec
        self._watch = system.ChildWatch()
        self._until = time.monotonic() + spec.deadline
        self._why: str | None = None

    def run(self) -> Ended:
        """Run the body and, if it did well, the post-checks."""
        ended = self._stage("body")
        if ended.code == 0 and ended.why is None and self._spec.has_post:
            ended = self._stage("post")
        for each in (self._notes, self._output):
            os.close(each)  # before the worker is told, so that it finds the end of what was written
        return ended

    def _stage(self, stage: str) -> Ended:
        pid = os.fork()
        if pid == 0:
            self._become(stage)
        status = self._watch_over(pid)
        if not self._end_descendants(pid) and self._why is None:
            self._why = _SURVIVED
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        return Ended(stage, os.waitstatus_to_exitcode(status) if number is None else None, number, self._why)

    def _become(self, stage: str) -> NoReturn:
        """Run the stage in the forked process; whatever happens, do not come back into the guard's code."""
        code = 1
        try:
            self._line.close()
            code = child.run(stage, self._spec, self._notes, self._output, os.getppid())
        except BaseException:  # noqa: BLE001  our own trouble, a full disk for instance; the body's own has a verdict
            with suppress(Exception):
                traceback.print_exc()
        finally:
            # Not sys.exit: threads the body left behind would be waited for.
            os._exit(code)

    def _watch_over(self, pid: int) -> int:
        """Wait for the end of the process; hurry it when the time is over or the worker wants it to stop."""
        kill_at = float("inf")
        while True:
            status = system.reap().get(pid)
            if status is not None:
                return status
            now = time.monotonic()
            if self._why is None and now >= self._until:
                self._why = _DEADLINE
            if self._why is not None and kill_at == float("inf"):
                kill_at = now + self._spec.grace
                system.signal_group(pid, signal.SIGTERM)
                system.signal_group(pid, signal.SIGCONT)  # a stopped process cannot react to anything else
            if now >= kill_at:
                system.signal_group(pid, signal.SIGKILL)
                kill_at = now + _PATIENCE
            self._listen(min(self._until if self._why is None else kill_at, now + _PATIENCE) - now)

    def _listen(self, timeout: float) -> None:
        inputs = [] if self._why is not None else [self._line.fileno()]
        if self._watch.wait(inputs, max(0.0, timeout)):
            # Any word from the worker means stop, and so does its end.
            self._why = _STOP
            with suppress(OSError):
                self._line.recv(1 << 16)

    def _end_descendants(self, leader: int) -> bool:
        """Kill what the body started, again and again: ending a process hands its children to us.

        Say whether nothing is left of it. Counterexample, seen: processes that did nothing but fork and end outran
        this, the body counted as over, and they went on writing into the folder while it was looked at and sent.
        """
        until = time.monotonic() + _PATIENCE
        system.signal_group(leader, signal.SIGKILL)
        while system.has_children():
            if time.monotonic() > until:
                return False
            for pid in system.children():
                system.kill(pid)
            self._watch.wait([], 0.05)
            system.reap()
        return True
