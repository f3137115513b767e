"""Streams on real sockets, and clients on grpcio's own core (the one of C)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from windlass import App
from windlass.server.service import Service
from windlass.server.settings import make_settings
from windlass.server.streams import StreamServer, start
from windlass.wire import windlass_pb2 as pb

TRANSPORTS = ("zttp", "grpcio")


class Client:
    """One stream of a client."""

    def __init__(self, call: Any, event: type[Any]) -> None:
        self.call = call
        self._event = event

    async def say(self, **events: Any) -> None:
        for kind, value in events.items():
            await self.call.write(self._event(**{kind: value}))

    async def hear(self, kind: type[Any]) -> Any:
        heard = await self.call.read()
        assert heard is not grpc.aio.EOF, (await self.call.code(), await self.call.details())
        name = heard.WhichOneof("event")
        value = getattr(heard, name)
        assert isinstance(value, kind), heard
        return value

    async def ended(self) -> tuple[Any, str]:
        return await self.call.code(), await self.call.details()


class Serving:
    """A server, and a channel to it."""

    def __init__(self, app: App, service: Service, server: StreamServer, channel: Any) -> None:
        self.app = app
        self.service = service
        self.server = server
        self.channel = channel

    @property
    def wants(self) -> int:
        """How many Readys are open."""
        groups = self.server._shared.dispatcher._groups.values()
        return sum(len(wants) for group in groups for wants in group.queues.values())

    def worker(self, service: str = "windlass.v1.Worker") -> Client:
        call = self.channel.stream_stream(
            f"/{service}/Stream",
            request_serializer=pb.WorkerEvent.SerializeToString,
            response_deserializer=pb.WorkerServerEvent.FromString,
        )()
        return Client(call, pb.WorkerEvent)

    def producer(self, service: str = "windlass.v1.Producer") -> Client:
        call = self.channel.stream_stream(
            f"/{service}/Stream",
            request_serializer=pb.ProducerEvent.SerializeToString,
            response_deserializer=pb.ProducerServerEvent.FromString,
        )()
        return Client(call, pb.ProducerEvent)

    async def greeted(self, worker_id: str = "w", **hello: Any) -> Client:
        client = self.worker()
        await client.say(hello=pb.WorkerHello(worker_id=worker_id, **hello))
        await client.hear(pb.WorkerHelloAck)
        return client

    async def producing(self) -> Client:
        client = self.producer()
        await client.say(hello=pb.ProducerHello())
        await client.hear(pb.ProducerHelloAck)
        return client


@asynccontextmanager
async def serving(
    url: str = "memory://",
    transport: str = "zttp",
    *,
    prepare: Callable[[App], None] = lambda app: None,
    app_settings: dict[str, Any] | None = None,
    tls: Any = None,
    channel: Callable[[int], Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Serving]:
    async with App(url, **(app_settings or {})) as app:
        prepare(app)
        service = Service(app, make_settings(**settings))
        await service.start()
        server = await start(service, "127.0.0.1", 0, tls, transport=transport)
        try:
            make = channel or (lambda port: grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            async with make(server.port) as opened:
                yield Serving(app, service, server, opened)
                await asyncio.sleep(0)
        finally:
            await server.close()
            await service.close()
