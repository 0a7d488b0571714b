"""What ``make servers`` starts goes on, is found again, and is the only thing that ``make servers-stop`` ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.servers import detached
from tests.support.servers.cache import home
from tests.support.servers.processes import birth

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setenv("PERAGO_SERVERS", str(tmp_path))
    yield
    detached.stop("etcd")


def started() -> detached.Running:
    """Start one from a process of its own, as a person does."""
    done = command("start", "etcd")
    assert done.returncode == 0, done.stdout + done.stderr
    running = detached.status("etcd")
    assert running is not None
    return running


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  our own command
        [sys.executable, "-m", "tests.support.servers", *words], capture_output=True, text=True, cwd=ROOT, check=False
    )


def test_a_server_goes_on_when_the_command_ends_and_another_command_stops_it() -> None:
    running = started()
    again = command("start", "etcd")
    assert f"process {running.pid}," in again.stdout
    assert f"export ETCDCTL_ENDPOINTS={running.url}" in again.stdout
    assert running.url in command("status", "etcd").stdout
    assert f"its log stays at {running.log}" in command("stop", "etcd").stdout
    assert birth(running.pid) is None
    assert not Path(running.folder).exists()
    assert Path(running.log).exists()
    assert "does not run" in command("stop", "etcd").stdout
    assert "does not run" in command("status", "etcd").stdout


def test_stop_never_ends_a_process_that_was_given_the_number_later() -> None:
    """The machine was restarted, and the number is somebody else's now."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as somebody:
        running = started()
        detached.stop("etcd")
        stale = {**vars_of(running), "pid": somebody.pid}
        (home() / "running" / "etcd.json").write_text(json.dumps(stale), "utf-8")
        assert detached.status("etcd") is None
        assert detached.stop("etcd") is None
        assert somebody.poll() is None
        somebody.kill()


def test_a_server_that_died_is_started_anew() -> None:
    first = started()
    detached.end(first)
    assert detached.status("etcd") is None
    second = started()
    assert second.pid != first.pid
    assert second.lives


def test_the_keys_are_for_nobody_else_to_read() -> None:
    started()
    assert (home() / "running" / "etcd.json").stat().st_mode & 0o077 == 0


def test_a_name_that_is_none_is_answered_with_those_that_are() -> None:
    refused = command("start", "postgres")
    assert refused.returncode == 2
    assert "expected lakefs, conductor, etcd, versitygw, minio, azurite, fake-gcs; found postgres" in refused.stderr


def vars_of(running: detached.Running) -> dict[str, object]:
    return {name: getattr(running, name) for name in ("name", "pid", "born", "url", "folder", "log", "settings")}
