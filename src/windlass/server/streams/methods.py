"""The rpcs of a server: our two streams under two names each, and the standard ones."""

from __future__ import annotations

from windlass.server.streams.edges import Method
from windlass.server.streams.producer_session import ProducerSession
from windlass.server.streams.shared import Shared
from windlass.server.streams.standard import standard_methods
from windlass.server.streams.worker_session import WorkerSession
from windlass.wire.windlass_pb2 import ProducerEvent, WorkerEvent

WORKERS = ("windlass.v1.Worker", "workerpb.WorkerStream")
PRODUCERS = ("windlass.v1.Producer", "producerpb.ProducerStream")


def methods(shared: Shared) -> dict[str, Method]:
    """By path."""
    worker = Method(WorkerEvent.FromString, lambda edge, peer: WorkerSession(shared, edge, peer))
    producer = Method(
        ProducerEvent.FromString, lambda edge, peer: ProducerSession(shared, edge, peer)
    )
    return {
        **{f"/{name}/Stream": worker for name in WORKERS},
        **{f"/{name}/Stream": producer for name in PRODUCERS},
        **standard_methods([*WORKERS, *PRODUCERS]),
    }
