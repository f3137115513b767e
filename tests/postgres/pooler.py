"""A transaction pooler: what stands between an application and PostgreSQL in many companies.

`TransactionPooler` behaves like PgBouncer with `pool_mode = transaction` and no support for
prepared statements, only less forgiving. A client has a server connection from the first message
of a transaction to the end of it; its next transaction goes to another server connection whenever
there is one. `DISCARD ALL` runs before the client hears that its transaction ended. So settings,
LISTEN, named prepared statements, session advisory locks and temporary tables are gone at once, and
a client that relies on them fails in the first test instead of in production.

A transaction has ended when the server says "ready, idle" and nothing the client sent before is
unanswered: no Query or Sync, and no extended-protocol message that still waits for its Sync.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import socket
import struct
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE
from tests.postgres.cluster import (
    ClusterError,
    free_port,
    give_to_server_user,
    own_folder,
    spawn,
    unwatch,
    watch,
)
from tests.postgres.wire import (
    CANCEL,
    PROTOCOL_3,
    FirstPacket,
    ThreadedServer,
    cancel_packet,
    error_message,
    message,
    read_first_packet,
    read_message,
    startup_packet,
)

ACCEPTED_PARAMETERS = {
    *("user", "database", "application_name", "client_encoding", "datestyle", "timezone"),
    "standard_conforming_strings",
}
"""Startup parameters a client may name. All but the first two are accepted and then ignored."""

READY, IDLE = b"Z", b"I"
ASKS_FOR_READY = (b"Q", b"S", b"F")
COPY_DATA = (b"d", b"c", b"f")
FLUSH = b"H"


class TransactionPooler(ThreadedServer):
    """The pooler, over the server at `host` and `port`, with `size` connections to each database.

    with TransactionPooler("127.0.0.1", cluster.port, "shop") as pooler:
        psycopg.connect(pooler.url())
    """

    def __init__(self, host: str, port: int, database: str = "postgres", size: int = 3) -> None:
        super().__init__(database)
        self.server_address = (host, port)
        self.size = size
        self.transactions = 0
        self._pools: dict[tuple[str, str], _Pool] = {}
        self._clients: dict[tuple[int, bytes], _Client] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await read_first_packet(reader, writer)
        if first.code == CANCEL:
            await self._cancel(first)
        elif first.code >> 16 == PROTOCOL_3 >> 16:
            await self._serve_client(first, reader, writer)

    async def _cancel(self, request: FirstPacket) -> None:
        client = self._clients.get(request.cancel_key)
        server = client.server if client is not None else None
        if client is None or server is None:
            return
        async with server.cancelling:
            if client.server is server:
                reader, writer = await asyncio.open_connection(*self.server_address)
                writer.write(cancel_packet(*server.key))
                with contextlib.suppress(OSError):
                    await reader.read()
                writer.close()

    async def _serve_client(
        self, first: FirstPacket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        wanted = first.parameters
        unknown = [name for name in wanted if name.lower() not in ACCEPTED_PARAMETERS]
        if unknown:
            text = f"unsupported startup parameter: {unknown[0]}"
            writer.write(error_message("08P01", text))
            return
        user = wanted.get("user", "postgres")
        database = wanted.get("database", user)
        pool = self._pools.setdefault((user, database), _Pool(self, user, database))
        key = (secrets.randbelow(2**31), secrets.token_bytes(4))
        client = self._clients[key] = _Client(self, pool, reader, writer)
        try:
            greeting = await pool.greeting()
            if first.code != PROTOCOL_3:
                writer.write(message(b"v", struct.pack("!ii", 0, 0)))
            writer.write(message(b"R", struct.pack("!i", 0)) + greeting)
            writer.write(message(b"K", struct.pack("!i", key[0]) + key[1]) + message(READY, IDLE))
            await client.run()
        except _ServerError as error:
            writer.write(error.answer)
        finally:
            del self._clients[key]


class _ServerError(Exception):
    """No server connection could be made; `answer` is what the client is told."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer


class _Pool:
    """The server connections of one user to one database."""

    def __init__(self, pooler: TransactionPooler, user: str, database: str) -> None:
        self.pooler = pooler
        self.user = user
        self.database = database
        self.servers: set[_Server] = set()
        self.idle: deque[_Server] = deque()
        self.places = asyncio.Semaphore(pooler.size)
        self.known_greeting = b""

    async def greeting(self) -> bytes:
        """The ParameterStatus messages of a server connection; asked of the first one only."""
        if not self.known_greeting:
            server = await self.take(None)
            self.put_back(server)
            self.known_greeting = server.greeting
        return self.known_greeting

    async def take(self, last: _Server | None) -> _Server:
        """A server connection: not `last` if another is idle or may be made; waits for a place."""
        await self.places.acquire()
        try:
            others = [server for server in self.idle if server is not last]
            if others:
                self.idle.remove(others[0])
                return others[0]
            if self.idle and len(self.servers) >= self.pooler.size:
                return self.idle.popleft()
            return await self._connect()
        except BaseException:
            self.places.release()
            raise

    def put_back(self, server: _Server) -> None:
        """Give up a taken connection; a lost one is not handed out again."""
        if server in self.servers:
            self.idle.append(server)
        self.places.release()

    def forget(self, server: _Server) -> None:
        self.servers.discard(server)
        if server in self.idle:
            self.idle.remove(server)

    async def _connect(self) -> _Server:
        try:
            reader, writer = await asyncio.open_connection(*self.pooler.server_address)
        except OSError as error:
            raise _ServerError(error_message("08006", f"server connect failed: {error}")) from None
        server = _Server(self, reader, writer)
        self.servers.add(server)
        try:
            await server.start()
        except BaseException:
            server.close()
            raise
        self.pooler.spawn(server.run())
        return server


class _Server:
    """One connection to PostgreSQL; `owner` is the client whose transaction it carries."""

    def __init__(
        self, pool: _Pool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pool = pool
        self.reader = reader
        self.writer = writer
        self.owner: _Client | None = None
        self.greeting = b""
        self.key = (0, b"")
        # Held while a cancel request is under way: it must not hit the next owner.
        self.cancelling = asyncio.Lock()

    async def start(self) -> None:
        self.writer.write(startup_packet(user=self.pool.user, database=self.pool.database))
        while (answer := await self._read())[:1] != READY:
            match answer[:1]:
                case b"S":
                    self.greeting += answer
                case b"K":
                    self.key = (struct.unpack("!i", answer[5:9])[0], answer[9:])
                case b"E":
                    raise _ServerError(answer)

    async def run(self) -> None:
        """Carry the server's messages to the owner, until the connection ends."""
        try:
            while True:
                answer = await read_message(self.reader)
                owner = self.owner
                if owner is None:
                    continue
                owner.note_answer(answer)
                if answer[:1] == READY and answer[5:6] == IDLE:
                    async with owner.switching:
                        if owner.has_all_answers:
                            await self._release(owner)
                        owner.writer.write(answer)
                else:
                    owner.writer.write(answer)
                await owner.writer.drain()
        except (OSError, asyncio.IncompleteReadError, _ServerError):
            pass  # the finally clause is the treatment
        finally:
            self.close()
            if self.owner is not None:
                self.owner.server_lost()

    def close(self) -> None:
        self.pool.forget(self)
        self.writer.close()

    async def _release(self, owner: _Client) -> None:
        async with self.cancelling:
            self.owner = owner.server = None
        self.writer.write(message(b"Q", b"DISCARD ALL\0"))
        try:
            while (answer := await self._read())[:1] != READY:
                if answer[:1] == b"E":
                    raise _ServerError(answer)
        except _ServerError:
            self.close()
        self.pool.put_back(self)

    async def _read(self) -> bytes:
        try:
            return await read_message(self.reader)
        except (OSError, asyncio.IncompleteReadError):
            raise _ServerError(error_message("08006", "server conn crashed?")) from None


class _Client:
    """One connection of the application."""

    def __init__(
        self,
        pooler: TransactionPooler,
        pool: _Pool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.pooler = pooler
        self.pool = pool
        self.reader = reader
        self.writer = writer
        self.server: _Server | None = None
        self.last: _Server | None = None
        self.unanswered: deque[bytes] = deque()
        self.unsynced = False
        self.copying = False
        # A request that comes while a transaction is being ended must wait for the end: its answers
        # come from another server connection and would overtake.
        self.switching = asyncio.Lock()

    async def run(self) -> None:
        """Carry the client's messages to its server connection, taking one when it has none."""
        try:
            while (request := await read_message(self.reader))[:1] != b"X":
                async with self.switching:
                    if self.server is None and request[:1] in (*COPY_DATA, FLUSH):
                        # The rest of a COPY that has failed, or a Flush after the last Sync: a
                        # server has no answer to them, so they must not begin a transaction.
                        continue
                    server = self.server or await self._take()
                    self._note_request(request[:1])
                    server.writer.write(request)
                await server.writer.drain()
        finally:
            if self.server is not None:
                # In the middle of a transaction: only the end of the connection rolls back surely.
                server, self.server = self.server, None
                server.owner = None
                server.close()
                self.pool.put_back(server)

    @property
    def has_all_answers(self) -> bool:
        return not self.unanswered and not self.unsynced

    def note_answer(self, answer: bytes) -> None:
        match answer[:1]:
            case b"G":
                # The server ignores each Sync until the copied data end: it will not answer them.
                of_query = bool(self.unanswered) and self.unanswered[0] == b"Q"
                self.unanswered = deque([b"Q"] if of_query else [])
                self.copying = True
            case b"E":
                self.copying = False
            case b"Z":
                self.copying = False
                if self.unanswered:
                    self.unanswered.popleft()

    def server_lost(self) -> None:
        if self.server is not None:
            self.pool.put_back(self.server)
            self.server = None
        self.writer.write(error_message("08P01", "server conn crashed?"))
        self.writer.close()

    def _note_request(self, kind: bytes) -> None:
        if kind in (b"c", b"f"):
            self.copying = False
        elif kind in ASKS_FOR_READY:
            self.unsynced = False
            if not self.copying:
                self.unanswered.append(kind)
        elif kind not in (b"d", FLUSH):
            self.unsynced = True

    async def _take(self) -> _Server:
        server = self.server = self.last = await self.pool.take(self.last)
        server.owner = self
        self.unanswered.clear()
        self.unsynced = self.copying = False
        self.pooler.transactions += 1
        return server


@dataclass(frozen=True, slots=True)
class PgBouncer:
    """A running PgBouncer."""

    port: int
    default_database: str

    def url(self, database: str | None = None) -> str:
        name = database or self.default_database
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"


PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
"""The program, where it is installed. It confirms our own pooler, and no rule depends on it."""

POOLERS = ("in-tree", "pgbouncer") if PGBOUNCER else ("in-tree",)


@contextlib.contextmanager
def pooler_named(
    kind: str, host: str, port: int, database: str = "postgres", size: int = 3
) -> Iterator[TransactionPooler | PgBouncer]:
    """One of `POOLERS`, in transaction mode, before the server at `host` and `port`."""
    if kind == "in-tree":
        with TransactionPooler(host, port, database, size=size) as ours:
            yield ours
    else:
        with _pgbouncer(host, port, database, size) as theirs:
            yield theirs


@contextlib.contextmanager
def _pgbouncer(host: str, port: int, database: str, size: int) -> Iterator[PgBouncer]:
    assert PGBOUNCER is not None
    folder = own_folder("wpb-")
    bouncer = PgBouncer(free_port(), database)
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={host} port={port} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {bouncer.port}\n"
        f"unix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
        f"default_pool_size = {size}\nserver_round_robin = 1\nmax_client_conn = 200\n"
    )
    give_to_server_user(folder / "pgbouncer.ini")
    with (folder / "log").open("wb") as log:
        process = spawn([PGBOUNCER, folder / "pgbouncer.ini"], folder, log)
    watchdog = watch(process.pid, [folder])
    try:
        _wait_until_listening(process, bouncer.port, folder / "log")
        yield bouncer
    finally:
        unwatch(watchdog)
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise ClusterError(f"PgBouncer did not start:\n{log.read_text()}")
        time.sleep(0.01)
