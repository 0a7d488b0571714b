"""What Spark is told and what it can reach: settings that only Spark reads, and its own staging name alone."""

from __future__ import annotations

import ast
import json
import os
import stat
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, field

from perago_core import ports
from perago_local.git.repository import HEADS, STAGED, folder_of, opened
from perago_spark import DatasetError, SparkSettings
from perago_spark.process.pool import descendants
from tests.spark.fault_harness import wait_until
from tests.spark.frames import numbers
from tests.spark.lake import Lake, TaskRunner

pytest.importorskip("pyspark")


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SECRET = "wJalr \u00fc=:#! \\ \U0001f511 K7MDENG"  # noqa: S105  no real one
#: Known by its end, however the rest of it is written.
MARK = b"K7MDENG"
CONF = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dperago.own=here",
    "spark.hadoop.fs.s3a.secret.key": SECRET,
}


@define
class Watch:
    """Everything that anybody could have read while Spark started and ran."""

    pid: int
    scratch: Path
    commands: set[bytes] = field(factory=set[bytes])
    environments: set[bytes] = field(factory=set[bytes])
    modes: set[int] = field(factory=set[int])

    def look(self) -> None:
        for pid in (self.pid, *descendants(self.pid)):
            with suppress(OSError):
                self.commands.add(Path(f"/proc/{pid}/cmdline").read_bytes())
                self.environments.add(Path(f"/proc/{pid}/environ").read_bytes())
        for place in self.scratch.rglob("*"):
            with suppress(OSError):
                if place.is_file() and MARK in place.read_bytes():
                    self.modes.add(stat.S_IMODE(place.stat().st_mode))


@contextmanager
def started(scratch: Path, submit: str | None) -> Generator[tuple[Watch, dict[str, Any]]]:
    """Start Spark in a process of its own, watched from its first moment to its first result."""
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(each).absolute()) for each in sys.path)
    if submit is not None:
        environment["PYSPARK_SUBMIT_ARGS"] = submit
    command = [sys.executable, "-m", "tests.spark.print_settings", str(scratch)]
    out = scratch.with_name("out")
    with (
        out.open("wb") as stdout,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, env=environment) as process,  # noqa: S603  our own
    ):
        assert process.stdin is not None
        try:
            process.stdin.write(f"{SparkSettings('local[1]', CONF).text()}\n".encode())
            process.stdin.flush()
            watch = Watch(process.pid, scratch)

            def ready() -> bool:
                watch.look()
                return out.read_bytes().endswith(b"}\n") or process.poll() is not None

            wait_until(ready, "Spark has started and run a job")
            assert process.poll() is None, out.read_text("utf-8")
            watch.look()
            yield watch, json.loads(out.read_bytes().splitlines()[-1])
        finally:
            process.stdin.close()


def test_a_secret_among_the_settings_is_on_no_command_line_and_in_no_environment(tmp_path: Path) -> None:
    """Also not on those of the programs that start Java; and the settings that Java itself must know are in force."""
    scratch = tmp_path / "scratch"
    with started(scratch, None) as (watch, told):
        java = [each for each in watch.commands if b"org.apache.spark.deploy.SparkSubmit" in each]
        assert any(b"-Xmx512m" in each for each in java)
        assert not [each for each in watch.commands | watch.environments if MARK in each]
        assert b"--conf" not in b"".join(watch.commands).split(b"\0")
        assert (told["hadoop"], told["java"], told["rows"], told["words"]) == (SECRET, "here", 2, None)
        assert told["conf"]["spark.hadoop.fs.s3a.secret.key"] == SECRET
        # It was in a file that nobody else may read, and is there no longer.
        assert watch.modes == {0o600}
        assert not list(scratch.rglob("*.properties"))


def test_the_defaults_of_the_installation_stay_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java reads them by itself only if it is given no file; what is set for the project goes before them."""
    (tmp_path / "spark-defaults.conf").write_text("spark.own.default kept\nspark.driver.memory 300m\n", "utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with started(tmp_path / "scratch", None) as (watch, told):
        assert (told["conf"]["spark.own.default"], told["conf"]["spark.driver.memory"]) == ("kept", "512m")
        assert any(b"-Xmx512m" in each for each in watch.commands)


def test_what_users_have_told_pyspark_stays_told(tmp_path: Path) -> None:
    """Their words, and the file of settings that they name: Java takes only one such file."""
    own = tmp_path / "own file.properties"
    own.write_text("spark.own.first one\nspark.own.second = zwei \u00fc\nspark.driver.memory 300m", "utf-8")
    words = f"--properties-file '{own}' --conf spark.own.third=three pyspark-shell"
    with started(tmp_path / "scratch", words) as (watch, told):
        conf = told["conf"]
        assert [conf[f"spark.own.{each}"] for each in ("first", "second", "third")] == ["one", "zwei \u00fc", "three"]
        assert (conf["spark.driver.memory"], told["hadoop"], told["words"]) == ("512m", SECRET, words)
        assert any(b"-Xmx512m" in each for each in watch.commands)
        assert not [each for each in watch.commands | watch.environments if MARK in each]


# ---- What Spark can reach: its own staging name, and nothing else of the repository (acceptance 5, P-23).


ROOT = Path(__file__).parents[2] / "adapters"


def refs(lake: Lake) -> dict[str, str]:
    """Give all that can be moved in the repository, and where it stands."""
    repository = opened(folder_of(lake.folder, lake.target.repository))
    return {each: str(repository.references[each].target) for each in repository.references}


def moved(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before | after if before.get(name) != after.get(name)}


@pytest.fixture
def runner(spark: SparkSession, lake: Lake) -> TaskRunner:
    """Two appends: something to add to, to replace and to compact."""
    made = TaskRunner(spark, lake)
    for _ in range(2):
        with made.task() as ws:
            ws.write("orders", numbers(spark, 100, 2), mode="append", partition_by=["k"])
    return made


@pytest.mark.parametrize("via", ["arrow", "native"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_moves_its_own_staging_name_and_nothing_else(runner: TaskRunner, via: Any, mode: Any) -> None:  # noqa: ANN401  literals
    """On every route in every mode; all refs are compared, claims and other branches too."""
    before = refs(runner.lake)
    with runner.task() as ws:
        ws.write("orders", numbers(runner.spark, 50, 2), mode=mode, via=via, partition_by=["k"])
        ws.write("others", numbers(runner.spark, 50, 2), mode=mode, via=via)
        assert ws.read("orders").count() == 200
        name = runner.lake.staging
        assert moved(before, refs(runner.lake)) == {f"{STAGED}{name}", f"{HEADS}{name}"}
        # The branch of that name is made by whoever opens it, at the input, and stands there until it is committed.
        assert refs(runner.lake)[f"{HEADS}{name}"] == str(runner.at)
    assert runner.at != runner.lake.head


def test_a_compaction_moves_its_own_staging_name_and_nothing_else(runner: TaskRunner) -> None:
    before = refs(runner.lake)
    with runner.task(maintenance=True) as ws:
        assert ws.compact("orders").changed
        name = runner.lake.staging
        assert moved(before, refs(runner.lake)) == {f"{STAGED}{name}", f"{HEADS}{name}"}


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_a_write_that_fails_moves_nothing_that_was_there(runner: TaskRunner, via: Any) -> None:  # noqa: ANN401  a literal
    before = refs(runner.lake)
    with pytest.raises(Exception, match="never"), runner.task() as ws:
        ws.write("orders", runner.spark.range(10).selectExpr("raise_error('never') x"), via=via)
    assert {name: where for name, where in refs(runner.lake).items() if name in before} == before


def test_reading_moves_nothing(runner: TaskRunner) -> None:
    before = refs(runner.lake)
    with runner.task() as ws:
        assert (ws.read("orders").count(), ws.rows("orders")) == (200, 200)
        with pytest.raises(DatasetError):
            ws.read("nowhere")
    assert refs(runner.lake) == before


def calls(port: type) -> set[str]:
    return {each for each in vars(port) if not each.startswith("_")}


def nodes() -> Iterator[ast.AST]:
    places = [*(ROOT / "perago_spark").rglob("*.py"), *(ROOT / "pyspark_perago").rglob("*.py")]
    assert len(places) > 30
    for place in places:
        yield from ast.walk(ast.parse(place.read_text("utf-8")))


def test_the_port_that_spark_writes_through_can_change_no_branch() -> None:
    assert calls(ports.Sink) == {"put", "link", "list", "seal"}
    assert calls(ports.Source) == {"get", "list"}


def test_no_code_of_the_adapter_names_a_store_or_what_only_a_store_can_do() -> None:
    """Not ``publish``, ``claim``, ``drop`` or any other, as a call, an attribute or a word to find one by.

    Reading commits that never change, one or those between two, is not meant; ``commit`` is also a word of Spark's
    writers and of what is read, and a commit moves no branch.
    """
    only_stores = calls(ports.Store) - {"commit", "read", "since", "sink"}
    assert {"publish", "claim", "drop", "open_staging", "staging_names"} <= only_stores
    for node in nodes():
        match node:
            case ast.ImportFrom(module="perago_core.ports", names=names):
                assert {each.name for each in names} <= {"Sink", "Source", "Stored"}
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                assert not [each for each in names if each.name in {"perago_core", "ports", "Store"}]
            case ast.Attribute(attr=word) | ast.Constant(value=str(word)):
                assert word not in only_stores | {"Store"}, ast.unparse(node)
            case _:
                pass
