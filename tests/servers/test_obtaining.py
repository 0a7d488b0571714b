"""A server in the cache is whole and is what was pinned, whoever was killed while making it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.servers import obtaining, toolchain
from tests.support.servers.buckets import VERSITYGW
from tests.support.servers.cache import ObtainError, Part, home, log_file
from tests.support.servers.commands import run
from tests.support.servers.conductor import CONDUCTOR
from tests.support.servers.etcd import ETCD
from tests.support.servers.lakefs import LAKEFS
from tests.support.servers.processes import birth
from tests.support.servers.sharing import demand
from tests.support.servers.waiting import until

PART = Part("thing", "1.0", "bin/thing")
#: Makes the part: half of it, a command that takes an hour, then the rest.
SLOW_MAKER = """
import sys
from pathlib import Path
from tests.support.servers.commands import run
from tests.servers.test_obtaining import PART

def make(folder):
    (folder / "bin").mkdir()
    (folder / PART.file).write_text("half")
    run("working", [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(3600)"],
        folder.parent, print)

PART.place(make, print)
"""
#: Makes the part in a second and writes down that it did.
COUNTING_MAKER = """
import sys, time
from pathlib import Path
from tests.servers.test_obtaining import PART, make_whole

def make(folder):
    with Path(sys.argv[1]).open("a") as made:
        made.write("once\\n")
    time.sleep(1)
    make_whole(folder)

PART.place(make, print)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERAGO_SERVERS", str(tmp_path / "servers"))
    return tmp_path / "servers"


def make_whole(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / PART.file).write_text("whole", "utf-8")


def quietly(_line: str) -> None:
    """Say nothing."""


def another(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Run a program in a process that this test may kill."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])  # noqa: S603


# ---- whole or not at all


def test_a_part_is_made_once_and_then_kept() -> None:
    assert not PART.is_there()
    assert PART.place(make_whole, quietly) == home() / "thing-1.0" / "bin" / "thing"

    def again(_folder: Path) -> None:
        pytest.fail("it is there")

    assert PART.place(again, quietly).read_text("utf-8") == "whole"


def test_a_maker_killed_half_way_leaves_no_half_part_and_no_process_and_the_next_one_succeeds(cache: Path) -> None:
    with another(SLOW_MAKER) as maker:
        until(lambda: any(cache.glob(".making-*/output")))
        (output,) = cache.glob(".making-*/output")
        until(lambda: output.read_text("utf-8").endswith("\n"))
        worker = int(output.read_text("utf-8"))
        assert birth(worker) is not None
        maker.kill()
    assert not PART.is_there()
    until(lambda: birth(worker) is None)
    assert PART.place(make_whole, quietly).read_text("utf-8") == "whole"
    assert list(cache.glob(".making-*")) == []


def test_a_maker_that_fails_leaves_nothing(cache: Path) -> None:
    def fail(folder: Path) -> None:
        make_whole(folder)
        run(
            "trying", [sys.executable, "-c", "import sys; print('so far'); sys.exit('no room')"], folder.parent, quietly
        )

    with pytest.raises(ObtainError, match=r"trying: .* ended with 1:\nso far\nno room"):
        PART.place(fail, quietly)
    assert not PART.is_there()
    assert list(cache.glob(".making-*")) == []


def test_a_maker_that_makes_something_else_is_refused() -> None:
    with pytest.raises(ObtainError, match="expected bin/thing"):
        PART.place(lambda folder: (folder / "other").touch(), quietly)
    assert not PART.folder.exists()


def test_of_two_that_want_it_at_once_one_makes_it_and_the_other_says_that_it_waits(tmp_path: Path) -> None:
    made = tmp_path / "made"
    makers = [another(COUNTING_MAKER, str(made)) for _ in range(2)]
    said = [maker.communicate(timeout=120)[0] for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0]
    assert made.read_text("utf-8") == "once\n"
    # The second may have come so late that all was done.
    assert set(said) <= {"", "waiting for another process that makes it\n"}
    assert "" in said


# ---- what was pinned


def test_what_is_not_what_was_pinned_is_refused() -> None:
    obtaining.demand("the sum", "h1:abc", "h1:abc")
    with pytest.raises(ObtainError, match=r"expected h1:abc as the sum; found h1:abd\. .* do not use it"):
        obtaining.demand("the sum", "h1:abd", "h1:abc")


@pytest.mark.servers
@pytest.mark.parametrize(
    ("pin", "part", "obtain"),
    [
        ("CONDUCTOR_SHA256", CONDUCTOR, obtaining.obtain_conductor),
        ("ETCD_SUM", ETCD, obtaining.obtain_etcd),
        ("LAKEFS_SUM", LAKEFS, obtaining.obtain_lakefs),
        ("VERSITYGW_SUM", VERSITYGW, obtaining.obtain_versitygw),
    ],
    ids=["conductor", "etcd", "lakefs", "versitygw"],
)
def test_a_server_with_another_hash_is_not_kept(
    pin: str, part: Part, obtain: Callable[[object], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obtaining, pin, "0" * 64)
    with pytest.raises(ObtainError, match="expected 0000"):
        obtain(quietly)
    assert not part.folder.exists()


# ---- tools


def test_without_maven_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ObtainError, match="apt install maven"):
        obtaining.obtain_conductor(quietly)
    assert not CONDUCTOR.folder.exists()


@pytest.mark.parametrize("version", ["17.0.15", "nonsense"])
def test_a_java_that_is_too_old_is_passed_over(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "java"
    old.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n", "utf-8")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = toolchain.java.__wrapped__()
    assert found != str(old)
    assert toolchain.version(found, "-version") >= toolchain.OLDEST_JAVA


def test_the_version_of_a_go_is_read_and_compared_as_numbers(tmp_path: Path) -> None:
    program = tmp_path / "go"
    for said, enough in {
        "go1.26.4": True,
        "go1.26.10": True,
        "go1.27": True,
        "go1.26.3": False,
        "go1.9.9": False,
    }.items():
        program.write_text(f"#!/bin/sh\necho go version {said} linux/amd64\n", "utf-8")
        program.chmod(0o755)
        assert (toolchain.version(str(program), "version") >= toolchain.OLDEST_GO) == enough


# ---- what tests see


def test_without_the_server_a_test_is_skipped_or_fails_and_either_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PERAGO_SERVERS_REQUIRED", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"Run: python -m tests\.support\.servers obtain"):
        demand(PART)
    monkeypatch.setenv("PERAGO_SERVERS_REQUIRED", "1")
    with pytest.raises(pytest.fail.Exception, match=r"Run: python -m tests\.support\.servers obtain"):
        demand(PART)
    PART.place(make_whole, quietly)
    demand(PART)


def test_old_logs_are_forgotten_and_the_newest_stay() -> None:
    written = [log_file("thing", keep=3) for _ in range(6)]
    for each in written:
        each.touch()
    log_file("thing", keep=3)
    assert sorted(home().joinpath("logs").iterdir()) == written[-3:]


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PERAGO_SERVERS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert home() == tmp_path / "perago" / "servers"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert home() == Path.home() / ".cache" / "perago" / "servers"
