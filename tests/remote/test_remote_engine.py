"""The engine works through a server as it does on a database of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.remote.serving import ADMIN, Serving, serving, token
from windlass import AbortReason, App, Context, JobSpec
from windlass.errors import ConfigError, StoreError
from windlass.model.job import JobState
from windlass.server.identity import Role

FAST: dict[str, Any] = {"poll_interval": 0.2, "reap_interval": 0.2, "lease": 5.0}


@pytest.fixture
def served(tmp_path: Path) -> Any:
    with serving(f"sqlite:///{tmp_path}/jobs.db", upkeep=True, **FAST) as server:
        yield server


def app_on(served: Serving, token: str = ADMIN, **settings: Any) -> App:
    return App(served.url, token=token, poll_interval=0.2, grace=5.0, **settings)


@asynccontextmanager
async def working(app: App, **options: Any) -> AsyncIterator[App]:
    async with app:
        runner = await app.run(handle_signals=False, **options)
        try:
            yield app
        finally:
            await runner.stop()


async def drained(app: App, queue: str | None = None) -> None:
    """Wait until no job is left that is not done."""
    async with asyncio.timeout(PATIENCE):
        while sum((await app.client.counts()).values()):
            await asyncio.sleep(0.02)


def test_jobs_are_drained(served: Serving) -> None:
    app = app_on(served)
    ran: list[int] = []

    @app.task
    async def note(n: int) -> None:
        ran.append(n)

    async def main() -> None:
        async with working(app, concurrency=5):
            await note.aenqueue_many([{"n": n} for n in range(500)])
            await asyncio.gather(*(note.aenqueue(n=n) for n in range(500, 600)))
            await drained(app)

    asyncio.run(main())
    assert sorted(ran) == list(range(600))


def test_run_once_drains_what_there_is(served: Serving) -> None:
    app = app_on(served)

    @app.task
    def quick(n: int) -> None:
        pass

    for n in range(50):
        quick.enqueue(n=n)
    try:
        assert asyncio.run(app.run_once()) == 50
    finally:
        asyncio.run(app.close())


def test_a_serial_queue_keeps_its_order(served: Serving) -> None:
    app = app_on(served)
    ran: list[int] = []
    running = 0

    @app.task(queue="one")
    async def turn(n: int) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.001)
        running -= 1
        ran.append(n)

    async def main() -> None:
        async with working(app, concurrency=5):
            for n in range(40):
                await turn.aenqueue(n=n)
            await drained(app)

    asyncio.run(main())
    assert ran == list(range(40))


def test_chains_go_on_and_wait_for_others(served: Serving) -> None:
    app = app_on(served)

    @app.task
    async def first(ctx: Context, n: int) -> Any:
        return ctx.continue_with(last, n=n + 1)

    @app.task
    async def last(n: int) -> int:
        return n * 10

    @app.task
    async def total(ctx: Context) -> int:
        return sum(chain.output for chain in ctx.blockers)

    async def main() -> None:
        async with working(app):
            chains = [await app.client.start_chain("first", {"n": n}) for n in range(3)]
            sum_of = await app.client.start_chain("total", blockers=chains)
            done = await app.client.wait_for_chain(sum_of.id, timeout=PATIENCE)
            assert done.output == 60
            assert (await app.client.get_chain(chains[0].id)).length == 2  # type: ignore[union-attr]

    asyncio.run(main())


def test_schedules_fire(served: Serving) -> None:
    app = app_on(served)
    fired = asyncio.Event()

    @app.cron("* * * * *", fill="1m")
    @app.task
    async def tick(ctx: Context) -> None:
        fired.set()

    async def main() -> None:
        async with working(app):
            known = {it.id for it in await app.client.list_schedules()}
            async with asyncio.timeout(PATIENCE):
                while "tick" not in known:
                    await asyncio.sleep(0.02)
                    known = {it.id for it in await app.client.list_schedules()}
            await app.client.trigger_schedule("tick")
            await asyncio.wait_for(fired.wait(), PATIENCE)

    asyncio.run(main())


def test_a_job_tells_how_far_it_is_and_can_be_waited_for(served: Serving) -> None:
    app = app_on(served)
    go_on = asyncio.Event()

    @app.task(keep=60)
    async def long(ctx: Context) -> dict[str, int]:
        ctx.progress(0.5, "half")
        ctx.log({"step": 1})
        await go_on.wait()
        return {"answer": 42}

    async def main() -> None:
        async with working(app):
            job = await long.aenqueue()
            async with asyncio.timeout(PATIENCE):
                while (seen := await app.client.get_job(job.id)) is None or seen.progress is None:
                    await asyncio.sleep(0.02)
            assert (seen.progress.fraction, seen.progress.note) == (0.5, "half")
            go_on.set()
            done = await app.client.wait_for(job.id, timeout=PATIENCE)
            assert done.output == {"answer": 42}
            assert [entry["step"] for entry in map(_entry, done.log)] == [1]

    asyncio.run(main())


def _entry(entry: Any) -> Any:
    return entry[1] if isinstance(entry, list) else entry


def test_a_cancel_reaches_the_handler(served: Serving) -> None:
    app = app_on(served)
    told: list[AbortReason | None] = []
    begun = asyncio.Event()

    @app.task
    async def stays(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.append(ctx.abort.reason)

    async def main() -> None:
        async with working(app):
            job = await stays.aenqueue()
            await asyncio.wait_for(begun.wait(), PATIENCE)
            await app.client.cancel_jobs([job.id])
            async with asyncio.timeout(PATIENCE):
                while (seen := await app.client.get_job(job.id)) is None or not (
                    seen.state.is_final
                ):
                    await asyncio.sleep(0.02)
            assert seen.state is JobState.CANCELLED

    asyncio.run(main())
    assert told == [AbortReason.CANCELLED]


def test_a_job_of_the_future_wakes_the_worker(served: Serving) -> None:
    """The server promotes it, and pushes a hint."""
    app = App(served.url, token=ADMIN, poll_interval=300.0)
    ran = asyncio.Event()

    @app.task
    async def later() -> None:
        ran.set()

    async def main() -> None:
        async with working(app):
            await later.using(delay=0.3).aenqueue()
            await asyncio.wait_for(ran.wait(), PATIENCE)

    asyncio.run(main())


def test_what_needs_the_database_says_so(served: Serving) -> None:
    app = app_on(served)

    @app.task(keep=60, max_attempts=1)
    async def writes(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    @app.task(keep=60, max_attempts=1)
    async def reads(ctx: Context) -> None:
        async with ctx.connection():
            pass

    async def main() -> None:
        async with working(app):
            with pytest.raises(ConfigError, match="grpc:// URL reaches a server"):
                await app.client.using(object()).add_job("writes")
            for task in (writes, reads):
                job = await task.aenqueue()
                done = await app.client.wait_for(job.id, timeout=PATIENCE)
                assert done.state is JobState.FAILED
                assert "grpc:// URL reaches a server" in (done.last_error or "")

    asyncio.run(main())


def test_a_worker_of_one_tenant_and_some_tasks(tmp_path: Path) -> None:
    """Its token says whose jobs it takes; what its handlers add is that tenant's."""
    text, known = token("w", Role.WORKER, tenant="acme", tasks=("a",))
    with serving(
        f"sqlite:///{tmp_path}/jobs.db", tokens={text: known}, upkeep=True, **FAST
    ) as served:
        app = app_on(served, text)
        ran: list[str] = []
        done = asyncio.Event()

        @app.task
        async def a(ctx: Context, who: str) -> None:
            ran.append(who)
            await ctx.add_job("b")
            done.set()

        @app.task
        async def b() -> None:
            ran.append("b")

        async def main() -> None:
            boss = app_on(served)
            async with boss:
                await boss.client.for_tenant("other").add_job("a", {"who": "other"})
                await boss.client.for_tenant("acme").add_job("a", {"who": "acme"})
                async with working(app):
                    await asyncio.wait_for(done.wait(), PATIENCE)
                [added] = await boss.client.list_jobs(task="b")
                assert (added.tenant, added.state) == ("acme", JobState.READY)
                [left] = await boss.client.list_jobs(task="a")
                assert (left.tenant, left.state) == ("other", JobState.READY)

        asyncio.run(main())
        assert ran == ["acme"]


def test_a_token_that_may_not_claim_ends_the_worker(tmp_path: Path) -> None:
    text, known = token("p", Role.PRODUCER)
    with serving(f"sqlite:///{tmp_path}/jobs.db", tokens={text: known}) as served:
        app = app_on(served, text)

        @app.task
        async def t() -> None:
            pass

        async def main() -> None:
            async with app:
                runner = await app.run(handle_signals=False)
                with pytest.raises(StoreError, match="'p' may not call renew"):
                    await asyncio.wait_for(runner.wait(), PATIENCE)

        asyncio.run(main())


@pytest.mark.slow
def test_many_jobs_in_one_call_and_one_answer(served: Serving) -> None:
    """Answers cross in parts; a call that is too long says so."""
    app = app_on(served)
    text = "x" * 200_000

    async def main() -> None:
        async with app:
            added = await app.client.add_jobs([JobSpec("t", text) for _ in range(60)])
            assert len(added) == 60
            assert {len(job.payload) for job in await app.client.list_jobs()} == {200_000}
            with pytest.raises(ValueError, match="in several"):
                await app.client.add_jobs([JobSpec("t", text) for _ in range(90)])
            assert sum((await app.client.counts()).values()) == 60

    asyncio.run(main())
