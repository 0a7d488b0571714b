"""The template: a process that has imported the task modules and does nothing but fork guards.

It never runs a body, opens no file and holds no line to the worker but the one on which requests come. If it dies,
running bodies go on and the worker starts another.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Final, NoReturn

from perago_worker.bodies import guard, system

#: What the interpreter runs: its own search path first, because a task module may be anywhere.
BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from perago_worker.bodies.template import main; main()"
)
#: The descriptors of one body: its guard's line to the worker, the pipe for notes, the pipe for what it prints.
LINES: Final = 3
READY: Final = b"ready\n"


def main() -> NoReturn:
    """Import the modules named on the command line, say that we are ready, fork on request until the worker is gone."""
    _path, modules, descriptor = sys.argv[1:]
    control = socket.socket(fileno=int(descriptor))
    system.adopt_orphans()
    for name in json.loads(modules):
        with suppress(Exception):  # the body imports it again, and its verdict says what is wrong with it
            import_module(name)
    if system.threads() > 1:
        _start_again_without_modules(control)
    # Objects made so far stay as they are, so that forks keep sharing their memory.
    gc.collect()
    gc.freeze()
    control.sendall(READY)
    _serve(control)


def _start_again_without_modules(control: socket.socket) -> NoReturn:
    """Become a fresh interpreter: a fork has one thread only, and a lock that another one held stays locked in it."""
    control.set_inheritable(True)
    path, _modules, _descriptor = sys.argv[1:]
    os.execv(sys.executable, [sys.executable, "-c", BOOT, path, "[]", str(control.fileno())])  # noqa: S606  ourselves


def _serve(control: socket.socket) -> NoReturn:
    watch = system.ChildWatch()
    guards: set[int] = set()
    while True:
        readable = watch.wait([control.fileno()], None)
        guards -= set(system.reap())
        # A child that is no guard has lost its guard: somebody killed it. Nothing of a body outlives that.
        for orphan in set(system.children()) - guards:
            system.kill(orphan)
        if readable:
            word, descriptors, _flags, _address = socket.recv_fds(control, 1, LINES)
            if not word:
                os._exit(0)
            guards.add(_fork_guard(control, descriptors))


def _fork_guard(control: socket.socket, descriptors: list[int]) -> int:
    pid = os.fork()
    if pid == 0:
        control.close()
        line, notes, output = descriptors
        guard.main(socket.socket(fileno=line), notes, output)
    for each in descriptors:
        os.close(each)
    return pid
