"""A machine that slept: what was its own when it fell asleep, it does not take for its own when it wakes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.projects import environment

_NAMESPACES = ("--user", "--map-root-user", "--time")


def test_a_deadline_that_passed_while_the_machine_slept_has_passed(tmp_path: Path) -> None:
    """Counterexample: on a clock that stands still meanwhile the worker publishes an hour after its time."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, *_NAMESPACES, "true"], check=False, capture_output=True).returncode:  # noqa: S603  our own command
        pytest.skip("this system has no user and time namespaces")
    ran = subprocess.run(  # noqa: S603  ourselves
        [unshare, *_NAMESPACES[:2], sys.executable, "-m", "tests.crash.suspended", str(tmp_path)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said == {"late": "attempt-late", "untouched": True, "again": "Acceptance.ACCEPTED", "ended": True}
