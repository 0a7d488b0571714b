"""One large object out and in again, in a process of its own: how long it took, and how much memory the process had.

python -m tests.bench.lakefs_large MEBIBYTES, with the connection and repository on its standard input.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attrs import asdict, frozen

from perago_lakefs.client import Connection
from perago_worker.folders.cache import Cache
from tests.support.lakefs.lake import WIDTH, Lake

_BLOCK = 1 << 20


@frozen
class Figures:
    """Seconds each way, the most memory the process had in MiB, before the transfer and in all, and its identity."""

    out: float
    back: float
    before: int
    memory: int
    same: bool


def figures(lake: Lake, mebibytes: int) -> Figures:
    """Measure it in a process of its own."""
    where = {"repository": lake.repository, "url": lake.connection.url}
    who = {"access_key": lake.connection.access_key, "secret_key": lake.connection.secret_key}
    done = subprocess.run(  # noqa: S603  ourselves
        [sys.executable, "-m", "tests.bench.lakefs_large", str(mebibytes)],
        input=json.dumps({**where, **who}),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return Figures(**json.loads(done.stdout))


def _measure(lake: Lake, mebibytes: int, at: Path) -> Figures:
    before = _memory()
    folder = lake.folder(at, lake.commit({"first": b"first"}))
    large = folder.sandbox.work / "large"
    with large.open("wb") as file:
        for _ in range(mebibytes):
            file.write(os.urandom(_BLOCK))
    sink = lake.sink()
    begun = time.perf_counter()
    folder.upload(folder.changes(), sink, width=WIDTH)
    out = time.perf_counter() - begun
    ref = lake.committed(sink.name)
    begun = time.perf_counter()
    fetched = lake.folder(at, ref, cache=Cache(at / "empty cache", 1 << 34))
    back = time.perf_counter() - begun
    same = _digest(fetched.sandbox.work / "large") == _digest(large)
    return Figures(out, back, before, _memory(), same)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _memory() -> int:
    """Return the most memory this program has had. What ``getrusage`` gives begins with that of the parent."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) >> 10


def main() -> None:
    given = json.loads(sys.stdin.read())
    repository = given.pop("repository")
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asdict(_measure(Lake(Connection(**given), repository), int(sys.argv[1]), Path(folder)))))


if __name__ == "__main__":
    main()
