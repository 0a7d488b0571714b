"""The others, in an environment of their own: one of them also installs a command of our name."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from perago_core.values import CommitRef
from tests.support.lakefs.lake import Lake
from tests.support.servers.environments import interpreter


class Order(Protocol):
    """Publishes in the way of this name, and gives the seconds it took."""

    def __call__(self, way: str, lake: Lake, ref: CommitRef, more: Mapping[str, int] | None = None) -> float: ...


@contextmanager
def others() -> Generator[Order]:
    """Run the others in their process."""
    python = interpreter("peer")
    command = [str(python), "-I", str(Path(__file__).with_name("lakefs_peer.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        told, heard = process.stdin, process.stdout
        assert told is not None
        assert heard is not None
        assert heard.readline() == "ready\n"

        def order(way: str, lake: Lake, ref: CommitRef, more: Mapping[str, int] | None = None) -> float:
            connection = lake.connection
            about = {"url": connection.url, "access_key": connection.access_key, "secret_key": connection.secret_key}
            asked = {"way": way, "repository": lake.repository, "ref": ref, **about, **(more or {})}
            told.write(json.dumps(asked) + "\n")
            told.flush()
            return float(heard.readline())

        try:
            yield order
        finally:
            told.close()
