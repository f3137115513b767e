"""What surrounds a handler: middleware, lifespan, events, hooks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.engine.engine_kit import Bench, virtual, wait_until
from windlass import App, Context, Events, JobState, Poison, Retry
from windlass.errors import ConfigError, StoreUnavailableError


@virtual
async def test_middleware_is_an_onion(bench: Bench) -> None:
    def layer(name: str) -> Any:
        async def around(ctx: Context, call_next: Any) -> Any:
            bench.seen.append(f"{name} in {ctx.job.task}")
            value = await call_next(ctx) if name == "outer" else await call_next()
            bench.seen.append(f"{name} out")
            return f"{name}({value})"

        return around

    app = bench.new_app(middleware=[layer("outer"), layer("inner")])

    @app.task(keep=60)
    async def t() -> str:
        bench.seen.append("handler")
        return "value"

    job = await t.aenqueue()
    await bench.start(app)
    done = await app.client.wait_for(job.id)
    assert bench.seen == ["outer in t", "inner in t", "handler", "inner out", "outer out"]
    assert done.output == "outer(inner(value))"


@virtual
async def test_middleware_may_answer_itself_or_raise(bench: Bench) -> None:
    async def gate(ctx: Context, call_next: Any) -> Any:
        if ctx.job.payload["kind"] == "short":
            return "from the gate"
        if ctx.job.payload["kind"] == "raise":
            raise Poison("refused at the gate")
        try:
            return await call_next(ctx)
        except ValueError:
            return "caught"

    app = bench.new_app(middleware=[gate])

    @app.task(keep=60)
    async def t(kind: str) -> str:
        bench.seen.append(kind)
        raise ValueError

    jobs = [await t.aenqueue(kind=kind) for kind in ("short", "raise", "caught")]
    await bench.start(app)
    ended = [await app.client.wait_for(job.id) for job in jobs]
    assert [job.output for job in ended] == ["from the gate", None, "caught"]
    assert ended[1].state is JobState.FAILED
    assert bench.seen == ["caught"]


@virtual
async def test_middleware_of_a_thread_task_is_given_an_async_context(bench: Bench) -> None:
    async def layer(ctx: Context, call_next: Any) -> Any:
        await ctx.add_job("audit", {"job": ctx.job.id})
        return await call_next(ctx)

    app = bench.new_app(middleware=[layer])

    @app.task(keep=60)
    def t(ctx: Context) -> str:
        job: Any = ctx.add_job("other")
        return str(job.task)

    job = await t.aenqueue()
    await bench.start(app)
    assert (await app.client.wait_for(job.id)).output == "other"
    assert len(await app.client.list_jobs(task="audit")) == 1


@pytest.mark.parametrize("takes_app", [True, False])
@virtual
async def test_lifespan_gives_each_worker_its_state(bench: Bench, takes_app: bool) -> None:
    @asynccontextmanager
    async def with_app(app: App) -> AsyncIterator[dict[str, int]]:
        bench.seen.append(type(app).__name__)
        yield {"n": 7}
        bench.seen.append("closed")

    @asynccontextmanager
    async def without() -> AsyncIterator[dict[str, int]]:
        bench.seen.append("App")
        yield {"n": 7}
        bench.seen.append("closed")

    app = bench.new_app(lifespan=with_app if takes_app else without)

    @app.task
    async def t(ctx: Context) -> None:
        bench.seen.append(ctx.state["n"])

    await t.aenqueue()
    runner = await bench.start(app)
    await bench.idle()
    await runner.stop()
    assert bench.seen == ["App", 7, "closed"]


def listen(events: Events, seen: list[Any], *names: str) -> None:
    for name in names:
        events.on(name, lambda name=name, **details: seen.append((name, sorted(details))))


@virtual
async def test_the_events_of_a_job_that_succeeds(bench: Bench) -> None:
    events = Events()
    listen(
        events, bench.seen, "job:start", "job:success", "job:complete", "job:error", "job:failed"
    )
    app = bench.new_app(events=events)

    @app.task
    async def t() -> None: ...

    await t.aenqueue()
    await bench.start(app)
    await bench.idle()
    assert bench.seen == [
        ("job:start", ["job", "worker"]),
        ("job:success", ["job", "worker"]),
        ("job:complete", ["error", "job", "worker"]),
    ]


@virtual
async def test_the_events_of_a_job_that_fails(bench: Bench) -> None:
    events = Events()
    app = bench.new_app(events=events)
    for name in ("job:start", "job:success", "job:complete", "job:error", "job:failed"):
        events.on(
            name,
            lambda name=name, job=None, error=None, **_: bench.seen.append(
                (name, job.attempts, type(error).__name__)
            ),
        )

    @app.task(max_attempts=2, retry=Retry.fixed(1))
    async def t() -> None:
        raise KeyError("x")

    await t.aenqueue()
    await bench.start(app)
    await asyncio.sleep(5)
    assert bench.seen == [
        ("job:start", 1, "NoneType"),
        ("job:error", 1, "KeyError"),
        ("job:complete", 1, "KeyError"),
        ("job:start", 2, "NoneType"),
        ("job:error", 2, "KeyError"),
        ("job:failed", 2, "KeyError"),
        ("job:complete", 2, "KeyError"),
    ]


@virtual
async def test_the_events_of_a_worker_s_life(bench: Bench) -> None:
    events = Events()
    names = (
        "pool:create",
        "pool:listen:connecting",
        "pool:listen:success",
        "worker:create",
        "pool:gracefulShutdown",
        "worker:release",
        "worker:stop",
        "pool:release",
        "stop",
    )
    for name in names:
        events.on(name, lambda name=name, **_: bench.seen.append(name))
    app = bench.new_app(events=events)

    @app.task
    async def t() -> None: ...

    runner = await bench.start(app)
    await wait_until(lambda: "pool:listen:success" in bench.seen)
    await runner.stop()
    assert bench.seen == [
        "pool:create",
        "pool:listen:connecting",
        "worker:create",
        "pool:listen:success",
        "pool:gracefulShutdown",
        "worker:release",
        "worker:stop",
        "pool:release",
        "stop",
    ]


@virtual
async def test_a_listener_that_raises_hurts_nobody(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    events = Events()

    @events.on("job:success")
    def bad(**details: Any) -> None:
        raise RuntimeError("listener")

    @events.on("job:start")
    async def bad_too(**details: Any) -> None:
        raise RuntimeError("async listener")

    app = bench.new_app(events=events)

    @app.task
    async def t() -> None:
        await asyncio.sleep(1)

    jobs = await t.aenqueue_many([{}, {}])
    await bench.start(app)
    await bench.idle()
    assert [await bench.gone(job) for job in jobs] == [True, True]
    assert "a listener of job:success raised" in caplog.text
    assert "a listener of job:start raised" in caplog.text


class Hooked:
    """A generic handler with every hook."""

    def __init__(self, seen: list[Any], store: Any) -> None:
        self.seen = seen
        self.store = store
        self.vetoes = 0

    def pre_dequeue(self) -> bool:
        self.seen.append("pre_dequeue")
        self.vetoes -= 1
        return self.vetoes < 0

    async def pre_handle(self, ctx: Context, record: Any) -> None:
        self.seen.append(f"pre_handle {record.id}")
        if record.payload.get("bad"):
            raise Poison("hook says no")

    async def handle(self, ctx: Context, store: Any, record: Any) -> Any:
        assert store is self.store
        self.seen.append(f"handle {record.id}")
        return {"seen": record.id}

    async def post_handle(self, ctx: Context, record: Any) -> None:
        job = await self.store.get(record.id)
        self.seen.append(f"post_handle {record.id} {job.state if job else 'gone'}")


@virtual
async def test_hooks_run_in_order_and_post_handle_after_the_outcome_is_stored(
    bench: Bench,
) -> None:
    hooked = Hooked(bench.seen, bench.store)
    job = await bench.add("t", keep=60)
    bad = await bench.add("t", {"bad": True})
    await bench.start_object(hooked, slots=1)
    await bench.idle()
    said = {each.id: [line for line in bench.seen if f" {each.id}" in line] for each in (job, bad)}
    assert said[job.id] == [
        f"pre_handle {job.id}",
        f"handle {job.id}",
        f"post_handle {job.id} completed",
    ]
    assert said[bad.id] == [f"pre_handle {bad.id}", f"post_handle {bad.id} failed"]
    assert bench.seen[0] == "pre_dequeue"
    assert {request.limit for _, request, _ in bench.ledger.claims} == {1}, "one by one"


@virtual
async def test_a_slow_post_handle_keeps_no_outcome_from_being_written(bench: Bench) -> None:
    class Slow:
        running = most = ended = 0

        async def handle(self, ctx: Context, store: Any, record: Any) -> None: ...

        async def post_handle(self, ctx: Context, record: Any) -> None:
            assert await bench.gone(record)
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(100)
            self.running -= 1
            self.ended += 1

    slow = Slow()
    for _ in range(30):
        await bench.add("t")
    worker = await bench.start_object(slow, slots=2, prefetch=0, grace=2_000.0)
    await asyncio.sleep(50)
    assert slow.ended == 0
    assert slow.most == 2, "a slot is taken until the post_handle of its record has ended"
    await asyncio.sleep(1_000)
    ended = slow.ended
    assert ended >= 18
    await worker.stop()
    assert slow.running == 0 and slow.ended > ended, "a stop waits for them"


@virtual
async def test_pre_dequeue_vetoes_until_the_next_poll(bench: Bench) -> None:
    hooked = Hooked(bench.seen, bench.store)
    hooked.vetoes = 3
    job = await bench.add("t")
    await bench.start_object(hooked, slots=2, poll_interval=2.0)
    await asyncio.sleep(5)
    assert bench.ledger.claims == []
    await asyncio.sleep(2)
    assert await bench.gone(job)


@virtual
async def test_a_post_handle_that_raises_is_logged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    class Bad:
        def handle(self, ctx: Context, store: Any, record: Any) -> None: ...

        def post_handle(self, ctx: Context, record: Any) -> None:
            raise RuntimeError("after")

    job = await bench.add("t")
    await bench.start_object(Bad())
    await bench.idle()
    await asyncio.sleep(1)
    assert await bench.gone(job)
    assert f"post_handle raised after job {job.id}" in caplog.text


@virtual
async def test_a_plain_function_is_a_generic_handler_too(bench: Bench) -> None:
    def handle(ctx: Context, store: Any, record: Any) -> str:
        bench.seen.append(record.task)
        return "out"

    job = await bench.add("b", keep=60)
    worker = await bench.start_object(handle, tasks=("a", "b"), plan={"max_attempts": 3})
    assert worker.tasks == ("a", "b")
    done = await bench.app.client.wait_for(job.id)
    assert (done.output, bench.seen) == ("out", ["b"])


@virtual
async def test_unknown_events_are_refused(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="no event is called 'job:done'"):
        bench.app.events.on("job:done", print)


@virtual
async def test_what_the_log_says_of_each_end(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="windlass")
    from windlass import Abandon

    @bench.app.task(max_attempts=2, retry=Retry.fixed(1))
    async def t(kind: str) -> Any:
        bench.seen.append(kind)
        if kind == "fail":
            raise ValueError("boom")
        if kind == "sleep":
            await asyncio.sleep(60)
        if kind == "abandon" and bench.seen.count(kind) == 1:
            return Abandon()
        return None

    for kind in ("ok", "fail", "abandon"):
        await t.aenqueue(kind=kind)
    job = await t.aenqueue(kind="sleep")
    await bench.start()
    await asyncio.sleep(3)
    await bench.app.client.cancel_jobs([job.id])
    await asyncio.sleep(3)
    assert "completed in 0.0 ms" in caplog.text
    assert "attempt 1 of 2 failed, again in 1.0 s: ValueError: boom" in caplog.text
    assert "failed for good: ValueError: boom" in caplog.text
    assert "handed back" in caplog.text
    assert any(r.getMessage() == "cancelled" for r in caplog.records)
    record = next(r for r in caplog.records if r.getMessage().startswith("failed for good"))
    assert (record.label, record.task) == ("job", "t")  # type: ignore[attr-defined]


@virtual
async def test_a_worker_that_cannot_start_closes_its_lifespan(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield None
        bench.seen.append("closed")

    def broken() -> Any:
        raise StoreUnavailableError("no connection left")

    app = bench.new_app(lifespan=lifespan)

    @app.task
    async def t() -> None: ...

    monkeypatch.setattr(bench.store, "lifeline", broken)
    with pytest.raises(StoreUnavailableError):
        await bench.start(app)
    assert bench.seen == ["closed"]
