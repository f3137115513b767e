"""The network cuts, goes silent, or crawls: handlers are told, others go on, all is done once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.kit import until
from tests.postgres.cluster import Cluster
from tests.postgres.faults.kit import LEASE, SWEEP, Place, Producer, check_server_log, place
from tests.postgres.proxy import FaultProxy
from windlass import JobSpec

pytestmark = pytest.mark.rig


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server of its own, whose log tells of broken connections for some time."""
    with Cluster.create(18) as cluster:
        yield cluster


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", cluster.port) as proxy:
        yield proxy


@pytest.fixture
def here(tmp_path: Path, cluster: Cluster, proxy: FaultProxy) -> Iterator[Place]:
    """Workers and producers go through the proxy, the test itself does not."""
    with place(tmp_path, cluster.url(), proxy.url()) as made:
        yield made
        check_server_log(cluster.log(), during_faults=True)


def _effects(here: Place) -> int:
    [[count]] = here.ask("SELECT count(*) FROM effects")
    return int(count)


def _until_more(here: Place, count: int) -> None:
    wanted = _effects(here) + count
    until(lambda: _effects(here) >= wanted, "work to go on")


def test_connections_that_are_cut_and_a_network_that_crawls(here: Place, proxy: FaultProxy) -> None:
    here.start(2)
    with Producer(here.worker_url, ["effect", "plain_effect"]) as producer:
        for _ in range(5):
            _until_more(here, 20)
            proxy.cut()
        proxy.throttle(20_000)
        _until_more(here, 20)
        proxy.restore()
    here.until_empty()
    here.check_produced(producer)
    here.check_deliveries()
    assert here.stop() == [0, 0]
    here.check_at_rest()
    here.check_processes()


def test_a_worker_in_a_black_hole(here: Place, proxy: FaultProxy) -> None:
    """P5: its handlers are told before others start the jobs; what it says afterwards is lost."""
    (lonely,) = here.start(concurrency=4)
    naps = {"seconds": 600.0, "again": 0.1}  # the first ends only because it is told to
    jobs = here.app.sync.add_jobs([JobSpec("nap", naps) for _ in range(4)])
    until(lambda: len(here.events("start")) == 4, "its slots to be full")
    here.worker_url = here.url
    (other,) = here.start(concurrency=4)
    proxy.black_hole()
    ids = {job.id for job in jobs}
    until(
        lambda: ids <= {e["job"] for e in here.events("start") if e["pid"] == other.pid},
        "the other worker to have them all",
        LEASE + SWEEP + 15,
    )
    told = {e["job"]: e["at"] for e in here.events("told") if e["pid"] == lonely.pid}
    begun = {e["job"]: e["at"] for e in here.events("start") if e["pid"] == other.pid}
    assert told.keys() == ids
    assert all(told[job] < begun[job] for job in ids)
    proxy.restore()
    here.until_empty()
    here.check_deliveries()
    ended = [(e["job"], e["pid"]) for e in here.events("end")]
    assert sorted(ended) == sorted((job, other.pid) for job in ids)

    def both_work() -> bool:
        here.app.sync.add_jobs([JobSpec("nap", {"seconds": 0.2}) for _ in range(8)])
        here.until_empty()
        return {lonely.pid, other.pid} == {e["pid"] for e in here.events("end")}

    until(both_work, "the worker to take part again")
    assert here.stop() == [0, 0]
    here.check_at_rest()
    here.check_processes()
