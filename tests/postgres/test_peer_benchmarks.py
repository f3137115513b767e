"""The harness of `benchmarks/` on Windlass alone; the peers are not installed here."""

from __future__ import annotations

import pytest

from benchmarks import scenarios
from benchmarks.process import Child, ChildError
from benchmarks.scenarios import Plan
from benchmarks.systems import windlass
from tests.postgres.cluster import Cluster

PLAN = Plan(jobs=1_000, singles=50, samples=3, seconds=20)
SYSTEM = windlass.SYSTEM


def test_a_drain_is_measured_in_full(pg18: Cluster) -> None:
    figures = scenarios.drain(pg18, SYSTEM, PLAN, 2)
    assert set(figures) == {"bulk", "drain2", "worker_cpu2", "server_cpu2", "memory2", "others2"}
    assert figures["bulk"] > 0
    assert figures["drain2"] > 0
    assert figures["memory2"] > 0


def test_enqueue_and_cycle_are_counted_in_the_database(pg18: Cluster) -> None:
    assert scenarios.singly(pg18, SYSTEM, PLAN).keys() == {"one", "one16"}
    assert scenarios.cycle(pg18, SYSTEM, PLAN).keys() == {"cycle"}


def test_every_latency_sample_is_of_the_job_that_was_added(pg18: Cluster) -> None:
    figures = scenarios.pickup(pg18, [SYSTEM], PLAN)[SYSTEM.name]
    assert 0 < figures["pickup50"] <= figures["pickup95"] <= figures["pickup99"]


def test_a_process_that_cannot_start_says_why(pg18: Cluster) -> None:
    nowhere = pg18.url("no_such_database")
    with Child(SYSTEM, "work", nowhere) as worker, pytest.raises(ChildError, match="no_such_data"):
        worker.wait_until_ready()
