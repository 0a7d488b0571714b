"""Processes that die or stop in the middle of a store call, at a place chosen by counting what they ask the system for.

Python reports every call that opens, links, renames, removes, lists or locks a file to audit hooks. A forked child
counts those reports and sends itself a signal at the chosen one, right before the call. So the product has no hook for
its tests, and a new system call in it is a new place to die.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any

from attrs import define

#: What counts as a step. Reading and writing an open file is not reported, but what comes next always is.
STEPS = frozenset(
    {
        "fcntl.flock",
        "open",
        "os.chmod",
        "os.link",
        "os.listdir",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.scandir",
        "os.utime",
    }
)


@define
class Victim:
    """A child that is doing one thing."""

    pid: int
    answers: int

    def wait(self) -> str:
        """Wait until it ended or stopped, and say which: ``killed``, ``stopped`` or ``survived``."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return "stopped"
        if os.WIFSIGNALED(status):
            os.close(self.answers)
            assert os.WTERMSIG(status) == signal.SIGKILL, f"died of signal {os.WTERMSIG(status)}"
            return "killed"
        assert os.WEXITSTATUS(status) == 0, "the child failed; see what it wrote"
        return "survived"

    def resume(self) -> Any:  # noqa: ANN401  whatever the work gave
        """Let a stopped child go on to its end, and give what its work gave."""
        os.kill(self.pid, signal.SIGCONT)
        assert self.wait() == "survived"
        return self.answer()

    def answer(self) -> Any:  # noqa: ANN401  whatever the work gave
        """Return what the work of a child gave that survived."""
        with os.fdopen(self.answers, "rb") as pipe:
            return pickle.load(pipe)  # noqa: S301  our own child's


def victim(work: Callable[[], object], step: int, by: signal.Signals) -> Victim:
    """Do the work in a child that gets the signal right before its step of this number."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writes)
        return Victim(pid, reads)
    code = 1
    try:
        taken = 0

        def report(event: str, _arguments: object) -> None:
            nonlocal taken
            if event in STEPS:
                taken += 1
                if taken == step:
                    os.kill(os.getpid(), by)

        sys.addaudithook(report)
        answer = work()
        step = 0
        os.write(writes, pickle.dumps(answer))
        code = 0
    finally:
        os._exit(code)
