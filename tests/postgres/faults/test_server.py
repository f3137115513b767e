"""The server is killed, restarted, replaced: nothing is lost, nothing takes effect twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.kit import until
from tests.postgres.cluster import Cluster
from tests.postgres.faults.kit import Place, Producer, check_server_log, place

pytestmark = pytest.mark.rig

AWAY = "the database does not answer"
BACK = "the database answers again"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server of the test's own, which it may ill-treat."""
    with Cluster.create(18) as cluster:
        yield cluster


def _effects(here: Place) -> int:
    [[count]] = here.ask("SELECT count(*) FROM effects")
    return int(count)


def _until_more(here: Place, count: int) -> None:
    """Wait until that many more jobs have taken effect."""
    wanted = _effects(here) + count
    until(lambda: _effects(here) >= wanted, "work to go on")


def _until_noticed(here: Place, producer: Producer, outage: int) -> None:
    """Wait until all have met the outage of that number: every loop of a worker has the time."""
    until(
        lambda: (
            len(producer.refused) > 200 * outage
            and all(log.count(AWAY) >= outage for log in here.logs())
        ),
        "everybody to notice",
    )


def _until_recovered(here: Place, outage: int) -> None:
    """Wait until every loop of every worker has met the server again."""
    until(lambda: all(log.count(BACK) >= outage for log in here.logs()), "all to recover")


def _check(here: Place, producer: Producer) -> None:
    """What must hold after the faults, once everything has been drained."""
    here.until_empty(40.0)
    here.check_produced(producer)
    here.check_deliveries()
    assert here.stop() == [0, 0]
    here.check_at_rest()
    here.check_processes()


def test_a_killed_server(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 of the whole server under load, four times; each outage is told once by a worker."""
    monkeypatch.setenv("LOG_LEVEL", "INFO")
    with place(tmp_path, cluster.url()) as here:
        here.start(2)
        with Producer(here.url, ["effect", "plain_effect"]) as producer:
            for outage in range(1, 5):
                _until_more(here, 50)
                cluster.kill()
                _until_noticed(here, producer, outage)
                cluster.start()
                _until_more(here, 1)
                _until_recovered(here, outage)
        assert [worker.poll() for worker in here.workers] == [None, None]
        _check(here, producer)
        told = [[line for line in log.splitlines() if AWAY in line] for log in here.logs()]
        assert [len(lines) for lines in told] == [4, 4], told
        check_server_log(cluster.log(), during_faults=True)


def test_a_restarted_server(cluster: Cluster, tmp_path: Path) -> None:
    """A fast restart cuts every connection; workers come back by themselves."""
    with place(tmp_path, cluster.url()) as here:
        here.start(2)
        with Producer(here.url, ["effect", "plain_effect"]) as producer:
            for _ in range(2):
                _until_more(here, 50)
                cluster.stop("fast")
                cluster.start()
                _until_more(here, 1)
        assert [worker.poll() for worker in here.workers] == [None, None]
        _check(here, producer)
        check_server_log(cluster.log(), during_faults=True)


def test_failover_to_a_promoted_standby(cluster: Cluster, tmp_path: Path) -> None:
    """With several hosts in the URL workers follow the primary; what was acknowledged is there."""
    with cluster.standby() as standby:
        with cluster.connect() as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        hosts = f"127.0.0.1:{cluster.port},127.0.0.1:{standby.port}"
        with place(tmp_path, f"postgresql://postgres@{hosts}/postgres") as here:
            here.start(2)
            with Producer(here.url, ["effect", "plain_effect"]) as producer:
                _until_more(here, 50)
                cluster.kill()
                standby.promote()
                _until_more(here, 50)
            assert [worker.poll() for worker in here.workers] == [None, None]
            _check(here, producer)
            check_server_log(standby.log(), during_faults=True)
