"""Streams of producers, without sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.server.streams.desk import InlineLeases, Stream, desk, run
from windlass import App
from windlass.errors import StoreUnavailableError, ValidationError
from windlass.model.job import JobState
from windlass.server.streams.additions import AWAY
from windlass.server.streams.edges import Status
from windlass.server.streams.texts import handed_out, stored
from windlass.server.streams.turns import MOST_IN_BATCH, TOO_MANY
from windlass.testing import VirtualClock, run_virtual
from windlass.wire import windlass_pb2 as pb


async def created(stream: Stream, **task: Any) -> Any:
    stream.say(create_task=pb.CreateTask(**{"seq": 1, "command": "mail", **task}))
    return await stream.hear(pb.CreateAck)


def test_a_job_is_what_was_asked_for() -> None:
    async def body() -> None:
        allowed = ["127.0.0.1"]
        async with desk(app_settings={"keep": 3_600.0}, webhook_allow=allowed) as it:
            token = await it.token("shop", "producer", tenant="acme")
            stream = it.producer()
            stream.say(hello=pb.ProducerHello(token=token))
            ack = await stream.hear(pb.ProducerHelloAck)
            assert (ack.tenant_id, ack.subject) == ("acme", "shop")
            made = await created(
                stream,
                seq=2**63,
                payload=b'{"a": [1, "\xc3\xbc"]}',
                priority=9,
                webhook="http://127.0.0.1:8000/end",
                max_attempts=3,
                delay_seconds=60,
                trace_parent="00-1-2-01",
                trace_state="a=b",
            )
            assert (made.seq, made.ok) == (2**63, True)
            job = await it.app.client.for_tenant("acme").get_job(int(made.task_id))
            assert job is not None
            assert (job.task, job.payload, job.tenant) == ("mail", {"a": [1, "ü"]}, "acme")
            assert (job.priority, job.max_attempts, job.keep) == (-9, 3, 3_600.0)
            assert job.state is JobState.SCHEDULED
            assert (job.run_at - job.created_at).total_seconds() == pytest.approx(60, abs=1)
            assert job.meta == {
                "webhook": "http://127.0.0.1:8000/end",
                "traceparent": "00-1-2-01",
                "tracestate": "a=b",
            }

    run(body)


@pytest.mark.parametrize(
    ("asked", "priority"), [(0, 0), (5, -5), (9, -9), (10, -9), (2**31 - 1, -9), (-3, 0)]
)
def test_a_priority_is_turned_round_and_cut(asked: int, priority: int) -> None:
    async def body() -> None:
        async with desk() as it:
            made = await created(await it.producing(), priority=asked)
            job = await it.app.client.get_job(int(made.task_id))
            assert job is not None and job.priority == priority

    run(body)


def test_run_at_wins_over_a_delay_and_the_past_is_now() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            task = pb.CreateTask(seq=1, command="mail", delay_seconds=60)
            task.run_at.FromJsonString("2020-01-01T00:00:00Z")
            stream.say(create_task=task)
            made = await stream.hear(pb.CreateAck)
            job = await it.app.client.get_job(int(made.task_id))
            assert job is not None and job.state is JobState.READY

    run(body)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ({"command": ""}, "command is required"),
        ({"command": "   "}, "command is required"),
        ({"command": "x" * 129}, "129 characters"),
        ({"command": "a\x00b"}, "NUL"),
        ({"command": "windlass.webhook"}, "windlass."),
        ({"delay_seconds": -1}, "delay_seconds"),
        ({"max_attempts": -1}, "max_attempts"),
        ({"webhook": "http://127.0.0.1/"}, "no public address"),
        ({"webhook": "nonsense"}, "webhook"),
        ({"idempotency_key": "k" * 513}, "513 characters"),
        ({"payload": b'"' + b"x" * 300_000 + b'"'}, "the limit is"),
        ({"payload": b"\xff" * 250_000}, "the limit is"),
    ],
)
def test_a_wrong_request_fails_alone(task: dict[str, Any], why: str) -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            good = pb.CreateTask(seq=7, command="mail")
            wrong = pb.CreateTask(**{"seq": 8, "command": "mail", **task})
            stream.say(create_task_batch=pb.CreateTaskBatch(tasks=[good, wrong, good]))
            acks = (await stream.hear(pb.CreateAckBatch)).acks
            assert [(ack.seq, ack.ok) for ack in acks] == [(7, True), (8, False), (7, True)]
            assert why in acks[1].error_message
            assert not acks[1].task_id
            assert sum((await it.app.client.counts()).values()) == 2

    run(body)


def test_a_far_run_at_is_refused() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            task = pb.CreateTask(seq=1, command="mail")
            task.run_at.seconds = 2**62
            stream.say(create_task=task)
            assert "9999" in (await stream.hear(pb.CreateAck)).error_message

    run(body)


def test_all_of_a_chunk_is_one_write_and_one_send() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            calls: list[int] = []
            store: Any = it.app.store
            enqueue = store.enqueue

            async def counted(jobs: Any) -> Any:
                calls.append(len(jobs))
                return await enqueue(jobs)

            store.enqueue = counted
            stream.edge.chunks.clear()
            event = pb.ProducerEvent(create_task=pb.CreateTask(seq=5, command="mail"))
            batch = pb.CreateTaskBatch(tasks=[pb.CreateTask(seq=6, command="mail")] * 100)
            stream.say_all(*[event] * 50, pb.ProducerEvent(create_task_batch=batch))
            for _ in range(50):
                assert (await stream.hear(pb.CreateAck)).ok
            assert len((await stream.hear(pb.CreateAckBatch)).acks) == 100
            assert calls == [150]
            assert stream.edge.chunks == [51]

    run(body)


def test_an_empty_batch_gets_an_empty_ack() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            stream.say(create_task_batch=pb.CreateTaskBatch())
            assert len((await stream.hear(pb.CreateAckBatch)).acks) == 0

    run(body)


def test_a_key_stands_for_one_job_and_no_other_payload() -> None:
    async def body() -> None:
        async with desk() as it:
            stream, other = await it.producing(), await it.producing()
            first = await created(stream, idempotency_key="k", payload=b"1")
            again = await created(other, idempotency_key="k", payload=b" 1")
            assert (again.ok, again.task_id) == (True, first.task_id)
            conflict = await created(other, idempotency_key="k", payload=b"2")
            assert (conflict.ok, "idempotency" in conflict.error_message) == (False, True)
            assert sum((await it.app.client.counts()).values()) == 1

    run(body)


def test_what_the_store_refuses_fails_alone() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            store: Any = it.app.store
            enqueue = store.enqueue

            async def picky(jobs: Any) -> Any:
                if any(job.payload == '"no"' for job in jobs):
                    raise ValidationError("not this one", field="payload")
                return await enqueue(jobs)

            store.enqueue = picky
            tasks = [
                pb.CreateTask(seq=at, command="mail", payload=b'"no"' if at == 5 else b"1")
                for at in range(9)
            ]
            stream.say(create_task_batch=pb.CreateTaskBatch(tasks=tasks))
            acks = (await stream.hear(pb.CreateAckBatch)).acks
            assert [ack.ok for ack in acks] == [at != 5 for at in range(9)]
            assert acks[5].error_message == "not this one"

            async def away(jobs: Any) -> Any:
                raise StoreUnavailableError("db.example does not answer")

            store.enqueue = away
            assert (await created(stream)).error_message == AWAY

    run(body)


def test_a_half_closed_stream_answers_all_and_ends() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = it.producer()
            stream.say(hello=pb.ProducerHello(), create_task=pb.CreateTask(seq=1, command="mail"))
            stream.session.half_closed()
            await stream.hear(pb.ProducerHelloAck)
            assert (await stream.hear(pb.CreateAck)).ok
            assert (await stream.edge.ended())[0] is Status.OK

    run(body)


def test_a_draining_stream_answers_what_is_under_way() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            stream.say(create_task=pb.CreateTask(seq=1, command="mail"))
            stream.session.drain()
            assert (await stream.hear(pb.ProducerServerError)).code == "Unavailable"
            assert (await stream.hear(pb.CreateAck)).ok
            assert (await stream.edge.ended())[0] is Status.UNAVAILABLE

    run(body)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (pb.ProducerEvent(create_task=pb.CreateTask()), Status.FAILED_PRECONDITION),
        (pb.ProducerEvent(hello=pb.ProducerHello(token="wl_x")), Status.UNAUTHENTICATED),
    ],
)
def test_what_is_no_good_hello_ends_the_stream(event: Any, status: Status) -> None:
    async def body() -> None:
        async with desk() as it:
            stream = it.producer()
            stream.say_all(event)
            assert (await stream.edge.ended())[0] is status

    run(body)


# ── bytes ──

_BYTES = [
    b"",
    b"\x00\xff\x00",
    b"hello",
    b'{"a": 1',
    b"NaN",
    b"\xef\xbb\xbf{}",
    b"123456789012345678901234567890",
    b'"\\u0000"',
    b'"\xff"',
    b"[" * 100 + b"]" * 100,
]
_JSON = [b"{}", b"null", b"[1, 2]", b' {"b":1, "a" : 2}\n', b'"x"', b"0", b"-1.5e3"]


@pytest.mark.parametrize("payload", [*_BYTES, *_JSON], ids=str)
def test_a_payload_is_handed_out_as_it_came(payload: bytes) -> None:
    async def body() -> None:
        async with desk() as it:
            made = await created(await it.producing(), payload=payload)
            assert made.ok, made.error_message
            stream = await it.greeted()
            stream.say(ready=pb.Ready())
            assert (await stream.hear(pb.TaskAssignment)).task.payload == payload
            job = await it.app.client.get_job(int(made.task_id))
            assert job is not None
            is_bytes = job.meta is not None and "content_type" in job.meta
            assert is_bytes == (payload in _BYTES)

    run(body)


def test_no_payload_is_an_empty_object_for_a_task_in_python() -> None:
    text, content_type = stored(b"", 100)
    assert text == "{}"
    assert handed_out(text, f'{{"content_type":"{content_type}"}}') == b""


@pytest.mark.parametrize("payload", ["[1]", '"no base64!"', "7"])
def test_bytes_that_another_program_has_changed_are_handed_out_as_they_are(payload: str) -> None:
    meta = '{"content_type":"application/octet-stream"}'
    assert handed_out(payload, meta) == payload.encode()


def test_a_task_that_the_server_knows_gives_its_jobs_its_options() -> None:
    def prepare(app: App) -> None:
        app.task(name="mail", priority=4, max_attempts=2, queue="letters")(lambda: None)

    async def body() -> None:
        async with desk(prepare=prepare) as it:
            stream = await it.producing()
            first = await created(stream)
            second = await created(stream, priority=9, max_attempts=7)
            jobs = await asyncio.gather(
                *(it.app.client.get_job(int(ack.task_id)) for ack in (first, second))
            )
            seen = [(job.queue, job.priority, job.max_attempts) for job in jobs if job]
            assert seen == [("letters", 4, 2), ("letters", -9, 7)]

    run(body)


def test_a_batch_has_ten_thousand_requests_at_most_and_none_of_more_is_added() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            tasks = [pb.CreateTask(seq=at, command="mail") for at in range(MOST_IN_BATCH + 1)]
            stream.say(create_task_batch=pb.CreateTaskBatch(tasks=tasks))
            assert stream.edge.is_held
            acks = (await stream.hear(pb.CreateAckBatch)).acks
            assert [ack.seq for ack in acks] == [task.seq for task in tasks]
            assert {ack.error_message for ack in acks} == {TOO_MANY}
            assert not stream.edge.is_held

    run(body)


def test_each_message_of_a_token_past_its_rate_is_refused() -> None:
    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases, rate=1) as it:
            stream = await it.producing()
            batch = pb.CreateTaskBatch(tasks=[pb.CreateTask(command="mail")] * 3)
            stream.say(create_task_batch=batch)
            assert all(ack.ok for ack in (await stream.hear(pb.CreateAckBatch)).acks)
            stream.say(create_task_batch=batch)
            acks = (await stream.hear(pb.CreateAckBatch)).acks
            assert ["too many calls" in ack.error_message for ack in acks] == [True] * 3
            await asyncio.sleep(1)
            stream.say(create_task=pb.CreateTask(command="mail"))
            assert (await stream.hear(pb.CreateAck)).ok

    run_virtual(body)
