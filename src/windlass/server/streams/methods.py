"""The rpcs of a server: our two streams under two names each, and the standard ones."""

from __future__ import annotations

from windlass.server.peers import Peer
from windlass.server.streams.edges import Edge, Method
from windlass.server.streams.producer_session import ProducerSession
from windlass.server.streams.shared import Shared
from windlass.server.streams.standard import standard_methods
from windlass.server.streams.worker_session import WorkerSession
from windlass.wire.windlass_pb2 import ProducerEvent, WorkerEvent

WORKERS = ("windlass.v1.Worker", "workerpb.WorkerStream")
PRODUCERS = ("windlass.v1.Producer", "producerpb.ProducerStream")

WORKER = "worker"
PRODUCER = "producer"
KINDS = (WORKER, PRODUCER)
"""What streams are for, but the standard ones."""


def methods(shared: Shared) -> dict[str, Method]:
    """By path."""

    def open_worker(edge: Edge, peer: Peer) -> WorkerSession:
        shared.count_stream(WORKER)
        return WorkerSession(shared, edge, peer)

    def open_producer(edge: Edge, peer: Peer) -> ProducerSession:
        shared.count_stream(PRODUCER)
        return ProducerSession(shared, edge, peer)

    worker = Method(WorkerEvent.FromString, open_worker, kind=WORKER)
    producer = Method(ProducerEvent.FromString, open_producer, kind=PRODUCER)
    return {
        **{f"/{name}/Stream": worker for name in WORKERS},
        **{f"/{name}/Stream": producer for name in PRODUCERS},
        **standard_methods([*WORKERS, *PRODUCERS]),
    }
