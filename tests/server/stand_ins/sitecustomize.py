"""Stands in for the surfaces in a server process, where they are not built yet."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import types
from typing import Any


def make_app(service: Any) -> Any:
    from windlass.server.peers import http_peer
    from windlass.server.refusals import Refusal

    async def answer(send: Any, status: int, body: Any) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", b"application/json")],
            }
        )
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind == "lifespan.shutdown":
                    return
        path = scope["path"]
        if path == "/readyz":
            await answer(send, 503 if service.draining.is_set() else 200, {})
            return
        headers = {name.lower(): value.decode() for name, value in scope["headers"]}
        text = headers.get(b"authorization", "").partition(" ")[2]
        try:
            who = await service.access.identify(text, peer=http_peer(scope))
            service.limits.admit(who)
        except Refusal as error:
            await answer(send, error.status, {"detail": str(error)})
            return
        if path.endswith("/result"):  # waits for ever
            await asyncio.Event().wait()
        jobs = await service.client(who).list_jobs()
        await answer(send, 200, {"jobs": [job.id for job in jobs], "next": None})

    return app


class Streams:
    """Each line that comes is answered; the streams end when their clients do."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.open: set[Any] = set()
        self.none_open = asyncio.Event()
        self.none_open.set()

    async def serve(self, reader: Any, writer: Any) -> None:
        self.open.add(writer)
        self.none_open.clear()
        try:
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        finally:
            writer.close()
            self.open.discard(writer)
            if not self.open:
                self.none_open.set()

    async def drain(self) -> None:
        for writer in self.open:
            writer.write(b"draining\n")
        await self.none_open.wait()

    async def close(self) -> None:
        self.server.close()
        for writer in list(self.open):
            writer.write(b"closed\n")
            writer.close()


async def start(service: Any, host: str, port: int, tls: Any) -> Streams:
    streams: Any = Streams(service)
    several = service.settings.processes > 1
    streams.server = await asyncio.start_server(
        streams.serve, host, port, ssl=tls, reuse_port=several or None
    )
    streams.port = streams.server.sockets[0].getsockname()[1]
    return streams  # type: ignore[no-any-return]


def stand_in(name: str, **contents: Any) -> None:
    if importlib.util.find_spec(name) is None:
        module = types.ModuleType(name)
        vars(module).update(contents)
        sys.modules[name] = module


stand_in("windlass.server.rest", make_app=make_app)
stand_in("windlass.server.streams", start=start)
