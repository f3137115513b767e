"""Metrics as Prometheus reads them. What is shown is declared in `metrics.py`.

This is the only module that imports `prometheus_client`, which the extra `metrics` brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from windlass.observe.metrics import METRICS, OLDEST_READY, QUEUE_JOBS, STORE_UP, Kind, Metric
from windlass.observe.snapshot import Bins, Labels, Snapshot
from windlass.store.figures import Depths, FigureStore
from windlass.store.port import WorkStore

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


def figure_store(store: WorkStore) -> FigureStore | None:
    """The store, if it can tell what there is."""
    return cast(FigureStore, store) if store.capabilities.figures else None


class MetricsCollector(Collector):
    """For the registry of a program that shows metrics of its own, too:
    `REGISTRY.register(MetricsCollector(instruments.look))`."""

    def __init__(self, look: Callable[[], Snapshot]) -> None:
        self._look = look

    def describe(self) -> Iterable[Family]:
        return _families(Snapshot())

    def collect(self) -> Iterable[Family]:
        return (family for family in _families(self._look()) if family.samples)


def add_depths(snapshot: Snapshot, depths: Depths | None) -> None:
    """What the database said, or that it did not answer."""
    snapshot.add(STORE_UP, (), 0.0 if depths is None else 1.0)
    if depths is not None:
        for state, depth in depths.states.items():
            snapshot.add(QUEUE_JOBS, (state.value,), depth.count)
        snapshot.add(OLDEST_READY, (), depths.oldest_ready or 0.0)


def rendered(snapshot: Snapshot, accept: str = "") -> tuple[bytes, str]:
    """The text for a scrape that accepts this, and its media type."""
    encode, media_type = choose_encoder(accept)
    return encode(MetricsCollector(lambda: snapshot)), media_type


def _families(snapshot: Snapshot) -> Iterator[Family]:
    for metric in METRICS:
        match metric.kind:
            case Kind.HISTOGRAM:
                yield _histogram(metric, snapshot.histograms.get(metric.name, {}))
            case Kind.COUNTER:
                yield _values(CounterMetricFamily, metric, snapshot.counters.get(metric.name, {}))
            case Kind.GAUGE:
                yield _values(GaugeMetricFamily, metric, snapshot.gauges.get(metric.name, {}))


def _values(
    make: type[CounterMetricFamily | GaugeMetricFamily],
    metric: Metric,
    values: Mapping[Labels, float],
) -> Family:
    family = make(metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, values: Mapping[Labels, Bins]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    ends = [*(str(bound) for bound in metric.bounds), "+Inf"]
    for labels, bins in values.items():
        family.add_metric(
            labels, list(zip(ends, [*bins.counts, bins.total], strict=True)), bins.sum
        )
    return family
