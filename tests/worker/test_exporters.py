"""Metrics leave a real worker: scraped by Prometheus, pushed as OTLP; and a collector that is not there costs nothing.

The worker is a process of its own, as `perago worker` starts it; what it sends is read with OTLP's own messages.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from perago_core.results import Completed
from perago_worker.api.errors import UserError
from perago_worker.config.load import load
from perago_worker.config.settings import TelemetrySettings
from perago_worker.runtime import exporters
from perago_worker.runtime.exporters import exporting
from perago_worker.runtime.telemetry import COUNTERS, GAUGES, HISTOGRAMS
from perago_worker.stack import pipelines_of
from tests.worker.collector import collector
from tests.worker.embedded import embedded
from tests.worker.exported import exported_names
from tests.worker.projects import Project, create, environment, new_project


@contextmanager
def started(folder: Path) -> Generator[Project]:
    """Make a project with a run that waits for a worker."""
    with new_project(folder) as project:
        stack = project.stack()
        first = create(stack)
        assert project.process("register").returncode == 0
        pipelines_of(stack).start("both", load(project.folder, {}, {}).pipelines["both"], first, {"text": "a"})
        stack.close()
        yield project


def test_a_worker_is_scraped_on_loopback_when_only_a_port_is_given(tmp_path: Path) -> None:
    with started(tmp_path / "project") as project:
        words = [sys.executable, "-m", "perago_worker", "--project", str(project.folder), "worker"]
        variables = environment(PERAGO_TELEMETRY__PROMETHEUS="0")
        worker = subprocess.Popen(words, env=variables, stderr=subprocess.PIPE, text=True)  # noqa: S603  our own code
        try:
            assert worker.stderr is not None
            address = ""
            for line in worker.stderr:
                found = re.search(r"http://\S+/metrics", line)
                address = found[0] if found else address
                if "/total on lake/main: completed" in line:
                    break
            assert address.startswith("http://127.0.0.1:")
            sample, wanted = "", "perago_publication_seconds_count"
            while sample.count(wanted) < 2:  # counted a moment after it was logged; a hang ends with the test run
                sample = urllib.request.urlopen(address, timeout=60).read().decode()  # noqa: S310  our own loopback
        finally:
            worker.terminate()
            worker.communicate(timeout=120)
    assert worker.returncode == 0
    assert 'perago_fence_total{backing="atomic",task="write",verdict="merge"} 1.0' in sample
    assert 'perago_lost_total{target="lake/main"} 0.0' in sample, "an alert sees the first one rise from nothing"
    assert 'perago_worker{backing="atomic",epoch="1"} 1.0' in sample
    assert 'call="store.publish",class="target",le="+Inf",task="write"} 1.0' in sample
    assert re.search(r"^perago_observed_publish_p99_seconds 0\.\d+$", sample, re.MULTILINE)
    assert re.search(r"^perago_budget_publish_p99_seconds 1\.0$", sample, re.MULTILINE)
    assert re.search(r"^perago_budget_short 0\.0$", sample, re.MULTILINE)


def test_a_collector_receives_metrics_and_spans_as_otlp(tmp_path: Path) -> None:
    with started(tmp_path / "project") as project, collector() as collected:
        ran = project.process(
            "worker",
            "--until-idle",
            PERAGO_TELEMETRY__OTLP=collected.url,
            OTEL_EXPORTER_OTLP_HEADERS="authorization=geheim-otlp-71",
        )
    assert ran.returncode == 0, ran.stderr
    assert "geheim-otlp-71" not in ran.stdout + ran.stderr
    assert all(each.get("authorization") == "geheim-otlp-71" for each in collected.headers)
    last = ExportMetricsServiceRequest.FromString(collected.bodies["/v1/metrics"][-1])
    metrics = {
        metric.name: metric
        for resource in last.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    published = metrics["perago.publication.seconds"].histogram.data_points
    assert {
        next(each.value.string_value for each in point.attributes if each.key == "task") for point in published
    } == {
        "write",
        "total",
    }
    assert sum(point.count for point in published) == 2
    assert sum(point.as_int for point in metrics["perago.outcomes"].sum.data_points) == 2
    spans = [
        span
        for body in collected.bodies["/v1/traces"]
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert [span.name for span in spans] == ["attempt", "attempt"]
    assert all(span.events for span in spans)


def test_a_collector_that_never_answers_delays_no_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be waited for longer than the test waits, were anything but the end to wait for it."""
    monkeypatch.setattr(exporters, "_REQUEST", 3600.0)
    monkeypatch.setattr(exporters, "_LAST", 0.1)
    ended: list[object] = []
    with (
        collector(silent=True) as hole,
        embedded(tmp_path / "project") as worker,
        exporting(TelemetrySettings(otlp=hole.url, interval=0.05)) as instruments,
    ):
        instruments.count("leaks", {})
        assert hole.asked.wait(120), "an export hangs now"
        worker.start("write", worker.head(), text="undelayed")
        attempt = threading.Thread(target=lambda: ended.append(worker.run(instruments=instruments).result), daemon=True)
        attempt.start()
        attempt.join(300)
        assert not attempt.is_alive()
    (result,) = ended
    assert isinstance(result, Completed)


def test_a_collector_that_is_not_there_and_a_port_that_is_taken_fail_nothing(tmp_path: Path) -> None:
    with started(tmp_path / "project") as project, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = project.process(
            "worker",
            "--until-idle",
            PERAGO_TELEMETRY__OTLP="http://127.0.0.1:9",
            PERAGO_TELEMETRY__PROMETHEUS=str(port),
        )
        assert ran.returncode == 0, ran.stderr
        assert f"nobody can scrape this worker: 127.0.0.1:{port} cannot be listened on" in ran.stderr
        assert "Traceback" not in ran.stderr
        (view,) = project.views()
        assert view.succeeded


def test_every_instrument_exports_under_the_name_it_has() -> None:
    """What a dashboard asks for is derived from this; nothing is renamed on the way."""
    names = exported_names()
    assert {f"perago_{name.replace('.', '_')}_total" for name in COUNTERS} <= names
    assert {f"perago_{name.replace('.', '_')}_bucket" for name in HISTOGRAMS} <= names
    assert {f"perago_{name.replace('.', '_')}" for name in GAUGES} <= names


def test_headers_for_a_collector_cross_no_network_in_clear_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "authorization=geheim")
    with (
        pytest.raises(UserError, match="would carry the headers for OTLP in clear text"),
        exporting(TelemetrySettings(otlp="http://collector.example")),
    ):
        pass
    for allowed in ({"otlp": "http://127.0.0.1:9"}, {"otlp": "http://127.0.0.1:9", "insecure": True}):
        with exporting(TelemetrySettings.model_validate(allowed)):
            pass


def test_what_is_asked_for_and_not_installed_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_project(tmp_path / "project", more='\n[telemetry]\nprometheus = "0"\n') as project:
        monkeypatch.setitem(sys.modules, "opentelemetry.exporter.prometheus", None)
        ran = project.perago("run", "both", "--param", "text=a", width=500)
        assert ran.code == 2
        assert "pip install 'perago-core[telemetry]'" in ran.err
        assert project.views() == (), "nothing was begun"


@pytest.mark.parametrize(
    ("given", "read"),
    [("9464", "127.0.0.1:9464"), (":9464", "127.0.0.1:9464"), (9465, "127.0.0.1:9465"), ("0.0.0.0:1", "0.0.0.0:1")],
)
def test_a_port_alone_is_on_this_machine_only(given: object, read: str) -> None:
    assert TelemetrySettings.model_validate({"prometheus": given}).prometheus == read


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"prometheus": "everywhere"}, "String should match"),
        ({"otlp": "http://me:geheim@there"}, "give who you are apart from it"),
        ({"openlineage": "ftp://there"}, "expected http://HOST, https://HOST or file:PATH"),
    ],
)
def test_an_address_that_cannot_be_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        TelemetrySettings.model_validate(given)
