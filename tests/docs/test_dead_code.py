from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "tests" / "vulture.toml"


def test_every_name_that_is_let_stand_would_be_reported() -> None:
    """A name that is used again, or is gone, must leave the list: it would hide the next one of that name."""
    allowed = tomllib.loads(CONFIG.read_text("utf-8"))["tool"]["vulture"]
    command = [sys.executable, "-m", "vulture", *allowed["paths"]]
    command += ["--ignore-decorators", ",".join(allowed["ignore_decorators"])]
    reported = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout  # noqa: S603  our own tool
    assert [name for name in allowed["ignore_names"] if f"'{name}'" not in reported] == []
