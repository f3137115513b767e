"""Enqueue middleware: around every job that Python adds, which one call stores all the same."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.engine.engine_kit import Bench, virtual
from windlass import App, ConfigError, Context, Job, JobSpec, ValidationError
from windlass.client import around

Next = Callable[[JobSpec], Any]


async def stamp(spec: JobSpec, call_next: Next) -> Any:
    """A header of the program's own."""
    return await call_next(replace(spec, meta={**(spec.meta or {}), "by": "stamp"}))


async def slow(spec: JobSpec, call_next: Next) -> Any:
    await asyncio.sleep(1)
    return await call_next(replace(spec, meta={**(spec.meta or {}), "slow": True}))


def new(*middleware: Any, url: str = "memory://") -> App:
    return App(url, enqueue_middleware=middleware)


def metas(jobs: list[Job]) -> list[Any]:
    return [job.meta for job in jobs]


# ── what goes through it ──


@virtual
async def test_every_way_to_add_a_job_goes_through_it(bench: Bench) -> None:
    app = bench.app = bench.new_app(enqueue_middleware=[stamp, slow])
    both = {"by": "stamp", "slow": True}

    @app.task
    async def t(n: int = 0) -> None: ...

    client = app.client
    jobs = [await client.add_job("other"), await t.aenqueue(n=1)]
    jobs += await client.add_jobs([JobSpec("t"), JobSpec("u", meta={"a": 1})])
    jobs += await t.using(meta={"b": 2}).aenqueue_many([{"n": 1}, {"n": 2}])
    chains = [await client.start_chain("c"), await t.astart(n=2)]
    chains += await client.start_chains([JobSpec("d"), JobSpec("e")])
    assert [{**both, **meta} for meta in metas(jobs)] == metas(jobs)
    assert jobs[3].meta == {"a": 1, **both} and jobs[4].meta == {"b": 2, **both}
    assert all(chain.job is not None and chain.job.meta == both for chain in chains)
    calls = bench.store.calls
    assert (calls["enqueue"], calls["start_chains"]) == (4, 3), "one for each call"


def test_blocking_code_goes_through_it_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = new(stamp, url=url)

    @app.task
    def t(n: int = 0) -> None: ...

    jobs = [app.sync.add_job("other"), t.enqueue(n=1), *t.enqueue_many([{"n": 1}, {"n": 2}])]
    chains = [t.start(n=1)]
    connection = sqlite3.connect(tmp_path / "jobs.db")
    joined = t.using(connection=connection)
    jobs += [joined.enqueue(n=3), *joined.enqueue_many([{"n": 4}, {"n": 5}])]
    jobs += app.sync.using(connection).add_jobs([JobSpec("t"), JobSpec("u")])
    chains += [joined.start(n=2), app.sync.using(connection).start_chain("t")]
    connection.commit()
    connection.close()
    assert metas(jobs) == [{"by": "stamp"}] * len(jobs)
    assert [chain.job.meta for chain in chains if chain.job] == [{"by": "stamp"}] * 3
    asyncio.run(app.close())


def test_on_a_connection_of_blocking_code_nothing_can_be_waited_for(tmp_path: Path) -> None:
    app = new(slow, url=f"sqlite:///{tmp_path}/jobs.db")
    asyncio.run(app.migrate())
    connection = sqlite3.connect(tmp_path / "jobs.db")
    with pytest.raises(ConfigError, match="waits for something"):
        app.sync.using(connection).add_job("t")
    connection.close()
    assert app.sync.list_jobs() == []
    asyncio.run(app.close())


@virtual
async def test_what_a_handler_adds_starts_and_goes_on_with(bench: Bench) -> None:
    app = bench.app = bench.new_app(enqueue_middleware=[stamp], keep=60.0)
    told: list[Any] = []

    async def tell(spec: JobSpec, call_next: Next) -> Any:
        told.append((spec.task, await call_next(spec)))

    app.enqueue_middleware.append(tell)

    @app.task
    async def first(ctx: Context) -> Any:
        await ctx.add_job("added")
        ctx.start("started", meta={"own": 1})
        return ctx.continue_with("second")

    @app.task
    def second(ctx: Context) -> Any:
        """In a thread."""
        return ctx.continue_with("third", meta={"own": 2})

    async def nothing() -> None: ...

    for name in ("added", "started", "third"):
        app.task(name=name)(nothing)
    await app.client.start_chain("first", meta={"trace": "x"})
    await bench.start()
    await bench.idle()
    found = {job.task: job.meta for job in await app.client.list_jobs()}
    assert found == {
        "first": {"trace": "x", "by": "stamp"},
        "added": {"by": "stamp"},
        "started": {"own": 1, "by": "stamp"},
        "second": {"trace": "x", "by": "stamp"},
        "third": {"own": 2, "by": "stamp"},
    }, "a continuation inherits the meta of the job before where it is given none"
    stored = {task: job is not None for task, job in told}
    assert stored == {
        "first": True,
        "added": True,
        "started": False,
        "second": False,
        "third": False,
    }, "what is stored with another job's completion is not stored yet"


@virtual
async def test_a_continuation_cannot_wait(bench: Bench) -> None:
    app = bench.app = bench.new_app(keep=60.0)

    @app.task(max_attempts=1)
    async def first(ctx: Context) -> Any:
        return ctx.continue_with("second")

    chain = await app.client.start_chain("first")
    app.enqueue_middleware.append(slow)
    await bench.start()
    await bench.idle()
    job = await app.client.get_job(chain.id)
    assert job is not None and job.last_error is not None
    assert "an enqueue middleware waits for something" in job.last_error


# ── order, contexts ──

LEVEL: ContextVar[tuple[str, ...]] = ContextVar("level", default=())


def level(name: str, seen: list[Any]) -> Any:
    async def middleware(spec: JobSpec, call_next: Next) -> Any:
        LEVEL.set((*LEVEL.get(), name))
        await asyncio.sleep(0)
        seen.append((spec.payload, *LEVEL.get()))
        answer = await call_next(spec)
        assert LEVEL.get()[-1] == name or len(LEVEL.get()) > 1
        return answer

    return middleware


@virtual
async def test_the_first_is_outermost(bench: Bench) -> None:
    seen: list[Any] = []
    app = bench.new_app(enqueue_middleware=[level("a", seen), level("b", seen)])
    await app.client.add_job("t", 1)
    assert seen == [(1, "a"), (1, "a", "b")]


@virtual
async def test_jobs_of_one_call_do_not_see_each_others_context(bench: Bench) -> None:
    seen: list[Any] = []
    app = bench.new_app(enqueue_middleware=[level("a", seen)])
    await app.client.add_jobs([JobSpec("t", n) for n in range(3)])
    assert seen == [(n, "a") for n in range(3)]
    assert LEVEL.get() == ()


@virtual
async def test_together_is_called_once_for_all(bench: Bench) -> None:
    class Counting:
        calls: list[int] = []  # noqa: RUF012

        async def together(self, specs: Any, call_next: Any) -> Any:
            self.calls.append(len(specs))
            return await call_next([replace(spec, meta={"n": len(specs)}) for spec in specs])

    app = bench.new_app(enqueue_middleware=[stamp, Counting()])
    jobs = await app.client.add_jobs([JobSpec("t"), JobSpec("u")])
    await app.client.add_job("t")
    assert Counting.calls == [2, 1]
    assert metas(jobs) == [{"n": 2}] * 2


@virtual
async def test_what_comes_out_is_checked_as_what_goes_in(bench: Bench) -> None:
    async def spoil(spec: JobSpec, call_next: Next) -> Any:
        return await call_next(replace(spec, payload={"n": "seven"}))

    app = bench.new_app(enqueue_middleware=[spoil])

    @app.task
    async def t(n: int) -> None: ...

    for adding in (t.aenqueue(n=1), t.aenqueue_many([{"n": 1}] * 2), t.astart(n=1)):
        with pytest.raises(ValidationError):
            await adding
    with pytest.raises(ValidationError):
        await app.client.add_jobs("no specs")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        await t.aenqueue_many("no payloads")  # type: ignore[arg-type]
    assert bench.store.calls["enqueue"] == 0


# ── failures ──


@virtual
async def test_if_one_fails_nothing_is_stored_and_all_are_told(bench: Bench) -> None:
    seen: list[Any] = []

    async def watch(spec: JobSpec, call_next: Next) -> Any:
        if spec.payload == 2:
            raise RuntimeError("not this one")
        try:
            return await call_next(spec)
        except RuntimeError as error:
            seen.append((spec.payload, str(error)))
            await asyncio.sleep(0)
            raise ValueError("of its own") from error
        finally:
            seen.append(spec.payload)

    app = bench.new_app(enqueue_middleware=[watch])
    with pytest.raises(RuntimeError, match="not this one"):
        await app.client.add_jobs([JobSpec("t", n) for n in range(4)])
    assert seen == [(0, "not this one"), 0, (1, "not this one"), 1]
    assert bench.store.calls["enqueue"] == 0


@virtual
async def test_a_refusal_of_the_store_reaches_all(bench: Bench) -> None:
    seen: list[str] = []

    async def watch(spec: JobSpec, call_next: Next) -> Any:
        try:
            return await call_next(spec)
        except ValidationError as error:
            seen.append(type(error).__name__)
            raise

    app = bench.new_app(enqueue_middleware=[watch])
    for count in (1, 3):
        seen.clear()
        with pytest.raises(ValidationError):
            await app.client.add_jobs([JobSpec("t", queue="")] * count)
        assert len(seen) == count


async def forgets(spec: JobSpec, call_next: Next) -> Any:
    return None


async def twice(spec: JobSpec, call_next: Next) -> Any:
    await call_next(spec)
    return await call_next(spec)


async def misunderstands(spec: JobSpec, call_next: Any) -> Any:
    return await call_next("spec")


class Forgets:
    async def together(self, specs: Any, call_next: Any) -> Any:
        return []


class Drops:
    async def together(self, specs: Any, call_next: Any) -> Any:
        return await call_next(specs[1:])


@pytest.mark.parametrize(
    ("middleware", "words"),
    [
        (forgets, "forgets did not call call_next"),
        (twice, "twice called call_next twice"),
        (misunderstands, "takes a JobSpec"),
        (Forgets(), "did not call call_next"),
        (Drops(), "passes all specs on"),
    ],
)
@pytest.mark.parametrize("count", [1, 3])
@virtual
async def test_a_middleware_calls_call_next_once(
    bench: Bench, middleware: Any, words: str, count: int
) -> None:
    app = bench.new_app(enqueue_middleware=[middleware])
    with pytest.raises(ConfigError, match=words):
        await app.client.add_jobs([JobSpec("t", n) for n in range(count)])


# ── without it ──


@virtual
async def test_without_middleware_nothing_is_done_for_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("nothing goes through")

    for module in ("client", "chains", "blocking"):
        monkeypatch.setattr(f"windlass.client.{module}.through", never)
    monkeypatch.setattr(around, "through", never)
    app = bench.app

    @app.task
    async def t(ctx: Context, left: int = 0) -> Any:
        return ctx.continue_with(t, left=left - 1) if left else None

    await t.aenqueue(left=1)
    await t.aenqueue_many([{}] * 2)
    await t.astart(left=1)
    await app.client.add_jobs([JobSpec("t")])
    await app.client.start_chains([JobSpec("t")])
    await bench.start()
    await bench.idle()
    assert (await app.client.counts())["failed"] == 0
