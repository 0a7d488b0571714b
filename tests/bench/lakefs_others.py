"""The others, in an environment of their own: one of them also installs a command of our name."""

from __future__ import annotations

import json
import subprocess
import venv
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from perago_core.values import CommitRef
from tests.lakefs.syncing import Lake
from tests.servers.cache import home, locked

VERSION = "0.6.1"

#: Publishes an edit in the way of this name, and gives the seconds it took.
Order: TypeAlias = Callable[[str, Lake, CommitRef], float]


class OthersMissingError(Exception):
    """They cannot be installed here; says why."""


@contextmanager
def others() -> Generator[Order]:
    """Run the others in their process."""
    command = [str(_interpreter()), "-I", str(Path(__file__).with_name("lakefs_peer.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        told, heard = process.stdin, process.stdout
        assert told is not None
        assert heard is not None
        assert heard.readline() == "ready\n"

        def order(way: str, lake: Lake, ref: CommitRef) -> float:
            connection = lake.connection
            about = {"url": connection.url, "access_key": connection.access_key, "secret_key": connection.secret_key}
            told.write(json.dumps({"way": way, "repository": lake.repository, "ref": ref, **about}) + "\n")
            told.flush()
            return float(heard.readline())

        try:
            yield order
        finally:
            told.close()


def _interpreter() -> Path:
    """Give the interpreter that has them, installing them by name the first time."""
    folder = home() / f"peer-{VERSION}"
    complete = folder / "complete"
    with locked(home() / f".peer-{VERSION}.lock"):
        if not complete.is_file():
            print(f"installing perago {VERSION} and lakefs, once")
            venv.create(folder, with_pip=True, clear=True)
            install = [
                str(folder / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                f"perago=={VERSION}",
                "lakefs",
            ]
            made = subprocess.run(install, capture_output=True, text=True, check=False)  # noqa: S603  our own words
            if made.returncode:
                raise OthersMissingError(made.stderr.strip()[-300:])
            complete.touch()
    return folder / "bin" / "python"
