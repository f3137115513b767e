"""A network between a client and PostgreSQL that breaks on command.

`FaultProxy` carries connections message by message. A test tells it to cut them, to go silent, to
refuse, to be slow, or to lose exactly the answer that says whether a transaction was committed.
Every method has taken effect when it returns. It declines encryption on the server's behalf, since
it has to read what it carries.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

from tests.postgres.wire import CANCEL, ThreadedServer, read_first_packet, read_message, reset


@dataclass(eq=False, slots=True)
class _Drop:
    """An answer to lose: of the statement with `marker`, or of the first COMMIT after it."""

    marker: bytes
    commit: bool
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False, slots=True)
class _Pair:
    """A client's connection and the one to the server that belongs to it."""

    writers: list[asyncio.StreamWriter]
    asked: int = 1
    """Requests that end in a ReadyForQuery, sent to the server; the start of the session is one."""
    answered: int = 0
    lose_at: int = 0
    """The number of the answer to withhold; 0 is none."""
    drop: _Drop | None = None
    is_silent: bool = False


class FaultProxy(ThreadedServer):
    """The proxy, before the server at `host` and `port`.

    with FaultProxy("127.0.0.1", cluster.port) as proxy:
        connection = psycopg.connect(proxy.url("shop"))
        proxy.cut()
    """

    def __init__(self, host: str, port: int, database: str = "postgres") -> None:
        super().__init__(database)
        self.connections = 0
        """Connections accepted so far."""
        self.held = 0
        """Messages and new connections that a black hole keeps until it is restored."""
        self._target = (host, port)
        self._pairs: set[_Pair] = set()
        self._rate: float | None = None
        self._drop: _Drop | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False

    @property
    def open_connections(self) -> int:
        """Connections of clients that are open now."""
        return len(self._pairs)

    def cut(self) -> None:
        """Reset all connections, on both sides. New ones are treated as before."""
        self.call(self._cut())

    def black_hole(self) -> None:
        """Keep connections open but carry nothing, not even their end; new ones are accepted.

        What was sent meanwhile arrives after `restore()`.
        """
        self.call(self._set_flowing(False))

    def silence(self) -> None:
        """Carry nothing more on the connections that are open now, not even their end, as a router
        does that forgot them. New ones are carried; the old ones stay silent until `cut()`."""
        self.call(self._silence())

    def refuse(self) -> None:
        """Refuse new connections and reset the old ones."""
        self.call(self._refuse())

    def restore(self) -> None:
        """Back to a network without faults; answers that are to be dropped still are."""
        self.call(self._restore())

    def throttle(self, bytes_per_second: float | None) -> None:
        """Carry at most so many bytes a second, in each direction of each connection."""
        self._rate = bytes_per_second

    def redirect(self, host: str, port: int) -> None:
        """New connections go to another server, as after a failover; old ones stay."""
        self._target = (host, port)

    def drop_next_commit_answer(self, after: bytes = b"") -> threading.Event:
        """Lose the answer to the next COMMIT: it is carried out, then the connection is reset.

        With `after`, only on a connection that sent a message with this text since the call. The
        returned event is set when it has happened.
        """
        return self._arm(_Drop(after, commit=True))

    def drop_answer_after(self, marker: bytes) -> threading.Event:
        """Lose the answer to the next message that has this text, as above: for autocommit.

        The server has answered all up to "ready" when the connection is reset, so the statement's
        own transaction has ended. Not for COPY. A statement that was prepared before does not
        have its text in the message.
        """
        return self._arm(_Drop(marker, commit=False))

    def _arm(self, drop: _Drop) -> threading.Event:
        self._drop = drop
        return drop.done

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            reset(writer)  # the kernel had accepted it before the listener was closed
            return
        self.connections += 1
        pair = _Pair([writer])
        self._pairs.add(pair)
        try:
            await self._flow()
            first = await read_first_packet(reader, writer)
            await self._flow()
            server_reader, server_writer = await asyncio.open_connection(*self._target)
            pair.writers.append(server_writer)
            server_writer.write(first.raw)
            if first.code == CANCEL:
                await server_reader.read()
                return
            await asyncio.gather(
                self._carry_requests(pair, reader, server_writer),
                self._carry_answers(pair, server_reader, writer),
            )
        except asyncio.IncompleteReadError:
            # One side has ended; the other is told when the network carries anything at all.
            await self._flow(pair)
        except OSError:
            self._reset(pair)
        finally:
            self._pairs.discard(pair)
            for side in pair.writers:
                side.close()

    async def _carry_requests(
        self, pair: _Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            request = await read_message(reader)
            await self._flow(pair)
            drop = self._drop
            if drop is not None and drop is not pair.drop and drop.marker in request:
                pair.drop = drop
                pair.lose_at = 0 if drop.commit else pair.asked + 1
                if drop.marker:
                    self._drop = None
            if request[:1] in (b"Q", b"S", b"F"):
                pair.asked += 1
            await self._write(writer, request)

    async def _carry_answers(
        self, pair: _Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            answer = await read_message(reader)
            await self._flow(pair)
            withheld = pair.lose_at != 0 and pair.answered + 1 >= pair.lose_at
            ready = answer[:1] == b"Z"
            pair.answered += ready
            if self._commits(pair, answer) or (withheld and ready):
                self._lose(pair)
                return
            if not withheld:
                await self._write(writer, answer)

    def _commits(self, pair: _Pair, answer: bytes) -> bool:
        drop = pair.drop
        wanted = drop is not None and drop.commit and not drop.done.is_set()
        return wanted and answer[:1] == b"C" and answer[5:] == b"COMMIT\0"

    def _lose(self, pair: _Pair) -> None:
        assert pair.drop is not None
        if self._drop is pair.drop:
            self._drop = None
        self._reset(pair)
        pair.drop.done.set()

    async def _write(self, writer: asyncio.StreamWriter, content: bytes) -> None:
        while self._rate is not None and content:
            size = max(1, min(len(content), int(self._rate / 20)))
            await asyncio.sleep(size / self._rate)
            await self._flow()
            writer.write(content[:size])
            content = content[size:]
        writer.write(content)
        await writer.drain()

    async def _flow(self, pair: _Pair | None = None) -> None:
        """Pass at once, or after the end of the black hole; never, on a silent connection."""
        self.held += 1
        try:
            if pair is not None and pair.is_silent:
                await asyncio.Event().wait()
            await self._flowing.wait()
        finally:
            self.held -= 1

    def _reset(self, pair: _Pair) -> None:
        self._pairs.discard(pair)
        for writer in pair.writers:
            reset(writer)

    async def _cut(self) -> None:
        for pair in list(self._pairs):
            self._reset(pair)

    async def _silence(self) -> None:
        for pair in self._pairs:
            pair.is_silent = True

    async def _set_flowing(self, flowing: bool) -> None:
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _refuse(self) -> None:
        self._refusing = True
        self.stop_listening()
        await self._cut()

    async def _restore(self) -> None:
        self._rate = None
        self._flowing.set()
        if self._refusing:
            await self.listen()
            self._refusing = False
