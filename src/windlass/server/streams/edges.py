"""What lies between a session, which does no I/O, and a transport, which knows no jobs.

A transport makes an `Edge` for each stream and opens a session on it. It gives the session all
messages of one chunk at once, and may gather what the session sends into one write. All calls are
made on the event loop, and none of them waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from windlass.server.peers import Peer
from windlass.wire.frames import MOST_BYTES

Event = TypeVar("Event", contravariant=True)


class Status(IntEnum):
    """How a stream ended: the statuses of gRPC that are used here."""

    OK = 0
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class Edge(Protocol):
    """A stream, as its session sees it."""

    @property
    def is_writable(self) -> bool:
        """Whether the client reads what it is sent. Where it is False the session's `resumed` is
        called when it is True again."""

    def send(self, messages: Sequence[Message]) -> None:
        """Messages for the client, in order. After `finish` they are thrown away."""

    def finish(self, status: Status, message: str = "") -> None:
        """End the stream, after what was sent. The session's `closed` is not called any more."""

    def hold(self, is_held: bool) -> None:
        """Bring no more messages for now, or bring them again."""

    def trust(self) -> None:
        """It is known who the client is: from now on it may keep some of the server's memory."""


class Session(Protocol[Event]):
    """What happens on one stream."""

    def receive(self, events: Sequence[Event]) -> None:
        """The messages of one chunk."""

    def half_closed(self) -> None:
        """The client sends nothing more."""

    def resumed(self) -> None:
        """The client reads again."""

    def drain(self) -> None:
        """The server is going to stop."""

    def stop(self) -> None:
        """The grace is over: hand back what is open, and finish."""

    def closed(self) -> None:
        """The stream is gone; nothing can be sent any more."""


@dataclass(frozen=True, slots=True)
class Method:
    """One rpc: how its messages are read, and what happens on its streams."""

    decode: Callable[[bytes], Any]
    open: Callable[[Edge, Peer], Session[Any]]
    most: int = MOST_BYTES
    """The largest message."""
    kind: str = "other"
    """What its streams are for, as metrics call it."""
