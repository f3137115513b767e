"""Workers that are killed, stopped, blocked: nothing is lost, nothing settles twice."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import ledger
from tests.faults.kit import LEASE, SWEEP, Place, place, until
from tests.freezing import freeze
from tests.patience import PATIENCE
from windlass import JobSpec


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path) as made:
        yield made


def _naps(count: int, seconds: float) -> list[JobSpec]:
    return [JobSpec("nap", {"seconds": seconds}) for _ in range(count)]


def _lost_in(log: str) -> bool:
    """The keeper or the settler may be the first to be told."""
    return "lost the lease of job" in log or "its lease was lost" in log


def test_jobs_of_a_killed_worker_start_again(here: Place) -> None:
    """P4, P7: running and prefetched jobs of a worker that got kill -9 run in another one."""
    (victim,) = here.start(concurrency=4)
    jobs = here.app.sync.add_jobs(_naps(40, 0.005) + _naps(20, 30.0))
    long = {job.id for job in jobs[40:]}
    until(lambda: here.counts()["running"] >= 4 and len(here.events("end")) == 40, "full slots")
    held = here.counts()["running"]
    victim.kill()
    victim.wait()
    (survivor,) = here.start(concurrency=20)
    until(
        # A quick job whose settlement was not written yet may run again beside them.
        lambda: long <= {e["job"] for e in here.events("start") if e["pid"] == survivor.pid},
        "the other worker to start them all",
    )
    assert held >= 4
    ledger.check_deliveries(here.events())


def test_every_held_job_is_claimable_again_after_lease_and_sweep(here: Place) -> None:
    (victim,) = here.start(concurrency=2)
    here.app.sync.add_jobs(_naps(10, 30.0))
    until(lambda: here.counts()["running"] == 2, "the victim to run two")
    (other,) = here.start(concurrency=50, worker_name="other")
    until(lambda: here.counts()["running"] == 10, "the rest to run")
    victims = {e["job"] for e in here.events("start") if e["pid"] == victim.pid}
    victim.kill()
    killed_at = time.monotonic()
    until(
        lambda: victims <= {e["job"] for e in here.events("start") if e["pid"] == other.pid},
        "the victim's jobs to start elsewhere",
    )
    taken = max(e["at"] for e in here.events("start") if e["job"] in victims) - killed_at
    assert taken <= LEASE + SWEEP + 1.0
    assert all(
        len(begun) == 2 for job, begun in ledger.starts(here.events()).items() if job in victims
    )


def test_a_worker_that_was_stopped_too_long_cannot_settle(here: Place) -> None:
    """P5: SIGSTOP past the lease, another worker does the job, SIGCONT: the late answer is lost."""
    (sleeper,) = here.start(concurrency=1)
    job = here.app.sync.add_job("nap", {"seconds": 0.4}, keep=60)
    until(lambda: here.events("start"), "the job to start")
    freeze(sleeper.send_signal, here.file)
    here.start(concurrency=1)
    done = here.app.sync.wait_for(job.id, timeout=PATIENCE)
    sleeper.send_signal(signal.SIGCONT)
    until(lambda: _lost_in(here.log.read_text()), "the sleeper to be told that it lost the job")
    again = here.app.sync.get_job(job.id)
    assert done.state == "completed" and again is not None
    assert (again.deliveries, again.finished_at) == (done.deliveries, done.finished_at)
    assert len(here.events("start")) == 2
    assert here.stop() == [0, 0]


def test_a_blocked_event_loop_keeps_its_leases(here: Place) -> None:
    """A handler that blocks the loop for three leases is not run twice."""
    here.start(2, concurrency=2)
    here.app.sync.add_job("block", {"seconds": 3 * LEASE})
    here.until_empty()
    assert [event["event"] for event in here.events() if "job" in event] == ["start", "end"]
    assert here.stop() == [0, 0]


def test_a_job_that_kills_its_worker_is_parked(here: Place) -> None:
    """P10, and its neighbours in the killed workers' prefetch are not blamed."""
    here.app.sync.add_job("die")
    here.app.sync.add_jobs(_naps(30, 0.01))
    deaths = 0
    while not here.counts()["failed"]:
        (worker,) = here.start(concurrency=1, max_resets=2)

        def died_or_parked(worker: subprocess.Popen[bytes] = worker) -> bool:
            return worker.poll() is not None or here.counts()["failed"] > 0

        until(died_or_parked, "death or parking")
        deaths += worker.poll() is not None
        assert deaths <= 4
    here.start(concurrency=1)
    until(lambda: sum(here.counts().values()) == 1, "the neighbours to be done")
    (parked,) = here.app.sync.list_jobs(state="failed")
    assert parked.task == "die" and parked.resets == 2
    assert "max_resets" in (parked.last_error or "")


def test_sigterm_leaves_nothing_running_and_charges_nothing(here: Place) -> None:
    """P9: exit 0, running jobs handed back after the grace period, prefetched ones at once."""
    here.start(concurrency=2, grace=0.3)
    here.app.sync.add_jobs(_naps(50, 0.002))
    until(lambda: len(here.events("end")) == 50, "a pace to be known")
    here.app.sync.add_jobs(_naps(10, 30.0))
    until(lambda: here.counts()["running"] >= 2, "two to run")
    assert here.stop() == [0]
    assert here.counts()["running"] == 0
    assert {job.attempts for job in here.app.sync.list_jobs()} == {0}


def test_a_second_sigterm_does_not_wait_for_the_grace_period(here: Place) -> None:
    (worker,) = here.start(concurrency=1, grace=600)
    here.app.sync.add_jobs(_naps(1, 600))
    until(lambda: here.events("start"), "the job to start")
    worker.send_signal(signal.SIGTERM)
    until(lambda: here.events("signal"), "the first signal to be noticed")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=PATIENCE) == 0
    assert here.counts()["ready"] == 1


@pytest.mark.slow
def test_a_users_long_transaction_resets_nothing(here: Place) -> None:
    """Five leases with the write lock held: every job runs once."""
    here.start(2, concurrency=4)
    here.app.sync.add_jobs(_naps(8, 6 * LEASE))
    until(lambda: here.counts()["running"] == 8, "all to run")
    own = sqlite3.connect(here.file, isolation_level=None)
    own.execute("BEGIN IMMEDIATE")
    time.sleep(5 * LEASE)  # the length of the transaction is what is tested
    own.execute("COMMIT")
    own.close()
    here.until_empty()
    assert all(len(begun) == 1 for begun in ledger.starts(here.events()).values())
    assert here.stop() == [0, 0]
