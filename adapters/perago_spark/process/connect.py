"""Ends the jobs of a body that was killed on a Spark Connect server: killing the client does not end them there.

Each task has a session on the server whose id the worker has chosen, so it can be interrupted by another process, which
has nothing of the dead one. Nobody waits for it, and nothing rests on it: what such a job
still writes finds its staging name gone. It only takes slots that somebody else needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

#: Seconds that interrupting may take; most of them are the start of another Python.
_LIMIT: Final = 120.0
_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from perago_spark.process.connect import main; main()"
)


def session_address(remote: str, session: str) -> str:
    """Return the address of one session of a server; it is made there if there is none of this id."""
    start = remote.rstrip(";") if ";" in remote else f"{remote.rstrip('/')}/"
    return f"{start};session_id={session}"


def end_jobs(remote: str, session: str, environment: Mapping[str, str], search_path: list[str]) -> bool:
    """Interrupt what a session runs on the server, and release it; ``False``: nobody knows."""
    order = json.dumps([remote, session])
    with suppress(OSError, subprocess.TimeoutExpired):
        # By standard input: an address may hold a token, and everybody on the machine can read a command line.
        ended = subprocess.run(  # noqa: S603  our own interpreter and code
            [sys.executable, "-c", _BOOT, json.dumps(search_path)],
            input=order,
            env=dict(environment),
            text=True,
            capture_output=True,
            timeout=_LIMIT,
            check=False,
        )
        return ended.returncode == 0
    return False


def main() -> None:
    """Do it in this process, and say nothing: an error may quote the address."""
    remote, number = json.loads(sys.stdin.read())
    try:
        from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415  only who connects needs its packages

        session = SparkSession.builder.remote(session_address(remote, number)).create()
        session.interruptAll()
        session.stop()
    except Exception:  # noqa: BLE001  whatever it is, it may quote the address
        sys.exit(1)
