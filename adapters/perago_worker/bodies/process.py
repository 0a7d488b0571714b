"""One body that runs: its notes are passed on as they come, and its end is put into words."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from attrs import frozen

from perago_local.disk import trouble
from perago_worker.bodies import system
from perago_worker.bodies import verdict as verdicts
from perago_worker.bodies.lines import Lines
from perago_worker.bodies.notes import Logged, Note, Printed, decode
from perago_worker.bodies.spec import REPORTED, UNWRITTEN, Ended, Spec, read_ended
from perago_worker.bodies.verdict import BodyFailure, Succeeded, objection_to
from perago_worker.printable import printable

Listener: TypeAlias = Callable[[Note], object]

#: Seconds past deadline and grace after which a guard that says nothing is given up.
_PATIENCE = 30.0
#: Bytes of notes, and of printed lines, that are passed on for one body.
NOTES_LIMIT = 1 << 20
OUTPUT_LIMIT = 1 << 18

_HINTS: Mapping[int, str] = {
    signal.SIGKILL: "Usually the kernel, out of memory: give the worker more, or let the task use less",
    signal.SIGSEGV: "A native library crashed: see the task's log, and try its other versions",
    signal.SIGABRT: "A native library gave up: see the task's log",
    signal.SIGBUS: "A native library crashed, or a mapped file shrank: see the task's log",
}


@frozen
class Lost:
    """Nobody can say how the body ended: its guard is gone, too."""

    reason: str


End: TypeAlias = Succeeded | BodyFailure | Lost


class Running:
    """A body on its way. ``wait`` is called once, by one thread; ``stop`` by anybody, at any time."""

    def __init__(self, spec: Spec, line: socket.socket, notes: int, output: int) -> None:
        self._spec = spec
        self._line = line
        self._pipes = {notes: Lines(NOTES_LIMIT), output: Lines(OUTPUT_LIMIT)}
        self._notes = notes
        self._open = threading.Lock()
        self._stopped: str | None = None
        self._guard: int | None = None

    def begins(self, within: float) -> bool:
        """Wait for the guard to say who it is; ``False`` if it does not."""
        self._line.settimeout(within)
        output = bytearray()
        try:
            while not output.endswith(b"\n"):
                more = self._line.recv(1)
                if not more:
                    return False
                output += more
        except OSError:
            return False
        finally:
            self._line.settimeout(None)
        with suppress(OSError):  # gone again already
            self._guard = system.handle_of(int(output))
        return True

    def stop(self, reason: str) -> None:
        """Have the body ended: asked at once, killed after its grace. The first reason given is the one reported."""
        with self._open:
            if self._stopped is None and self._line.fileno() >= 0:
                self._stopped = reason
                with suppress(OSError):  # it has ended meanwhile
                    self._line.sendall(b"stop\n")

    def wait(self, listen: Listener) -> End:
        """Pass notes on until the body has ended; say how."""
        try:
            ended = self._follow(listen)
            if ended is None and self._guard is not None:
                system.kill_by(self._guard)  # stopped by a signal, it would stay for ever, and its body with it
        except OSError as error:  # too many open files, for example; the guard sees the line closed and ends the body
            return Lost(f"the body could not be followed: {error}")
        finally:
            self.close()
        if ended is None:
            return Lost("the process that guarded the body is gone, or does not answer")
        return self._in_words(ended)

    def close(self) -> None:
        """Let go of a body: its guard sees the line closed, and ends whatever still runs."""
        with self._open:
            self._line.close()
            if self._guard is not None:
                os.close(self._guard)
                self._guard = None
            while self._pipes:
                os.close(self._pipes.popitem()[0])

    def _follow(self, listen: Listener) -> Ended | None:
        answer = bytearray()
        until = time.monotonic() + self._spec.deadline + self._spec.grace + _PATIENCE
        with selectors.DefaultSelector() as inputs:
            inputs.register(self._line, selectors.EVENT_READ)
            for each in self._pipes:
                os.set_blocking(each, False)
                inputs.register(each, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                left = until - time.monotonic()
                if left <= 0:
                    return None
                for key, _events in inputs.select(left):
                    if key.fileobj is self._line:
                        more = _receive(self._line)
                        if not more:
                            return None
                        answer += more
                    elif not self._take(key.fd, listen):
                        inputs.unregister(key.fd)
        for each, lines in self._pipes.items():
            with suppress(BlockingIOError):  # held open by a process not even its guard could end
                while self._take(each, listen):
                    pass
            self._pass_on(each, lines.end(), listen)
        return read_ended(bytes(answer))

    def _take(self, pipe: int, listen: Listener) -> bool:
        """Pass on what a pipe holds. ``False``: all who wrote to it are gone."""
        received = os.read(pipe, 1 << 16)
        self._pass_on(pipe, self._pipes[pipe].feed(received), listen)
        return bool(received)

    def _pass_on(self, pipe: int, lines: Iterable[bytes], listen: Listener) -> None:
        for text in lines:
            note = decode(text) if pipe == self._notes else None
            with suppress(Exception):  # a listener informs; it cannot end a body
                listen(note or Printed(text.decode("utf-8", "backslashreplace")))

    def _in_words(self, ended: Ended) -> Succeeded | BodyFailure:
        who = "the body" if ended.stage == "body" else "the post-check"
        if ended.why == "deadline":
            limit = f"{self._spec.deadline:g} s"
            return BodyFailure(
                f"{who} ran longer than {limit} and was ended. Raise timeout= in @task, or let it do less"
            )
        if ended.why == "survived":
            return BodyFailure(
                f"{who} left processes behind that could not be ended, so nobody knows what they still write. "
                "Let it wait for what it starts; the next attempt has a folder of its own"
            )
        if ended.why is not None:
            return BodyFailure(f"{who} was stopped: {self._stopped or 'the worker is gone'}")
        if ended.signal is not None:
            hint = _HINTS.get(ended.signal, "Something else on this machine sent it")
            return BodyFailure(f"{who} died of {_name_of(ended.signal)}. {hint}")
        if ended.code == UNWRITTEN:
            cause = trouble(Path(self._spec.verdict)) or "Look at the disk of worker.root; the task's log may say more"
            return BodyFailure(f"{who} ended, and how could not be written down. {cause}")
        verdict = verdicts.read(Path(self._spec.verdict), self._spec.output_limit)
        if verdict is None or ended.code not in {0, REPORTED} or (ended.code == 0) != isinstance(verdict, Succeeded):
            return BodyFailure(
                f"{who} ended its process with exit code {ended.code} before it returned. "
                "Let it return or raise instead; the task's log may say more"
            )
        objection = objection_to(verdict.output, self._spec.output_limit) if isinstance(verdict, Succeeded) else None
        return verdict if objection is None else BodyFailure(objection)


def _name_of(number: int) -> str:
    """Name a signal; those for real time have numbers only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _receive(line: socket.socket) -> bytes:
    try:
        return line.recv(1 << 16)
    except OSError:
        return b""


def as_text(note: Note) -> str:
    """Write a note as a line for people."""
    if isinstance(note, Logged):
        return printable(f"{note.name}: {note.text}")
    if isinstance(note, Printed):
        return printable(note.text)
    share = "" if note.fraction is None else f"{note.fraction:.0%} "
    return printable(f"progress {share}{note.text}".rstrip())
