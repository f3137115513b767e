"""Several processes on one file: order, fairness, and room for the user's own transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import ledger
from tests.faults.kit import Place, place, until
from tests.patience import PATIENCE
from windlass import JobSpec


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path) as made:
        yield made


def test_a_serial_queue_runs_one_at_a_time_in_two_processes(here: Place) -> None:
    """P11: a thousand jobs of one queue, two workers, never two at once, in order."""
    jobs = here.app.sync.add_jobs(
        [JobSpec("one_at_a_time", {"n": n}, queue="line") for n in range(1000)]
    )
    here.start(2, lease=5.0)
    here.until_empty()
    events = [event for event in here.events() if "job" in event]
    ledger.check_one_at_a_time(events)
    begun = [event["job"] for event in events if event["event"] == "start"]
    assert begun == [job.id for job in jobs]
    assert here.stop() == [0, 0]


def test_no_worker_hoards(here: Place) -> None:
    """Two workers with 10 slots share 40 long jobs: neither takes more than it can run."""
    here.start(2, concurrency=10, lease=10.0)
    here.app.sync.add_jobs([JobSpec("nap", {"seconds": 3600.0}) for _ in range(40)])
    until(lambda: len(here.events("start")) >= 20, "all slots to be full")
    by_worker: dict[int, int] = {}
    for event in here.events("start"):
        by_worker[event["pid"]] = by_worker.get(event["pid"], 0) + 1
    assert sorted(by_worker.values()) == [10, 10]
    until(lambda: here.counts()["ready"] == 20, "what was taken ahead, if anything, to be back")
    assert here.counts()["running"] == 20


def test_a_producer_with_its_own_connection_is_never_locked_out(here: Place) -> None:
    """Four workers and a plain sqlite3 producer: every commit goes through."""
    here.start(4, lease=10.0)
    own = sqlite3.connect(here.file, timeout=PATIENCE)
    own.execute("CREATE TABLE orders (n integer)")
    own.commit()
    for n in range(400):
        own.execute("INSERT INTO orders VALUES (?)", (n,))
        here.app.sync.using(own).add_job("quick", {"n": n})
        own.commit()
    own.close()
    here.until_empty()
    assert "locked" not in here.log.read_text()
    assert here.stop() == [0, 0, 0, 0]
