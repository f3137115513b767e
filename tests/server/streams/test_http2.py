"""What the transport on zttp does below the messages: a client that is bytes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import zttp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.streams.desk import run
from tests.server.streams.serving import Serving, serving
from windlass import JobSpec
from windlass.server.streams import http2
from windlass.server.streams.http2 import percent_encoded
from windlass.wire import windlass_pb2 as pb
from windlass.wire.frames import FIRST_BYTES, FrameDecoder, framed

HEADERS = [
    (b"host", b"localhost"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
]
DATA, RST_STREAM = 0, 3
"""Types of frames."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Raw:
    """One connection, frame by frame. What it does not `pump` it does not read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.http: Any = zttp.Connection(zttp.CLIENT, protocol=zttp.HTTP2)
        self.http.initiate_connection()
        self.events: list[Any] = []

    def open(self, path: bytes = b"/windlass.v1.Worker/Stream", headers: Any = HEADERS) -> Any:
        return self.http.send_request(b"POST", path, b"2", headers)

    async def flush(self) -> None:
        if data := self.http.data_to_send():
            self.writer.write(data)
            await self.writer.drain()

    async def pump(self) -> bool:
        """Read what there is; False at the end."""
        await self.flush()
        data = await self.reader.read(65_536)
        if not data:
            return False
        self.http.receive_data(data)
        while (event := self.http.next_event()) is not zttp.NEED_DATA:
            self.events.append(event)
        await self.flush()
        return True

    async def until(self, kind: type[Any], stream: Any = None) -> Any:
        """The next event of a kind, of that stream."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and (
                    stream is None or event.stream_id == stream.stream_id
                ):
                    self.events.remove(event)
                    return event
            assert await self.pump(), "the connection was closed"

    async def closed(self) -> None:
        try:
            while await self.pump():
                pass
        except (ConnectionError, zttp.ProtocolError):
            pass


@asynccontextmanager
async def raw(it: Serving) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", it.server.port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            pass


def hello(**more: Any) -> bytes:
    return framed([pb.WorkerEvent(hello=pb.WorkerHello(**more)).SerializeToString()])


def said(**event: Any) -> bytes:
    return framed([pb.WorkerEvent(**event).SerializeToString()])


async def heard(client: Raw, stream: Any, decoder: FrameDecoder) -> Iterator[Any]:
    data = (await client.until(zttp.Data, stream)).data
    return map(pb.WorkerServerEvent.FromString, decoder.feed(data))


def test_a_stream_from_its_headers_to_its_trailers() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            stream = client.open()
            stream.send_data(hello(worker_id="w")[:7])
            await client.flush()
            stream.send_data(hello(worker_id="w")[7:])
            response = await client.until(zttp.Response, stream)
            assert response.status_code == 200
            assert (b"content-type", b"application/grpc") in response.headers
            [ack] = await heard(client, stream, FrameDecoder())
            assert ack.hello_ack.worker_id == "w"
            stream.end_message()
            end = await client.until(zttp.EndOfMessage, stream)
            assert end.trailers == [(b"grpc-status", b"0")]

    run(body)


@pytest.mark.parametrize(
    ("path", "headers", "http_status", "status"),
    [
        (b"/no.Such/Method", HEADERS, 200, b"12"),
        (b"/windlass.v1.Worker/Stream", HEADERS[:2], 415, None),
        (b"/", [(b"host", b"x"), (b"content-type", b"text/html")], 415, None),
    ],
)
def test_an_answer_without_messages(
    path: bytes, headers: Any, http_status: int, status: bytes | None
) -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            stream = client.open(path, headers)
            response = await client.until(zttp.Response, stream)
            assert response.status_code == http_status
            assert dict(response.headers).get(b"grpc-status") == status
            await client.until(zttp.EndOfMessage, stream)

    run(body)


def test_a_refusal_says_why_and_frees_the_client() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            stream = client.open()
            stream.send_data(said(ready=pb.Ready()))
            response = await client.until(zttp.Response, stream)
            headers = dict(response.headers)
            assert headers[b"grpc-status"] == b"9"
            assert headers[b"grpc-message"] == b"the first event must be Hello"
            assert (await client.until(zttp.RstStream, stream)).error_code == 0

    run(body)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x01\x00\x00\x00\x00", b"12"),
        (b"\x07nonsense", b"13"),
        (b"\x00\x7f\xff\xff\xff", b"8"),
        (framed([b"\xff\xff"]), b"3"),
    ],
)
def test_garbage_ends_the_guilty_stream_alone(data: bytes, status: bytes) -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            good, guilty = client.open(), client.open()
            good.send_data(hello())
            guilty.send_data(hello())
            await client.until(zttp.Data, good)
            await client.until(zttp.Data, guilty)
            guilty.send_data(data)
            end = await client.until(zttp.EndOfMessage, guilty)
            assert dict(end.trailers)[b"grpc-status"] == status
            await it.app.client.add_job("mail", {})
            good.send_data(said(ready=pb.Ready()))
            [task] = await heard(client, good, FrameDecoder())
            assert task.task.task.command == "mail"

    run(body)


def test_a_stream_that_ends_in_the_middle_of_a_message_is_told_so() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            stream = client.open()
            stream.send_data(hello() + b"\x00\x00\x00")
            stream.end_message()
            await client.flush()
            response = await client.until(zttp.Response, stream)
            end = await client.until(zttp.EndOfMessage, stream)
            found = dict(response.headers) | dict(end.trailers)
            assert found[b"grpc-status"] == b"13"

    run(body)


_garbage = st.tuples(st.booleans(), st.binary(min_size=1, max_size=200))


@settings(max_examples=3, deadline=None)
@given(st.lists(_garbage, min_size=20, max_size=20))
def test_bytes_that_are_no_http2_cost_their_connection_alone(
    garbage: list[tuple[bool, bytes]],
) -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as good:
            stream = good.open()
            stream.send_data(hello())
            await good.until(zttp.Data, stream)
            for has_preface, data in garbage:
                reader, writer = await asyncio.open_connection("127.0.0.1", it.server.port)
                writer.write((PREFACE if has_preface else b"") + data)
                writer.write_eof()
                try:
                    while await reader.read(65_536):
                        pass
                except ConnectionError:
                    pass
                writer.close()
            stream.send_data(said(heartbeat=pb.Heartbeat(task_id="1")))
            [ack] = await heard(good, stream, FrameDecoder())
            assert ack.heartbeat_ack.error_message == "not-found"

    run(body)


def test_a_client_that_does_not_read_gets_what_fits_and_the_rest_when_it_reads() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            await it.app.client.add_jobs([JobSpec("mail", "x" * 100_000)] * 40)
            stream = client.open()
            stream.send_data(hello() + said(ready=pb.Ready()) * 40)
            await client.flush()
            while (await it.app.client.counts())["running"] == 0:
                await asyncio.sleep(0)
            other = await it.greeted()
            for _ in range(20):  # there is something left for others, all the time
                await other.say(ready=pb.Ready())
                await other.hear(pb.TaskAssignment)
            counts = await it.app.client.counts()
            assert counts["running"] - 20 <= 10
            decoder = FrameDecoder()
            seen = 0
            while seen < 20:
                seen += sum(
                    1 for event in await heard(client, stream, decoder) if event.task.task.id
                )

    run(body)


def test_a_client_that_never_reads_its_acks_loses_its_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http2, "MOST_UNREAD", 200_000)

    async def body() -> None:
        async with serving() as it, raw(it) as client, raw(it) as other:
            stream, good = client.open(), other.open()
            good.send_data(hello())
            await other.until(zttp.Data, good)
            stream.send_data(hello())
            await client.until(zttp.Data, stream)
            event = said(result=pb.Result(task_id="x" * 500, status="COMPLETED"))
            for _ in range(1_000):
                stream.send_data(event)
            frames = b""
            code = None
            while code is None:
                client.writer.write(client.http.data_to_send())
                frames += await client.reader.read(65_536)
                while (length := frame_length(frames)) is not None:
                    frame, frames = frames[:length], frames[length:]
                    if frame[3] == RST_STREAM:
                        [code] = struct.unpack_from(">I", frame, 9)
                    elif frame[3] != DATA:  # with what it is sent it would grant more
                        client.http.receive_data(frame)
                        while client.http.next_event() is not zttp.NEED_DATA:
                            pass
            assert code == 11
            good.send_data(said(heartbeat=pb.Heartbeat(task_id="1")))
            await heard(other, good, FrameDecoder())

    run(body)


def frame_length(data: bytes) -> int | None:
    """Of the first frame, if it is complete."""
    length = 9 + int.from_bytes(data[:3], "big")
    return length if 9 <= length <= len(data) else None


def test_a_silent_client_is_asked_for_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "PING_EVERY", 0.05)

    async def body() -> None:
        async with serving() as it, raw(it) as client:
            stream = client.open()
            stream.send_data(hello())
            await client.until(zttp.Data, stream)
            for _ in range(3):
                assert not (await client.until(zttp.Ping)).ack
            stream.send_data(said(heartbeat=pb.Heartbeat(task_id="1")))
            await heard(client, stream, FrameDecoder())

    run(body)


def test_a_dead_client_is_cut_and_its_stream_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "PING_EVERY", 0.05)
    monkeypatch.setattr(http2, "ANSWER_WITHIN", 0.05)

    async def body() -> None:
        async with serving() as it, raw(it) as client:
            stream = client.open()
            stream.send_data(hello() + said(ready=pb.Ready()))
            await client.flush()
            while not it.wants:
                await asyncio.sleep(0)
            while it.wants:
                await asyncio.sleep(0.01)

    run(body)


def test_pings_of_clients_are_answered_however_many() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            stream = client.open()
            stream.send_data(hello())
            await client.until(zttp.Data, stream)
            client.writer.write((b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"12345678") * 500)
            for _ in range(500):
                assert (await client.until(zttp.Ping)).ack

    run(body)


def test_a_client_that_only_resets_streams_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "MOST_RESETS", 50)

    async def body() -> None:
        async with serving() as it, raw(it) as client:
            for _ in range(60):
                client.open().reset(8)
            await client.closed()

    run(body)


def test_answers_that_need_no_token_make_no_client_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "MOST_RESETS", 5)

    async def body() -> None:
        async with serving() as it, raw(it) as client:
            for _ in range(6):
                stream = client.open(b"/grpc.health.v1.Health/Watch")
                stream.send_data(framed([b""]))
                await client.until(zttp.Data, stream)
                stream.reset(8)
            await client.closed()

    run(body)


def test_a_stranger_sends_small_messages_alone() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            stream = client.open()
            stream.send_data(hello(worker_id="w" * FIRST_BYTES))
            end = await client.until(zttp.Response, stream)
            assert dict(end.headers)[b"grpc-status"] == b"8"

    run(body)


def test_a_long_message_right_behind_the_hello_waits_for_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            go = asyncio.Event()
            identify = it.service.access.identify

            async def later(*asked: Any, **more: Any) -> Any:
                await go.wait()
                return await identify(*asked, **more)

            monkeypatch.setattr(it.service.access, "identify", later)
            monkeypatch.setattr(http2, "FIRST_BYTES", 1_000)
            stream = client.open()
            stream.send_data(hello(worker_id="w") + said(result=pb.Result(task_id="x" * 10_000)))
            await client.flush()
            [connection] = it.server._transport._connections  # type: ignore[attr-defined]
            while not connection._streams:
                await asyncio.sleep(0)
            await client.flush()
            go.set()
            decoder = FrameDecoder()
            kinds: list[str] = []
            while len(kinds) < 2:
                kinds += [one.WhichOneof("event") for one in await heard(client, stream, decoder)]
            assert kinds == ["hello_ack", "result_ack"]

    run(body)


def test_a_drain_says_goaway_and_lets_streams_end() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            await it.app.client.add_job("mail", {})
            stream = client.open()
            stream.send_data(hello() + said(ready=pb.Ready()))
            decoder = FrameDecoder()
            tasks: list[Any] = []
            while not tasks:
                tasks += [
                    e.task.task for e in await heard(client, stream, decoder) if e.task.task.id
                ]
            draining = asyncio.create_task(it.server.drain())
            goaway = await client.until(zttp.GoAway)
            assert (goaway.error_code, goaway.last_stream_id) == (0, 1)
            stream.send_data(said(result=pb.Result(task_id=tasks[0].id, status="COMPLETED")))
            end = await client.until(zttp.EndOfMessage, stream)
            assert dict(end.trailers)[b"grpc-status"] == b"14"
            await client.closed()
            await draining
            assert not (await it.app.client.counts())["running"]

    run(body)


def test_all_of_a_chunk_is_answered_in_one_write() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            stream = client.open()
            stream.send_data(hello())
            await client.until(zttp.Data, stream)
            stream.send_data(said(result=pb.Result(task_id="x", status="COMPLETED")) * 200)
            data = (await client.until(zttp.Data, stream)).data
            assert len(FrameDecoder().feed(data)) == 200

    run(body)


@pytest.mark.parametrize(
    ("text", "encoded"), [("plain", b"plain"), ("100 %", b"100 %25"), ("ü\n", b"%C3%BC%0A")]
)
def test_messages_are_percent_encoded(text: str, encoded: bytes) -> None:
    assert percent_encoded(text) == encoded
