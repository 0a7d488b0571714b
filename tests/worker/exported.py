"""The names under which Prometheus sees what the code counts, measures and shows: asked of the exporter itself."""

from __future__ import annotations

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from perago_worker.runtime.telemetry import COUNTERS, GAUGES, HISTOGRAMS, OpenTelemetry


def exported_names() -> frozenset[str]:
    """Tell every instrument something, and return the names of the samples a scrape would show."""
    registry = CollectorRegistry()
    meters = MeterProvider([PrometheusMetricReader(registry=registry)])
    instruments = OpenTelemetry(meters)
    for name in COUNTERS:
        instruments.count(name, {})
    for name in HISTOGRAMS:
        instruments.record(name, 1.0, {})
    for name in GAUGES:
        instruments.show(name, 1.0, {})
    names = frozenset(sample.name for family in registry.collect() for sample in family.samples)
    meters.shutdown()
    return names
