"""Workers that are stopped, told to stop, or many: nothing is lost, order and exclusion hold."""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import ledger
from tests.faults.kit import until
from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, fresh_database
from tests.postgres.faults.kit import LEASE, SWEEP, Place, check_server_log, place
from windlass import JobSpec


@pytest.fixture
def here(tmp_path: Path, pg18: Cluster) -> Iterator[Place]:
    mark = len(pg18.log())
    with fresh_database(pg18) as url, place(tmp_path, url) as made:
        yield made
        check_server_log(pg18.log()[mark:])


def _check_lines(events: list[dict[str, Any]], wanted: dict[str, list[int]]) -> None:
    """I8: in every queue one at a time, each job once, in the order added."""
    by_queue: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if "queue" in event:
            by_queue[event["queue"]].append(event)
    assert by_queue.keys() == wanted.keys()
    for queue, found in by_queue.items():
        ledger.check_one_at_a_time(found)
        begun = sorted((e for e in found if e["event"] == "start"), key=lambda e: float(e["at"]))
        assert [event["job"] for event in begun] == wanted[queue]


def test_serial_queues_of_four_workers(here: Place) -> None:
    """P11: 1,000 jobs over 20 queues, taken in batches by four processes."""
    jobs = here.app.sync.add_jobs(
        [JobSpec("in_line", {"n": n}, queue=f"line {n % 20}") for n in range(1000)]
    )
    wanted: dict[str, list[int]] = defaultdict(list)
    for job in jobs:
        wanted[str(job.queue)].append(job.id)
    here.start(4, lease=10.0)
    here.until_empty(45.0)
    _check_lines(here.events(), wanted)
    assert here.stop() == [0, 0, 0, 0]
    here.check_at_rest()
    here.check_processes()


def test_an_open_transaction_that_holds_heads_strands_nothing(here: Place) -> None:
    """A user's transaction holds the first job of each of 20 queues; the others go on."""
    jobs = here.app.sync.add_jobs(
        [JobSpec("in_line", {"n": n}, queue=f"line {n % 20}", key=f"job {n}") for n in range(100)]
    )
    free = here.app.sync.add_jobs([JobSpec("in_line", {"n": n}, queue="free") for n in range(20)])
    heads = [job.id for job in jobs[:20]]
    with here.connect() as own, own.transaction():
        own.execute("SELECT FROM windlass._jobs WHERE id = ANY (%s) FOR UPDATE", (heads,))
        here.start(4, lease=10.0)
        until(
            lambda: {job.id for job in free} <= {event["job"] for event in here.events("end")},
            "the queue that nobody holds to be done",
        )
        started = {event["job"] for event in here.events("start")}
        assert not started & set(heads)
    here.until_empty()
    by_queue: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in here.events():
        if "queue" in event:
            by_queue[event["queue"]].append(event)
    for found in by_queue.values():
        ledger.check_one_at_a_time(found)
    begun = [event["job"] for event in here.events("start")]
    assert sorted(begun) == sorted(job.id for job in [*jobs, *free])
    assert here.stop() == [0, 0, 0, 0]
    here.check_at_rest()
    here.check_processes()


@pytest.mark.rig
def test_a_worker_stopped_for_three_leases_cannot_settle(here: Place) -> None:
    """P5: SIGSTOP past the lease, another worker does the job, SIGCONT: the late answer is lost."""
    (sleeper,) = here.start(concurrency=1)
    job = here.app.sync.add_job("nap", {"seconds": 1.0}, keep=600)
    until(lambda: here.events("start"), "the job to start")
    sleeper.send_signal(signal.SIGSTOP)
    (other,) = here.start(concurrency=1)
    done = here.app.sync.wait_for(job.id, timeout=PATIENCE)
    more = here.app.sync.add_job("nap", {"seconds": 2 * LEASE}, keep=600)
    here.app.sync.wait_for(more.id, timeout=PATIENCE)
    sleeper.send_signal(signal.SIGCONT)
    until(
        # The keeper may be the first to notice, by the clock or by asking, or the settler.
        lambda: re.search("stopping job|lost the lease of job|its lease was", here.logs()[0]),
        "the sleeper to notice that it lost the job",
    )
    again = here.app.sync.get_job(job.id)
    assert done.state == "completed" and again is not None
    assert (again.deliveries, again.finished_at) == (done.deliveries, done.finished_at)
    assert [e["job"] for e in here.events("start")].count(job.id) == 2
    # It is a worker like any other afterwards.
    other.send_signal(signal.SIGTERM)
    assert other.wait(timeout=PATIENCE) == 0
    last = here.app.sync.add_job("nap", {"seconds": 0}, keep=600)
    assert here.app.sync.wait_for(last.id, timeout=PATIENCE).state == "completed"
    here.check_deliveries()
    assert here.stop() == [0, 0]
    here.check_at_rest()
    here.check_processes()


def test_sigterm_leaves_nothing_running_and_charges_nothing(here: Place) -> None:
    """P9: exit 0, running jobs are handed back after the grace period, prefetched ones at once."""
    here.start(concurrency=2, grace=0.3)
    here.app.sync.add_jobs([JobSpec("nap", {"seconds": 0.002}) for _ in range(50)])
    until(lambda: len(here.events("end")) == 50, "a pace to be known")
    here.app.sync.add_jobs([JobSpec("nap", {"seconds": 600}) for _ in range(10)])
    until(lambda: here.counts()["running"] >= 2, "two to run")
    assert here.stop() == [0]
    assert {job.attempts for job in here.app.sync.list_jobs()} == {0}
    here.check_at_rest()
    here.check_processes()


def test_a_second_sigterm_does_not_wait_for_the_grace_period(here: Place) -> None:
    (worker,) = here.start(concurrency=1, grace=600)
    here.app.sync.add_job("nap", {"seconds": 600})
    until(lambda: here.events("start"), "the job to start")
    worker.send_signal(signal.SIGTERM)
    until(lambda: here.events("signal"), "the first signal to be noticed")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=PATIENCE) == 0
    assert here.counts()["ready"] == 1
    here.check_at_rest()
    here.check_processes()


def test_jobs_of_a_killed_worker_start_again(here: Place) -> None:
    """P4, P7: what a worker that got kill -9 held is run by another, once more."""
    (victim,) = here.start(concurrency=4)
    jobs = here.app.sync.add_jobs([JobSpec("nap", {"seconds": 600}) for _ in range(4)])
    until(lambda: len(here.events("start")) == 4, "the victim to run them")
    victim.kill()
    victim.wait()
    (survivor,) = here.start(concurrency=10, grace=0.1)
    until(
        lambda: (
            {job.id for job in jobs}
            <= {e["job"] for e in here.events("start") if e["pid"] == survivor.pid}
        ),
        "the other worker to start them all",
        LEASE + SWEEP + 10,
    )
    here.check_deliveries()
    assert here.stop()[1:] == [0]
    here.check_at_rest()
