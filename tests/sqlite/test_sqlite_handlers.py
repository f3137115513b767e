"""Handlers on a real file: their transactions, and the jobs they add inside them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from windlass import App, Context, JobState, SyncContext


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

    assert [job.payload for job in run(app, body)] == [{"n": 1}, {"n": 2}]
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
