"""The harness of `benchmarks/` on Windlass and bare SQL; the peers are not installed here."""

from __future__ import annotations

import asyncio
import select
from pathlib import Path

import pytest

from benchmarks import own, scenarios
from benchmarks.process import Child, ChildError
from benchmarks.systems import BARE, WINDLASS, bare
from benchmarks.systems.base import System
from tests.postgres.cluster import Cluster, fresh_database
from windlass.cli.bench import KINDS

pytestmark = pytest.mark.rig

JOBS, LONGEST = 1_000, 20.0
BOTH = pytest.mark.parametrize("system", [WINDLASS, BARE], ids=lambda system: system.name)
COST = {"jobs2", "drain2", "worker_cpu2", "server_cpu2", "memory2", "others2"}


def quietly(text: str) -> None:
    """Nobody looks."""


@BOTH
def test_a_drain_is_measured_in_full(pg18: Cluster, system: System) -> None:
    figures = scenarios.drain(pg18, system, JOBS, LONGEST, 2)
    sizes = {f"bulk{size}" for size in system.bulk}
    assert figures.keys() == {"bulk", *sizes, *COST}
    assert figures["bulk"] > 0
    assert figures["drain2"] > 0
    assert figures["memory2"] > 0


@BOTH
def test_enqueue_and_cycle_are_counted_in_the_database(pg18: Cluster, system: System) -> None:
    assert scenarios.singly(pg18, system, 0.05, 1).keys() == {"one"}
    assert scenarios.cycle(pg18, system, JOBS).keys() == {"cycle"}


def test_callers_at_once_have_a_figure_of_their_own(pg18: Cluster) -> None:
    assert scenarios.singly(pg18, WINDLASS, 0.05, 16).keys() == {"one16"}


def test_every_latency_sample_is_of_the_job_that_was_added(pg18: Cluster) -> None:
    found = scenarios.pickup(pg18, [WINDLASS, BARE], 3)
    assert found.keys() == {WINDLASS.name, BARE.name}
    for figures in found.values():
        assert 0 < figures["pickup50"] <= figures["pickup95"] <= figures["pickup99"]


def test_a_notification_that_comes_with_an_answer_is_not_lost(pg18: Cluster) -> None:
    """The bare worker's own statement reads the notification of the next job from the socket."""
    seen: list[int] = []

    async def scenario(url: str) -> None:
        producer, worker = bare.Side(url, {}), bare.Side(url, {})
        loop, is_ready, both = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        def ready() -> None:
            loop.call_soon_threadsafe(is_ready.set)

        def see(number: int) -> None:
            """Between the claim of this job and the statement that deletes it."""
            seen.append(number)
            if number == 0:
                asyncio.run(producer.add_one(1))
                socket = worker._limit.connection.fileno()
                assert select.select([socket], [], [], 60)[0], "the server sent no notification"
            else:
                loop.call_soon_threadsafe(both.set)

        await producer.install()
        producer = bare.Side(url, {})
        working = asyncio.ensure_future(worker.work(see, ready))
        await is_ready.wait()
        await producer.add_one(0)
        await both.wait()
        await worker.stop()
        await working
        await producer.close()

    with fresh_database(pg18) as url:
        asyncio.run(scenario(url))
    assert seen == [0, 1]


def test_each_kind_of_backlog_has_a_figure_beside_the_clean_one(pg18: Cluster) -> None:
    (beside,) = own.beside(pg18, quietly, jobs=100, rounds=1, backlog=20)
    assert beside.keys() == {"clean", *KINDS}
    assert min(beside.values()) > 0


def test_queues_and_the_held_horizon_have_their_figures(pg18: Cluster) -> None:
    (serial,) = own.serial(pg18, quietly, jobs=100, rounds=1)
    assert serial["queues50"] == 2 and serial["queues1"] == 100
    assert min(serial.values()) > 0
    held = own.held(pg18, quietly, seconds=0.5, rate=200)
    assert held["asked"] == 200 and held["claims"] > 0


def test_chains_have_their_figures(pg18: Cluster, tmp_path: Path) -> None:
    for (figures,) in (
        own.chains(pg18, quietly, jobs=120, rounds=1),
        own.file_chains(tmp_path, quietly, jobs=120, rounds=1),
    ):
        shapes = ("steps", "fan-in", "fan-ins")
        assert figures.keys() == {"clean", "parts", *shapes, *(f"{it}-bare" for it in shapes)}
        assert figures["parts"] == 118
        assert min(figures.values()) > 0


def test_a_process_that_cannot_start_says_why(pg18: Cluster) -> None:
    nowhere = pg18.url("no_such_database")
    with (
        Child(WINDLASS, "work", nowhere) as worker,
        pytest.raises(ChildError, match="no_such_data"),
    ):
        worker.wait_until_ready()
