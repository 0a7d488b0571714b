"""Where instruments send what they are told: an OpenTelemetry collector, and whoever scrapes this worker.

They fail open. What cannot be sent is dropped and logged; nobody waits for it but the end of the process, and that for
some seconds only.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from perago_http.secrets import refuse_clear_text
from perago_worker.api.errors import UserError
from perago_worker.bodies.pool import OTLP_HEADERS
from perago_worker.config.settings import TelemetrySettings
from perago_worker.logger import log
from perago_worker.runtime.telemetry import Instruments, OpenTelemetry, instruments

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

#: Seconds that one request to a collector may take, and that the end waits for the last of them.
_REQUEST = 3.0
_LAST = 5.0


@contextmanager
def exporting(settings: TelemetrySettings, *, scraped: bool = True) -> Generator[Instruments]:
    """Give instruments that export as the settings say; where they say nothing, those the process has set up.

    ``scraped``: whether to listen for Prometheus; a command that ends at once has nobody to wait for.
    """
    listens = settings.prometheus if scraped else ""
    if not settings.otlp and not listens:
        yield instruments()
        return
    _keep_headers(settings)
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415  only with the extra
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  as above

    about = Resource.create(
        {"service.name": settings.namespace, "service.instance.id": f"{socket.gethostname()}-{os.getpid()}"}
    )
    with ExitStack() as ending:
        readers: list[MetricReader] = []
        tracers = None
        if listens:
            readers.append(_scraped(listens, ending))
        if settings.otlp:
            readers.append(_pushed(settings))
            tracers = _traced(settings, about)
            ending.callback(within, _LAST, tracers.shutdown)
        meters = MeterProvider(readers, about, shutdown_on_exit=False)
        ending.callback(within, _LAST, meters.shutdown)
        yield OpenTelemetry(meters, tracers)


def _keep_headers(settings: TelemetrySettings) -> None:
    """Refuse to send the headers of OpenTelemetry's variables, which hold keys, where anybody can read them."""
    if settings.otlp and not settings.insecure and any(os.environ.get(each) for each in OTLP_HEADERS):
        try:
            refuse_clear_text(settings.otlp, "headers for OTLP", "telemetry.insecure")
        except ValueError as refused:
            raise UserError(str(refused)) from None


def within(seconds: float, work: Callable[[], object]) -> None:
    """Wait so long for something that may never end."""
    thread = threading.Thread(target=work, name="last export", daemon=True)
    thread.start()
    thread.join(seconds)


def _scraped(address: str, ending: ExitStack) -> MetricReader:
    """Listen for Prometheus; if somebody else listens there already, go on without."""
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415  only with the extra
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415  as above

    registry = CollectorRegistry()
    reader = PrometheusMetricReader(scope_info_enabled=False, registry=registry)
    host, _, port = address.rpartition(":")
    try:
        server, _thread = start_http_server(int(port), host.strip("[]"), registry)
    except (OSError, OverflowError) as error:
        log.warning(
            "nobody can scrape this worker: %s cannot be listened on: %s; give each worker of a machine a "
            "telemetry.prometheus of its own",
            address,
            error,
        )
        return reader
    ending.callback(server.server_close)
    ending.callback(server.shutdown)
    log.info("metrics for Prometheus on http://%s:%d/metrics", host, server.server_port)
    return reader


def _pushed(settings: TelemetrySettings) -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415  only with the extra
        OTLPMetricExporter,
    )
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415  as above

    exporter = OTLPMetricExporter(f"{settings.otlp.rstrip('/')}/v1/metrics", timeout=_REQUEST)
    return PeriodicExportingMetricReader(exporter, export_interval_millis=settings.interval * 1000)


def _traced(settings: TelemetrySettings, about: Resource) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415  only with the extra
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  as above

    tracers = TracerProvider(resource=about, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(f"{settings.otlp.rstrip('/')}/v1/traces", timeout=_REQUEST)
    tracers.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=settings.interval * 1000))
    return tracers
