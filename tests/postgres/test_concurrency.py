"""Many at once: migrations, keyed adds, open transactions, bulk calls. Nobody waits in vain."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.faults import ledger
from tests.faults.kit import until
from tests.patience import PATIENCE
from tests.postgres.cluster import Cluster, fresh_database
from tests.postgres.faults.kit import LEASE, Place, check_server_log, place
from windlass import App, JobSpec
from windlass.stores.postgres import PostgresStore
from windlass.stores.postgres.schema import migrations

WAITED = "still waiting for"
"""What `log_lock_waits` writes when somebody has waited for a lock for 200 ms."""


@pytest.fixture
def here(tmp_path: Path, pg18: Cluster) -> Iterator[Place]:
    mark = len(pg18.log())
    with fresh_database(pg18) as url, place(tmp_path, url) as made:
        yield made
        check_server_log(pg18.log()[mark:])


def _together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work(0)` … `work(count - 1)` in threads that begin at the same moment."""
    line = threading.Barrier(count)

    def run(number: int) -> Any:
        line.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@contextmanager
def _watching_locks(url: str, owners: list[int]) -> Iterator[list[Any]]:
    """Collect who waits for a lock that one of these processes holds, looked at all the time."""
    waits: list[Any] = []
    over = threading.Event()

    def look() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not over.wait(0.005):
                waits.extend(
                    connection.execute(
                        "SELECT l.locktype, l.mode, a.query FROM pg_locks AS l"
                        " JOIN pg_stat_activity AS a USING (pid)"
                        " WHERE NOT l.granted AND pg_blocking_pids(l.pid) && %s::integer[]",
                        (owners,),
                    ).fetchall()
                )

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join()


def test_twenty_migrations_at_once(pg: Cluster) -> None:
    """All of them succeed on an empty database, and the schema is there once."""
    mark = len(pg.log())

    def migrate(_: int) -> None:
        async def open_and_close() -> None:
            store = PostgresStore(url)
            await store.open()
            await store.counts()
            await store.close()

        asyncio.run(open_and_close())

    with fresh_database(pg) as url:
        _together(20, migrate)
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT id FROM windlass._migrations ORDER BY id").fetchall()
        assert [number for [number] in found] == [step.version for step in migrations()]
        check_server_log(pg.log()[mark:])


def test_keyed_adds_from_eight_threads(here: Place) -> None:
    """P2: one open job per key, every call answers with a job, and the last request is what runs.

    Each answer names the row and its revision, so for every row the request that must have run is
    known exactly.
    """
    threads, keys, rounds = 8, 10, 100
    here.start(2, lease=10.0)
    statement = "SELECT id, revision FROM windlass.add_job('keyed', %s::json, job_key => %s)"

    def add(number: int) -> list[tuple[int, int, int]]:
        answers: list[tuple[int, int, int]] = []
        app = App(here.url, listen=False)
        with here.connect() as connection:
            for turn in range(rounds):
                n, key = number * rounds + turn, f"key {turn % keys}"
                if number % 2:
                    job = app.sync.add_job("keyed", {"n": n}, key=key)
                    answers.append((job.id, job.revision, n))
                else:
                    row = connection.execute(statement, (f'{{"n": {n}}}', key)).fetchone()
                    assert row is not None and None not in row
                    answers.append((*row, n))
        asyncio.run(app.close())
        return answers

    answers = [answer for some in _together(threads, add) for answer in some]
    here.until_empty()
    assert len(answers) == threads * rounds
    last: dict[int, tuple[int, int]] = {}
    for job, revision, n in answers:
        last[job] = max(last.get(job, (-1, -1)), (revision, n))
    assert len({(job, revision) for job, revision, _ in answers}) == len(answers)
    ran = sorted((event["job"], event["n"]) for event in here.events("start"))
    assert ran == sorted((job, n) for job, (_, n) in last.items())
    assert here.stop() == [0, 0]
    here.check_at_rest()
    here.check_processes()


def test_twenty_open_transactions_with_one_new_queue_and_task(here: Place, pg18: Cluster) -> None:
    """P11: none of them waits for another, and no worker waits for them."""
    here.start(2, lease=10.0)
    mark = len(pg18.log())
    add = "SELECT id FROM windlass.add_job(%s, '{\"n\": 1}', queue_name => %s)"
    with ExitStack() as stack:
        owners = [stack.enter_context(psycopg.connect(here.url)) for _ in range(20)]
        pids = [owner.info.backend_pid for owner in owners]
        waits = stack.enter_context(_watching_locks(here.url, pids))
        mine = []
        for owner in owners:
            # One thread makes all the calls: if one waited for another it would wait for ever.
            owner.execute("SET LOCAL lock_timeout = '5s'")
            mine.append(owner.execute(add, ("in_line", "new")).fetchone())
            owner.execute(add, ("new_task", None))
        others = here.app.sync.add_jobs(
            [JobSpec("effect", {"n": n}) for n in range(100)]
            + [JobSpec("in_line", {"n": n}, queue="old") for n in range(20)]
        )
        here.until_empty()
        here.check_effects([job.id for job in others[:100]])
        assert not any(event.get("queue") == "new" for event in here.events())
        for owner in owners:
            owner.commit()
    assert waits == []
    assert WAITED not in pg18.log()[mark:]
    until(
        lambda: [here.counts()[state] for state in ("ready", "running")] == [20, 0],
        "all but the unknown task's jobs to be done",
    )
    begun = [event for event in here.events() if event.get("queue") == "new"]
    ledger.check_one_at_a_time(begun)
    assert sorted(e["job"] for e in begun if e["event"] == "start") == sorted(
        row[0] for row in mine if row is not None
    )
    assert {job.task for job in here.app.sync.list_jobs(state="ready")} == {"new_task"}
    assert here.stop() == [0, 0]
    here.check_at_rest()
    here.check_processes()


@pytest.mark.rig
def test_an_open_transaction_that_replaced_a_running_job(here: Place, pg18: Cluster) -> None:
    """For three leases the row is held: its settlement waits, everything else goes on."""
    here.start(2)
    mark = len(pg18.log())
    held = here.app.sync.add_job("nap", {"seconds": 0.5}, key="held", keep=600)
    until(lambda: here.events("start"), "it to run")
    with psycopg.connect(here.url) as own:
        row = own.execute(
            "SELECT id FROM windlass.add_job('nap', '{\"seconds\": 0}', job_key => 'held')"
        ).fetchone()
        assert row is not None and row[0] != held.id
        until(lambda: here.events("end"), "the handler to be done")
        end = time.monotonic() + 3 * LEASE  # the length of the transaction is what is tested
        while time.monotonic() < end:
            others = here.app.sync.add_jobs([JobSpec("effect", {"n": n}) for n in range(50)])
            until(lambda: here.unfinished() == 1, "all but the held one to be done")
            found = here.ask("SELECT job FROM effects WHERE job >= %s", others[0].id)
            assert len(found) == 50
        still = here.app.sync.get_job(held.id)
        assert still is not None and still.state == "running"
        own.commit()
    done = here.app.sync.wait_for(held.id, timeout=PATIENCE)
    until(lambda: here.unfinished() == 0, "the new one to be done")
    assert done.state == "completed" and done.deliveries == 1
    assert [e["job"] for e in here.events("end") if e["job"] in (held.id, row[0])] == [
        held.id,
        row[0],
    ]
    here.check_deliveries()
    assert WAITED not in pg18.log()[mark:]
    assert here.stop() == [0, 0]
    here.check_at_rest()
    here.check_processes()


def test_bulk_calls_in_opposite_orders(here: Place) -> None:
    """Operators name the same jobs forwards and backwards, while others replace them."""
    keys = [f"key {n}" for n in range(60)]
    ids = [job.id for job in here.app.sync.add_jobs([_keyed(key) for key in keys])]

    def call(number: int) -> None:
        app = App(here.url, listen=False)
        step = -1 if number % 2 else 1
        mine, names = ids[::step], keys[::step]
        for turn in range(12):
            match (number // 2 + turn) % 4:
                case 0:
                    app.sync.reschedule_jobs(mine, priority=turn, run_at=_FAR)
                case 1:
                    app.sync.add_jobs([_keyed(key) for key in names])
                case 2:
                    app.sync.retry_jobs(mine)
                case _:
                    app.sync.permanently_fail_jobs(mine, "enough")
        asyncio.run(app.close())

    _together(8, call)
    found = here.ask("SELECT id, key FROM windlass._jobs ORDER BY id")
    assert found == list(zip(ids, keys, strict=True))


def test_operators_end_jobs_in_opposite_orders(here: Place) -> None:
    """Every job is cancelled or completed by exactly one of eight callers."""
    jobs = here.app.sync.add_jobs([JobSpec("quick", {"n": n}) for n in range(400)])
    ids = [job.id for job in jobs]

    def end(number: int) -> list[int]:
        app = App(here.url, listen=False)
        mine = ids[::-1] if number % 2 else ids
        verb = app.sync.cancel_jobs if number < 4 else app.sync.complete_jobs
        ended = [job.id for start in (0, 100, 200, 300) for job in verb(mine[start : start + 200])]
        asyncio.run(app.close())
        return ended

    assert sorted(job for ended in _together(8, end) for job in ended) == ids


_FAR = datetime(2100, 1, 1, tzinfo=UTC)


def _keyed(key: str) -> JobSpec:
    return JobSpec("quick", {"n": 1}, key=key, queue="bulk" if key.endswith("7") else None)
