"""The worker's side: start bodies, listen to them, stop them, learn how each one ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import evolve

from perago_worker.bodies.process import Running
from perago_worker.bodies.spec import Spec, write
from perago_worker.bodies.template import BOOT, READY

#: Seconds a template may need for its imports.
_START = 120.0
#: Seconds a template may need to fork a guard, on a machine that is busy.
_BEGIN = 30.0


#: Where the key of a collector is: in a header.
OTLP_HEADERS = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
)
#: What bodies do not see of the worker's environment: they run other people's code.
_PRIVATE = ("PERAGO_", "CONDUCTOR_", "LAKECTL_", "ETCDCTL_", "SPARK_REMOTE", *OTLP_HEADERS)


class _SilentError(Exception):
    """The template took the order, and nobody came of it."""


class TemplateError(Exception):
    """The template process does not start, so that no body can."""


class Bodies:
    """Starts bodies from one template process, and another template if that one is gone. Threads may share it.

    ``environment`` is what bodies see of the worker's environment. Leave credentials out of it. ``hidden``: files and
    folders they must not see; ``None``: they are not isolated.
    """

    def __init__(
        self,
        modules: Sequence[str],
        environment: Mapping[str, str] | None = None,
        hidden: tuple[str, ...] | None = None,
    ) -> None:
        self._modules = tuple(modules)
        self._hidden = hidden
        self._environment = dict(os.environ if environment is None else environment)
        self._lock = threading.Lock()
        self._template: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def start(self, spec: Spec) -> Running:
        """Start one body. Raises ``TemplateError`` if that cannot be done; then nothing has run.

        A template that does not answer is replaced, once. Counterexample, seen: a body stopped it by a signal, and
        every later body of the worker was waited for until its deadline, and lost.
        """
        try:
            return self._start(spec)
        except _SilentError:
            with self._lock:
                self._end_template(at_once=True)
        try:
            return self._start(spec)
        except _SilentError as silent:
            raise TemplateError(f"the body was not started: {silent}") from None

    def _start(self, spec: Spec) -> Running:
        line, line_there = socket.socketpair()
        notes, notes_there = os.pipe()
        output, output_there = os.pipe()
        running = Running(spec, line, notes, output)
        try:
            self._request([line_there.fileno(), notes_there, output_there])
            line.sendall(write(evolve(spec, hidden=self._hidden)))
        except (OSError, TemplateError) as error:
            running.close()
            raise TemplateError(f"the body was not started: {error}") from error
        finally:
            line_there.close()
            for each in (notes_there, output_there):
                os.close(each)
        if not running.begins(_BEGIN):
            running.close()
            raise _SilentError(f"no guard answered within {_BEGIN:g} s")
        return running

    def warm(self) -> int:
        """Start the template now, so that the first body need not wait for the imports; give its process id."""
        with self._lock:
            self._ready()
            assert self._template is not None
            return self._template[0].pid

    def close(self) -> None:
        """End the template. Bodies that run go on until their own lines are closed."""
        with self._lock:
            self._end_template()

    def _request(self, descriptors: list[int]) -> None:
        with self._lock:
            try:
                socket.send_fds(self._ready(), [b"+"], descriptors)
            except OSError:
                self._end_template()  # it was killed since the last body
                socket.send_fds(self._ready(), [b"+"], descriptors)

    def _ready(self) -> socket.socket:
        if self._template is not None and self._template[0].poll() is None:
            return self._template[1]
        self._end_template()
        here, there = socket.socketpair()
        path = json.dumps([str(Path(each).absolute()) for each in sys.path])
        command = [sys.executable, "-c", BOOT, path, json.dumps(self._modules), str(there.fileno())]
        with there:
            process = subprocess.Popen(  # noqa: S603  our own interpreter and code
                command,
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a module prints while it is imported must not mix with a command's own output
                env=self._environment,
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        self._template = (process, here)
        if not _says_ready(here):
            self._end_template()
            raise TemplateError(
                f"expected a process that imports {', '.join(self._modules)} within {_START:g} s; it ended with code "
                f"{process.returncode}. Import the modules by hand to see why"
            )
        return here

    def _end_template(self, *, at_once: bool = False) -> None:
        if self._template is None:
            return
        process, control = self._template
        self._template = None
        control.close()
        if at_once:
            process.kill()
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)


def _says_ready(control: socket.socket) -> bool:
    control.settimeout(_START)
    try:
        return control.recv(len(READY)) == READY
    except OSError:
        return False
    finally:
        control.settimeout(None)


def environment_of_bodies(environment: Mapping[str, str]) -> dict[str, str]:
    """Take the worker's keys and settings out of the environment that bodies see, in any case: so they are read."""
    return {name: value for name, value in environment.items() if not name.upper().startswith(_PRIVATE)}
