"""Spans of jobs: who is whose parent, what they say, and that no job suffers from them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from tests.engine import process_tasks
from tests.engine.engine_kit import Bench, virtual
from windlass import App, Context, Failed, JobSpec, Nack, Poison, Retry, RetryAfter
from windlass.errors import StoreUnavailableError
from windlass.model.payload import MAX_META
from windlass.tracing import trace_jobs


class Spans:
    """What one provider was told of, and how its spans hang together."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        found = [span for span in self.all if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def id_of(span: ReadableSpan) -> int:
    return context_of(span).span_id


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def traced(bench: Bench, **options: Any) -> tuple[App, Spans]:
    spans = Spans()
    app = bench.app = bench.new_app(**options)
    trace_jobs(app, spans.provider)
    return app, spans


@virtual
async def test_a_job_hangs_below_its_enqueue_and_the_enqueue_below_its_caller(
    bench: Bench,
) -> None:
    app, spans = traced(bench)
    inside: list[int] = []

    @app.task
    async def t() -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)
        await asyncio.sleep(1)
        inside.append(trace.get_current_span().get_span_context().span_id)

    with spans.tracer.start_as_current_span("request"):
        job = await t.using(queue="q").aenqueue()
    runner = await bench.start()
    await bench.idle()
    request, enqueue, run = (spans.one(name) for name in ("request", "enqueue t", "run t"))
    assert parent_of(enqueue) == id_of(request)
    assert parent_of(run) == id_of(enqueue)
    assert inside == [id_of(run)] * 2
    assert (enqueue.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert attributes(enqueue) == {
        "messaging.system": "windlass",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "t",
        "messaging.message.id": str(job.id),
    }
    assert attributes(run) == {
        "messaging.system": "windlass",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "t",
        "messaging.message.id": str(job.id),
        "messaging.client.id": runner.worker.id,
        "windlass.attempt": 1,
        "windlass.queue": "q",
    }
    assert job.meta["traceparent"].split("-")[1:3] == [
        f"{context_of(enqueue).trace_id:032x}",
        f"{id_of(enqueue):016x}",
    ]


@virtual
async def test_attempts_are_siblings_and_a_chain_is_one_trace(bench: Bench) -> None:
    app, spans = traced(bench, retry=Retry.fixed(5))

    @app.task
    async def first(ctx: Context) -> Any:
        if ctx.job.attempts == 1:
            raise RuntimeError("not yet")
        await side.aenqueue()
        ctx.start(side)
        return ctx.continue_with(second)

    @app.task
    def second(ctx: Context) -> None:
        """In a thread, whose jobs belong to it too."""
        _ = ctx.add_job("side")

    @app.task
    async def side() -> None: ...

    chain = await first.astart()
    await bench.start()
    await asyncio.sleep(60)
    trace_ids = {context_of(span).trace_id for span in spans.all}
    assert len(trace_ids) == 1
    start = spans.one("enqueue first")
    failed, done = spans.named("run first")
    assert parent_of(failed) == parent_of(done) == id_of(start)
    assert [attributes(span)["windlass.attempt"] for span in (failed, done)] == [1, 2]
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "RuntimeError: not yet"
    assert attributes(failed)["error.type"] == "builtins.RuntimeError"
    assert [event.name for event in failed.events] == ["exception"]
    assert done.status.status_code is StatusCode.UNSET
    going_on = spans.one("enqueue second")
    assert parent_of(going_on) == id_of(done)
    last = spans.one("run second")
    assert parent_of(last) == id_of(going_on)
    assert attributes(last)["messaging.message.conversation_id"] == str(chain.id)
    parents = [parent_of(span) for span in spans.named("enqueue side")]
    assert sorted(parents, key=str) == sorted([id_of(done), id_of(done), id_of(last)], key=str)
    runs = {parent_of(span) for span in spans.named("run side")}
    assert runs == {id_of(span) for span in spans.named("enqueue side")}


@virtual
async def test_many_jobs_of_a_call_have_one_span(bench: Bench) -> None:
    app, spans = traced(bench)

    @app.task
    async def t() -> None: ...

    plain = bench.new_app()
    await plain.client.add_jobs([JobSpec("t")] * 3)
    before = dict(bench.store.calls)
    bench.store.calls.clear()
    await t.aenqueue_many([{}] * 50)
    assert bench.store.calls == before, "and one statement, as without"
    await app.client.add_jobs([JobSpec("t"), JobSpec("u")])
    many, mixed = spans.one("enqueue t"), spans.one("enqueue")
    assert attributes(many)["messaging.batch.message_count"] == 50
    assert "messaging.message.id" not in attributes(many)
    assert "messaging.destination.name" not in attributes(mixed)
    await app.client.cancel_jobs([job.id for job in await app.client.list_jobs(task="u")])
    await bench.start()
    await bench.idle()
    runs = spans.named("run t")
    assert len(runs) == 54
    assert [parent_of(span) for span in runs].count(id_of(many)) == 50
    assert sum(span.parent is None for span in runs) == 3, "jobs without headers begin a trace"


@pytest.mark.parametrize(
    ("how", "status", "event"),
    [
        ("retry", StatusCode.UNSET, "retry"),
        ("nack", StatusCode.UNSET, "retry"),
        ("failed", StatusCode.ERROR, None),
        ("poison", StatusCode.ERROR, "exception"),
        ("timeout", StatusCode.ERROR, "exception"),
        ("cancelled", StatusCode.UNSET, None),
    ],
)
@virtual
async def test_what_a_span_says_of_its_end(
    bench: Bench, how: str, status: StatusCode, event: str | None
) -> None:
    app, spans = traced(bench)

    @app.task(timeout=3)
    async def t() -> Any:
        match how:
            case "retry":
                raise RetryAfter(1000)
            case "nack":
                return Nack(1000, "later")
            case "failed":
                return Failed("no luck")
            case "poison":
                raise Poison("never")
        return await asyncio.sleep(1000)

    job = await t.using(max_attempts=1).aenqueue()
    await bench.start()
    if how == "cancelled":
        await asyncio.sleep(1)
        await app.client.cancel_jobs([job.id])
    await asyncio.sleep(10)
    run = spans.one("run t")
    stopped = how if how in ("timeout", "cancelled") else None
    assert attributes(run).get("windlass.stopped") == stopped
    assert run.status.status_code is status
    assert [found.name for found in run.events] == ([] if event is None else [event])


@virtual
async def test_an_enqueue_that_fails_says_so(bench: Bench) -> None:
    app, spans = traced(bench)
    bench.store.is_down = True
    for count in (1, 2):
        with pytest.raises(StoreUnavailableError):
            await app.client.add_jobs([JobSpec("t")] * count)
    for span in spans.named("enqueue t"):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"].endswith("StoreUnavailableError")


@virtual
async def test_a_tenants_jobs_say_whose_they_are(bench: Bench) -> None:
    app, spans = traced(bench)

    @app.task
    async def t() -> None: ...

    await app.client.for_tenant("acme").add_job("t")
    await bench.start()
    await bench.idle()
    assert attributes(spans.one("run t"))["windlass.tenant"] == "acme"


@virtual
async def test_headers_of_ones_own_stay_and_none_costs_a_job_its_place(bench: Bench) -> None:
    app, _ = traced(bench)
    job = await app.client.add_job("t", meta={"own": 1})
    assert job.meta["own"] == 1 and "traceparent" in job.meta
    full = {"own": "x" * (MAX_META - len('{"own":""}') - 10)}
    job = await app.client.add_job("t", meta=full)
    assert job.meta == full, "where there is no room for it, the trace ends there"


@pytest.mark.parametrize("meta", [{"traceparent": "nonsense"}, {"traceparent": 7}, {"a": 1}])
@virtual
async def test_headers_that_cannot_be_read_begin_a_trace(bench: Bench, meta: Any) -> None:
    await bench.app.client.add_job("t", meta=meta)
    app, spans = traced(bench)

    @app.task
    async def t() -> None: ...

    await bench.start()
    await bench.idle()
    assert spans.one("run t").parent is None


@virtual
async def test_without_an_sdk_nothing_is_added_to_jobs(bench: Bench) -> None:
    app = bench.app = bench.new_app()
    trace_jobs(app, trace.NoOpTracerProvider())

    @app.task
    async def t() -> None: ...

    jobs = await t.aenqueue_many([{}] * 2)
    assert [job.meta for job in jobs] == [None, None]
    await bench.start()
    await bench.idle()
    assert (await app.client.counts())["failed"] == 0


def test_a_process_of_its_own_goes_on_with_the_span() -> None:
    """What it adds, and what it looks at, is below the span that the worker keeps."""
    spans = Spans()
    app = App("memory://", keep=60.0)
    trace_jobs(app, spans.provider)
    task = app.task(executor="process")(process_tasks.tell_trace)
    app.task(name="added")(process_tasks.work)

    async def body() -> Any:
        async with app:
            job = await task.aenqueue()
            await app.run_once()
            return (await app.client.wait_for(job.id)).output

    told = asyncio.run(body())
    run = spans.one("run tell_trace")
    assert told == f"{id_of(run):016x}"
    assert parent_of(spans.one("enqueue added")) == id_of(run)
