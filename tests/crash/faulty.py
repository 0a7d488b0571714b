"""Bodies that do harm: crash, hang, swallow memory, leave children behind. Copied like ``breakable``."""

import ctypes
import os
import signal
import time
from pathlib import Path

from pydantic import BaseModel

from perago_worker import Workspace, task

NAME = "faulty"
RETRIES = 0
PATIENCE = 10.0
#: Seconds a body may take, and bytes of address space.
DEADLINE = 30.0
MEMORY = 1 << 40


class Orders(BaseModel):
    """Which harm to do, and where to say who was born."""

    plan: Path


@task(
    name=NAME,
    workspace=Workspace(),
    retries=RETRIES,
    retry_delay=0,
    response_timeout=PATIENCE,
    timeout=DEADLINE,
    memory_limit=MEMORY,
)
def faulty(workspace: Path, params: Orders) -> int:
    """Begin some work, then do harm."""
    (workspace / "half-done").write_text("begun", encoding="utf-8")
    harm = params.plan.read_text(encoding="utf-8").strip()
    if harm == "segfault":
        ctypes.string_at(0)
    elif harm == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    elif harm == "leak":
        kept = [bytearray(1 << 24) for _ in range(1 << 20)]
        return len(kept)
    elif harm == "sparse":
        with (workspace / "half-done").open("wb") as file:
            file.truncate(1 << 40)
    elif harm == "fork":
        for _ in range(3):
            _child(params.plan.with_suffix(".born"))
    return 0


def _child(births: Path) -> None:
    """Leave a grandchild behind that has cut every tie: own session, parent gone, signals ignored."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with births.open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(3600)
    os._exit(0)
