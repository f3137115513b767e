"""Several processes on one file: order, fairness, and room for the user's own transactions."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import ledger
from tests.faults.kit import Place, place, until
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
    """2 workers with 10 slots share 40 jobs of a second: nobody takes more than it can run."""
    here.start(2, concurrency=10, lease=10.0)
    here.app.sync.add_jobs([JobSpec("nap", {"seconds": 1.0}) for _ in range(40)])
    here.until_empty()
    by_worker: dict[int, int] = {}
    for event in here.events("start"):
        by_worker[event["pid"]] = by_worker.get(event["pid"], 0) + 1
    assert sorted(by_worker.values()) == [20, 20]
    begun = [event["at"] for event in here.events("start")]
    ended = [event["at"] for event in here.events("end")]
    assert max(ended) - min(begun) < 3.5


def test_a_producer_with_its_own_connection_is_never_locked_out(here: Place) -> None:
    """Four workers and a plain sqlite3 producer: every commit goes through, and soon."""
    here.start(4, lease=10.0)
    own = sqlite3.connect(here.file)
    own.execute("CREATE TABLE orders (n integer)")
    own.commit()
    waits = []
    for n in range(400):
        began = time.perf_counter()
        own.execute("INSERT INTO orders VALUES (?)", (n,))
        here.app.sync.using(own).add_job("quick", {"n": n})
        own.commit()
        waits.append(time.perf_counter() - began)
        time.sleep(0.01)  # a hundred transactions a second
    own.close()
    here.until_empty()
    waits.sort()
    print(f"commit p50 {waits[200] * 1e3:.1f} ms, p99 {waits[396] * 1e3:.1f} ms")
    assert waits[396] <= 0.1
    assert "locked" not in here.log.read_text()
    assert here.stop() == [0, 0, 0, 0]
    until(lambda: here.counts()["running"] == 0, "nothing to run")
