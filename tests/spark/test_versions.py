"""Which Sparks are supported is said once each to pip, to the doctor and to make, and they say the same (ADR 56)."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from perago_worker.ops.doctor import SPARK_PACKAGES
from tests.spark import sample, versions

ROOT = Path(__file__).parents[2]
ADAPTER = ROOT / "adapters" / "perago_spark"
#: Ways to ask which Spark this is.
ASKING = re.compile(r"pyspark\.__version__|\bspark\.version\b|inspect\.signature|version\(\"pyspark\"\)")


def pinned() -> dict[str, tuple[int, ...]]:
    """Return each older Spark with the patch that it is tried with."""
    found: dict[str, tuple[int, ...]] = {}
    for each in (ROOT / "requirements").glob("spark-*.txt"):
        version = re.search(r"^pyspark==([\d.]+)", each.read_text("utf-8"), re.MULTILINE)
        assert version is not None, each.name
        found[each.stem.removeprefix("spark-")] = tuple(int(part) for part in version[1].split("."))
    return found


def test_what_differs_between_sparks_is_one_short_file() -> None:
    asking = [each.name for each in ADAPTER.rglob("*.py") if ASKING.search(each.read_text("utf-8"))]
    assert asking == ["versions.py"]
    assert len((ADAPTER / "versions.py").read_text("utf-8").splitlines()) <= 100


def test_the_floor_is_the_oldest_spark_that_is_tried() -> None:
    floor = min(pinned().values())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["spark"]
    assert f"pyspark[connect]>={'.'.join(map(str, floor))}" in extras
    assert next(lowest for name, lowest, *_ in SPARK_PACKAGES if name == "pyspark") == floor


def test_make_runs_every_spark_that_is_pinned() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    listed = re.search(r"^SPARKS := (.+)$", makefile, re.MULTILINE)
    assert listed is not None
    assert listed[1].split() == sorted(pinned())
    assert all(".".join(map(str, patch[:2])) == name for name, patch in pinned().items())


def test_the_readme_names_the_oldest_and_the_newest_spark() -> None:
    newest = re.search(r"^pyspark==(\d+\.\d+)", (ROOT / "requirements" / "dev.txt").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert f"{min(pinned())} to {newest[1]}" in (ROOT / "README.md").read_text("utf-8")


def test_a_sample_is_one_of_the_other_sparks_and_some_of_the_fault_matrix_and_of_the_rest() -> None:
    """The same seed plays the same; over some commits every Spark is played, and every test."""
    tests = [f"tests/spark/test_{name}.py::test_{number}" for name in ("faults", "append") for number in range(30)]
    seeds = [f"commit {number}" for number in range(300)]
    played = [sample.sampled(tests, each) for each in seeds]
    assert played == [sample.sampled(reversed(tests), each) for each in seeds]
    assert {len([each for each in one if sample.FAULTS in each]) for one in played} == {sample.SIZES[True]}
    assert {len(one) for one in played} == {sum(sample.SIZES.values())}
    assert set().union(*played) == set(tests)
    assert {sample.picked(each) for each in seeds} == set(pinned())
    assert set(sample.TABLES) < set(pinned())
    assert all((ROOT / each).is_file() for each in sample.TABLES.values())


def test_packages_that_do_not_come_in_time_fail_the_run_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def too_slow(words: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(words, timeout)

    def nothing(_folder: Path, **_: object) -> None:
        pass

    monkeypatch.setenv("PERAGO_SERVERS", str(tmp_path))
    monkeypatch.setattr("venv.create", nothing)
    monkeypatch.setattr("subprocess.run", too_slow)
    with pytest.raises(
        SystemExit, match=r"error: expected uv to install spark-4\.0\.txt within 600 s; found it at work"
    ):
        versions.command("4.0")
