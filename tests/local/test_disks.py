"""Disks that fail: each says its true cause, loses nothing that was answered, and goes on when the cause is gone.

A small disk of its own is mounted in namespaces, where the system has them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLAYED = """
import json, os, resource, shutil, subprocess, sys
from pathlib import Path
from perago_core.answers import Done
from perago_local.coordination import SqliteCoordination

disk, harm = Path(sys.argv[1]), sys.argv[2]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,nr_inodes=64", "perago", str(disk)], check=True)
kept = SqliteCoordination(disk / "kept.db")
assert isinstance(kept.create_if_absent("before", "answered"), Done)


def fill():
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 512):
                pass
        except OSError:
            pass


def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def use_up_inodes():
    (disk / "filler").mkdir()
    try:
        for number in range(1000):
            (disk / "filler" / str(number)).touch()
    except OSError:
        pass


def cause():
    if harm == "full":
        fill()
    elif harm == "file size":
        limit(300_000)
    elif harm == "inodes":
        kept.close()  # so that its side files are made again
        use_up_inodes()
    else:
        kept.close()  # a disk on which files are open for writing stays writable
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def mend():
    if harm == "full":
        (disk / "filler").unlink()
    elif harm == "file size":
        limit(resource.RLIM_INFINITY)
    elif harm == "inodes":
        shutil.rmtree(disk / "filler")
    else:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


cause()
said = {}
try:
    SqliteCoordination(disk / "new.db", busy_timeout=0.2)
except Exception as error:
    said["opening"] = str(error)
changed = [kept.create_if_absent(f"during-{n}", "x" * 20_000) for n in range(60)]
said["changing"] = next((each.reason for each in changed if not isinstance(each, Done)), "")
mend()
answered = [f"during-{n}" for n, each in enumerate(changed) if isinstance(each, Done)]
said["lost"] = [key for key in ("before", *answered) if getattr(kept.get(key), "value", None) is None]
said["after"] = type(kept.create_if_absent("after", "fine")).__name__
kept.close()
again = SqliteCoordination(disk / "kept.db")
said["lost"] += [key for key in ("before", "after", *answered) if getattr(again.get(key), "value", None) is None]
print(json.dumps(said))
"""


def played(folder: Path, harm: str) -> Any:  # noqa: ANN401  JSON
    unshare = shutil.which("unshare")
    namespaces = [str(unshare), "--user", "--map-root-user", "--mount"]
    if unshare is None or subprocess.run([*namespaces, "true"], check=False, capture_output=True).returncode:  # noqa: S603  our own command
        pytest.skip("this system has no user and mount namespaces")
    folder.mkdir()
    ran = subprocess.run(  # noqa: S603  ourselves
        [*namespaces, sys.executable, "-c", PLAYED, str(folder), harm],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("full", "the disk is full"),
        ("file size", "a file may have at most 300000 bytes"),
        ("inodes", "it has no inodes left"),
        ("read-only", "the disk is read-only"),
    ],
)
def test_a_disk_that_fails_is_named_and_nothing_answered_is_lost(tmp_path: Path, harm: str, words: str) -> None:
    """Counterexample, seen: a full disk was told as "another process holds it, perhaps one that was stopped"."""
    said = played(tmp_path / "disk", harm)
    # A new database is short.
    for told in (said["changing"], *([] if harm == "file size" else [said["opening"]])):
        assert words in told.lower()
        assert "another process" not in told.lower()
    assert said["lost"] == []
    assert said["after"] == "Done"
