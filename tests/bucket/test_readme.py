"""The smallest cluster of the README, a bucket and Conductor, executed as it stands there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import blocks
from tests.support.servers.conductor import CONDUCTOR, Conductor
from tests.support.servers.sharing import demand, shared_versitygw


@pytest.mark.servers
def test_the_ten_lines_of_the_readme_publish_on_a_bucket_and_conductor(tmp_path: Path) -> None:
    (lines,) = [block for block in blocks("README.md", "sh") if "--store s3://" in block]
    assert len(lines.strip().splitlines()) == 10
    demand(CONDUCTOR)
    # Its own: what is proved is all that was ever accepted for lake/main, and tests that share one accept much for it.
    with Conductor(folder=tmp_path / "conductor") as conductor:
        surroundings = {
            **os.environ,
            **shared_versitygw().settings,
            **conductor.settings,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        ran = subprocess.run(  # noqa: S603  the README's own words
            ["bash", "-euo", "pipefail", "-c", lines],  # noqa: S607  bash of the PATH
            cwd=tmp_path,
            env=surroundings,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "proved atomic" in ran.stdout
    assert "3 accepted results are there, in order, once" in ran.stdout
