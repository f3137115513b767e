"""A worker as other languages write it: it reconnects, and settles what it had by its deliveries.

It completes each task with the bytes of the delivery that it worked on, so that what is stored says
which delivery was accepted.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress

from tests.patience import PATIENCE
from tests.server.foreign.program import Server, identity
from tests.server.foreign.streams import Ended, Worker
from tests.server.foreign.wire import Message, workerpb

_OUT = 30
"""Tasks that it asks for at once."""


class ReliableWorker:
    """Runs in a thread until `stop`; `accepted` is what the server took, by job and delivery."""

    def __init__(self, server: Server, tenant: str, command: str) -> None:
        self._server = server
        self._token = identity("worker", tenant)
        self._command = command
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stopping = threading.Event()
        self._stream: Worker | None = None
        self._unsettled: dict[bytes, Message] = {}
        self.accepted: list[tuple[str, bytes]] = []
        self.refused: list[tuple[str, str]] = []
        self.connections = 0
        self.attempts: set[int] = set()

    def start(self) -> ReliableWorker:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        stream = self._stream
        if stream is not None:
            stream.cancel()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._stream = Worker(self._server.address)
            if self._stopping.is_set():
                self._stream.cancel()
            with suppress(Ended):
                self._work(self._stream)
            self._stream.close()

    def _work(self, stream: Worker) -> None:
        stream.hello(self._token)
        self.connections += 1
        self._settle(stream)
        stream.ready(self._command, count=_OUT)
        while True:
            kind, event = stream.next()
            if kind == "error":
                continue  # the server says that it goes; the end of the stream follows
            assert kind == "task_batch", kind
            for task in event.tasks:
                self._unsettled[task.delivery] = task
                self.attempts.add(task.attempts)
            self._settle(stream)
            stream.ready(self._command, count=_OUT)

    def _settle(self, stream: Worker) -> None:
        """What it has, also from an earlier stream; an outcome stays until its ack is there."""
        results = [
            workerpb.Result(
                task_id=task.id,
                status="COMPLETED",
                result_json=json.dumps(delivery.hex()).encode(),
                delivery=delivery,
            )
            for delivery, task in self._unsettled.items()
        ]
        if not results:
            return
        for result, ack in zip(results, stream.settle(results), strict=True):
            del self._unsettled[result.delivery]
            if ack.ok:
                self.accepted.append((ack.task_id, result.delivery))
            else:
                self.refused.append((ack.task_id, ack.error_message))
