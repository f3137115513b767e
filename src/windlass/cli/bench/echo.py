"""A bare echo on the transport of the server's streams: each chunk goes back as it came."""

from __future__ import annotations

import sys
import threading
from typing import Any


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """An ASGI application that is a gRPC method: it answers its requests with themselves."""
    start = {"type": "http.response.start", "status": 200, "trailers": True}
    await send({**start, "headers": [(b"content-type", b"application/grpc")]})
    more = True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        more = event["more_body"]
        await send({"type": "http.response.body", "body": event["body"], "more_body": more})
    await send({"type": "http.response.trailers", "headers": [(b"grpc-status", b"0")]})


def serve(port: int) -> None:
    """Until standard input ends."""
    import uvicorn

    config = uvicorn.Config(
        echo,
        port=port,
        http="zttp",
        http2=True,
        lifespan="off",
        log_level="error",
        access_log=False,
    )
    server = uvicorn.Server(config)

    def end() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=end, daemon=True).start()
    server.run()
