"""Metrics in a registry of the program's own."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from windlass import App
from windlass.metrics import Instruments, MetricsCollector
from windlass.observe.metrics import METRICS, Kind


async def _nothing() -> None: ...


def test_they_stand_beside_the_programs_own_and_are_there_once() -> None:
    instruments = Instruments()
    registry = CollectorRegistry()
    registry.register(MetricsCollector(instruments.look))
    instruments.claimed(7, 0.004)
    text = generate_latest(registry).decode()
    families = {one.name: one for one in text_string_to_metric_families(text)}
    [claimed] = families["windlass_claimed_jobs"].samples
    assert (claimed.name, claimed.value) == ("windlass_claimed_jobs_total", 7)
    buckets = {
        sample.labels["le"]: sample.value
        for sample in families["windlass_claim_seconds"].samples
        if sample.name.endswith("_bucket")
    }
    assert (buckets["0.0025"], buckets["0.005"], buckets["+Inf"]) == (0, 1, 1)
    assert "windlass_in_flight" not in families, "what has no value is not shown"
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(MetricsCollector(instruments.look))


def test_a_registry_knows_all_names_before_anything_is_counted() -> None:
    described = list(MetricsCollector(Instruments().look).describe())
    suffix = {Kind.COUNTER: "_total"}
    named = {f"{family.name}{suffix.get(Kind(family.type), '')}" for family in described}
    assert named == {metric.name for metric in METRICS}


def test_jobs_of_several_tasks_that_end_in_one_batch_are_told_apart() -> None:
    app = App("memory://", instruments=Instruments())
    for name in ("a", "b"):
        app.task(name=name)(_nothing)

    async def body() -> None:
        async with app:
            for name in ("a", "b", "a"):
                await app.registry.get(name).aenqueue()
            await app.run_once()

    asyncio.run(body())
    assert app.instruments is not None
    found = app.instruments.look()
    counted = found.counters["windlass_jobs_processed_total"]
    assert (counted["a", "ok"], counted["b", "ok"]) == (2, 1)
    durations = found.histograms["windlass_job_duration_seconds"]
    assert (durations["a",].total, durations["b",].total) == (2, 1)
