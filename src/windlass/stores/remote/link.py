"""The store's one connection, in a thread with an event loop of its own.

So verbs may be awaited from any loop, and the lease keeper may call from its thread, whatever the
loops of the program do. A call waits in `_waiting` until it is sent, and then in its channel until
it is answered. What becomes of it:

* The channel is lost before it is sent: it waits for the next one. If that cannot be made it fails,
  as a call to a database that cannot be reached does.
* The channel is lost after that: a call that repeats is made again, for any other it is not known
  whether it happened (OutcomeUnknownError).
* Its time is over: the same. If the server said nothing at all meanwhile, the channel has gone
  silent, and is given up.
* The server says that it stops: calls go on to be made there, until there is another channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from windlass.errors import ConfigError, StoreClosedError, StoreError, StoreUnavailableError
from windlass.store.records import Capabilities
from windlass.stores.remote.address import ServerAddress
from windlass.stores.remote.call import CALL_LIMIT, PATIENCE, CallUnderWay, read_answer, until_over
from windlass.stores.remote.channel import Channel, Told
from windlass.stores.remote.stream import MOST_MESSAGE
from windlass.stores.remote.subscribers import Subscribers
from windlass.wire.calls import VERBS, Arguments, encode

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
MISSED_AFTER = 0.1
"""Seconds after which subscribers look for what they may have missed while hints did not arrive."""
MOST_ARGUMENTS = MOST_MESSAGE - (64 << 10)
"""Bytes of the arguments of one call, which cross in one message."""


class Link:
    """`open` makes the first connection; from then on it is kept up until `close`."""

    def __init__(self, address: ServerAddress, worker_id: str, subscribers: Subscribers) -> None:
        self.address = address
        self._worker_id = worker_id
        self._subscribers = subscribers
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="windlass-link", daemon=True)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._new: list[CallUnderWay] = []
        """Calls that the thread has not seen yet."""
        self._is_closed = False
        # What follows belongs to the link's thread.
        self._waiting: deque[CallUnderWay] = deque()
        self._channel: Channel | None = None
        self._leaving: set[Channel] = set()
        """Channels of servers that stop, and that have calls to answer."""
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self.connections = 0
        """How many were made, for tests that count them."""

    # ── life; from any thread but the link's ──

    def open(self) -> Capabilities:
        """Connect; what the server says it can do. Raises what is in the way."""
        self._thread.start()
        try:
            described = asyncio.run_coroutine_threadsafe(self._first(), self._loop).result()
            can: Capabilities = read_answer(VERBS["describe"], described, self.address.name)
            return can
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Calls that are under way are answered first, if there is a connection."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._pid != os.getpid():
            return  # the thread and the connection are the parent's
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    # ── calls; from any thread ──

    def call(
        self, verb: str, arguments: Arguments | bytes = b"{}", *, limit: float = CALL_LIMIT
    ) -> Future[bytes]:
        """The answer's bytes, or the error, within `limit` seconds."""
        written = arguments if isinstance(arguments, bytes) else encode(arguments)
        call = CallUnderWay(next(self._numbers), VERBS[verb], written, limit)
        if len(written) > MOST_ARGUMENTS:
            raise StoreError(
                f"one call of {verb} has {len(written):,} bytes; the server takes"
                f" {MOST_ARGUMENTS:,} (make several calls of it)"
            )
        with self._lock:
            self._refuse_closed()
            is_first = not self._new
            self._new.append(call)
            if is_first:
                self._loop.call_soon_threadsafe(self._take_new)
        return call.future

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something on the link's loop, until it is closed."""
        with self._lock:
            self._refuse_closed()
            self._loop.call_soon_threadsafe(self._spawn, work)

    def subscribe(self) -> None:
        """Have the server tell of new jobs from now on."""
        with self._lock:
            self._refuse_closed()
            self._loop.call_soon_threadsafe(self._ask_for_hints)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise StoreClosedError("this store was closed")
        if self._pid != os.getpid():
            raise ConfigError(
                "this store was opened before the process forked, and its thread stayed behind;"
                " open it in the child only, or start processes by spawn"
            )

    # ── in the link's thread ──

    def _take_new(self) -> None:
        with self._lock:
            new, self._new = self._new, []
        for call in new:
            call.timer = self._loop.call_later(call.limit, self._expire, call)
        self._waiting += new
        self._send()

    def _send(self) -> None:
        if self._channel is not None and self._waiting:
            self._channel.send(self._waiting)

    def _expire(self, call: CallUnderWay) -> None:
        """Its time is over."""
        why = f"{self.address.name} did not answer within {call.limit:g} s"
        for channel in self._channels():
            if channel.sent.pop(call.number, None) is not None:
                if channel.heard_at < call.sent_at and call.limit == CALL_LIMIT:
                    channel.end(why)  # it has gone silent
                call.lose(why)
                return
        call.fail(StoreUnavailableError(why, is_temporary=True))

    def _channels(self) -> list[Channel]:
        own = [] if self._channel is None else [self._channel]
        return [*own, *self._leaving]

    # ── keeping a connection up ──

    async def _first(self) -> bytes:
        channel = await self._connect()
        described = CallUnderWay(next(self._numbers), VERBS["describe"], b"{}", CALL_LIMIT)
        described.timer = self._loop.call_later(CALL_LIMIT, self._expire, described)
        self._use(channel)
        self._waiting.append(described)
        self._send()
        self._keeper = self._loop.create_task(self._keep(), name="windlass-link")
        return await asyncio.wrap_future(described.future)

    async def _connect(self) -> Channel:
        self.connections += 1
        channel = Channel(self.address, Told(self._subscribers.hinted, self._changed.set))
        await channel.open(self._worker_id)
        return channel

    def _use(self, channel: Channel) -> None:
        self._channel = channel
        self._ask_for_hints()
        self._send()

    async def _keep(self) -> None:
        """Look after the channel: replace it when it has ended, or is about to."""
        failures = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._look()
            while self._channel is None or self._channel.is_draining:
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**failures) * random.uniform(0.5, 1.0)  # noqa: S311
                await asyncio.sleep(pause)
                self._look()
                try:
                    channel = await self._connect()
                except StoreUnavailableError as error:
                    failures = min(failures + 1, 16)
                    if self._channel is None:
                        self._fail_waiting(error)
                        self._subscribers.lost(error)
                except Exception as error:  # a file that is gone, say: calls hear of it
                    failures = min(failures + 1, 16)
                    self._fail_waiting(StoreError(f"no connection can be made: {error}"))
                else:
                    failures = 0
                    if self._channel is not None:
                        self._leaving.add(self._channel)
                    self._use(channel)
                self._look()

    def _look(self) -> None:
        """What has become of the channels."""
        for channel in self._channels():
            if channel.error is not None:
                self._lost(channel, channel.error)
            elif channel in self._leaving and not channel.sent:
                channel.end("the server stops")
                self._leaving.discard(channel)
                self._do(channel.closed(), self._closing)
        self._send()

    def _lost(self, channel: Channel, error: StoreUnavailableError) -> None:
        self._leaving.discard(channel)
        self._do(channel.closed(), self._closing)
        if channel is self._channel:
            self._channel = None
            self._subscribers.lost(error)
        sent = [call for call in channel.sent.values() if not call.is_done]
        channel.sent.clear()
        again = [call for call in sent if call.verb.repeats]
        for call in again:
            call.patient_until = self._loop.time() + PATIENCE
        self._waiting.extendleft(reversed(again))
        for call in sent:
            if not call.verb.repeats:
                call.lose(str(error))

    def _fail_waiting(self, error: StoreError) -> None:
        """There is no connection to be had now."""
        now = self._loop.time()
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            if now < call.patient_until:
                self._waiting.append(call)
            else:
                call.fail(_again(error))

    def _ask_for_hints(self) -> None:
        if not self._subscribers or self._channel is None:
            return
        call = CallUnderWay(next(self._numbers), VERBS["subscribe"], b"{}", CALL_LIMIT)
        call.timer = self._loop.call_later(CALL_LIMIT, self._expire, call)
        call.future.add_done_callback(self._on_subscribed)
        self._waiting.append(call)
        self._send()

    def _on_subscribed(self, done: Future[bytes]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._subscribers.found()
            self._loop.call_later(MISSED_AFTER, self._subscribers.hint)

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._do(work(), self._work)

    def _do(self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> None:
        task = self._loop.create_task(work, name="windlass-link-work")
        among.add(task)
        task.add_done_callback(among.discard)

    async def _finish(self) -> None:
        self._take_new()
        if self._channel is None:
            self._close_waiting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CALL_LIMIT):
                await self._answered()
        tasks = [task for task in (self._keeper, *self._work) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        channels = self._channels()
        for channel in channels:
            channel.end()
            for call in channel.sent.values():
                call.lose("this store was closed")
        self._close_waiting()
        await asyncio.gather(*(channel.closed() for channel in channels), *self._closing)

    async def _answered(self) -> None:
        """Return when no call is under way, or there is no channel for it."""
        while any(channel.error is None for channel in self._channels()):
            pending = [*self._waiting, *(c for it in self._channels() for c in it.sent.values())]
            left = [call for call in pending if not call.is_done]
            if not left:
                return
            await until_over(left[0].future)

    def _close_waiting(self) -> None:
        for call in self._waiting:
            call.fail(StoreClosedError("this store was closed"))
        self._waiting.clear()


def _again(error: StoreError) -> StoreError:
    """Each caller gets an error of its own: a traceback grows where one is raised."""
    return error.__copy__()
