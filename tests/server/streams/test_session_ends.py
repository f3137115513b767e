"""How streams end, at whatever point of their life: without sockets."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.server.streams.desk import Desk, InlineLeases, Stream, desk, run
from windlass.server.streams import producer_session
from windlass.server.streams.edges import Status
from windlass.server.streams.handshake import PATIENCE
from windlass.server.streams.turns import TOO_MANY
from windlass.server.streams.worker_session import MOST_EARLY, STOPPING
from windlass.testing import VirtualClock, run_virtual
from windlass.wire import windlass_pb2 as pb

KINDS = ("worker", "producer")
HELLO = {"worker": pb.WorkerHello(), "producer": pb.ProducerHello()}


def opened(it: Desk, kind: str) -> Stream:
    return it.worker() if kind == "worker" else it.producer()


async def settled() -> None:
    """Let what was begun go on."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_is_closed_without_a_hello_is_told_so(kind: str) -> None:
    async def body() -> None:
        async with desk() as it:
            stream = opened(it, kind)
            stream.session.half_closed()
            assert stream.edge.end == (
                Status.FAILED_PRECONDITION,
                "the stream was closed without a Hello",
            )
            stream.say(hello=HELLO[kind])  # too late
            stream.session.drain()
            stream.session.stop()
            await settled()
            assert not stream.edge.sent

    run(body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["drain", "stop"])
@pytest.mark.parametrize("says_hello", [False, True])
def test_a_server_that_stops_sends_a_stream_away_whose_token_is_not_known_yet(
    kind: str, end: str, says_hello: bool
) -> None:
    async def body() -> None:
        async with desk() as it:
            stream = opened(it, kind)
            if says_hello:
                stream.say(hello=HELLO[kind])
            getattr(stream.session, end)()
            await settled()
            assert stream.edge.end == (Status.UNAVAILABLE, STOPPING)
            assert not stream.edge.sent

    run(body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_is_closed_behind_its_hello_is_greeted_and_ends(kind: str) -> None:
    async def body() -> None:
        async with desk() as it:
            stream = opened(it, kind)
            stream.say(hello=HELLO[kind])
            stream.session.half_closed()
            assert await stream.edge.ended() == (Status.OK, "")
            assert [one.WhichOneof("event") for one in stream.edge.sent] == ["hello_ack"]

    run(body)


@pytest.mark.parametrize("kind", KINDS)
def test_what_waits_for_a_token_is_bounded(kind: str) -> None:
    async def body() -> None:
        async with desk() as it:
            stream = opened(it, kind)
            stream.say(hello=HELLO[kind])
            event = pb.WorkerEvent() if kind == "worker" else pb.ProducerEvent()
            stream.say_all(*[event] * (MOST_EARLY + 1))
            assert stream.edge.is_held
            for _ in range(MOST_EARLY + 2):
                await stream.edge.hear()
            await settled()
            assert not stream.edge.is_held and stream.edge.end is None

    run(body)


def test_a_token_that_cannot_be_judged_is_no_ones_secret(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with desk() as it:

            async def broken(*asked: Any, **more: Any) -> Any:
                raise RuntimeError("the key is 17")

            monkeypatch.setattr(it.service.access, "identify", broken)
            stream = it.worker()
            stream.say(hello=pb.WorkerHello(token="x"))
            assert await stream.edge.ended() == (
                Status.INTERNAL,
                "the token could not be judged",
            )

    with caplog.at_level(logging.ERROR, "windlass.server"):
        run(body)
    assert "a token could not be judged" in caplog.messages


def test_a_producer_is_told_of_events_that_make_no_sense() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            stream.say_all(
                pb.ProducerEvent(hello=pb.ProducerHello()),
                pb.ProducerEvent(),
                pb.ProducerEvent(create_task=pb.CreateTask(seq=3, command="mail")),
            )
            errors = [await stream.hear(pb.ProducerServerError) for _ in range(2)]
            assert [one.code for one in errors] == ["FailedPrecondition", "InvalidArgument"]
            assert (await stream.hear(pb.CreateAck)).seq == 3
            stream.session.drain()
            stream.session.drain()
            error = await stream.hear(pb.ProducerServerError)
            assert error.code == "Unavailable"
            assert await stream.edge.ended() == (Status.UNAVAILABLE, STOPPING)

    run(body)


def test_a_batch_of_far_too_many_gets_one_ack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_session, "MOST_IN_BATCH", 2)
    monkeypatch.setattr(producer_session, "MOST_ACKS", 3)

    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            for count, acks in ((3, 3), (4, 1)):
                tasks = [pb.CreateTask(seq=at, command="mail") for at in range(count)]
                stream.say(create_task_batch=pb.CreateTaskBatch(tasks=tasks))
                answer = await stream.hear(pb.CreateAckBatch)
                assert [one.error_message for one in answer.acks] == [TOO_MANY] * acks
            assert sum((await it.app.client.counts()).values()) == 0

    run(body)


def test_jobs_of_a_producer_that_is_gone_are_added_all_the_same() -> None:
    async def body() -> None:
        async with desk() as it:
            stream = await it.producing()
            stream.say(create_task=pb.CreateTask(seq=1, command="mail"))
            stream.session.closed()
            await it.shared.additions.close()
            await settled()
            assert not stream.edge.sent
            assert (await it.app.client.counts())["ready"] == 1

    run(body)


def test_a_patient_handshake_ends_with_its_stream() -> None:
    """Nothing of a stream that is gone wakes up later."""

    async def body(clock: VirtualClock) -> None:
        async with desk(clock=clock, host=InlineLeases) as it:
            for kind in KINDS:
                stream = opened(it, kind)
                stream.session.closed()
                await asyncio.sleep(PATIENCE + 1)
                assert stream.edge.end is None

    run_virtual(body)
