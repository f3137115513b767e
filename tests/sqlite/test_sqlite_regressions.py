"""Rules of the SQLite store and of apps on it that were once broken."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.sqlite.sqlite_kit import opened, plain, run, until
from tests.sqlite.test_sqlite_plans import NOISE, NOW, Steps
from windlass import App, Context, JobState
from windlass.errors import PayloadTooLargeError, StoreClosedError
from windlass.store.records import ClaimRequest, NewJob
from windlass.stores.sqlite import SqliteStore, admin
from windlass.stores.sqlite.claim import PastHeads, claim, leases_of
from windlass.stores.sqlite.connection import Session, connect
from windlass.stores.sqlite.enqueue import Enqueue
from windlass.stores.sqlite.schema import migrate


def script(text: str, *arguments: object) -> Any:
    """Run a program of its own; the JSON it printed last. A crash is a failed test."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(text), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def guarded(app: App, body: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with app:
            return await asyncio.wait_for(body(), PATIENCE)

    return asyncio.run(whole())


def test_a_timeout_inside_a_long_statement_fails_the_attempt_and_rolls_back(tmp_path: Path) -> None:
    said = script(
        """
        import asyncio, json, sqlite3, sys
        from windlass import App, Context

        app = App(f"sqlite:///{sys.argv[1]}", synchronous="normal")

        @app.task(timeout=0.1, max_attempts=1)
        async def slow(ctx: Context) -> None:
            async with ctx.transaction() as tx:
                await tx.execute("CREATE TABLE big (n)")
                await tx.execute(
                    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c"
                    " WHERE n < 600000) INSERT INTO big SELECT n FROM c"
                )

        async def main():
            for _ in range(5):
                await slow.aenqueue()
                await app.run_once()
            errors = [job.last_error for job in await app.client.list_jobs(state="failed")]
            await app.close()
            connection = sqlite3.connect(sys.argv[1])
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE name = 'big'")
            print(json.dumps({"errors": errors, "tables": tables.fetchall()}))

        asyncio.run(main())
        """,
        tmp_path / "jobs.db",
    )
    assert len(said["errors"]) == 5
    assert all(error.startswith("TimeoutError") for error in said["errors"])
    assert said["tables"] == []


def test_a_store_may_be_closed_while_a_thread_uses_its_lifeline(tmp_path: Path) -> None:
    said = script(
        """
        import asyncio, json, sys, threading
        from windlass.stores.sqlite import SqliteStore

        ended = []

        def spin(lifeline, spinning):
            try:
                while True:
                    lifeline.renew("w", 1.0, [])
                    lifeline.check("w", [])
                    spinning.set()
            except BaseException as error:
                ended.append(type(error).__name__)

        async def main():
            for round in range(60):
                store = SqliteStore(sys.argv[1], synchronous="normal")
                await store.open()
                spinning = threading.Event()
                thread = threading.Thread(target=spin, args=(store.lifeline(), spinning))
                thread.start()
                await asyncio.to_thread(spinning.wait, 10)
                await asyncio.sleep(round % 8 / 4000)
                await store.close()
                await asyncio.to_thread(thread.join, 10)
            print(json.dumps(ended))

        asyncio.run(main())
        """,
        tmp_path / "jobs.db",
    )
    assert said == ["StoreClosedError"] * 60


def test_a_blocking_call_that_waits_when_the_app_is_closed_says_so(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    job = app.sync.add_job("nobody", {}, keep=60)
    looked = threading.Event()
    looking: list[int] = []
    get = app.store.get

    async def look(job_id: int) -> Any:
        """The first looks wait for one another: three at once are those of three callers."""
        looking.append(job_id)
        if len(looking) == 3:
            looked.set()
        while not looked.is_set():
            await asyncio.sleep(0.01)
        return await get(job_id)

    app.store.get = look  # type: ignore[method-assign]
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            app.sync.wait_for(job.id, timeout=600)
        except BaseException as error:
            ended.append(error)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert looked.wait(PATIENCE)
    asyncio.run(asyncio.wait_for(app.close(), PATIENCE))
    for thread in threads:
        thread.join(PATIENCE)
    assert [type(error) for error in ended] == [StoreClosedError] * 3


def test_a_chatty_job_keeps_its_last_entries_and_writes_few_times(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db", synchronous="normal")

    @app.task(keep=60)
    async def chatty(ctx: Context) -> None:
        for number in range(5_000):
            ctx.log(f"entry {number}")

    async def body() -> Any:
        assert isinstance(app.store, SqliteStore)
        job = await chatty.aenqueue()
        before = app.store.commits
        await app.run_once()
        return await app.client.get_job(job.id), app.store.commits - before

    job, commits = guarded(app, body)
    assert job.log == tuple(f"entry {number}" for number in range(4_800, 5_000))
    assert commits <= 400


def test_an_entry_larger_than_16_kib_is_refused(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db", synchronous="normal")

    @app.task(keep=60)
    async def large(ctx: Context) -> str:
        ctx.log("x" * 16_000)
        with pytest.raises(PayloadTooLargeError):
            ctx.log("x" * 17_000)
        return "refused"

    async def body() -> Any:
        job = await large.aenqueue()
        await app.run_once()
        return await app.client.get_job(job.id)

    job = guarded(app, body)
    assert (job.output, len(job.log)) == ("refused", 1)


def test_a_keyed_job_joined_in_autocommit_waits_for_a_busy_writer(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def make() -> None:
        async with opened(path):
            pass

    run(make())
    enough = threading.Event()
    written = 0

    def own_connection() -> sqlite3.Connection:
        connection = plain(path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA synchronous = OFF")  # many short transactions, no disk
        return connection

    def write() -> None:
        nonlocal written
        with closing(own_connection()) as connection:
            connection.execute("CREATE TABLE own (n)")
            while not enough.is_set():
                connection.execute("INSERT INTO own VALUES (1)")
                written += 1
                enough.wait(0.0002)  # the lock must be free now and then

    writer = threading.Thread(target=write)
    writer.start()
    try:
        run(until(lambda: written > 0))
        with closing(own_connection()) as connection:
            joined = SqliteStore(path).joined(connection)
            for number in range(200):
                joined.enqueue([NewJob("t", key=f"k{number % 50}")])
            [rows] = connection.execute("SELECT count(*) FROM windlass_jobs").fetchone()
    finally:
        enough.set()
        writer.join(PATIENCE)
    assert rows == 50


def _claim_beside_paused(path: Path, paused: int) -> int:
    """The steps of a claim that finds five jobs beside those of a paused task."""
    with closing(connect(str(path), "normal", make=True)) as connection:
        migrate(connection, str(path), 1.0)
        connection.execute("BEGIN")
        noise = {"each": paused, "task": "resting", "state": "ready", "run_at": 0}
        connection.execute(NOISE, {**noise, "queue": None, "finished_at": None})
        connection.execute("COMMIT")
        db = Session(connection)
        db.control("BEGIN IMMEDIATE")
        admin.pause(db, "resting", None)
        Enqueue([NewJob("t")] * 5)(db, NOW)
        request = ClaimRequest(worker="w", tasks=("resting", "t"), limit=50)
        found: list[Any] = []
        steps = Steps(connection).of(
            lambda: found.extend(leases_of(claim(db, request, NOW, PastHeads())))
        )
        db.control("ROLLBACK")
    assert [lease.task for lease in found] == ["t"] * 5
    return steps


def test_a_claim_visits_no_jobs_of_a_paused_task(tmp_path: Path) -> None:
    few = _claim_beside_paused(tmp_path / "few.db", 20)
    many = _claim_beside_paused(tmp_path / "many.db", 20_000)
    assert few > 5, "the counter counts"
    assert many <= few * 1.1, (few, many)


def test_a_forked_child_can_close_the_app_it_inherited(tmp_path: Path) -> None:
    said = script(
        """
        import asyncio, json, os, sys, time
        from windlass import App

        app = App(f"sqlite:///{sys.argv[1]}")
        app.sync.counts()
        pid = os.fork()
        if pid == 0:
            asyncio.run(app.close())
            os._exit(0)
        deadline = time.monotonic() + 10
        ended, status = 0, None
        while not ended and time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)
        if not ended:
            os.kill(pid, 9)
        asyncio.run(app.close())
        print(json.dumps(status if ended else "the child hangs"), flush=True)
        os._exit(0)
        """,
        tmp_path / "jobs.db",
    )
    assert said == 0


def test_a_worker_whose_loop_ended_lets_its_leases_run_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = App(url, synchronous="normal", lease=1.0)

    @app.task(name="t")
    async def held() -> None:
        started.set()
        await asyncio.sleep(1_000)

    started = threading.Event()
    before = set(threading.enumerate())

    async def main() -> None:
        await held.aenqueue()
        await app.run(handle_signals=False, concurrency=1)
        await until(started.is_set)
        raise ValueError("the request failed")

    with pytest.raises(ValueError, match="the request failed"):
        asyncio.run(main())
    keepers = [
        thread
        for thread in set(threading.enumerate()) - before
        if thread.name.startswith("windlass-keeper")
    ]
    for keeper in keepers:
        keeper.join(10)
    assert not any(keeper.is_alive() for keeper in keepers)

    other = App(url, synchronous="normal", lease=1.0, reap_interval=0.2)

    @other.task(name="t", keep=60)
    async def again() -> None: ...

    async def take_over() -> JobState:
        runner = await other.run(handle_signals=False)
        while (await other.client.counts())["completed"] == 0:
            await asyncio.sleep(0.05)
        [job] = await other.client.list_jobs()
        await runner.stop()
        return job.state

    assert guarded(other, take_over) is JobState.COMPLETED
    asyncio.run(asyncio.wait_for(app.close(), PATIENCE))
