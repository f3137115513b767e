"""The foreign clients of the bench: a worker on its stream that does nothing but answer, and a
producer that adds no-op jobs.

The worker has two forms. One is grpcio, which sends message by message, as most clients do; the
other writes HTTP/2 itself, takes all messages of a chunk at once, and gives all answers to one
send. What they say is the same: for each task its result, and a request for the next one. An echo
is asked with as many messages of the same length, so that what is left of the rate is what the
transport costs.
"""

from __future__ import annotations

import queue
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from windlass.cli.bench.child import StreamTarget
from windlass.wire import windlass_pb2 as wire

PATH = "/windlass.v1.Worker/Stream"
PRODUCER_PATH = "/windlass.v1.Producer/Stream"
MOST_AHEAD = 8
"""Batches of a producer that are on their way at a time."""
_PREFIX = 5
"""Bytes before each message: whether it is compressed, and its length."""
_CHUNK = 1 << 18
_READ_EVENT = wire.WorkerServerEvent.FromString


class Talk(Protocol):
    """What is said on a stream; `settled` counts the jobs that are done."""

    settled: int

    def opening(self) -> list[bytes]:
        """What begins it, once work may begin."""

    def answers(self, message: bytes) -> list[bytes]:
        """What is said to one message of the server."""


def talk_of(target: StreamTarget) -> Talk:
    return EchoTalk(target.open_requests) if target.is_echo else WorkerTalk(target.open_requests)


class WorkerTalk:
    """A worker of no-op jobs with so many requests open."""

    def __init__(self, open_requests: int) -> None:
        self._open = open_requests
        self._ready = _worker_event(ready=wire.Ready(commands=["noop"]))
        self.settled = 0

    def opening(self) -> list[bytes]:
        return [self._ready] * self._open

    def answers(self, message: bytes) -> list[bytes]:
        event = _READ_EVENT(message)
        match event.WhichOneof("event"):
            case "task":
                done = wire.Result(task_id=event.task.task.id, status="COMPLETED")
                return [_worker_event(result=done), self._ready]
            case "result_ack" if event.result_ack.ok:
                self.settled += 1
                return []
        raise RuntimeError(f"the server said what was not expected: {event}")


class EchoTalk:
    """As many messages of such lengths, with an echo: one as long as a task, one as a result."""

    def __init__(self, open_requests: int) -> None:
        self._open = open_requests
        task = wire.Task(
            id="1000000",
            command="noop",
            payload=b'{"id": 100000}',
            attempts=1,
            worker_id="bench",
            lease_until="2026-01-01T00:00:00Z",
            max_attempts=25,
            status="IN_PROGRESS",
            delivery=bytes(160),
        )
        assigned = wire.WorkerServerEvent(task=wire.TaskAssignment(task=task))
        self._task = assigned.SerializeToString()
        self._result = _worker_event(result=wire.Result(task_id="1000000", status="COMPLETED"))
        self.settled = 0

    def opening(self) -> list[bytes]:
        return [self._task] * self._open

    def answers(self, message: bytes) -> list[bytes]:
        if len(message) == len(self._task):
            return [self._result, self._task]
        self.settled += 1
        return []


def _worker_event(**event: Any) -> bytes:
    return wire.WorkerEvent(**event).SerializeToString()


HELLO = _worker_event(hello=wire.WorkerHello(worker_id="bench"))


class Connection(Protocol):
    """A stream that is open; its handshake is done, and with an echo it has come back."""

    def converse(self, talk: Talk, tell: Callable[[], None]) -> None:
        """Say the opening, and answer what comes until the stream ends. `tell` is called again and
        again meanwhile."""


def connect(target: StreamTarget) -> Connection:
    return Singly(target.port) if target.form == "singly" else Together(target.port)


class Singly:
    """grpcio, whose C core is that of most languages: each message is a call of its own."""

    def __init__(self, port: int) -> None:
        import grpc

        self._out: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        stream = channel.stream_stream(PATH, None, None)
        self._out.put(HELLO)
        # The requests never end: the process does.
        self._call: Iterator[bytes] = stream(iter(self._out.get, b""), wait_for_ready=True)
        next(self._call)

    def converse(self, talk: Talk, tell: Callable[[], None]) -> None:
        for message in talk.opening():
            self._out.put(message)
        for message in self._call:
            for answer in talk.answers(message):
                self._out.put(answer)
            tell()


class Together:
    """HTTP/2 by itself: all messages that have arrived are answered by one send."""

    def __init__(self, port: int) -> None:
        import zttp

        self._zttp = zttp
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = zttp.Connection(zttp.CLIENT, zttp.HTTP2)
        self._connection.initiate_connection()
        headers = [
            (b"host", b"localhost"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        ]
        self._stream = self._connection.send_request(b"POST", PATH.encode(), b"2", headers)
        self._rest = b""
        self._send([HELLO])
        while not self._receive():
            pass

    def converse(self, talk: Talk, tell: Callable[[], None]) -> None:
        self._send(talk.opening())
        while True:
            messages = self._receive()
            self._send([answer for message in messages for answer in talk.answers(message)])
            if messages:
                tell()

    def _send(self, messages: list[bytes]) -> None:
        if messages:
            framed = [b"\0" + len(each).to_bytes(4, "big") + each for each in messages]
            self._stream.send_data(b"".join(framed))
        if data := self._connection.data_to_send():
            self._socket.sendall(data)

    def _receive(self) -> list[bytes]:
        """The messages of what has arrived."""
        data = self._socket.recv(_CHUNK)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self._connection.receive_data(data)
        parts = [self._rest]
        while (event := self._connection.next_event()) is not self._zttp.NEED_DATA:
            match event:
                case self._zttp.Data():
                    parts.append(event.data)
                case self._zttp.EndOfMessage() | self._zttp.RstStream() | self._zttp.GoAway():
                    raise ConnectionError(f"the server has ended the stream: {event!r}")
        return self._messages(b"".join(parts))

    def _messages(self, data: bytes) -> list[bytes]:
        found, at = [], 0
        while at + _PREFIX <= len(data):
            end = at + _PREFIX + int.from_bytes(data[at + 1 : at + _PREFIX], "big")
            if end > len(data):
                break
            found.append(data[at + _PREFIX : end])
            at = end
        self._rest = data[at:]
        return found


class Producer:
    """Adds jobs by grpcio, in batches, and does not wait for an answer before the next batch."""

    def __init__(self, port: int, token: str) -> None:
        import grpc

        self._out: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        stream = self._channel.stream_stream(PRODUCER_PATH, None, None)
        self._call: Iterator[bytes] = stream(iter(self._out.get, b""), wait_for_ready=True)
        self._say(hello=wire.ProducerHello(token=token))
        self._hear()

    def create(self, batches: Iterable[Sequence[str]]) -> None:
        """Jobs with these payloads; returns when all are stored."""
        sent: deque[int] = deque()
        for payloads in batches:
            if len(sent) >= MOST_AHEAD:
                self._check(sent.popleft())
            tasks = [
                wire.CreateTask(seq=number, command="noop", payload=payload.encode())
                for number, payload in enumerate(payloads, 1)
            ]
            self._say(create_task_batch=wire.CreateTaskBatch(tasks=tasks))
            sent.append(len(tasks))
        for count in sent:
            self._check(count)

    def _check(self, count: int) -> None:
        """One batch was stored, as a whole."""
        answer = self._hear()
        acks = answer.create_ack_batch.acks
        if len(acks) != count or not all(ack.ok for ack in acks):
            raise RuntimeError(f"the server said what was not expected: {answer}")

    def _say(self, **event: Any) -> None:
        self._out.put(wire.ProducerEvent(**event).SerializeToString())

    def _hear(self) -> wire.ProducerServerEvent:
        return wire.ProducerServerEvent.FromString(next(self._call))

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self._out.put(b"")  # the end of the requests
        self._channel.close()
