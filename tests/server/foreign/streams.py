"""A client of both streams on grpcio's C core: blocking calls, and a thread that reads.

What arrives is kept in order. `take` gives the first event of a kind and leaves the others, so that
a test may wait for an ack while tasks come in between.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from tests.patience import PATIENCE
from tests.server.foreign.wire import PRODUCER, WORKER, Message, producerpb, workerpb

OPTIONS = (
    # Its own connection, and a quick return to a server that was away.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
)


def warm_up() -> None:
    """Make what grpcio makes once for a process, and keeps: its own threads and descriptors."""
    with grpc.insecure_channel("127.0.0.1:1", OPTIONS) as channel:
        with contextlib.suppress(grpc.RpcError):
            channel.unary_unary("/nothing/There", None, None)(b"", timeout=PATIENCE)


class Ended(Exception):
    """The stream is over; `code` is the name of its gRPC status."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"the stream ended with {code}: {details}")
        self.code = code
        self.details = details


class Stream:
    """One open stream of bytes-in, messages-out, and all that has arrived on it."""

    def __init__(
        self,
        address: str,
        path: str,
        answer: Callable[[bytes], Message],
        *,
        reads: bool = True,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self._answer = answer
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._inbox: queue.SimpleQueue[Message | Ended] = queue.SimpleQueue()
        self._kept: list[Message] = []
        self._ended: Ended | None = None
        self._channel = (
            grpc.insecure_channel(address, OPTIONS)
            if credentials is None
            else grpc.secure_channel(address, credentials, OPTIONS)
        )
        call = self._channel.stream_stream(
            path, request_serializer=None, response_deserializer=None
        )
        self._call = call(self._requests(), wait_for_ready=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reads:
            self._reader.start()

    def _requests(self) -> Iterator[bytes]:
        yield from iter(self._outbox.get, None)

    def _read(self) -> None:
        try:
            for data in self._call:
                self._inbox.put(self._answer(data))
        except grpc.RpcError as error:
            self._inbox.put(Ended(error.code().name, error.details() or ""))
        else:
            self._inbox.put(Ended("OK", ""))

    # ── out ──

    def send_bytes(self, data: bytes) -> None:
        """One message, whatever is in it."""
        self._outbox.put(data)

    def half_close(self) -> None:
        self._outbox.put(None)

    def cancel(self) -> None:
        """Break the stream, as a client that dies does."""
        self._call.cancel()
        self.half_close()

    # ── in ──

    def take(self, kind: str, patience: float = PATIENCE) -> Message:
        """The first event of this kind; raises `Ended` if the stream ends before."""
        for event in self._kept:
            if event.WhichOneof("event") == kind:
                self._kept.remove(event)
                return getattr(event, kind)
        deadline = time.monotonic() + patience
        while True:
            event = self._next(deadline, f"a {kind}")
            if event.WhichOneof("event") == kind:
                return getattr(event, kind)
            self._kept.append(event)

    def next(self, patience: float = PATIENCE) -> tuple[str, Message]:
        """The next event with its kind, in the order of arrival."""
        event = self._kept.pop(0) if self._kept else self._next(time.monotonic() + patience, "more")
        kind = event.WhichOneof("event")
        return kind, getattr(event, kind)

    def end(self, patience: float = PATIENCE) -> Ended:
        """Wait for the end; what arrived before it is kept."""
        deadline = time.monotonic() + patience
        try:
            while True:
                self._kept.append(self._next(deadline, "the end of the stream"))
        except Ended as ended:
            return ended

    def _next(self, deadline: float, what: str) -> Message:
        if self._ended is not None:
            raise self._ended
        try:
            event = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError(f"waited in vain for {what}; there is {self.kinds()}") from None
        if isinstance(event, Ended):
            self._ended = event
            raise event
        return event

    def kinds(self) -> list[str]:
        """Of the events that have arrived and were not taken."""
        while not self._inbox.empty():
            event = self._inbox.get()
            if isinstance(event, Ended):
                self._ended = event
            else:
                self._kept.append(event)
        return [event.WhichOneof("event") for event in self._kept]

    def close(self) -> None:
        self.cancel()
        if self._reader.ident is not None:
            self._reader.join(PATIENCE)
        self._channel.close()


class Worker(Stream):
    """A worker's stream."""

    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(address, WORKER, workerpb.ServerEvent.FromString, **options)
        self.id = ""
        self.tenant = ""

    def send(self, **event: Message) -> None:
        self.send_bytes(workerpb.WorkerEvent(**event).SerializeToString())

    def hello(self, token: str, worker_id: str = "foreign") -> Message:
        self.send(hello=workerpb.Hello(token=token, worker_id=worker_id))
        ack = self.take("hello_ack")
        self.id, self.tenant = ack.worker_id, ack.tenant_id
        return ack

    def ready(self, *commands: str, lease: int = 0, count: int = 0) -> None:
        self.send(ready=workerpb.Ready(commands=commands, lease_seconds=lease, count=count))

    def task(self) -> Message:
        """The next task that is assigned singly."""
        return self.take("task").task

    def batch(self) -> list[Message]:
        return list(self.take("task_batch").tasks)

    def get(self, *commands: str, lease: int = 0) -> Message:
        """Ask for one task, and wait for it."""
        self.ready(*commands, lease=lease)
        return self.task()

    def get_all(self, count: int, *commands: str, lease: int = 0) -> list[Message]:
        """So many tasks, by as many batches as it takes."""
        tasks: list[Message] = []
        while len(tasks) < count:
            self.ready(*commands, lease=lease, count=max(2, count - len(tasks)))
            tasks += self.batch()
        return tasks

    def complete(self, task: Message, result: bytes = b"") -> Message:
        self.send(result=workerpb.Result(task_id=task.id, status="COMPLETED", result_json=result))
        return self.take("result_ack")

    def fail(self, task: Message, error: str = "it went wrong") -> Message:
        self.send(result=workerpb.Result(task_id=task.id, status="FAILED", error=error))
        return self.take("result_ack")

    def nack(self, task: Message, delay: int = 0, reason: str = "") -> Message:
        self.send(nack=workerpb.Nack(task_id=task.id, delay_seconds=delay, reason=reason))
        return self.take("nack_ack")

    def abandon(self, task: Message) -> Message:
        self.send(abandon=workerpb.Abandon(task_id=task.id))
        return self.take("abandon_ack")

    def heartbeat(self, task: Message, extend: int) -> Message:
        self.send(heartbeat=workerpb.Heartbeat(task_id=task.id, extend_seconds=extend))
        return self.take("heartbeat_ack")

    def settle(self, results: Iterable[Message]) -> list[Message]:
        """One ResultBatch; its acks in order."""
        self.send(result_batch=workerpb.ResultBatch(results=list(results)))
        return list(self.take("result_ack_batch").acks)

    def present(self, kind: str, delivery: bytes, **fields: Any) -> Message:
        """Say something about a delivery that is proved by its bytes; the ack."""
        name = {
            "result": "Result",
            "nack": "Nack",
            "heartbeat": "Heartbeat",
            "abandon": "Abandon",
        }[kind]
        self.send(**{kind: getattr(workerpb, name)(delivery=delivery, **fields)})
        return self.take(f"{kind}_ack")


class Producer(Stream):
    """A producer's stream, which numbers its requests."""

    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(address, PRODUCER, producerpb.ServerEvent.FromString, **options)
        self._seq = 0

    def send(self, **event: Message) -> None:
        self.send_bytes(producerpb.ProducerEvent(**event).SerializeToString())

    def hello(self, token: str) -> Message:
        self.send(hello=producerpb.Hello(token=token))
        return self.take("hello_ack")

    def request(self, command: str, payload: bytes = b"{}", **fields: Any) -> Message:
        """A CreateTask with the next number, not sent."""
        self._seq += 1
        return producerpb.CreateTask(
            **{"seq": self._seq, "command": command, "payload": payload, **fields}
        )

    def create(self, command: str, payload: bytes = b"{}", **fields: Any) -> Message:
        """Create one task; its ack, whatever it says."""
        asked = self.request(command, payload, **fields)
        self.send(create_task=asked)
        ack = self.take("create_ack")
        assert ack.seq == asked.seq
        return ack

    def create_all(self, requests: Iterable[Message]) -> list[Message]:
        self.send(create_task_batch=producerpb.CreateTaskBatch(tasks=list(requests)))
        return list(self.take("create_ack_batch").acks)

    def add(self, command: str, payload: bytes = b"{}", **fields: Any) -> str:
        """Create one task that must be accepted; its id."""
        ack = self.create(command, payload, **fields)
        assert ack.ok, ack.error_message
        return str(ack.task_id)

    def add_many(self, command: str, count: int, **fields: Any) -> list[str]:
        """So many tasks with their numbers as payloads; their ids in order."""
        ids: list[str] = []
        for first in range(0, count, 1_000):
            numbers = range(first, min(first + 1_000, count))
            acks = self.create_all(self.request(command, b"%d" % n, **fields) for n in numbers)
            assert all(ack.ok for ack in acks), acks
            ids += [str(ack.task_id) for ack in acks]
        return ids
