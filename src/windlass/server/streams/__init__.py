"""Streams: workers and producers of any language, over gRPC.

    transport (http2, or grpcio_transport) ── edges ── sessions (worker, producer)
                                                           │
                 dispatcher: who gets jobs · keeping: who has them · settlements: how they end

A session knows messages and no sockets, a transport sockets and no jobs. What all streams of a
process share is `shared`, and `equipment` makes it from the service. `start` puts it together.
"""

from windlass.server.streams.equipment import Works, open_works
from windlass.server.streams.server import StreamServer, start

__all__ = ["StreamServer", "Works", "open_works", "start"]
