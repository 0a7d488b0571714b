"""Tasks the tests run in real body processes: good ones, and every bad one we could think of."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict  # Pydantic wants this one before Python 3.12

from perago_worker import (
    GuardrailViolationError,
    TaskTerminalError,
    Workspace,
    forbid_glob,
    progress,
    require_dir,
    require_file,
    require_glob,
    task,
)

LOG = logging.getLogger("sample")


class Params(BaseModel):
    text: str = "hello"
    count: int = 1


class Result(BaseModel):
    rows: int


@dataclass
class Place:
    folder: str
    depth: int = 1


class Row(TypedDict):
    name: str


# ---------------------------------------------------------------------------------------------------------------------
# Good ones


@task(name="write", workspace=Workspace(prefix="data"))
def write(workspace: Path, params: Params) -> Result:
    """Write a file."""
    (workspace / "out.txt").write_text(params.text * params.count)
    return Result(rows=params.count)


@task(name="async", workspace=Workspace(prefix="data"))
async def write_async(workspace: Path, params: Params) -> Result:
    await asyncio.sleep(0)
    (workspace / "out.txt").write_text(params.text)
    return Result(rows=1)


@task(name="no-workspace")
def no_workspace(params: Params) -> Result:
    return Result(rows=params.count + 1)


@task(name="dataclass")
def with_dataclass(params: Place) -> Place:
    return Place(params.folder.upper(), params.depth + 1)


@task(name="typed-dict")
def with_typed_dict(params: Row) -> Row:
    return {"name": params["name"] * 2}


@task(name="dict")
def with_dict(params: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(params.items()))


@task(name="nothing")
def with_nothing() -> None:
    """Take nothing, give nothing."""


@task(name="talk")
def talk(params: Params) -> None:
    LOG.info("a record for %s", params.text)
    LOG.debug("nobody wants this")
    progress(1, 4, "files read")
    print("a printed line")  # noqa: T201  that is what is tested
    print("an error line", file=sys.stderr)  # noqa: T201  that is what is tested
    subprocess.run(["echo", "from a child"], check=True)  # noqa: S607  any echo will do
    LOG.warning("x" * 5000)
    progress(1.0)


@task(name="read", workspace=Workspace(prefix="data", read_only=True))
def read(workspace: Path) -> int:
    return sum(len(path.read_bytes()) for path in workspace.rglob("*") if path.is_file())


@task(name="temporary", workspace=Workspace(prefix="data"))
def temporary(workspace: Path) -> list[str]:
    import tempfile  # noqa: PLC0415  as authors do

    made = Path(tempfile.mkdtemp())
    (made / "big").write_bytes(b"x" * 100)
    Path("relative.txt").write_text("relative")
    return [str(made), str(workspace), str(Path.cwd())]


@task(name="environment")
def environment() -> list[str]:
    return sorted(os.environ)


@task(name="chance")
def chance() -> float:
    import random  # noqa: PLC0415  as authors do

    return random.random()


# ---------------------------------------------------------------------------------------------------------------------
# Checks


def _is_tidy(workspace: Path) -> bool:
    return not (workspace / "untidy").exists()


def _is_missing(workspace: Path) -> bool:
    return not workspace.exists()


def _raises(workspace: Path) -> None:
    raise OSError(f"cannot look into {workspace.name}")


def _objects(workspace: Path) -> None:
    raise GuardrailViolationError(f"{workspace.name} is not to my taste")


def _crashes(_workspace: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _touch(workspace: Path) -> None:
    """Leave a mark that a body ran."""
    (workspace / "ran").touch()


def _checked(name: str, **checks: Any) -> Any:  # noqa: ANN401  passed on
    @task(name=name, workspace=Workspace(prefix="data", **checks))
    def run(workspace: Path) -> None:
        _touch(workspace)

    return run


pre_file = _checked("pre-file", pre=[require_file("missing.csv")])
pre_dir = _checked("pre-dir", pre=[require_dir("a.txt")])
pre_glob = _checked("pre-glob", pre=[require_glob("*.parquet")])
pre_glob_many = _checked("pre-glob-many", pre=[require_glob("*.txt", max=1)])
pre_forbid = _checked("pre-forbid", pre=[forbid_glob("**/*.txt")])
pre_false = _checked("pre-false", pre=[_is_missing])
pre_raises = _checked("pre-raises", pre=[_raises])
pre_crash = _checked("pre-crash", pre=[_crashes])
post_file = _checked("post-file", post=[require_file("missing.csv")])
post_forbid = _checked("post-forbid", post=[forbid_glob("r*n")])
post_objects = _checked("post-objects", post=[_objects])
post_crash = _checked("post-crash", post=[_crashes])
all_pass = _checked(
    "all-pass", pre=[require_file("a.txt"), _is_tidy], post=[require_file("ran"), require_glob("*", max=9)]
)


def _looks_again_later(workspace: Path) -> bool:
    time.sleep(0.4)
    return not (workspace / "late").exists()


@task(name="late-writer", workspace=Workspace(prefix="data", post=[_looks_again_later]))
def late_writer(workspace: Path) -> None:
    """Return, and let a child write what the post-check forbids a moment later."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.2)
        (workspace / "late").touch()
        os._exit(0)


# ---------------------------------------------------------------------------------------------------------------------
# Bad ones


class Fussy(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def _never(cls, word: str) -> str:
        raise RuntimeError(f"validator out of order for {len(word)} letters")


@task(name="fussy")
def fussy(params: Fussy) -> None:
    del params


@task(name="raise", workspace=Workspace(prefix="data"))
def raising(workspace: Path) -> None:
    (workspace / "half").touch()
    raise RuntimeError("line one\nline two " + "x" * 1000)


@task(name="terminal", workspace=Workspace(prefix="data"))
def terminal(workspace: Path) -> None:
    raise TaskTerminalError(f"{workspace.name} can never work")


@task(name="exit", workspace=Workspace(prefix="data"))
def exiting(workspace: Path) -> None:
    sys.exit(len(workspace.name))


@task(name="hard-exit", workspace=Workspace(prefix="data"))
def hard_exit(workspace: Path) -> None:
    _touch(workspace)
    os._exit(0)


@task(name="noise", workspace=Workspace(prefix="data"))
def noise(workspace: Path) -> None:
    """Write what is no note into every pipe this process has, that of the notes among them."""
    for text in (b"[" * 50_000, b'{"a":' * 10_000, b"\xff\0", b'{"fraction": NaN, "text": "x"}', b"9" * 5000):
        for each in list(Path("/proc/self/fd").iterdir()):
            with suppress(OSError):  # the one that listed them is closed, others are for reading
                if str(each.readlink()).startswith("pipe:"):
                    os.write(int(each.name), text + b"\n")
    _touch(workspace)


@task(name="exit-three", workspace=Workspace(prefix="data"))
def exit_three(workspace: Path) -> None:
    _touch(workspace)
    os._exit(3)


@task(name="segfault", workspace=Workspace(prefix="data"))
def segfault(workspace: Path) -> None:
    _touch(workspace)
    ctypes.string_at(0)


@task(name="killed", workspace=Workspace(prefix="data"))
def killed(workspace: Path) -> None:
    _touch(workspace)
    os.kill(os.getpid(), signal.SIGKILL)


@task(name="real-time", workspace=Workspace(prefix="data"))
def real_time(workspace: Path) -> None:
    """Die of a signal that has a number and no name."""
    _touch(workspace)
    os.kill(os.getpid(), signal.SIGRTMIN + 6)


@task(name="interrupt", workspace=Workspace(prefix="data"))
def interrupt(workspace: Path) -> None:
    raise KeyboardInterrupt(str(workspace.name))


@task(name="leak", workspace=Workspace(prefix="data"), memory_limit=1 << 30)
def leak(workspace: Path) -> int:
    return len(bytearray(1 << 31)) + len(workspace.name)


@task(name="recursion", workspace=Workspace(prefix="data"))
def recursion(workspace: Path) -> None:
    recursion(workspace)


@task(name="hang", workspace=Workspace(prefix="data"), timeout=0.5)
def hang(workspace: Path) -> None:
    _touch(workspace)
    time.sleep(600)


@task(name="hang-long", workspace=Workspace(prefix="data"), timeout=600)
def hang_long(workspace: Path) -> None:
    _touch(workspace)
    LOG.info("hanging")
    time.sleep(600)


@task(name="stubborn", workspace=Workspace(prefix="data"), timeout=0.5)
def stubborn(workspace: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    LOG.info("ignoring %s", workspace.name)
    time.sleep(600)


@task(name="stopped", workspace=Workspace(prefix="data"), timeout=2.0)
def stopped(workspace: Path) -> None:
    def leave(_number: int, _frame: object) -> None:
        LOG.info("leaving %s", workspace.name)
        os._exit(1)

    signal.signal(signal.SIGTERM, leave)
    os.kill(os.getpid(), signal.SIGSTOP)


@task(name="thread", workspace=Workspace(prefix="data"))
def leaves_thread(workspace: Path) -> None:
    threading.Thread(target=time.sleep, args=(600,)).start()
    _touch(workspace)


@task(name="family", workspace=Workspace(prefix="data"))
def family(workspace: Path) -> None:
    """Leave children and grandchildren behind, in sessions of their own. The first argument finds them later."""
    token = (workspace / "token.txt").read_text()
    for _ in range(3):
        subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-c", FAMILY, token], start_new_session=True, stdout=subprocess.DEVNULL
        )
    deadline = time.monotonic() + 20
    while len(list(workspace.glob("alive-*"))) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    for mark in workspace.glob("alive-*"):
        mark.unlink()


FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
os.setsid() if os.getsid(0) != os.getpid() else None
open(f"alive-{os.getpid()}", "w").close()
time.sleep(600)
"""


@task(name="close-everything", workspace=Workspace(prefix="data"))
def close_everything(workspace: Path) -> None:
    os.closerange(0, 4096)
    for number in range(120):
        (workspace / f"file-{number}").open("w").write("mine")
    kept = [(workspace / f"kept-{number}").open("w") for number in range(120)]
    LOG.warning("this must not land in a file of the body's")
    del kept


@task(name="flood", workspace=Workspace(prefix="data"))
def flood(workspace: Path) -> None:
    for _ in range(40):
        os.write(1, b"\xff\x00garbage without end" * 4000)
    for number in range(3000):
        LOG.info("record %d %s %s", number, workspace.name, "x" * 500)


@task(name="big-output", workspace=Workspace(prefix="data"))
def big_output(workspace: Path) -> str:
    _touch(workspace)
    return "x" * (11 << 20)


@task(name="wrong-type", workspace=Workspace(prefix="data"))
def wrong_type(workspace: Path) -> Result:
    return {"lines": str(workspace.name)}  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  that is the mistake


@task(name="no-json", workspace=Workspace(prefix="data"))
def no_json(workspace: Path) -> Any:  # noqa: ANN401  that is the mistake
    return workspace.open


@task(name="symlink", workspace=Workspace(prefix="data"))
def symlink(workspace: Path) -> None:
    (workspace / "link").symlink_to("/etc/hostname")


@task(name="symlink-inside", workspace=Workspace(prefix="data"))
def symlink_inside(workspace: Path) -> None:
    (workspace / "link").symlink_to("a.txt")


@task(name="symlink-folder", workspace=Workspace(prefix="data"))
def symlink_folder(workspace: Path) -> None:
    (workspace / "etc").symlink_to("/etc", target_is_directory=True)


@task(name="symlink-root", workspace=Workspace(prefix="data"))
def symlink_root(workspace: Path) -> None:
    workspace.rename(workspace.with_name("elsewhere"))
    workspace.symlink_to("/etc", target_is_directory=True)


@task(name="symlink-swap", workspace=Workspace(prefix="data"))
def symlink_swap(workspace: Path) -> None:
    (workspace / "a.txt").unlink()
    (workspace / "a.txt").symlink_to("/etc/hostname")


@task(name="remove-root", workspace=Workspace(prefix="data"))
def remove_root(workspace: Path) -> None:
    import shutil  # noqa: PLC0415  as authors do

    shutil.rmtree(workspace)


def _nest(name: str, depth: int) -> None:
    for _ in range(depth):
        os.mkdir(name)  # noqa: PTH102  relative to where we are
        os.chdir(name)
    Path("file").touch()


@task(name="long-path", workspace=Workspace(prefix="data"))
def long_path(workspace: Path) -> int:
    """Nest folders until no path can name them."""
    _nest("d" * 200, 30)
    return len(workspace.name)


@task(name="deep", workspace=Workspace(prefix="data"))
def deep(workspace: Path) -> int:
    """Nest folders deeper than a program may call itself."""
    _nest("d", 1100)
    return len(workspace.name)


@task(name="fifo", workspace=Workspace(prefix="data"))
def fifo(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")


@task(name="not-utf8", workspace=Workspace(prefix="data"))
def not_utf8(workspace: Path) -> None:
    with open(os.fsencode(workspace) + b"/caf\xe9", "w"):  # noqa: PTH123  a name in bytes
        pass


@task(name="backslash", workspace=Workspace(prefix="data"))
def backslash(workspace: Path) -> None:
    (workspace / "a\\b").touch()


@task(name="read-writes", workspace=Workspace(prefix="data", read_only=True))
def read_writes(workspace: Path) -> None:
    (workspace / "new.txt").touch()


@task(name="read-deletes", workspace=Workspace(prefix="data", read_only=True))
def read_deletes(workspace: Path) -> None:
    (workspace / "a.txt").unlink()


@task(name="read-edits", workspace=Workspace(prefix="data", read_only=True))
def read_edits(workspace: Path) -> None:
    (workspace / "a.txt").chmod(0o600)
    (workspace / "a.txt").write_text("ALPHA")


@task(name="locked-away", workspace=Workspace(prefix="data"))
def locked_away(workspace: Path) -> None:
    (workspace / "deep" / "deeper").mkdir(parents=True)
    (workspace / "deep" / "deeper" / "file").touch()
    (workspace / "deep" / "deeper").chmod(0)
    (workspace / "deep").chmod(0)
    raise RuntimeError("after taking permissions away")


@task(name="sly-edit", workspace=Workspace(prefix="data"))
def sly_edit(workspace: Path) -> None:
    """Change bytes in place, keeping size and modification time."""
    path = workspace / "a.txt"
    before = path.stat()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:] = mapped[::-1]
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


# ---------------------------------------------------------------------------------------------------------------------
# Bodies that write their own verdict, and results nobody could take


def _forge(workspace: Path, text: str) -> None:
    """Write a verdict as the worker would read it, and end before there is a true one."""
    (workspace.parent / "verdict").write_text(text, "utf-8")
    os._exit(0)


@task(name="verdict-fifo", workspace=Workspace(prefix="data"))
def verdict_fifo(workspace: Path) -> None:
    """Whoever opens it to read waits for a writer that never comes."""
    os.mkfifo(workspace.parent / "verdict")
    os._exit(0)


@task(name="verdict-endless", workspace=Workspace(prefix="data"))
def verdict_endless(workspace: Path) -> None:
    """Whoever reads it to the end needs all the memory there is."""
    (workspace.parent / "verdict").symlink_to("/dev/zero")
    os._exit(0)


@task(name="verdict-no-json", workspace=Workspace(prefix="data"))
def verdict_no_json(workspace: Path) -> None:
    _forge(workspace, '{"output": "not json at all"}')


@task(name="verdict-nan", workspace=Workspace(prefix="data"))
def verdict_nan(workspace: Path) -> None:
    _forge(workspace, '{"output": "{\\"x\\": NaN}"}')


@task(name="verdict-huge", workspace=Workspace(prefix="data"))
def verdict_huge(workspace: Path) -> None:
    _forge(workspace, '{"output": "\\"' + "x" * (20 << 20) + '\\""}')


@task(name="verdict-deep", workspace=Workspace(prefix="data"))
def verdict_deep(workspace: Path) -> None:
    _forge(workspace, '{"output": "' + "[" * 200_000 + '"}')


@task(name="nan-result")
def nan_result() -> dict[str, float]:
    return {"share": float("nan")}


@task(name="big-number")
def big_number() -> dict[str, int]:
    return {"count": 10**4999}
