"""The task that crash tests run: what its body does stands in a file, so that each attempt can be told something else.

Copied into a project once for each case, with the constants replaced: a worker polls for the tasks it has imported, so
a task of its own is how a test hands an attempt to one particular worker.
"""

import secrets
import time
from pathlib import Path

from pydantic import BaseModel

from perago_core.values import OnAbandoned
from perago_worker import Workspace, task

NAME = "breakable"
READ_ONLY = False
#: What it declares to read and write of a branch that it shares, and the folder in which it works.
READS = None
WRITES = None
FOLDER = ""
RETRIES = 30
ON_ABANDONED = "adopt"
#: Seconds without a sign of life after which the orchestrator gives an attempt up.
PATIENCE = 4.0


class Orders(BaseModel):
    """Where it stands what to do, and how long that takes."""

    plan: Path
    seconds: float = 0.0


class Token(BaseModel):
    """What the published files say, so that a result can be compared with what it was published with (S-06)."""

    token: str


@task(
    name=NAME,
    workspace=Workspace(read_only=READ_ONLY, reads=READS, writes=WRITES),
    retries=RETRIES,
    retry_delay=0,
    response_timeout=PATIENCE,
    on_abandoned=OnAbandoned(ON_ABANDONED),
)
def breakable(workspace: Path, params: Orders) -> Token:
    """Change something, nothing, or fail; or wait until told which."""
    while (plan := params.plan.read_text(encoding="utf-8").strip()) == "wait":
        time.sleep(0.02)
    time.sleep(params.seconds)
    folder = workspace / FOLDER
    file = folder / "token"
    if plan == "fail":
        (workspace / "half-done").write_text("never to be seen", encoding="utf-8")
        raise RuntimeError("told to fail")
    if plan == "change":
        (folder / "data").mkdir(parents=True, exist_ok=True)
        file.write_text(secrets.token_hex(8), encoding="utf-8")
        (folder / "data" / "big").write_bytes(secrets.token_bytes(20_000))
        (folder / "data" / "old").unlink(missing_ok=True)
    return Token(token=file.read_text(encoding="utf-8"))
