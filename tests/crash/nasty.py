"""A body that does all at once what bodies should not do. Copied like ``breakable``; what it is refused is no matter.

What it leaves where the worker looks is a file that it has written, and what it fights over until it is killed.
"""

import ctypes
import os
import resource
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel

from perago_worker import Workspace, progress, task

NAME = "nasty"
RETRIES = 0
PATIENCE = 10.0
#: Where else it tries its luck: what is precious there, and is not its own.
PRECIOUS = ""

_ATTACH, _SUBREAPER = 16, 36
_ESCAPES = b"\x1b[2J\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\xff\xfe\x00\r\n" * 50


class Orders(BaseModel):
    """What every task of these tests is given."""

    plan: Path


def _daemon(work: Callable[[], object]) -> None:
    """Go on in a process that has cut every tie, deaf to all signals that one can be deaf to."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    while True:
        with suppress(OSError):
            work()


def swaps_files_for_links(workspace: Path) -> None:
    """Show a file, a link to what is precious, a pipe and a folder under one name, in turn."""
    place = workspace / "swapped"

    def swap() -> None:
        for make in (
            lambda: place.write_text("a file"),
            lambda: place.symlink_to(PRECIOUS),
            lambda: os.mkfifo(place),
            place.mkdir,
        ):
            make()
            place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()

    _daemon(swap)


def rewrites_its_verdict(workspace: Path) -> None:
    """Say something else than what it returns, as soon as that is written down."""
    verdict = workspace.parent / "verdict"

    def rewrite() -> None:
        if verdict.exists():
            verdict.write_text('{"output": "[NaN" }', "utf-8")

    _daemon(rewrite)


def forks(workspace: Path) -> None:
    """Start processes that end and start others."""

    def again() -> None:
        if os.fork():
            os._exit(0)
        (workspace / "scratched").touch()

    for _ in range(3):
        _daemon(again)


def floods(workspace: Path) -> None:
    """Write garbage to every descriptor there is, and say steps that are none."""
    del workspace
    for each in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            os.set_blocking(int(each.name), False)
            os.write(int(each.name), _ESCAPES)
            os.set_blocking(int(each.name), True)
    for number in range(200):
        sys.stdout.write(f"\x1b[31m{number}\n" + "x" * 5000)
        progress(number, 200, "\x1b[2Jhalf\nway")


def takes_what_is_precious(workspace: Path) -> None:
    """Link to what is not its own, hard and soft, from where its own files are."""
    for place in (workspace / "hard", workspace.parent / "scratch" / "hard"):
        with suppress(OSError):
            place.hardlink_to(PRECIOUS)
            place.unlink()


def litters(workspace: Path) -> None:
    """Leave beside the workspace what nobody can list, open, measure or remove easily."""
    scratch = workspace.parent / "scratch"
    names = (b"line\nline", b"\x1b[2J", b"caf\xe9", b"-rf", b"n" * 255, b" ", b"a:b\\c")
    for name in names:
        os.close(os.open(os.fsencode(scratch) + b"/" + name, os.O_CREAT))
    os.mkfifo(scratch / "pipe")
    with suppress(OSError):
        os.mknod(scratch / "device", stat.S_IFBLK | 0o600, os.makedev(7, 0))
    socket.socket(socket.AF_UNIX).bind(str(Path(os.path.relpath(scratch)) / "socket"))
    with (scratch / "sparse").open("wb") as file:
        file.truncate(1 << 42)
    for number in range(500):
        (scratch / f"tiny-{number}").touch()
    before = Path.cwd()
    os.chdir(scratch)
    for _ in range(1100):
        Path("deep").mkdir()
        os.chdir("deep")
    Path("closed").mkdir(0)
    os.chdir(before)
    (scratch / "deep").chmod(0)


def pokes_its_elders(workspace: Path) -> None:
    """Signal and read those who started it."""
    del workspace
    elder = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT, signal.SIGCHLD, signal.SIGWINCH):
        os.kill(elder, number)
    for name in ("mem", "environ", "maps"):
        with suppress(OSError):
            Path(f"/proc/{elder}/{name}").read_bytes()


def traces_its_guard(workspace: Path) -> None:
    """Stop it by a trace, which only namespaces keep it from: its worker would wait until the deadline, and kill it."""
    del workspace
    ctypes.CDLL(None).ptrace(_ATTACH, os.getppid(), 0, 0)


def forgets_its_place(workspace: Path) -> None:
    """Leave a process in which nothing is as it was found."""
    del workspace
    os.umask(0o777)
    os.chdir("/")
    threading.Thread(target=time.sleep, args=(600,)).start()
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    sys.modules["json"] = sys.modules["os"]
    os.closerange(0, 4096)


@task(name=NAME, workspace=Workspace(), retries=RETRIES, retry_delay=0, response_timeout=PATIENCE, timeout=60.0)
def nasty(workspace: Path, params: Orders) -> str:
    """Do it all, and what the plan names as well."""
    (workspace / "result").write_text("its own", encoding="utf-8")
    for harm in (pokes_its_elders, takes_what_is_precious, litters, floods, forks, rewrites_its_verdict):
        with suppress(Exception):
            harm(workspace)
    plan = params.plan.read_text(encoding="utf-8")
    if "trace" in plan:
        traces_its_guard(workspace)
    if "swap" in plan:
        swaps_files_for_links(workspace)
    with suppress(Exception):
        forgets_its_place(workspace)
    return "done"
