"""The address of a Connect server may hold a token: what is wrong with it is told without any part of its values."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest

from perago_core.results import Failed
from perago_spark import Launch, SparkSettings, SparkTask, SparkWorkspace, WarmBodies
from perago_spark.diagnosis.probe import probe
from perago_spark.errors import SparkUnavailableError
from perago_spark.process.session import open_spark
from perago_spark.process.settings import check_address
from tests.spark.lake import Lake

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

SECRET = "geheim"  # noqa: S105  no real one
BAD = {
    "http://host/;token=geheim": "another beginning",
    "geheim": "another beginning",
    "sc://host/;token=ge=heim": "in parameter 1 not one = sign",
    "sc://host/;token:geheim": "in parameter 1 not one = sign",
    "sc://host/;use_ssl=true;token=geheim/x": "in parameter 2 not one = sign, or one of /",
    "sc://host/;token=geheim;": "in parameter 2 not one = sign",
    "sc://host/geheim": "something else than / between",
    "sc://host:15002;token=geheim": "something else than / between",
    "sc://:15002/;token=geheim": "no host",
    "sc://host:geheim": "no number as its port",
    "sc://someone:geheim@host": "no host",
    "sc://host/;X-Key=geheim": "a name with other signs",
    "sc://host/;token=geheim%0A": "a value of token that no header can hold",
    "sc://host/;session_id=geheim": "one that PySpark cannot use: PySparkValueError",
    "sc://host/;grpc_keepalive_time_ms=geheim": "one that PySpark cannot use: ValueError",
}


@pytest.mark.parametrize("remote", BAD)
def test_what_is_wrong_with_an_address_is_said_without_its_values(remote: str, tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailableError) as raised:
        open_spark(SparkSettings(remote=remote), tmp_path)
    told = "".join(traceback.format_exception(raised.value))
    assert BAD[remote] in told
    assert SECRET not in told
    assert "heim" not in str(raised.value)


@pytest.mark.parametrize(
    "remote",
    [
        "sc://host",
        "sc://host:15002/",
        "sc://[::1]:15002/;token=a%3D%2F;use_ssl=true",
        "sc://host/;user_id=J%C3%BCrgen;x-some.header=a b",
    ],
)
def test_what_pyspark_takes_is_taken(remote: str) -> None:
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415  only with its packages

    check_address(remote)
    assert DefaultChannelBuilder(remote).host


def test_a_token_is_in_no_reason_no_log_and_nothing_the_doctor_says(lake: Lake, tmp_path: Path) -> None:
    """Counterexample, seen: PySpark quotes the parameter that it cannot read."""
    settings = SparkSettings(remote="sc://127.0.0.1:1/;token=geheim=1")
    bodies = WarmBodies(Launch("tests.spark.bodies:call", settings.text(), dict(os.environ), tmp_path / "bodies"))
    printed: list[str] = []
    tasks = {"task": SparkTask("task")}
    workspace = SparkWorkspace(lake.store, tasks, bodies, listener=lambda _attempt, line: printed.append(line))
    outcome = lake.run(workspace, "task")
    assert isinstance(outcome.result, Failed)
    probed = list(probe(settings, dict(os.environ)))
    told = [str(outcome), *printed, *(str(each) for each in probed)]
    assert not [each for each in told if SECRET in each]
    for each in (str(outcome.result.refusal), probed[-1].found):
        assert "expected spark.remote to be sc://host:port" in each
