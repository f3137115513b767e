"""Handlers on a real file: their transactions, the jobs they add inside them, what they log."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sqlite.sqlite_kit import guarded, script
from windlass import App, Context, JobState, SyncContext
from windlass.errors import PayloadTooLargeError
from windlass.stores.sqlite import SqliteStore


@pytest.fixture
def app(tmp_path: Path) -> App:
    with sqlite3.connect(tmp_path / "jobs.db") as own:
        own.execute("CREATE TABLE effects (n integer)")
    own.close()
    return App(f"sqlite:///{tmp_path}/jobs.db", poll_interval=0.2)


def rows(tmp_path: Path) -> list[Any]:
    own = sqlite3.connect(tmp_path / "jobs.db")
    try:
        return own.execute("SELECT n FROM effects").fetchall()
    finally:
        own.close()


def run(app: App, body: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with app:
            return await body()

    return asyncio.run(whole())


@pytest.mark.parametrize("way", ["handle", "context", "client", "sync handle"])
def test_jobs_added_inside_a_transaction_belong_to_it(app: App, tmp_path: Path, way: str) -> None:
    """Any other way would wait for the lock that the handler itself holds."""

    @app.task
    async def after(n: int) -> None: ...

    async def add(ctx: Context, n: int) -> None:
        if way == "handle":
            await after.aenqueue(n=n)
        elif way == "context":
            await ctx.add_job("after", {"n": n})
        elif way == "client":
            await app.client.add_job("after", {"n": n})
        else:
            after.enqueue(n=n)

    @app.task(max_attempts=1, keep=60)
    async def effect(ctx: Context, n: int, fails: bool) -> None:
        async with ctx.transaction() as tx:
            await tx.execute("INSERT INTO effects VALUES (?)", (n,))
            await add(ctx, n)
            if fails:
                raise ValueError("rolled back")
            await tx.complete({"n": n})

    async def body() -> list[Any]:
        good = await effect.aenqueue(n=1, fails=False)
        bad = await effect.aenqueue(n=2, fails=True)
        await app.run_once(only=["effect"])
        client = app.client
        left = await client.list_jobs(task="after")
        return [await client.get_job(good.id), await client.get_job(bad.id), left]

    good, bad, left = run(app, body)
    assert (good.state, good.output) == (JobState.COMPLETED, {"n": 1})
    assert bad.state == JobState.FAILED
    assert [job.payload for job in left] == [{"n": 1}]
    assert rows(tmp_path) == [(1,)]


def test_a_plain_function_adds_inside_its_transaction_too(app: App, tmp_path: Path) -> None:
    @app.task
    async def after(n: int) -> None: ...

    @app.task(max_attempts=1)
    def effect(ctx: SyncContext) -> None:
        with ctx.transaction() as tx:
            tx.execute("INSERT INTO effects VALUES (7)")
            ctx.add_job("after", {"n": 1})
            after.enqueue(n=2)
            tx.complete()

    async def body() -> list[Any]:
        await effect.aenqueue()
        await app.run_once(only=["effect"])
        return await app.client.list_jobs()

    assert [job.payload for job in run(app, body)] == [{"n": 2}, {"n": 1}]
    assert rows(tmp_path) == [(7,)]


def test_the_wrong_kind_of_with_is_refused_at_once(app: App) -> None:
    @app.task(max_attempts=1)
    async def effect(ctx: Context) -> None:
        with ctx.transaction():
            pass

    async def body() -> Any:
        job = await effect.aenqueue()
        await app.run_once()
        return await app.client.get_job(job.id)

    failed = run(app, body)
    assert "async with ctx.transaction()" in failed.last_error


def worked(app: App, task: Any) -> Any:
    async def body() -> Any:
        job = await task.aenqueue()
        await app.run_once()
        return await app.client.get_job(job.id)

    return run(app, body)


def test_an_async_handler_awaits_its_connection(app: App, tmp_path: Path) -> None:
    seen: list[Any] = []

    @app.task(max_attempts=1, keep=60)
    async def effect(ctx: Context) -> None:
        async with ctx.connection() as db:
            added = await db.execute("INSERT INTO effects VALUES (?)", [1])
            seen.append((added.rowcount, added.lastrowid))
            await db.executemany("INSERT INTO effects VALUES (?)", [[2], [3]])
        async with ctx.connection() as db:
            cursor = await db.execute("SELECT n FROM effects ORDER BY n")
            seen.append([column[0] for column in cursor.description])
            seen.append([await cursor.fetchone(), *await cursor.fetchmany(1)])
            seen.append([row async for row in cursor])
            await cursor.close()
            await db.execute("INSERT INTO effects VALUES (4)")
            await db.rollback()
            await db.execute("INSERT INTO effects VALUES (5)")
            await db.commit()
            assert db.connection.in_transaction is False
        try:
            async with ctx.connection() as db:
                await db.execute("INSERT INTO effects VALUES (6)")
                raise LookupError
        except LookupError:
            pass
        async with ctx.connection() as db:
            await db.executescript("INSERT INTO effects VALUES (7); INSERT INTO effects VALUES (8)")

    assert worked(app, effect).last_error is None
    assert seen == [(1, 1), ["n"], [(1,), (2,)], [(3,)]]
    assert rows(tmp_path) == [(1,), (2,), (3,), (5,), (7,), (8,)]


@pytest.mark.parametrize("kind", ["async def", "def"])
def test_rows_have_names(app: App, kind: str) -> None:
    seen: list[Any] = []

    @app.task(name="async def", max_attempts=1, keep=60)
    async def on_loop(ctx: Context) -> None:
        seen.extend(await ctx.query("SELECT ? AS a, 2 AS b", [1]))
        assert await ctx.query("INSERT INTO effects VALUES (1)") == []
        async with ctx.transaction() as tx:
            seen.extend(await tx.execute("SELECT 1 AS a, 2 AS b"))

    @app.task(name="def", max_attempts=1, keep=60)
    def in_thread(ctx: SyncContext) -> None:
        seen.extend(ctx.query("SELECT ? AS a, 2 AS b", [1]))
        assert ctx.query("INSERT INTO effects VALUES (1)") == []
        with ctx.transaction() as tx:
            seen.extend(tx.execute("SELECT 1 AS a, 2 AS b"))

    assert worked(app, on_loop if kind == "async def" else in_thread).last_error is None
    assert len(seen) == 2
    for row in seen:
        assert row == (1, 2)
        assert (row["a"], row["b"], row[1], dict(row)) == (1, 2, 2, {"a": 1, "b": 2})
        with pytest.raises(KeyError):
            row["c"]


ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"


@pytest.mark.parametrize("kind", ["async def", "def"])
@pytest.mark.parametrize("verb", ["connection", "transaction"])
def test_a_statement_ends_when_its_handler_is_told_to_stop(app: App, kind: str, verb: str) -> None:
    """Else its thread would go on for ever, and the worker with it."""

    @app.task(name="async def", max_attempts=1, keep=60, timeout=0.3)
    async def on_loop(ctx: Context) -> None:
        async with getattr(ctx, verb)() as db:
            await db.execute(ENDLESS)

    @app.task(name="def", max_attempts=1, keep=60, timeout=0.3)
    def in_thread(ctx: SyncContext) -> None:
        with getattr(ctx, verb)() as db:
            db.execute(ENDLESS)

    job = worked(app, on_loop if kind == "async def" else in_thread)
    assert job.state is JobState.FAILED
    assert "timeout" in job.last_error


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


def test_a_blocking_connection_on_the_loop_is_refused(app: App) -> None:
    @app.task(max_attempts=1)
    async def effect(ctx: Context) -> None:
        with ctx.connection():
            pass

    assert "async with ctx.connection()" in worked(app, effect).last_error


def test_an_error_after_the_completion_is_told(app: App, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "windlass")

    @app.task(keep=60)
    async def effect(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.complete("done")
        raise RuntimeError("too late")

    async def body() -> Any:
        job = await effect.aenqueue()
        await app.run_once()
        return await app.client.get_job(job.id)

    assert run(app, body).output == "done"
    assert (
        "raised after it had completed in its transaction: RuntimeError('too late')" in caplog.text
    )


def test_a_task_shows_its_own_limit_from_the_start(app: App) -> None:
    @app.task(max_attempts=3)
    async def effect() -> None: ...

    async def body() -> Any:
        return await effect.aenqueue(), await app.client.add_job("effect", {}, max_attempts=7)

    assert [job.max_attempts for job in run(app, body)] == [3, 7]


def test_a_failure_shows_the_handler_and_not_the_way_there(app: App) -> None:
    @app.task(max_attempts=1)
    def wrong() -> None:
        raise ValueError("mine")

    async def body() -> Any:
        job = await wrong.aenqueue()
        await app.run_once()
        return await app.client.get_job(job.id)

    error = run(app, body).last_error
    assert error.startswith("ValueError: mine\n\nTraceback")
    assert "test_sqlite_handlers.py" in error and "task_handler.py" not in error


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
