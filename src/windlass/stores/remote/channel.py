"""One stream on which the server knows this program, and the calls that are on it.

Calls are gathered: those that come while the last message is still being sent go together in the
next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from windlass.errors import StoreUnavailableError
from windlass.stores.remote.address import ServerAddress
from windlass.stores.remote.call import CallUnderWay
from windlass.stores.remote.stream import Ears, GrpcStream, connect
from windlass.wire.failures import read_error
from windlass.wire.windlass_pb2 import (
    Answer,
    Call,
    Calls,
    Hint,
    WorkerEvent,
    WorkerHello,
    WorkerServerEvent,
)

HELLO_LIMIT = 10.0
"""Seconds for a connection, its encryption and the server's first words."""
MOST_TOGETHER = 1 << 20
"""Bytes of arguments in one message, unless one call has more."""


@dataclass(frozen=True, slots=True)
class Told:
    """Who hears what a channel has to say; on the link's loop."""

    hint: Callable[[bool, float | None, bool], None]
    """Something may be ready; the seconds until a job is due; whether those are told at all."""
    changed: Callable[[], None]
    """The channel has ended, or is about to, or can take more calls."""


class Channel:
    """`is_draining`: the server stops soon. `error`: why it has ended."""

    def __init__(self, address: ServerAddress, told: Told) -> None:
        self._address = address
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._stream: GrpcStream | None = None
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self.sent: dict[int, CallUnderWay] = {}
        """Calls that wait for their answers."""
        self.is_draining = False
        self.error: StoreUnavailableError | None = None

    async def open(self, worker_id: str) -> None:
        """Connect, and say who this is. StoreUnavailableError if that does not work."""
        name = self._address.name
        try:
            async with asyncio.timeout(HELLO_LIMIT):
                self._stream = await connect(
                    self._address.host,
                    self._address.port,
                    name=name,
                    tls=self._address.tls(),
                    ears=Ears(self._on_message, self._on_free, self._on_drain, self._on_end),
                )
                hello = WorkerHello(
                    token=self._address.token or "", worker_id=worker_id, wants_calls=True
                )
                self._stream.send(WorkerEvent(hello=hello).SerializeToString())
                await self._greeted
        except TimeoutError:
            await self._give_up()
            raise StoreUnavailableError(
                f"{name} did not answer within {HELLO_LIMIT:g} s", is_temporary=True
            ) from None
        except OSError as error:
            is_certificate = "CERTIFICATE" in str(error).upper()
            raise StoreUnavailableError(
                f"cannot connect to {name}: {error}", is_temporary=not is_certificate
            ) from error
        except BaseException:
            await self._give_up()
            raise

    async def _give_up(self) -> None:
        self.end()
        await self.closed()

    @property
    def is_free(self) -> bool:
        return self.error is None and self._stream is not None and self._stream.is_free

    @property
    def heard_at(self) -> float:
        """When the last byte came, by the loop's clock."""
        return self._stream.heard_at if self._stream is not None else 0.0

    def send(self, waiting: deque[CallUnderWay]) -> None:
        """Send calls from the front of `waiting`, as long as the stream takes them."""
        while waiting and self.is_free:
            together: list[CallUnderWay] = []
            size = 0
            while waiting and (not together or size + len(waiting[0].arguments) <= MOST_TOGETHER):
                call = waiting.popleft()
                if not call.is_done:
                    together.append(call)
                    size += len(call.arguments)
            if together:
                self._send(together)

    def _send(self, together: list[CallUnderWay]) -> None:
        assert self._stream is not None
        now = self._loop.time()
        calls = Calls()
        for call in together:
            call.sent_at = now
            call.parts.clear()
            self.sent[call.number] = call
            calls.calls.append(
                Call(number=call.number, verb=call.verb.name, arguments=call.arguments)
            )
        self._stream.send(WorkerEvent(calls=calls).SerializeToString())

    def end(self, why: str = "this store was closed") -> None:
        if self._stream is not None:
            self._stream.end(why)

    async def closed(self) -> None:
        """Return when nothing of it is left, after its end."""
        if self._stream is not None:
            await self._stream.closed()

    # ── what the stream says ──

    def _on_message(self, message: bytes) -> None:
        try:
            event = WorkerServerEvent.FromString(message)
        except DecodeError:
            self.end(f"{self._address.name} sent what is no message of its protocol")
            return
        match event.WhichOneof("event"):
            case "answers":
                for answer in event.answers.answers:
                    self._on_answer(answer)
            case "hint":
                self._on_hint(event.hint)
            case "hello_ack":
                if not self._greeted.done():
                    self._greeted.set_result(None)
            case "error" if event.error.code == "Unavailable":
                self._on_drain()
            case "error" if event.error.code == "Unimplemented":
                self.end(f"{self._address.name}: {event.error.message}")
            case _:
                pass

    def _on_answer(self, answer: Answer) -> None:
        call = self.sent.get(answer.number)
        if call is None:
            return
        if not answer.more:
            del self.sent[answer.number]
        if answer.error:
            call.fail(read_error(answer.error, answer.message, answer.fields))
        else:
            call.answer(answer.value, more=answer.more)
        if not self.sent and self.is_draining:
            self._told.changed()

    def _on_hint(self, hint: Hint) -> None:
        is_due = hint.HasField("due_seconds")
        seconds = hint.due_seconds if is_due and hint.due_seconds >= 0 else None
        self._told.hint(hint.ready, seconds, is_due)

    def _on_free(self) -> None:
        self._told.changed()

    def _on_drain(self) -> None:
        self.is_draining = True
        self._told.changed()

    def _on_end(self, error: StoreUnavailableError) -> None:
        self.error = error
        if not self._greeted.done():
            self._greeted.set_exception(error)
            self._greeted.exception()  # it may be that nothing waits for it
        self._told.changed()
