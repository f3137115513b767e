"""What becomes of transports that cannot start, and of clients that do not read."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
import zttp

from tests.server.streams.desk import run
from tests.server.streams.serving import Serving, serving
from tests.server.streams.test_http2 import DATA, HEADERS, Raw, frame_length, hello, raw, said
from windlass import JobSpec
from windlass.errors import ConfigError
from windlass.server.streams import grpcio_transport, http2
from windlass.server.streams import server as stream_server
from windlass.server.streams.grpcio_transport import _peer
from windlass.server.streams.worker_session import STOPPING, WorkerSession
from windlass.wire import windlass_pb2 as pb
from windlass.wire.frames import FrameDecoder

LARGE_WINDOWS = (
    b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x7f\xff\xff\xff"  # of every stream
    b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\x00\x00\x00"  # of the connection
)
"""A SETTINGS and a WINDOW_UPDATE frame: the server may send as much as the network takes."""


# ── the start ──


@pytest.mark.parametrize(
    ("transport", "tls", "says"),
    [
        ("pigeon", None, "must be zttp or grpcio, not 'pigeon'"),
        ("grpcio", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "TLS needs the transport zttp"),
    ],
)
def test_a_transport_that_cannot_be_had_is_refused(transport: str, tls: Any, says: str) -> None:
    async def body() -> None:
        with pytest.raises(ConfigError, match=says):
            async with serving(transport=transport, tls=tls):
                pass

    run(body)


def test_a_port_that_is_taken_leaves_nothing_behind() -> None:
    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            async with serving() as it:
                with pytest.raises(OSError, match="in use"):
                    await stream_server.start(it.service, "127.0.0.1", port, reuse_port=False)
                await it.greeted()

    run(body)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ipv4:10.0.0.7:1234", "10.0.0.7"),
        ("ipv6:%5B::1%5D:1234", "::1"),
        ("unix:/run/windlass", None),
    ],
)
def test_grpcio_names_the_client(name: str, address: str | None) -> None:
    assert _peer(name, []).address == address


# ── clients that do not read ──


def test_a_client_of_grpcio_that_never_reads_loses_its_stream(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(grpcio_transport, "MOST_UNREAD", 500_000)

    async def body() -> None:
        async with serving(transport="grpcio") as it:
            client = await it.greeted()
            wrong = [pb.Result(task_id="x" * 500, status="COMPLETED")] * 1_000
            ended = asyncio.ensure_future(client.call.code())
            while not ended.done():  # its acks pile up
                try:
                    await client.say(result_batch=pb.ResultBatch(results=wrong))
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    break
            # Whether it still hears why depends on what is under way.
            assert await ended is not grpc.StatusCode.OK

    with caplog.at_level(logging.WARNING, "windlass.server"):
        run(body)
    assert "a client does not read what it is answered; its stream is ended" in caplog.messages


class Deaf:
    """A connection with streams whose windows are of any size; it reads when it is told to."""

    def __init__(self, client: Raw) -> None:
        self.client = client
        self.streams: list[Any] = []
        self.idle: list[Any] = []
        """Streams that have asked for nothing."""
        self.tasks = 0

    async def open(self, count: int) -> None:
        for _ in range(count):
            stream = self.client.open()
            stream.send_data(hello())
            await self.client.until(zttp.Data, stream)
            self.streams.append(stream)
        self.client.writer.write(LARGE_WINDOWS)

    async def want(self, stream: Any) -> None:
        stream.send_data(said(ready=pb.Ready(count=40)))
        await self.client.flush()

    async def read_on(self, jobs: int) -> None:
        """Read until so many jobs are there."""
        taken = self.client.writer.get_extra_info("socket")
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        decoders = {stream.stream_id: FrameDecoder() for stream in self.streams}
        rest = b""
        while self.tasks < jobs:
            rest += await self.client.reader.read(1 << 20)
            while (length := frame_length(rest)) is not None:
                frame, rest = rest[:length], rest[length:]
                number = int.from_bytes(frame[5:9], "big")
                if frame[3] == DATA:
                    for message in decoders[number].feed(frame[9:]):
                        event = pb.WorkerServerEvent.FromString(message)
                        self.tasks += len(event.task_batch.tasks)


@asynccontextmanager
async def deaf(it: Serving) -> AsyncIterator[tuple[Deaf, Any]]:
    """One that has asked for more jobs than it takes, and has stopped the server's writing."""
    await it.app.client.add_jobs([JobSpec("mail", "x" * 100_000)] * 200)
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    narrow.connect(("127.0.0.1", it.server.port))
    reader, writer = await asyncio.open_connection(sock=narrow)
    try:
        client = Deaf(Raw(reader, writer))
        await client.open(5)
        [connection] = it.server._transport._connections  # type: ignore[attr-defined]
        left = client.idle = list(client.streams)
        given = 0
        while not (connection.is_write_paused or connection.closed.done()):
            await client.want(left.pop())
            given += 40
            while (await it.app.client.counts())["running"] < given:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert left, "the network takes more than there is"
        yield client, connection
    finally:
        writer.transport.abort()


def test_a_client_that_takes_nothing_is_given_nothing_until_it_does() -> None:
    """However large the windows are that it announces."""

    async def body() -> None:
        async with serving() as it, deaf(it) as (client, _):
            for stream in client.idle:
                await client.want(stream)
            while it.wants < len(client.idle):
                await asyncio.sleep(0)
            other = await it.greeted()
            await other.say(ready=pb.Ready())
            await other.hear(pb.TaskAssignment)
            assert (await it.app.client.counts())["ready"] > 0
            await client.read_on(199)

    run(body)


def test_a_connection_for_which_too_much_waits_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "MOST_BUFFERED", 100_000)

    async def body() -> None:
        async with serving() as it, deaf(it) as (_, connection):
            await connection.closed
            await it.greeted()

    run(body)


def test_a_client_that_takes_nothing_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_server, "LAST_BYTES", 0.01)

    async def body() -> None:
        async with serving() as it, deaf(it) as (_, connection):
            await it.server.close()
            assert connection.closed.done()
            counts = await it.app.client.counts()
            assert (counts["ready"], counts["running"]) == (200, 0)

    run(body)


# ── odd clients ──


def test_a_stream_that_is_opened_during_the_drain_is_sent_elsewhere() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            first = client.open()
            first.send_data(hello() + said(ready=pb.Ready()))
            await client.until(zttp.Data, first)
            await it.app.client.add_job("mail")
            await client.until(zttp.Data, first)
            late = client.open()  # before the client has heard of it
            draining = asyncio.ensure_future(it.server.drain())
            await asyncio.sleep(0)
            late.send_data(hello())
            response = await client.until(zttp.Response, late)
            assert dict(response.headers)[b"grpc-message"] == STOPPING.encode()
            first.end_message()
            await client.until(zttp.EndOfMessage, first)
            await draining

    run(body)


def test_a_request_without_a_message_is_told_what_is_missing() -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            for path in (b"/windlass.v1.Worker/Stream", b"/windlass.v1.Producer/Stream"):
                stream = client.open(path)
                stream.end_message()
                response = await client.until(zttp.Response, stream)
                told = dict(response.headers)[b"grpc-message"]
                assert told == b"the stream was closed without a Hello"
            page = client.http.send_request(b"GET", b"/", b"2", HEADERS)
            assert (await client.until(zttp.Response, page)).status_code == 405

    run(body)


def test_a_session_that_meets_an_error_costs_its_stream_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        async with serving() as it, raw(it) as client:
            good, guilty = client.open(), client.open()
            good.send_data(hello())
            await client.until(zttp.Data, good)
            with monkeypatch.context() as patch:
                patch.setattr(WorkerSession, "receive", None)
                guilty.send_data(hello())
                response = await client.until(zttp.Response, guilty)
            assert dict(response.headers)[b"grpc-message"] == b"the server met an error"
            good.send_data(said(heartbeat=pb.Heartbeat(task_id="1")))
            await client.until(zttp.Data, good)

    run(body)
