"""One serving process: both ports and the upkeep, from start to drain.

It starts when its database is open, and ends when it is told to, or when the database refuses it:

1. `draining` is set: `/readyz` says 503, nothing is claimed any more, and streams are told;
2. results are taken until no stream is open or the grace is over, over REST, too;
3. the streams are closed, what was unfinished there is handed back; then the port of REST is.

Everything that comes after the grace is over within seconds, whatever the database does: outcomes
that it did not take are given up, and the leases of their jobs run out. A second signal ends the
grace at once, or shortens what comes after it; a third ends the process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from windlass.app import App
from windlass.engine.signals import Signals
from windlass.errors import ConfigError
from windlass.observe.logs import Scoped
from windlass.observe.sharing import SharedFigures
from windlass.server.calls import open_calls
from windlass.server.jwks import KeyCache, source_of
from windlass.server.jwt import Verifier
from windlass.server.peers import is_loopback
from windlass.server.rest_port import RestPort
from windlass.server.service import Service
from windlass.server.settings import Address, Dashboard, ServeSettings
from windlass.server.sockets import address_of
from windlass.server.streams import StreamServer, Works, open_works, start
from windlass.server.tls import server_context
from windlass.server.upkeep import Upkeep
from windlass.server.web import make_web

_LAST_WRITES = 5.0
"""Seconds after the grace that the database has for what was said last and what is handed back."""
_HURRIED_WRITES = 1.0
"""The same after a second signal that comes when the grace is over."""
_TO_ANSWER = 0.25
"""Seconds before the end of REST at which those who wait for outcomes are told that they were in
vain."""
_LAST_BREATH = 3.0
"""Seconds after those in which the process must have closed its database; then it just ends."""


class Serving:
    """One process. `run` returns when it has drained."""

    def __init__(
        self,
        app: App,
        settings: ServeSettings,
        rest: socket.socket,
        streams: Address,
        figures: Path | None = None,
    ) -> None:
        """`rest` is bound already; `streams` is where the streams' port is opened. `figures` is the
        folder that this process shares with others, so that each shows the metrics of all."""
        self._settings = settings
        self._rest_socket = rest
        self._streams_address = streams
        self._figures = figures
        self._tls = server_context(settings), server_context(settings)
        self._service = Service(app, settings)
        self._logger = self._service.logger
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._signals = Signals(self._on_signal, self._hurried.set)
        self._last_writes: float | None = None
        """When nothing more is written, on the loop's clock; None before the end has begun."""
        self._patience: asyncio.Timeout | None = None
        """Of the step of the end that is under way."""
        self._hurrying: asyncio.Task[None] | None = None
        self._has_given_up = False

    async def run(self, begun: Callable[[], None]) -> None:
        """Serve until told to stop; `begun` is called when both ports answer. The database is open
        already. Raises what ended it otherwise."""
        async with AsyncExitStack() as stack:
            stack.callback(self._forget_signals)
            keys = self._key_cache()
            if keys is not None:
                stack.push_async_callback(keys.close)
            await self._service.start(self._verifier(keys))
            stack.push_async_callback(self._service.close)
            await self._refuse_strangers()
            upkeep = Upkeep(
                self._service.app,
                self._service.store,
                self._settings,
                self._service.clock,
                self._service.instruments,
            )
            if self._figures is not None:
                shared = SharedFigures(self._figures, self._service.instruments.look)
                shared.start()
                stack.callback(shared.close)
                self._service.shared_figures = shared
            await upkeep.start()
            stack.push_async_callback(self._briefly, upkeep.stop)
            works = await open_works(self._service)
            stack.push_async_callback(self._briefly, works.close)
            self._service.use(works)
            calls = await open_calls(self._service)
            stack.push_async_callback(self._briefly, calls.close)
            self._service.calls = calls
            at = self._streams_address
            streams = await start(self._service, at.host, at.port, self._tls[1], works=works)
            stack.push_async_callback(self._briefly, streams.close)
            rest = RestPort(make_web(self._service), self._tls[0])
            await rest.start(self._rest_socket)
            stack.push_async_callback(rest.stop, 0.0)
            self._signals.install()
            await self._tell(streams.port)
            begun()
            await _first_of(self._stopping.wait(), upkeep.wait(), rest.wait())
            await self._drain(upkeep, streams, rest, works)

    # ── before it serves ──

    def _key_cache(self) -> KeyCache | None:
        place = self._settings.jwks
        if place is None:
            return None
        return KeyCache(place, source_of(place), self._service.clock, self._logger)

    def _verifier(self, keys: KeyCache | None) -> Verifier | None:
        issuer, audience = self._settings.jwt_issuer, self._settings.jwt_audience
        if keys is None or issuer is None or audience is None:
            return None
        return Verifier(keys, issuer, audience, self._service.clock)

    async def _refuse_strangers(self) -> None:
        """ConfigError where others than this machine's users could come without a token."""
        if self._settings.insecure or self._settings.jwks is not None:
            return
        bound = (("--bind", address_of(self._rest_socket)), ("--grpc-bind", self._streams_address))
        for flag, address in bound:
            if not is_loopback(address.host) and not await self._service.access.has_tokens():
                raise ConfigError(
                    f"{flag} {address} is open to other machines, and there is no token: make one"
                    " (windlass token create NAME --role admin), or give --jwks; --insecure takes"
                    " everyone for an admin"
                )

    async def _tell(self, streams_port: int) -> None:
        await self._tell_of_strangers()
        rest = address_of(self._rest_socket)
        scheme = "http" if self._tls[0] is None else "https"
        self._logger.info(
            "serving %s: REST on %s://%s, streams on %s",
            self._service.app.place,
            scheme,
            rest,
            Address(self._streams_address.host, streams_port),
        )
        if self._settings.dashboard is not Dashboard.OFF:
            self._logger.info("the dashboard is at %s://%s/", scheme, rest)

    async def _tell_of_strangers(self) -> None:
        """Say whom the server takes for an admin without a token."""
        if self._settings.jwks is not None or await self._service.access.has_tokens():
            return
        if self._settings.insecure:
            self._logger.warning(
                "there is no token, and --insecure: everyone who reaches these ports is an admin"
            )
        else:
            self._logger.info(
                "there is no token: every program on this machine is an admin of the default"
                " tenant (windlass token create ends that)"
            )

    # ── the end ──

    def stop(self) -> None:
        """Drain, and then return from `run`."""
        self._stopping.set()

    def _on_signal(self, name: str) -> None:
        self._logger.info("%s: taking results, and nothing new; again to hurry", name)
        self.stop()

    async def _drain(
        self, upkeep: Upkeep, streams: StreamServer, rest: RestPort, works: Works
    ) -> None:
        self._service.draining.set()
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.grace
        self._hurrying = asyncio.create_task(self._hurry(upkeep, rest, end), name="windlass-hurry")
        await _first_of(
            _all(streams.drain(), upkeep.stop()),
            self._hurried.wait(),
            asyncio.sleep(self._settings.grace),
        )
        began = loop.time() if self._hurried.is_set() else end
        self._last_writes = began + _LAST_WRITES
        _Watchdog(loop, lambda: self._last_writes or 0.0, self._logger).start()
        await self._briefly(streams.close)
        left = max(2 * _TO_ANSWER, 0.0 if self._hurried.is_set() else end - loop.time())
        answering = loop.call_later(left - _TO_ANSWER, works.give_up)
        await rest.stop(left)
        answering.cancel()
        await self._briefly(upkeep.stop)

    async def _briefly(self, work: Callable[[], Awaitable[None]]) -> None:
        """What is written at the end; while the database is away, it cannot be waited for."""
        loop = asyncio.get_running_loop()
        if self._last_writes is None:
            self._last_writes = loop.time() + _LAST_WRITES
        try:
            # Also when the time is over, what has nothing to wait for gets its turn.
            async with asyncio.timeout_at(max(self._last_writes, loop.time() + 0.1)) as patience:
                self._patience = patience
                await work()
        except TimeoutError:
            if not self._has_given_up:
                self._logger.warning(
                    "the database did not take all that was said last; the leases of those jobs"
                    " run out"
                )
            self._has_given_up = True
        finally:
            self._patience = None

    async def _hurry(self, upkeep: Upkeep, rest: RestPort, end: float) -> None:
        """A second signal: the grace is over, and if it was, there is less time for the rest."""
        await self._hurried.wait()
        upkeep.hurry()
        rest.hurry()
        now = asyncio.get_running_loop().time()
        if self._last_writes is None:
            return
        least = now + (_LAST_WRITES if now < end else _HURRIED_WRITES)
        self._last_writes = min(self._last_writes, least)
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(self._last_writes)

    def _forget_signals(self) -> None:
        self._signals.remove()
        if self._hurrying is not None:
            self._hurrying.cancel()


class _Watchdog(threading.Thread):
    """Ends a process that was told to stop, and waits for a database that does not answer.

    A thread of a store may wait for a lock as long as the store's own patience, and nothing can
    interrupt it. What it wanted to write is either in the database or not, as after any crash.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, last_writes: Callable[[], float], logger: Scoped
    ) -> None:
        super().__init__(name="windlass-watchdog", daemon=True)
        self._loop = loop
        self._last_writes = last_writes
        self._logger = logger

    def run(self) -> None:
        while not self._loop.is_closed():
            left = self._last_writes() + _LAST_BREATH - self._loop.time()
            if left <= 0:
                self._logger.warning("the database does not answer; the server ends without it")
                os._exit(0)
            time.sleep(min(left, 0.25))


async def _all(*works: Coroutine[Any, Any, None]) -> None:
    await asyncio.gather(*works)


async def _first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Returns when one has ended, and raises what that raised; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
